"""Signatures under a contract as a ledger has them, on both databases: whose they are, and before which run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from ledgers import NOW, key_of, recorded, registered, sealed, sha, trusting
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.result_standings import standings
from lynxbench.model.agreement import TeamAgreement
from lynxbench.model.entries import ContractSigned, EntryBody, KeyRevoked

ALPHA, BRAVO, STRANGER = key_of("alpha"), key_of("bravo"), key_of("stranger")
TRUST = trusting(ALPHA, BRAVO)
SIGNED = ContractSigned(contract_id=sha("contract"))
RESULT = recorded("a").model_copy(update={"teams": ("alpha", "bravo")})


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, blobs="somewhere") as opened:
        yield opened


def state(ledger: Ledger, *entries: tuple[EntryBody, SigningKey], trust: TrustList = TRUST) -> TeamAgreement:
    ledger.append_all([sealed(body, key) for body, key in entries])
    agreement = standings(ledger, [RESULT.result_id], trust)[RESULT.result_id].agreement
    assert agreement is not None
    return agreement


RUN = ((registered("a"), ALPHA), (RESULT, ALPHA))


def test_signatures_before_the_registration_count(ledger: Ledger) -> None:
    assert state(ledger, (SIGNED, ALPHA), (SIGNED, BRAVO), *RUN).full


def test_one_between_registration_and_result_is_late(ledger: Ledger) -> None:
    words = state(ledger, (SIGNED, ALPHA), RUN[0], (SIGNED, BRAVO), RUN[1]).words
    assert words == "agreed after the run (1 of 2 before it; late: bravo)"


def test_one_after_the_result_is_late(ledger: Ledger) -> None:
    assert state(ledger, (SIGNED, ALPHA), *RUN, (SIGNED, BRAVO)).late == ("bravo",)


def test_another_team_does_not_sign_in_a_teams_name(ledger: Ledger) -> None:
    imposter = key_of("bravo")  # its card says bravo; nobody trusts it
    assert state(ledger, (SIGNED, ALPHA), (SIGNED, imposter), (SIGNED, STRANGER), *RUN).missing == ("bravo",)


def test_a_key_that_is_trusted_for_another_team_signs_for_that_team(ledger: Ledger) -> None:
    trust = trusting(ALPHA, BRAVO, STRANGER)
    assert state(ledger, (SIGNED, ALPHA), (SIGNED, STRANGER), *RUN, trust=trust).missing == ("bravo",)


def test_a_key_that_was_revoked_before_does_not_sign(ledger: Ledger) -> None:
    earlier = TRUST.revoking(BRAVO.keyid, "lost", datetime.now(UTC) - timedelta(hours=1))
    assert state(ledger, (SIGNED, ALPHA), (SIGNED, BRAVO), *RUN, trust=earlier).missing == ("bravo",)


def test_a_key_that_had_expired_does_not_sign_whatever_date_it_writes(ledger: Ledger) -> None:
    """The entry is dated within its time; the ledger took it in after that."""
    expired = trusting(ALPHA).adding(BRAVO.card, NOW, datetime.now(UTC) - timedelta(hours=1))
    dated = (NOW + timedelta(seconds=1)).isoformat()
    ledger.append_all([sealed(SIGNED, ALPHA), sealed(SIGNED, BRAVO, dated)])
    assert state(ledger, *RUN, trust=expired).missing == ("bravo",)
    lasting = trusting(ALPHA).adding(BRAVO.card, NOW, datetime.now(UTC) + timedelta(hours=1))
    agreement = standings(ledger, [RESULT.result_id], lasting)[RESULT.result_id].agreement
    assert agreement is not None
    assert agreement.missing == (), "a key that was still valid then"


def test_two_keys_of_one_team_are_one_team(ledger: Ledger) -> None:
    second = key_of("alpha")
    agreement = state(ledger, (SIGNED, ALPHA), (SIGNED, second), *RUN, trust=trusting(ALPHA, BRAVO, second))
    assert agreement.words == "not agreed (1 of 2; missing: bravo)"


def test_a_key_that_the_ledger_says_is_revoked_does_not_sign(ledger: Ledger) -> None:
    """The reader's list says nothing of it; bravo's other key said so in the log."""
    second = key_of("bravo")
    lost = KeyRevoked(keyid=BRAVO.keyid, since="2020-02-01T00:00:00+00:00", reason="laptop lost")
    trust = trusting(ALPHA, BRAVO, second)
    assert state(ledger, (lost, second), (SIGNED, ALPHA), (SIGNED, BRAVO), *RUN, trust=trust).missing == ("bravo",)


def test_a_key_that_is_revoked_afterwards_has_signed_and_it_is_told(ledger: Ledger) -> None:
    later = TRUST.revoking(BRAVO.keyid, "lost", datetime.now(UTC) + timedelta(hours=1))
    agreement = state(ledger, (SIGNED, ALPHA), (SIGNED, BRAVO), *RUN, trust=later)
    assert agreement.full
    assert [signature.revoked for signature in agreement.signatures] == [False, True]


def test_signatures_under_another_contract_are_not_copied_here(ledger: Ledger) -> None:
    other = ContractSigned(contract_id=sha("contract, edited after it was signed"))
    assert state(ledger, (other, ALPHA), (other, BRAVO), *RUN).missing == ("alpha", "bravo")


def test_a_run_that_was_not_registered_is_not_agreed(ledger: Ledger) -> None:
    assert "not registered" in state(ledger, (SIGNED, ALPHA), (SIGNED, BRAVO), RUN[1]).words


def test_many_results_are_asked_about_at_once(ledger: Ledger) -> None:
    plain = recorded("b")
    ledger.append_all([sealed(body, ALPHA) for body in (SIGNED, registered("a"), RESULT, registered("b"), plain)])
    known = standings(ledger, [RESULT.result_id, plain.result_id], TRUST)
    assert known[plain.result_id].agreement is None
    assert known[RESULT.result_id].short == "recorded, not agreed (1 of 2; missing: bravo)"


def test_a_ledger_with_signatures_verifies(ledger: Ledger) -> None:
    state(ledger, (SIGNED, ALPHA), (SIGNED, BRAVO), *RUN)
    assert recompute(ledger).size == 4
