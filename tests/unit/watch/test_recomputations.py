"""What is to be recomputed follows from the log and the outcomes alone; a restart forgets nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lynxbench.ledger.location import OpenLedger
from lynxbench.watch.recomputations import MOST_LINE, MOST_LINES, NOT_YET, WHOLE, Recomputations, RecomputationState
from lynxbench.watch.store import Store
from recording_teams import Team, made_result, make_team, record


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return make_team("ml", tmp_path)


@pytest.fixture
def ledger(team: Team) -> Iterator[OpenLedger]:
    with team.open() as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    yield made
    made.close()


def taken(recomputations: Recomputations) -> list[str]:
    """Everything that is due, each given an outcome."""
    names = []
    while (due := recomputations.due()) is not None:
        recomputations.keep(due, RecomputationState.HOLDS, ["fine"])
        names.append(due.result_id)
    return names


def test_new_results_come_in_order_and_before_old_ones(team: Team, ledger: OpenLedger, store: Store) -> None:
    old = [record(ledger, made_result(number), team.key).result_id for number in range(3)]
    known = Recomputations(store, ledger.log)
    new = [record(ledger, made_result(3 + number), team.key).result_id for number in range(3)]
    first = known.due()
    assert first is not None
    assert (first.result_id, first.whole, first.urgent) == (new[0], False, True)
    assert known.awaited(first.seq, new[0])
    assert taken(known) == [*new, *new, *reversed(old)], "figures first, then the whole, then what was there before"
    assert not known.awaited(first.seq, new[0])
    assert known.counts() == {"holds": 6.0, "refuted": 0.0, "cannot": 0.0}


def test_figures_are_taken_several_at_a_time_and_nothing_else_is(team: Team, ledger: OpenLedger, store: Store) -> None:
    record(ledger, made_result(0), team.key)
    known = Recomputations(store, ledger.log)
    new = [record(ledger, made_result(number), team.key).result_id for number in range(1, 5)]
    together = known.due_together(3)
    assert [due.result_id for due in together] == new[:3]
    refuted, held = RecomputationState.REFUTED, RecomputationState.HOLDS
    known.keep_all([(due, state, ["so"]) for due, state in zip(together, (held, refuted, held), strict=True)])
    assert [due.result_id for due in known.due_together(3)] == [new[3]], "the marks moved with the last of them"
    known.keep_all([(due, held, []) for due in known.due_together(3)])
    wholes = []
    while due := known.due_together(3):
        assert len(due) == 1, "the whole of a result is taken by itself"
        known.keep(due[0], held, [])
        wholes.append(due[0].result_id)
    assert wholes[:3] == [new[0], new[2], new[3]], "what its figures refuted is not taken again"
    known.keep_all([])
    assert known.counts() == {"holds": 4.0, "refuted": 1.0, "cannot": 0.0}


def test_what_nothing_may_rest_on_is_known_by_contract(team: Team, ledger: OpenLedger, store: Store) -> None:
    known = Recomputations(store, ledger.log)
    new = [record(ledger, made_result(number), team.key) for number in range(4)]
    states = (RecomputationState.REFUTED, RecomputationState.HOLDS, RecomputationState.REFUTED)
    due = known.due_together(3)
    known.keep_all([(result, state, ["so"]) for result, state in zip(due, states, strict=True)])
    whole = replace(due[1], mark=WHOLE)
    known.keep(whole, RecomputationState.CANNOT, ["no samples"])
    elsewhere = replace(due[2], contract_id="cd" * 32)
    known.keep(elsewhere, RecomputationState.REFUTED, ["so"])
    assert known.objected(new[0].contract_id) == {due[0].result_id, due[1].result_id}
    assert known.objected("cd" * 32) == {due[2].result_id}
    assert known.objected("ef" * 32) == set()
    for result in due:
        assert known.objection(result.result_id) is not None


def test_a_restart_goes_on_where_it_stopped(team: Team, ledger: OpenLedger, store: Store) -> None:
    Recomputations(store, ledger.log)
    new = [record(ledger, made_result(number), team.key).result_id for number in range(4)]
    known = Recomputations(store, ledger.log)
    due = known.due()
    assert due is not None
    known.keep(due, RecomputationState.REFUTED, ["fp32 throughput: does not hold: stated 4, recomputed 1"])
    again = Recomputations(store, ledger.log)  # killed before the second had an outcome
    assert taken(again) == [*new[1:], *new[1:]], "what its figures refute is not looked at again"
    assert taken(Recomputations(store, ledger.log)) == []


def test_a_result_without_an_outcome_says_so(team: Team, ledger: OpenLedger, store: Store) -> None:
    known = Recomputations(store, ledger.log)
    result = record(ledger, made_result(1), team.key)
    assert known.of([result.result_id, "ab" * 32]) == {result.result_id: NOT_YET, "ab" * 32: NOT_YET}
    assert NOT_YET.sentence == "not recomputed here: the figures are as they were submitted"
    assert known.objection(result.result_id) is None
    due = known.due()
    assert due is not None
    lines = [f"line {number}: does not hold" + "!" * 1000 for number in range(100)]
    known.keep(due, RecomputationState.REFUTED, lines)
    outcome = known.of([result.result_id])[result.result_id]
    assert len(outcome.lines) == MOST_LINES
    assert max(map(len, outcome.lines)) == MOST_LINE
    assert outcome.sentence.startswith("refuted here: line 0: does not hold")
    assert outcome.sentence.endswith("(and 19 more)")
    assert known.objection(result.result_id) == outcome
    assert set(known.refuted(result.contract_id)) == {result.result_id}
    assert [name for name, _ in known.newest_refuted(5)] == [result.result_id]


def test_where_samples_do_not_give_figures_the_whole_decides(team: Team, ledger: OpenLedger, store: Store) -> None:
    known = Recomputations(store, ledger.log)
    result = record(ledger, made_result(1), team.key)
    first = known.due()
    assert first is not None
    known.keep(first, RecomputationState.CANNOT, ["the request records of the run are not here"])
    assert known.of([result.result_id])[result.result_id] == NOT_YET
    assert known.awaited(first.seq, result.result_id)
    second = known.due()
    assert second is not None
    assert (second.result_id, second.whole) == (result.result_id, True)
    known.keep(second, RecomputationState.CANNOT, ["its files do not suffice"])
    assert known.of([result.result_id])[result.result_id].state is RecomputationState.CANNOT
    assert known.due() is None


def test_the_whole_has_the_last_word(team: Team, ledger: OpenLedger, store: Store) -> None:
    """Figures that fit forged samples hold at first; what the processes wrote then refutes them."""
    known = Recomputations(store, ledger.log)
    result = record(ledger, made_result(1), team.key)
    for state in (RecomputationState.HOLDS, RecomputationState.REFUTED):
        due = known.due()
        assert due is not None
        known.keep(due, state, ["a line"])
        assert known.of([result.result_id])[result.result_id].state is state
    assert known.due() is None
