"""`reproduced` beside a rerun that nobody here can look at: it is told, and counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledgers import key_of, recorded, registered, sealed, sha, trusting
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.result_standings import standings
from lynxbench.model.entries import EntryBody, RerunVerdict, ResultRerun
from lynxbench.model.standing import Standing

ALPHA, BRAVO, STRANGER = key_of("alpha"), key_of("bravo"), key_of("stranger")
TRUST = trusting(ALPHA, BRAVO)
MINE = recorded("a")
ABSENT = "said to be reproduced by bravo: the rerun is not held here"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, blobs="somewhere") as opened:
        opened.append_all([sealed(registered("a"), ALPHA), sealed(MINE, ALPHA)])
        yield opened


def said(rerun_id: str, verdict: RerunVerdict = RerunVerdict.REPRODUCED) -> ResultRerun:
    return ResultRerun(result_id=MINE.result_id, rerun_id=rerun_id, verdict=verdict, effects={})


def standing(ledger: Ledger, *bodies: EntryBody) -> Standing:
    ledger.append_all([sealed(body, BRAVO) for body in bodies])
    return standings(ledger, [MINE.result_id], TRUST)[MINE.result_id]


@pytest.mark.parametrize(
    "cited",
    [
        sha("never"),  # of nothing at all
        MINE.contract_id,  # an id that the ledger has, of another thing
        MINE.executor_id,
        recorded("elsewhere").result_id,  # a real result, in another ledger
    ],
)
def test_a_rerun_that_the_ledger_does_not_hold_is_told_and_counts_for_nothing(ledger: Ledger, cited: str) -> None:
    """Found: whoever is trusted wrote `reproduced` beside any number, and the result was called so."""
    found = standing(ledger, said(cited))
    assert (found.short, found.reruns) == ("recorded", ())
    assert ABSENT in found.words
    assert Standing.model_validate_json(found.model_dump_json()) == found


def test_a_rerun_that_was_only_announced_is_not_held(ledger: Ledger) -> None:
    found = standing(ledger, registered("b"), said(recorded("b").result_id))
    assert (found.short, ABSENT in found.words) == ("recorded", True)


def test_a_rerun_of_another_contract_is_none(ledger: Ledger) -> None:
    other = recorded("b", contract="another")
    found = standing(ledger, other, said(other.result_id))
    assert found.short == "recorded"
    assert "said to be reproduced by bravo: the rerun is of another contract" in found.words


def test_it_counts_from_the_moment_that_the_rerun_is_here(ledger: Ledger) -> None:
    again = recorded("b")
    assert standing(ledger, said(again.result_id)).short == "recorded"
    found = standing(ledger, again)
    assert (found.short, found.unheld) == ("reproduced", ())


def test_one_that_is_held_is_not_undone_by_one_that_is_not(ledger: Ledger) -> None:
    again = recorded("b")
    found = standing(ledger, again, said(again.result_id), said(sha("never")))
    assert found.short == "reproduced"
    assert ABSENT in found.words


@pytest.mark.parametrize("verdict", [RerunVerdict.NOT_REPRODUCED, RerunVerdict.INCONCLUSIVE])
def test_what_speaks_against_a_result_stays_said(ledger: Ledger, verdict: RerunVerdict) -> None:
    found = standing(ledger, said(sha("never"), verdict))
    assert ([remark.text for remark in found.reruns], found.unheld) == ([verdict.value], ())


def test_a_strangers_word_is_none_at_all(ledger: Ledger) -> None:
    ledger.append(sealed(said(sha("never")), STRANGER))
    found = standings(ledger, [MINE.result_id], TRUST)[MINE.result_id]
    assert (found.short, found.unheld) == ("recorded", ())
