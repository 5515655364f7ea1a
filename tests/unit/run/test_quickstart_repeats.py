"""What the benchmark of repeated quickstarts reads out of results, and when it says that a promise is broken."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
try:
    repeats = import_module("quickstart_repeats")
finally:
    sys.path.remove(FOLDER)


def result(
    validity: str = "valid", steady: str | None = "steady", sentence: str = "software-bound: launch", s: float = 160.0
) -> dict[str, Any]:
    precisions = [
        {"precision": "fp32", "skipped": None, "steady": None if steady is None else {"verdict": steady}},
        {"precision": "fp8", "skipped": {"reason": "unsupported"}, "steady": None},
    ]
    return {
        "validity": {"verdict": validity, "reasons": []},
        "attribution": {"bottleneck": "launch", "bound": "software", "sentence": sentence},
        "per_precision": precisions,
        "measuring_s": s,
    }


def holds(*documents: dict[str, Any]) -> bool:
    return bool(repeats.summarised([repeats.read(0, document) for document in documents])["holds"])


def test_nine_of_ten_must_be_valid_and_steady_and_say_the_same_in_time() -> None:
    usual = [result()] * 9
    assert holds(*usual, result(validity="doubtful"))
    assert not holds(*usual[:8], result(validity="doubtful"), result(steady="not steady"))
    level = result(sentence="software-bound: launch takes half (weak: level with memory_bandwidth)")
    assert holds(*usual, level)
    assert not holds(*usual[:8], level, level)
    assert not holds(*usual, result(s=181.0)), "every run is to be in time"


def test_two_level_causes_are_one_verdict_in_either_order() -> None:
    one = repeats.causes({"bottleneck": "launch", "sentence": "x (weak: no category dominates, level with compute)"})
    other = repeats.causes({"bottleneck": "compute", "sentence": "x (weak: level with launch), and more"})
    assert one == other == ("compute", "launch")


def test_a_run_that_counted_nothing_is_read_and_is_not_steady() -> None:
    run = repeats.read(1, {**result(validity="void", steady=None), "attribution": None})
    assert run.steady == {"fp32": "nothing counted"}
    assert not run.whole
    assert run.verdict == ("none",)


@pytest.mark.parametrize("count", ["0", "-1", "ten"])
def test_no_runs_at_all_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["quickstart_repeats.py", "--runs", count])
    with pytest.raises(SystemExit) as ended:
        repeats.main()
    assert ended.value.code == 2
    assert "--runs" in capsys.readouterr().err
