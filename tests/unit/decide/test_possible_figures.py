"""Figures that nothing measured: each is told, and no decision is made of a result that states one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lynxbench.decide import deciding
from lynxbench.decide.deciding import gather
from lynxbench.decide.possible_figures import impossible_figure
from lynxbench.errors import Refused
from lynxbench.evidence.documents import write_result
from lynxbench.model.result import Result


def stating(result: Result, path: Sequence[str | int], value: object) -> Result:
    """The same result with another value in one place."""
    document: Any = json.loads(result.model_dump_json(by_alias=True))
    place = document["per_precision"][0]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return Result.model_validate_json(json.dumps(document)).sealed()


SHARES = ("attribution", "shares", "launch")
LIES: list[tuple[tuple[str | int, ...], object, str]] = [
    (SHARES, -0.1, "a share of -0.1 of a step for launch"),
    (SHARES, 1.5, "a share of 1.5 of a step for launch"),
    (SHARES, 1e308, "a share of 1e+308"),
    (SHARES, 0.99, "shares of a step that add up to 1."),
    (("sustained", "estimate"), 1e308, "sustained of "),
    (("sustained", "low"), -1.0, "sustained of -1"),
    (("throughput", "low"), 1e9, "throughput of "),
    (("energy_j_per_unit", "estimate"), 1e-308, "energy of "),
    (("attribution", "gain_if_removed", "high"), 0.0, "gain_if_removed: a gain of "),
    (("attribution", "gain_if_removed", "low"), -2.0, "gain_if_removed: a gain of -2"),
    (("load", "saturation", "passed_per_s"), 0.0, "a saturation search with passed 0 /s"),
    (("load", "saturation", "passed_per_s"), 1e9, "a rate of 43 /s that failed at or under 1e+09 /s that held"),
    (("load", "saturation", "ceiling_per_s"), -3.0, "a saturation search with ceiling -3 /s"),
    (("load", "saturation", "curve", 0, "p99_s"), 1e308, "a probe at "),
]


@pytest.mark.parametrize(("path", "value", "words"), LIES)
def test_what_nothing_measures_is_told(
    today: Result, path: tuple[str | int, ...], value: object, words: str, tmp_path: Path
) -> None:
    """Found: `decide` computed with such figures, to tracebacks, `inf×` or a cost of 10³⁰⁶ EUR."""
    lied = stating(today, path, value)
    assert words in impossible_figure(lied)
    file = tmp_path / "a.result.json"
    write_result(file, lied)
    with pytest.raises(Refused, match="states what nothing measures"):
        gather([str(file)], [], "none", {})
    with pytest.raises(Refused, match="states what nothing measures"):
        gather([], [tmp_path], "none", {})


def test_what_can_be_measured_is_let_through(today: Result, tested: Result, decode: Result) -> None:
    assert [impossible_figure(result) for result in (today, tested, decode)] == ["", "", ""]


@pytest.mark.parametrize("loss", [1e308, -1e300])
def test_a_loss_beyond_all_measure_is_told(decode: Result, loss: float) -> None:
    assert "a loss of" in impossible_figure(stating(decode, ("accuracy", "loss"), loss))


def test_the_tails_of_processes_that_disagree_may_bound_each_other_by_nothing(today: Result) -> None:
    """Found on a busy machine: a p95 of 5.9 ms, between 10⁻¹² and 10¹⁰⁶, was called impossible."""
    percentiles = {"latency": [{"percentile": 95, "low": 4.4e-12, "estimate": 5.9, "high": 6.5e106, "resolved": True}]}
    assert impossible_figure(stating(today, ("latency_ms",), percentiles)) == ""
    for place, value in (("estimate", 1e106), ("low", -1.0), ("low", 1e107)):
        wrong = {"latency": [{**percentiles["latency"][0], place: value}]}
        assert "latency p95 of " in impossible_figure(stating(today, ("latency_ms",), wrong))


def test_a_ledger_of_nothing_else_is_told_as_such(today: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: "there are results of no result at all"."""
    lied = stating(today, SHARES, -0.1)
    monkeypatch.setattr(deciding, "_from_ledger", lambda *_: ({lied.result_id: lied}, {}))
    with pytest.raises(
        Refused, match=r"^no result to decide from: \w+ is left out: it states what nothing measures \("
    ):
        gather([], [], None, {})
