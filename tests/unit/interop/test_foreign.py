"""Foreign results: each tool's own shape is read, told apart, and marked with what it fails to state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lynxbench.errors import BadInput
from lynxbench.interop.foreign import CONTEXT, TOOLS, parse_foreign, read_foreign

DATA = Path(__file__).parents[2] / "data" / "foreign"
EXPECTED = {
    "vllm": ("output throughput", "time-to-first-token p99", "ground-truth"),
    "aiperf": ("output throughput", "time-to-first-token p99", "mock"),
    "guidellm": ("output throughput", "time-to-first-token p99", "ground-truth"),
    "genai-perf": ("output throughput", "time-to-first-token p99", "llama-3.1-8b-instruct"),
    "inference-perf": ("output throughput", "time-to-first-token p99", None),
    "mlperf": ("query throughput", "latency p99", None),
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


def test_latencies_come_out_in_milliseconds_whatever_the_tool_writes() -> None:
    found = read_foreign(DATA / "inference-perf.json")
    assert found.figures["latency p50"].estimate == pytest.approx(250.0)
    assert found.stated["schedule_delay"] == {"mean": 0.002, "max": 0.01}
    assert "that the client was not the limit" not in found.missing
    log = read_foreign(DATA / "mlperf.txt")
    assert log.figures["latency p90"].estimate == pytest.approx(4751.920830)
    assert log.stated["scenario"] == "SingleStream"
    assert log.stated["valid"] is True


def test_the_detailed_log_of_mlperf_is_read_too() -> None:
    lines = [
        {"key": "effective_scenario", "value": "Offline"},
        {"key": "result_samples_per_second", "value": 3.71},
        {"key": "result_99.00_percentile_latency_ns", "value": 2_691_085_775},
        {"key": "result_validity", "value": "INVALID"},
    ]
    text = "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines) + ":::MLLOG {torn"
    found = parse_foreign(text)
    assert found.figures["sample throughput"].estimate == 3.71
    assert found.figures["latency p99"].estimate == pytest.approx(2691.085775)
    assert found.stated["valid"] is False


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
    with pytest.raises(BadInput, match="--tool"):
        read_foreign(tmp_path / "binary", "jmeter")
