"""Who agreed to a contract before a run: told from signatures, their order, and their dates; never from a word."""

from __future__ import annotations

from typing import Any

import pytest

from ledgers import MADE_AT, recorded, registered, sha
from lynxbench.model.agreement import RunBegan, SignedBy, TeamAgreement, agreement_of, agreement_unshown
from lynxbench.model.entries import ContractSigned, Entry, EntryBody
from lynxbench.model.standing import Standing, Voice, VoicedEntry, agreement_shown, standing_of

TEAMS = ("alpha", "bravo", "charlie")
EARLY, LATE = "2026-11-15T08:00:00+00:00", "2026-11-15T10:00:00+00:00"


def signed(seq: int, *teams: str, contract: str = "contract", at: str = EARLY) -> SignedBy:
    return SignedBy(seq, Entry(made_at=at, body=ContractSigned(contract_id=sha(contract))), teams)


RUN = RunBegan(10, MADE_AT)


def agreement(*entries: SignedBy, run: RunBegan | None = RUN) -> TeamAgreement:
    return agreement_of(sha("contract"), TEAMS, entries, run)


def test_every_team_in_time_is_agreed() -> None:
    state = agreement(signed(1, "alpha"), signed(2, "bravo"), signed(3, "charlie"))
    assert state.full
    assert state.words == "agreed (3 of 3)"
    assert [signature.seq for signature in state.signatures] == [1, 2, 3]


def test_one_envelope_may_carry_several_signatures() -> None:
    assert agreement(signed(1, "alpha", "bravo", "charlie")).full


def test_a_missing_team_is_named() -> None:
    state = agreement(signed(1, "alpha"), signed(2, "charlie"))
    assert not state.full
    assert state.words == "not agreed (2 of 3; missing: bravo)"
    assert agreement().words == "not agreed (0 of 3; missing: alpha, bravo, charlie)"


def test_a_signature_after_the_run_is_not_one_before_it() -> None:
    late = agreement(signed(1, "alpha"), signed(2, "bravo"), signed(11, "charlie"))
    assert not late.full
    assert late.words == "agreed after the run (2 of 3 before it; late: charlie)"
    both = agreement(signed(1, "alpha"), signed(11, "charlie"))
    assert both.words == "not agreed (1 of 3; missing: bravo; after the run: charlie)"


def test_a_log_that_was_put_together_afterwards_does_not_make_a_late_signature_early() -> None:
    entries = [signed(1, "alpha"), signed(2, "bravo"), signed(3, "charlie", at=LATE)]
    assert agreement(*entries).late == ("charlie",)


def test_within_the_second_of_the_run_the_order_of_the_log_decides() -> None:
    run = RunBegan(10, "2026-11-15T09:00:00+00:00")
    assert agreement(signed(1, *TEAMS, at="2026-11-15T09:00:00.900+00:00"), run=run).full
    assert not agreement(signed(11, *TEAMS, at="2026-11-15T09:00:00.900+00:00"), run=run).full


def test_a_second_signature_in_time_outweighs_a_late_one_and_no_other_way_round() -> None:
    state = agreement(signed(1, *TEAMS, at=LATE), signed(2, *TEAMS))
    assert state.full
    assert agreement(signed(1, *TEAMS), signed(12, *TEAMS, at=LATE)).full


def test_a_signature_under_another_contract_counts_for_nothing() -> None:
    assert agreement(signed(1, *TEAMS, contract="another")).missing == TEAMS


@pytest.mark.parametrize("team", ["Alpha", "alpha ", " alpha", "a1pha", "alpha\u200b", "\u0430lpha", "delta", ""])
def test_a_name_in_another_spelling_is_another_team(team: str) -> None:
    assert agreement(signed(1, team)).missing == TEAMS


def test_a_team_that_signs_twice_counts_once() -> None:
    assert agreement(signed(1, "alpha"), signed(2, "alpha"), signed(3, "alpha")).missing == ("bravo", "charlie")


def test_without_a_run_it_is_who_has_signed_by_now() -> None:
    assert agreement(signed(99, *TEAMS, at=LATE), run=None).full


def test_why_nothing_can_be_shown_is_said() -> None:
    state = agreement_unshown(TEAMS, "because")
    assert not state.full
    assert state.words == "not agreed (0 of 3; missing: alpha, bravo, charlie; because)"


# --- as part of a result's standing -----------------------------------------------------------------------------------


def voiced(seq: int, body: EntryBody, *teams: str, at: str = EARLY) -> VoicedEntry:
    return VoicedEntry(seq, Entry(made_at=at, body=body), Voice(teams, tuple("ab" * 32 for _ in teams)), at)


def result(**changes: Any) -> Any:
    return recorded("a").model_copy(update={"teams": TEAMS, **changes})


AGREES = ContractSigned(contract_id=sha("contract"))


def standing(*entries: VoicedEntry) -> Standing:
    return standing_of(sha("result a"), entries)


def test_a_contract_without_teams_has_no_word() -> None:
    plain = standing(voiced(0, registered("a"), "alpha"), voiced(1, recorded("a"), "alpha"), voiced(2, AGREES, "alpha"))
    assert plain.agreement is None
    assert not any("agreed" in word for word in plain.words)
    assert "agreement" not in plain.model_dump(mode="json"), "documents of before keep their form"
    assert agreement_shown((), None) is None


def test_the_words_stand_wherever_the_standing_does() -> None:
    state = standing(voiced(0, AGREES, "alpha"), voiced(1, registered("a"), "alpha"), voiced(2, result(), "alpha"))
    assert state.short == "recorded, not agreed (1 of 3; missing: bravo, charlie)"
    assert "not agreed (1 of 3; missing: bravo, charlie)" in state.words
    assert Standing.model_validate_json(state.model_dump_json()) == state


def test_an_agreed_result_says_so_and_keeps_its_word() -> None:
    state = standing(voiced(0, AGREES, *TEAMS), voiced(1, registered("a"), "alpha"), voiced(2, result(), "alpha"))
    assert state.short == "recorded"
    assert "agreed (3 of 3)" in state.words


@pytest.mark.parametrize("change", [{"nonce": "another"}, {"run_id": "another"}, {"contract_id": sha("another")}])
def test_another_run_or_contract_is_no_registration(change: dict[str, str]) -> None:
    announced = registered("a").model_copy(update=change)
    state = standing(voiced(0, AGREES, *TEAMS), voiced(1, announced, "alpha"), voiced(2, result(), "alpha"))
    assert state.agreement is not None
    assert not state.agreement.full
    assert "not registered" in state.agreement.words


def test_registering_again_after_the_signatures_does_not_move_the_run() -> None:
    state = standing(
        voiced(0, registered("a"), "alpha"),
        voiced(1, AGREES, *TEAMS),
        voiced(2, registered("a"), "alpha", at=LATE),
        voiced(3, result(), "alpha"),
    )
    assert state.agreement is not None
    assert state.agreement.late == TEAMS


def test_recording_the_result_again_without_teams_does_not_take_the_word_away() -> None:
    state = standing(
        voiced(0, registered("a"), "alpha"), voiced(1, result(), "alpha"), voiced(2, recorded("a"), "mallory")
    )
    assert "not agreed (0 of 3; missing: alpha, bravo, charlie)" in state.words


def test_without_a_ledger_nobody_is_shown_to_have_agreed() -> None:
    shown = agreement_shown(TEAMS, None)
    assert shown is not None
    assert not shown.full
    assert "no ledger" in shown.words
