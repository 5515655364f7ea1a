"""Whose a result is, who can take it back, and whether its run was registered before it was measured."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ledgers import MADE_AT, NOW, recorded, registered, sha
from lynxbench.model.entries import (
    Entry,
    EntryBody,
    RerunVerdict,
    ResultContested,
    ResultRecorded,
    ResultRerun,
    ResultRetracted,
    ResultVerified,
)
from lynxbench.model.standing import Announcement, RunCount, Standing, Voice, VoicedEntry, owner_of, standing_of

ALPHA, BRAVO = Voice(("alpha",), (sha("alpha key"),)), Voice(("bravo",), (sha("bravo key"),))
BOTH = Voice(("alpha", "bravo"), (*ALPHA.keys, *BRAVO.keys))
STRANGER = Voice((), (sha("a key that nobody knows"),))
RESULT = sha("result one")
TAKEN_BACK = ResultRetracted(result_id=RESULT, reason="the fan was broken")
LATER = (NOW + timedelta(days=1)).isoformat()


def _said(*bodies: tuple[EntryBody, Voice], made_at: str = MADE_AT, logged_at: str = LATER) -> list[VoicedEntry]:
    return [
        VoicedEntry(seq, Entry(made_at=made_at, body=body), voice, logged_at)
        for seq, (body, voice) in enumerate(bodies)
    ]


def _standing(*bodies: tuple[EntryBody, Voice]) -> Standing:
    return standing_of(RESULT, _said(*bodies))


# --- who can take it back ---------------------------------------------------------------------------------------------


def test_the_team_that_registered_the_run_takes_its_result_back() -> None:
    standing = _standing((registered("one"), ALPHA), (recorded("one"), ALPHA), (TAKEN_BACK, ALPHA))
    assert standing.short == "retracted"
    assert standing.words[0] == "retracted by alpha: the fan was broken"


@pytest.mark.parametrize(
    "again",
    [
        (recorded("one"), BRAVO),
        (recorded("one"), BOTH),
        (recorded("one").model_copy(update={"attempts": 6}), BRAVO),
        (registered("one"), BRAVO),
    ],
    ids=["signed again", "signature added", "slightly changed", "registered again"],
)
@pytest.mark.parametrize("first", [False, True], ids=["after", "before"])
def test_signing_again_makes_nobody_its_owner(again: tuple[EntryBody, Voice], first: bool) -> None:
    theirs = [(registered("one"), ALPHA), (recorded("one"), ALPHA)]
    bodies = [theirs[0], again, theirs[1]] if first else [*theirs, again]
    standing = _standing(*bodies, (TAKEN_BACK, BRAVO))
    assert standing.retracted == ()
    assert _standing(*bodies, (TAKEN_BACK, ALPHA)).short == "retracted", "its own team still can"


def test_a_registration_of_another_run_gives_no_right() -> None:
    for change in ({"nonce": "another"}, {"contract_id": sha("another")}, {"run_id": "run-two"}):
        squatted = registered("one").model_copy(update=change)
        standing = _standing((squatted, BRAVO), (recorded("one"), ALPHA), (TAKEN_BACK, BRAVO))
        assert standing.retracted == ()
        assert standing.announced is Announcement.NEVER


def test_without_a_registration_the_first_recorder_owns_it_and_of_several_all_must_sign() -> None:
    assert owner_of(RESULT, _said((recorded("one"), ALPHA), (recorded("one"), BRAVO))) == ALPHA
    assert owner_of(RESULT, []) == Voice((), ())
    both = [(recorded("one"), BOTH)]
    assert _standing(*both, (TAKEN_BACK, BRAVO)).retracted == ()
    assert _standing(*both, (TAKEN_BACK, BOTH)).short == "retracted"


def test_a_key_that_nobody_can_check_contests_at_most() -> None:
    unknown = [(registered("one"), STRANGER), (recorded("one"), STRANGER)]
    standing = _standing(*unknown, (TAKEN_BACK, STRANGER))
    assert (standing.retracted, [remark.text for remark in standing.contested]) == ((), ["the fan was broken"])
    assert _standing(*unknown, (TAKEN_BACK, BRAVO)).contested == ()
    known = [(registered("one"), ALPHA), (recorded("one"), ALPHA)]
    forged = Voice(("bravo",), (*BRAVO.keys, *ALPHA.keys))  # alpha's key id under a signature that nobody could check
    assert _standing(*known, (TAKEN_BACK, forged)).retracted == ()


# --- one's own word ---------------------------------------------------------------------------------------------------


def test_a_verification_by_its_own_team_is_told_as_that() -> None:
    theirs = [(registered("one"), ALPHA), (recorded("one"), ALPHA)]
    holds = ResultVerified(result_id=RESULT, holds=True, checks=("figures: holds",))
    own = _standing(*theirs, (holds, ALPHA))
    assert (own.short, own.verified) == ("recorded", ())
    assert "verified by its own team alone" in own.words
    again = ResultRerun(result_id=RESULT, rerun_id=sha("two"), verdict=RerunVerdict.REPRODUCED, effects={})
    assert "reproduced by alpha" in _standing(*theirs, (again, ALPHA)).words, "measured anew, and by whom is said"
    assert _standing(*theirs, (again, ALPHA)).short == "self-reproduced", "a list does not say by whom"
    assert _standing(*theirs, (again, ALPHA), (holds, BRAVO)).short == "verified"
    assert _standing(*theirs, (again, ALPHA), (again, BRAVO)).short == "reproduced"
    assert _standing(*theirs, (recorded("one"), BRAVO), (holds, BRAVO)).short == "recorded", "whoever signed it again"
    assert _standing(*theirs, (holds, BRAVO)).short == "verified"
    assert _standing(*theirs, (again, BRAVO)).short == "reproduced"
    fails = ResultVerified(result_id=RESULT, holds=False, checks=())
    assert _standing(*theirs, (fails, ALPHA)).short == "does not verify", "against oneself it counts"
    assert _standing(*theirs, (ResultContested(result_id=RESULT, reason="hot"), ALPHA)).short == "contested"


def test_a_result_is_not_reproduced_by_its_own_team_nor_by_itself() -> None:
    theirs = [(registered("one"), ALPHA), (recorded("one"), ALPHA)]
    again = ResultRerun(result_id=RESULT, rerun_id=sha("two"), verdict=RerunVerdict.REPRODUCED, effects={})
    assert _standing(*theirs, (again, ALPHA)).short == "self-reproduced"
    holds = ResultVerified(result_id=RESULT, holds=True, checks=("figures: holds",))
    assert _standing(*theirs, (holds, BRAVO), (again, ALPHA)).short == "verified"
    assert _standing(*theirs, (again, BOTH)).short == "reproduced", "another team stands behind it as well"
    itself = again.model_copy(update={"rerun_id": RESULT})
    standing = _standing(*theirs, (itself, BRAVO))
    assert (standing.short, standing.reruns) == ("recorded", ())


# --- registered in advance --------------------------------------------------------------------------------------------


def _result(started: datetime, finished: datetime) -> ResultRecorded:
    times = {"started_at": started.isoformat(), "finished_at": finished.isoformat()}
    return recorded("one").model_copy(update=times)


@pytest.mark.parametrize(
    ("made_s", "logged_s", "announced"),
    [
        (0, 1, Announcement.IN_ADVANCE),
        (0, 59, Announcement.IN_ADVANCE),
        (0, 61, Announcement.AFTER),
        (0, 200, Announcement.AFTER),
        (0, 400, Announcement.OWN_CLOCK),
        (200, 400, Announcement.AFTER),
        (400, 400, Announcement.AFTER),
    ],
)
def test_the_ledgers_clock_decides_and_its_teams_where_it_came_later(
    made_s: int, logged_s: int, announced: Announcement
) -> None:
    """A run of five minutes: registered by its own clock and logged by this ledger so long after it began."""
    body = _result(NOW, NOW + timedelta(seconds=300))
    made, logged = (NOW + timedelta(seconds=seconds) for seconds in (made_s, logged_s))
    entries = _said((registered("one"), ALPHA), made_at=made.isoformat(), logged_at=logged.isoformat())
    entries += [VoicedEntry(1, Entry(made_at=LATER, body=body), ALPHA, LATER)]
    standing = standing_of(RESULT, entries)
    assert standing.announced is announced
    assert standing.registered is (announced in (Announcement.IN_ADVANCE, Announcement.OWN_CLOCK))
    assert (announced.value in standing.words) is (announced is not Announcement.IN_ADVANCE)


def test_a_short_run_is_not_over_when_it_is_registered() -> None:
    body = _result(NOW, NOW)  # times are cut off to the second
    logged = (NOW + timedelta(milliseconds=400)).isoformat()
    entries = _said((registered("one"), ALPHA), (body, ALPHA), made_at=logged, logged_at=logged)
    assert standing_of(RESULT, entries).announced is Announcement.IN_ADVANCE


def test_a_registration_that_was_logged_after_the_result_is_after_the_run() -> None:
    assert _standing((recorded("one"), ALPHA), (registered("one"), ALPHA)).announced is Announcement.AFTER


@pytest.mark.parametrize("finished", ["soon", "", "2026-11-15T09:00:00", "2026-11-15T25:00:00+00:00"])
def test_a_time_that_is_none_is_no_excuse(finished: str) -> None:
    body = recorded("one").model_copy(update={"finished_at": finished})
    assert _standing((registered("one"), ALPHA), (body, ALPHA)).announced is Announcement.AFTER


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00"])
def test_the_last_and_the_first_time_there_is_are_times(moment: str) -> None:
    body = recorded("one").model_copy(update={"started_at": moment, "finished_at": moment})
    assert _standing((registered("one"), ALPHA), (body, ALPHA)).announced is Announcement.AFTER


def test_a_run_does_not_end_after_its_result_was_logged() -> None:
    """Measured, then registered, and the result dated into the time after that."""
    body = _result(NOW + timedelta(minutes=1), NOW + timedelta(minutes=6))
    logged = NOW.isoformat()
    entries = _said((registered("one"), ALPHA), (body, ALPHA), made_at=logged, logged_at=logged)
    assert standing_of(RESULT, entries).announced is Announcement.AFTER


def test_one_of_ten_is_said() -> None:
    entries = _said((registered("one"), ALPHA), (recorded("one"), ALPHA))
    standing = standing_of(RESULT, entries, RunCount(10, 9))
    assert standing.chosen_from == "1 of 10 registered"
    assert "1 of 10 registered runs of this contract and team have a result here" in standing.words
    assert standing_of(RESULT, entries, RunCount(10, 0)).chosen_from == ""


def test_what_an_earlier_version_said_of_a_standing_is_kept() -> None:
    old = Standing.model_validate_json(f'{{"result_id": "{RESULT}", "signed_by": ["alpha"], "registered": true}}')
    assert old.words == ("nobody else has verified, re-run or contested it",)
    assert "not registered in advance" in old.model_copy(update={"registered": False}).words
