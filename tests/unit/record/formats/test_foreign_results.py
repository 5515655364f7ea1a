"""Foreign results: each tool's own shape is read, told apart, and marked with what it fails to state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.record.formats.foreign_results import CONTEXT, TOOLS, parse_foreign, read_foreign

DATA = Path(__file__).parents[3] / "data" / "foreign"
WAITING = "test_waiting.py::test_some_milliseconds[5]"
EXPECTED = {
    "vllm": ("output throughput", "time-to-first-token p99", "ground-truth"),
    "aiperf": ("output throughput", "time-to-first-token p99", "mock"),
    "guidellm": ("output throughput", "time-to-first-token p99", "ground-truth"),
    "genai-perf": ("output throughput", "time-to-first-token p99", "ground-truth"),
    "inference-perf": ("output throughput", "time-to-first-token p99", None),
    "mlperf": ("query throughput", "latency p99", None),
    "pytest-benchmark": (f"{WAITING}: throughput", f"{WAITING}: latency max", None),
}


@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_is_recognised_by_its_own_file(tool: str) -> None:
    (file,) = DATA.glob(f"{tool}.*")
    found = read_foreign(file)
    throughput, tail, model = EXPECTED[tool]
    assert found.tool == tool
    assert (found.figures[throughput].estimate or 0) > 0
    assert (found.figures[tail].estimate or 0) > 0
    assert found.figures[tail].unit == "ms"
    assert found.figures[tail].low is None, "a foreign figure has no interval"
    assert found.stated.get("model") == model
    assert read_foreign(file, tool) == found


@pytest.mark.parametrize("tool", TOOLS)
def test_what_no_tool_states_is_missing_everywhere(tool: str) -> None:
    (file,) = DATA.glob(f"{tool}.*")
    missing = read_foreign(file).missing
    assert set(missing) <= set(CONTEXT)
    for never in ("a contract agreed before the run", "the weights' hash", "a steady-state verdict"):
        assert never in missing
    assert "restarts in fresh processes" in missing
    assert "the accuracy" in missing


@pytest.mark.parametrize("tool", ["inference-perf", "genai-perf"])
def test_a_server_of_known_times_comes_out_as_it_is(tool: str) -> None:
    """Both asked the bundled server: 50 ms to the first token, 10 ms between tokens, whatever unit the tool writes."""
    found = read_foreign(DATA / f"{tool}.json")
    tokens = {"inference-perf": 30, "genai-perf": 16}[tool]
    assert found.figures["time-to-first-token p50"].estimate == pytest.approx(50, rel=0.05)
    assert found.figures["time-per-token p50"].estimate == pytest.approx(10, rel=0.05)
    assert found.figures["latency p50"].estimate == pytest.approx(50 + 10 * (tokens - 1), rel=0.05)
    assert found.stated["output_tokens_mean"] == tokens
    rate, out = found.figures["request throughput"].estimate, found.figures["output throughput"].estimate
    assert out == pytest.approx((rate or 0) * tokens)


def test_what_each_tool_says_of_its_load_is_kept() -> None:
    found = read_foreign(DATA / "inference-perf.json")
    assert (found.stated["completed"], found.stated["failed"]) == (48, 2)
    assert found.stated["input_tokens_mean"] == 10
    assert found.stated["rate_per_s"] == 10
    assert found.stated["duration_s"] == pytest.approx(5, rel=0.01)
    assert found.stated["schedule_delay"]["max"] == pytest.approx(0.0216, abs=1e-4)  # type: ignore[index,call-overload]
    assert "that the client was not the limit" not in found.missing
    assert "input and output lengths" not in found.missing
    other = read_foreign(DATA / "genai-perf.json")
    assert (other.stated["concurrency"], other.stated["tokenizer"], other.stated["warmup"]) == (1, "tok", 0)
    assert {"failed requests", "that the client was not the limit"} <= set(other.missing)


def test_lengths_of_an_earlier_inference_perf_are_read_too() -> None:
    document = json.loads((DATA / "inference-perf.json").read_text())
    good = document["successes"]
    good["prompt_len"] = good.pop("prompt_tokens")
    del good["output_tokens"]
    found = parse_foreign(json.dumps(document))
    assert (found.stated["input_tokens_mean"], found.stated["output_tokens_mean"]) == (10, 30)


@pytest.mark.parametrize(
    ("file", "scenario", "valid", "rate"),
    [
        ("mlperf.txt", "SingleStream", True, ("query throughput", 183.13)),
        ("mlperf-offline.txt", "Offline", True, ("sample throughput", 328.074)),
        ("mlperf-server.txt", "Server", False, ("sample throughput", 55.37)),
    ],
)
def test_loadgen_summaries_of_three_scenarios(file: str, scenario: str, valid: bool, rate: tuple[str, float]) -> None:
    found = read_foreign(DATA / file)
    assert (found.tool, found.stated["scenario"], found.stated["valid"]) == ("mlperf", scenario, valid)
    assert found.figures[rate[0]].estimate == rate[1]
    quantiles = [found.figures[f"latency p{p}"].estimate or 0 for p in ("50", "90", "99", "99.9")]
    assert quantiles == sorted(quantiles)
    assert quantiles[0] > 5, "every query slept five milliseconds"


def test_summary_and_detail_of_one_loadgen_run_say_the_same() -> None:
    summary, detail = (read_foreign(DATA / f"mlperf-server{end}.txt") for end in ("", "-detail"))
    for name in ("latency", "time-to-first-token", "time-per-token"):
        for where in ("mean", "p50", "p90", "p99", "p99.9"):
            figure = summary.figures[f"{name} {where}"]
            assert figure == detail.figures[f"{name} {where}"]
            assert figure.unit == "ms"
    assert summary.figures["time-to-first-token p50"].estimate == pytest.approx(2.304426)
    assert summary.figures["time-per-token p50"].estimate == pytest.approx(0.445975)
    for name in ("sample throughput", "output throughput"):
        assert summary.figures[name].estimate == pytest.approx(detail.figures[name].estimate, abs=0.01)
    assert summary.stated["valid"] is detail.stated["valid"] is False
    assert (summary.stated["rate_per_s"], summary.stated["batch"]) == (60, 1)
    assert detail.stated["started_at"] == "2026-11-15T09:02:33Z"
    assert "when it ran" in set(summary.missing) - set(detail.missing)


def test_a_torn_detail_is_read_as_far_as_it_goes() -> None:
    whole = (DATA / "mlperf-server-detail.txt").read_text()
    at = whole.index("result_first_token_50")
    found = parse_foreign(whole[:at])
    assert found.figures["latency p99"].estimate == pytest.approx(16.750919)
    assert "time-to-first-token p50" not in found.figures


def test_not_a_number_is_no_figure() -> None:
    text = (
        '{"duration": 1, "completed": 2, "request_throughput": 3.0, "output_throughput": NaN, "mean_ttft_ms": Infinity}'
    )
    assert set(parse_foreign(text).figures) == {"request throughput"}


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", "3", '{"a": 1}', "not json", "[" * 100_000, '{"request_throughput": "fast"}', "\x00"],
)
def test_anything_else_is_one_clear_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"known are|give a result file"):
        parse_foreign(text, "file.json")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.json", tmp_path, tmp_path / "binary"):
        with pytest.raises(BadInput):
            read_foreign(path)


def test_every_benchmark_of_a_test_suite_is_kept_under_the_name_of_its_test() -> None:
    found = read_foreign(DATA / "pytest-benchmark.json")
    stats = json.loads((DATA / "pytest-benchmark.json").read_text())["benchmarks"][1]["stats"]
    assert len(found.figures) == 2 * 4
    assert found.figures[f"{WAITING}: latency p50"].estimate == pytest.approx(stats["median"] * 1e3)
    assert found.figures[f"{WAITING}: throughput"].estimate == pytest.approx(1 / stats["mean"])
    assert (found.figures["test_waiting.py::test_two_milliseconds: latency p50"].estimate or 0) >= 2
    assert found.stated["tool_version"] == "5.3.1"
    assert "when it ran" not in found.missing
    assert "the executor (hardware, driver, libraries)" in found.missing, "a processor's name is not an executor"


def test_a_suite_without_a_benchmark_that_has_figures_is_no_result() -> None:
    document = json.loads((DATA / "pytest-benchmark.json").read_text())
    document["benchmarks"] = [{"fullname": "test_x", "stats": None}, "odd"]
    with pytest.raises(BadInput, match="not a result of a tool that is known"):
        parse_foreign(json.dumps(document))
