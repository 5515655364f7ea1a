"""The benchmark of pairs: its bars against planted outcomes, and that it goes on where it stopped."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
try:
    paired_comparison = import_module("paired_comparison")
finally:
    sys.path.remove(FOLDER)

FOUND = {"paired": "regressed", "paired_s": 50.0, "separate": "unproven", "separate_s": 150.0}


def kept(folder: Path, alike: list[str], changes: list[dict[str, Any]]) -> Any:
    comparisons = paired_comparison.KeptComparisons(folder, 10)
    for change in changes:
        comparisons.add("changes", change)
    for verdict in alike:
        comparisons.add("alike", {"verdict": verdict, "seconds": 50.0})
    return paired_comparison.KeptComparisons(folder, 10)


@pytest.mark.parametrize(
    ("alike", "changes", "missed", "left"),
    [
        (["inconclusive"] * 19 + ["regressed"], [FOUND] * 3, [], 0),
        (["inconclusive"] * 18 + ["regressed", "improved"], [FOUND] * 3, ["2 of 20 A/A pairs are false"], 0),
        (["within budget"] * 20, [FOUND] * 2 + [{**FOUND, "paired": "inconclusive"}], ["1 of 3 changes"], 0),
        (["within budget"] * 20, [{**FOUND, "separate_s": 90.0}] * 3, ["pairs took 0.56 of the time"], 0),
        (["within budget"] * 7, [FOUND], [], 15),
        ([], [], [], 23),
    ],
)
def test_bars_are_held_against_what_was_finished(
    tmp_path: Path, alike: list[str], changes: list[dict[str, Any]], missed: list[str], left: int
) -> None:
    document = paired_comparison.judged(kept(tmp_path, alike, changes), 20, 3)
    assert len(document["missed"]) == len(missed)
    assert all(said.startswith(start) for said, start in zip(document["missed"], missed, strict=True))
    assert document["left"] == left
    text = paired_comparison.text_of(document)
    last = "MISSED" if missed else "comparisons are left" if left else "bars hold"
    assert last in text.splitlines()[-1]


def test_comparisons_that_could_not_be_made_hold_no_bar(tmp_path: Path) -> None:
    document = paired_comparison.judged(kept(tmp_path, ["exit code 4: no"] * 20, [FOUND] * 3), 20, 3)
    assert document["false"] == 0
    assert document["missed"] == ["20 of 20 A/A pairs could not be measured"]


def test_what_is_finished_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def in_pairs(place: Path, restarts: int, more: str) -> tuple[str, float]:
        asked.append(more)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return ("regressed" if more != "1" else "inconclusive"), 50.0

    monkeypatch.setattr(paired_comparison, "in_pairs", in_pairs)
    monkeypatch.setattr(paired_comparison, "apart", lambda place, restarts: ("unproven", 10.0 * restarts))
    words = ["paired_comparison.py", "--at", str(tmp_path), "--pairs", "4", "--changes", "1", "--json"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(KeyboardInterrupt):
        paired_comparison.main()
    assert paired_comparison.main() == 0
    assert asked == ["1.02", "1", "1", "1", "1", "1"], "the one that was interrupted is begun anew"
    document = json.loads(capsys.readouterr().out)
    assert (len(document["alike"]), document["left"]) == (4, 0)
    monkeypatch.setattr(sys, "argv", [*words[:3], "--restarts", "20"])
    with pytest.raises(SystemExit, match="is of 10 restarts, not 20"):
        paired_comparison.main()


def test_after_its_minutes_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["paired_comparison.py", "--at", str(tmp_path), "--minutes", "0"])
    assert paired_comparison.main() == 6
