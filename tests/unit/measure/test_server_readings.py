"""Readings of a server: documented texts of every kind of server, a tree of threads whose times are known."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from lynxbench.measure.server_readings import (
    METRIC_NAMES,
    MetricsReader,
    ThreadReader,
    read_quantities,
    read_threads,
    recognise_server,
)

DATA = Path(__file__).parents[2] / "data" / "server_metrics"
EXPECTED: dict[str, dict[str, float]] = {
    "vllm": {
        "running": 64,
        "waiting": 3,
        "cache_share": 0.93,
        "preemptions": 2,
        "prompt_tokens": 120_000,
        "output_tokens": 30_000,
        "finished": 465,
        "iterations": 800,
        "iteration_tokens": 150_000,
        "queued_s": 12.5,
        "drafts": 900,
        "draft_tokens": 3600,
        "accepted_tokens": 720,
    },
    "sglang": {
        "running": 162,
        "waiting": 2826,
        "cache_share": 0.28,
        "prompt_tokens": 8_128_902,
        "output_tokens": 7_557_572,
        "first_token_s": 2.3518979474117756e06,
        "tokens_a_draft": 2.4,
    },
    "tgi": {
        "running": 16,
        "waiting": 9,
        "prompt_tokens": 30_208,
        "output_tokens": 7552,
        "iterations": 2600,
        "finished": 118,
        "queued_s": 31.25,
    },
    "llamacpp": {
        "running": 4,
        "waiting": 12,
        "prompt_tokens": 4096,
        "output_tokens": 1024,
        "iterations": 300,
        "prefill_s": 8.25,
        "decode_s": 51.5,
    },
}


@pytest.mark.parametrize("key", EXPECTED)
def test_documented_metrics_are_read_by_one_name_a_quantity(key: str) -> None:
    text = (DATA / f"{key}.txt").read_text()
    server = recognise_server(text)
    assert server is not None
    assert server.key == key
    assert read_quantities(text, server) == pytest.approx(EXPECTED[key])


def test_recorded_metrics_of_vllm_are_read_as_the_documented_ones_are() -> None:
    """Eight completions with 146 tokens of prompts and 48 of answers, by its own account."""
    text = (DATA / "recorded-vllm-0.32.0.txt").read_text()
    server = recognise_server(text)
    assert server is not None
    assert server.key == "vllm"
    found = read_quantities(text, server)
    asked = {"running": 0, "waiting": 0, "preemptions": 0, "prompt_tokens": 146, "output_tokens": 48, "finished": 8}
    assert {name: found[name] for name in asked} == asked
    assert 0 <= found["cache_share"] <= 1
    assert found["iteration_tokens"] == 146 + 48, "every token is one of some step"
    assert found["queued_s"] >= 0


def test_marks_of_servers_tell_them_apart() -> None:
    for text in ((DATA / f"{key}.txt").read_text() for key in EXPECTED):
        marked = [server for server in METRIC_NAMES if f"\n{server.mark}" in text]
        assert len(marked) == 1


def test_other_metrics_are_nobodys() -> None:
    assert recognise_server("# HELP vllm:fake only a comment speaks of it\nprocess_cpu_seconds_total 3\n") is None


@pytest.mark.parametrize(
    "line",
    [
        "vllm:num_requests_running",
        "vllm:num_requests_running{",
        'vllm:num_requests_running{a="b"}',
        "vllm:num_requests_running NaN",
        "vllm:num_requests_running +Inf",
        "vllm:num_requests_running_more 4",
    ],
)
def test_damaged_lines_are_no_figures(line: str) -> None:
    server = recognise_server("vllm:x 1")
    assert server is not None
    assert "running" not in read_quantities(line, server)


def test_an_exemplar_is_no_value_and_a_series_that_stands_twice_is_one() -> None:
    server = recognise_server("vllm:x 1")
    assert server is not None
    line = 'vllm:num_requests_running{engine="%d"} %d # {trace_id="1"} 99 1700000000\n'
    assert read_quantities(line % (0, 5), server) == {"running": 5.0}
    assert read_quantities(line % (0, 5) + line % (0, 5) + line % (1, 3), server) == {"running": 8.0}


def test_labels_may_hold_braces_and_spaces() -> None:
    server = recognise_server("vllm:x 1")
    assert server is not None
    assert read_quantities('vllm:num_requests_running{model_name="a } 9 {b"} 7 1700000000', server) == {"running": 7.0}


def test_a_server_that_does_not_answer_leaves_a_gap_under_its_names() -> None:
    texts = iter(["vllm:num_requests_running 3", None, "vllm:num_requests_running 5\nvllm:num_requests_waiting 2"])
    now = iter(range(0, 60_000_000, 10_000_000))
    reader = MetricsReader(lambda: next(texts), lambda: next(now))
    assert reader.read() == {"metrics_s": 0.01, "vllm_running": 3.0}
    silent = reader.read()
    assert list(silent) == ["metrics_s", "vllm_running"]
    assert all(math.isnan(value) for value in silent.values())
    assert reader.read() == {"metrics_s": 0.01, "vllm_running": 5.0, "vllm_waiting": 2.0}


def _thread(proc: Path, pid: int, thread: int, *, run_ns: int, wait_ns: int | None, ticks: int = 0) -> None:
    folder = proc / str(pid) / "task" / str(thread)
    folder.mkdir(parents=True, exist_ok=True)
    if wait_ns is not None:
        (folder / "schedstat").write_text(f"{run_ns} {wait_ns} 12\n")
    numbers = ["S", *["0"] * 10, str(ticks), "0", *["0"] * 20]
    (folder / "stat").write_text(f"{thread} (a name) with) brackets) {' '.join(numbers)}\n")


def test_the_busiest_thread_is_told_from_its_process(tmp_path: Path) -> None:
    pid = os.getpid()
    now = [0]
    (tmp_path / str(pid)).mkdir()
    (tmp_path / str(pid) / "comm").write_text("VLLM::EngineCor\n")
    _thread(tmp_path, pid, pid, run_ns=5_000_000_000, wait_ns=100)
    _thread(tmp_path, pid, pid + 1, run_ns=0, wait_ns=0)
    reader = ThreadReader(pid, lambda: now[0], tmp_path)
    assert set(reader.read()) == {"throttled_us"}, "one look has no span"
    now[0] = 500_000_000
    _thread(tmp_path, pid, pid, run_ns=5_200_000_000, wait_ns=150_000_100)
    _thread(tmp_path, pid, pid + 1, run_ns=50_000_000, wait_ns=400_000_000)
    found = reader.read()
    name = f"process_{pid}_VLLM-EngineCor"
    assert found[f"{name}_cores"] == pytest.approx(0.5)
    assert found[f"{name}_busiest"] == pytest.approx(0.4)
    assert found[f"{name}_waited"] == pytest.approx(0.3), "of the busiest thread alone"
    assert found[f"{name}_allowed"] == len(os.sched_getaffinity(pid))


def test_without_scheduler_statistics_ticks_are_taken_and_waits_unknown(tmp_path: Path) -> None:
    _thread(tmp_path, 7, 7, run_ns=0, wait_ns=None, ticks=250)
    ((run_ns, wait_ns),) = read_threads(7, tmp_path).values()
    assert run_ns == 250 * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    assert math.isnan(wait_ns)


def test_a_process_that_ends_is_left_out(tmp_path: Path) -> None:
    assert read_threads(999_999, tmp_path) == {}


def test_real_threads_are_read() -> None:
    thread = int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])
    assert read_threads(os.getpid())[thread][0] > 0
