"""The level that results are held against: the first sound one, until another is decided on by somebody trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compared import make_executor, make_result
from ledgers import key_of, trusting
from lynxbench.errors import Refused
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.model.entries import DecisionTaken, ResultRetracted
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.baselines import accept_baseline, baseline_of
from lynxbench.record.recording import seal
from recording_teams import record

OURS, THEIRS = key_of("ours"), key_of("theirs")
TRUST: TrustList = trusting(OURS)
DOUBTFUL = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("foreign load: 71 %",))


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenLedger]:
    """An empty one, which takes results that nobody measured."""
    monkeypatch.setenv("LYNXBENCH_HOME", str(tmp_path))
    location = locate(str(tmp_path / "ledger"), os.environ)
    assert location is not None
    with open_ledger(location, os.environ, create=True, example=True) as opened:
        yield opened


def _result(number: int, *, machine: str = "here", validity: Validity | None = None) -> Result:
    """The result of one day, as it is when it was recorded."""
    day = f"2026-11-{number:02}T09:00:00+00:00"
    result = make_result(executor=make_executor(machine=machine), started_at=day, validity=validity)
    return result.model_copy(update={"run_id": f"run-{number}"}).sealed()


def _record(ledger: OpenLedger, *results: Result) -> list[Result]:
    return [record(ledger, result, OURS) for result in results]


def test_before_any_decision_it_is_the_first_sound_result_of_this_machine(ledger: OpenLedger) -> None:
    _record(ledger, _result(1, validity=DOUBTFUL), _result(2, machine="elsewhere"))
    assert baseline_of(ledger, _result(5), TRUST) is None
    first, second, mine = _record(ledger, *(_result(day) for day in (3, 4, 5)))
    assert baseline_of(ledger, mine, TRUST) == first.result_id
    assert baseline_of(ledger, first, TRUST) == second.result_id, "never the result itself"


def test_what_was_decided_last_holds_and_a_strangers_word_does_not(ledger: OpenLedger) -> None:
    first, second, third, mine = _record(ledger, *(_result(day) for day in (1, 2, 3, 4)))
    accept_baseline(ledger, third, OURS, "accepted")
    assert baseline_of(ledger, mine, TRUST) == third.result_id
    accept_baseline(ledger, second, OURS, "improved")
    assert baseline_of(ledger, mine, TRUST) == second.result_id
    accept_baseline(ledger, first, THEIRS, "accepted")
    cites = (third.result_id,)
    bought = DecisionTaken(question="Shall we buy?", contract_id=mine.contract_id, answer="yes", cites=cites)
    ledger.log.append(seal(bought, OURS))
    assert baseline_of(ledger, mine, TRUST) == second.result_id
    assert baseline_of(ledger, mine, trusting(OURS, THEIRS)) == first.result_id


def test_a_level_that_was_taken_back_gives_way(ledger: OpenLedger) -> None:
    first, second, mine = _record(ledger, *(_result(day) for day in (1, 2, 3)))
    accept_baseline(ledger, second, OURS, "accepted")
    ledger.log.append(seal(ResultRetracted(result_id=second.result_id, reason="the wrong weights"), OURS))
    assert baseline_of(ledger, mine, TRUST) == first.result_id


def test_what_nobody_trusted_signed_is_no_level(ledger: OpenLedger) -> None:
    record(ledger, _result(1), THEIRS)
    assert baseline_of(ledger, _result(2), TRUST) is None


def test_a_doubtful_result_is_not_accepted(ledger: OpenLedger) -> None:
    (doubtful,) = _record(ledger, _result(1, validity=DOUBTFUL))
    size = ledger.log.head().size
    with pytest.raises(Refused, match="is doubtful: foreign load: 71 %; nothing is held against it"):
        accept_baseline(ledger, doubtful, OURS, "accepted")
    assert ledger.log.head().size == size
