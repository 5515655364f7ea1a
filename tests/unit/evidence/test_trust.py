"""Whose signatures count, when, and how many are needed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.envelope import check_signatures, sign, verify_signatures
from lynxbench.evidence.keys import new_signing_key
from lynxbench.evidence.trust import Thresholds, TrustedKey, TrustList, parse_trust, read_trust
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Role
from sealed import LONG_AGO, NOON, key_of, trusting

TYPE = "application/vnd.in-toto+json"


def test_there_and_back() -> None:
    key = key_of()
    trust = trusting(key).revoking(key.keyid, "lost", NOON).needing(Thresholds(runner=2, witness=1))
    assert parse_trust(trust.to_bytes()) == trust


def test_none_is_trusted_where_nothing_was_written(tmp_path: Path) -> None:
    assert read_trust(tmp_path) == TrustList()


def test_a_key_counts_within_its_validity() -> None:
    key = key_of()
    trust = TrustList().adding(key.card, NOON, NOON + timedelta(days=1))
    envelope = sign(TYPE, b"{}", [key])
    assert len(verify_signatures(envelope, trust, at=NOON + timedelta(hours=1))) == 1
    for at in (NOON - timedelta(seconds=1), NOON + timedelta(days=2)):
        assert check_signatures(envelope, trust, at=at).signers == ()
        with pytest.raises(EvidenceInvalid, match="valid"):
            verify_signatures(envelope, trust, at=at)


def test_a_revoked_key_does_not_count_from_then_on() -> None:
    key = key_of()
    trust = trusting(key).revoking(key.keyid, "laptop lost", NOON)
    envelope = sign(TYPE, b"{}", [key])
    with pytest.raises(EvidenceInvalid, match="laptop lost"):
        verify_signatures(envelope, trust, at=NOON)
    (signer,) = verify_signatures(envelope, trust, at=NOON - timedelta(seconds=1))
    assert signer.revoked is not None


def test_a_key_is_revoked_once_and_added_once() -> None:
    key = key_of()
    trust = trusting(key)
    with pytest.raises(BadInput, match="already in"):
        trust.adding(key.card, NOON)
    revoked = trust.revoking(key.keyid, "lost", NOON)
    with pytest.raises(BadInput, match="already revoked"):
        revoked.revoking(key.keyid, "lost again", NOON)
    with pytest.raises(BadInput, match="revoked"):
        revoked.adding(key.card, NOON)
    with pytest.raises(BadInput, match="not in"):
        trust.revoking("00" * 32, "unknown", NOON)
    with pytest.raises(BadInput, match="reason"):
        trust.revoking(key.keyid, "", NOON)


def test_two_teams_whose_names_read_alike_are_refused() -> None:
    with pytest.raises(BadInput, match="mistaken"):
        trusting(key_of("infra"), key_of("lnfra"))


def damaged(**changes: object) -> bytes:
    key = trusting(key_of()).model_dump(mode="json")["keys"][0]
    return canonical_bytes(
        {"keys": [{**key, **changes}], "schema_version": 1, "thresholds": {"runner": 1, "witness": 0}}
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"keyid": "00" * 32},
        {"public_key": "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
        {"team": "ML"},
        {"roles": []},
        {"roles": ["boss"]},
        {"valid_from": "2026-01-01"},
        {"valid_until": "2020-01-01T00:00:00+00:00"},
        {"more": 1},
        {"revoked": {"at": "2026-01-01T00:00:00+00:00", "reason": ""}},
    ],
)
def test_a_wrong_entry_is_refused(changes: dict) -> None:
    with pytest.raises(EvidenceInvalid, match="keys"):
        parse_trust(damaged(**changes))


def test_one_key_under_two_ids_is_refused() -> None:
    key = trusting(key_of()).model_dump(mode="json")["keys"][0]
    twice = {"keys": [key, {**key, "team": "infra"}], "schema_version": 1, "thresholds": {"runner": 1, "witness": 0}}
    with pytest.raises(EvidenceInvalid, match="twice"):
        parse_trust(canonical_bytes(twice))


def test_another_spelling_is_refused() -> None:
    with pytest.raises(EvidenceInvalid, match="canonical"):
        parse_trust(json.dumps(json.loads(trusting(key_of()).to_bytes()), indent=1).encode())


def signer(team: str, *roles: Role) -> TrustedKey:
    (key,) = TrustList().adding(new_signing_key(team, roles, NOON).card, NOON).keys
    return key


def test_thresholds_want_witnesses_from_other_teams() -> None:
    trust = TrustList().needing(Thresholds(runner=1, witness=1))
    runner, own = signer("ml", Role.RUNNER), signer("ml", Role.WITNESS)
    assert trust.shortfalls([runner]) == ("0 of 1 witness teams other than the runner's",)
    assert trust.shortfalls([runner, own]), "a team cannot witness itself"
    assert trust.shortfalls([runner, signer("infra", Role.RUNNER)]), "a runner's key is no witness"
    assert trust.shortfalls([runner, signer("infra", Role.WITNESS)]) == ()
    assert trust.shortfalls([]) == ("0 of 1 runner signatures", "0 of 1 witness teams other than the runner's")


def test_two_keys_of_one_team_are_one_witness() -> None:
    trust = TrustList().needing(Thresholds(runner=1, witness=2))
    both = [signer("ml", Role.RUNNER), signer("infra", Role.WITNESS), signer("infra", Role.WITNESS)]
    assert trust.shortfalls(both) == ("1 of 2 witness teams other than the runner's",)


def test_a_key_is_found_by_its_beginning() -> None:
    one, two = key_of(), key_of()
    trust = trusting(one, two)
    assert trust.find_prefix(one.keyid[:12]).keyid == one.keyid
    for wrong in ("", "zz"):
        with pytest.raises(BadInput):
            trust.find_prefix(wrong)


def test_a_key_made_later_than_it_signed_is_refused() -> None:
    key = key_of()
    trust = TrustList().adding(key.card, NOON)
    assert check_signatures(sign(TYPE, b"{}", [key]), trust, at=LONG_AGO).signers == ()


def test_a_key_acts_only_in_the_roles_of_its_team() -> None:
    both = signer("ml", Role.RUNNER, Role.WITNESS)
    trust = TrustList(keys=(both,)).granting("ml", (Role.WITNESS,))
    assert trust.roles_of(both) == (Role.WITNESS,)
    assert "its team is here as witness alone" in str(trust.refusal_as(both, Role.RUNNER))
    assert trust.refusal_as(both, Role.WITNESS) is None
    assert trust.shortfalls([both]) == ("0 of 1 runner signatures",)
    assert trust.granting("ml", ()).shortfalls([both]) == ()
    assert trust.granting("ml", (Role.RUNNER,)).refusal_as(both, Role.WITNESS)


def test_a_team_gives_no_role_that_the_card_lacks() -> None:
    witness = signer("ml", Role.WITNESS)
    trust = TrustList(keys=(witness,)).granting("ml", (Role.RUNNER, Role.WITNESS))
    assert trust.roles_of(witness) == (Role.WITNESS,)
    assert "a key for witness alone" in str(trust.refusal_as(witness, Role.RUNNER))


def test_a_signature_in_a_role_that_the_team_lacks_does_not_count() -> None:
    key = key_of("ml", Role.RUNNER, Role.WITNESS)
    trust = trusting(key).granting("ml", (Role.WITNESS,))
    envelope = sign(TYPE, b"{}", [key])
    checked = check_signatures(envelope, trust, at=NOON, role=Role.RUNNER)
    assert checked.signers == ()
    assert "acts as runner" in checked.ignored[0]
    assert len(check_signatures(envelope, trust, at=NOON, role=Role.WITNESS).signers) == 1
    assert len(check_signatures(envelope, trust, at=NOON).signers) == 1
    with pytest.raises(EvidenceInvalid, match="acts as runner"):
        verify_signatures(envelope, trust, at=NOON, role=Role.RUNNER)


def test_what_was_added_to_the_list_is_kept_and_leaves_older_lists_as_they_were() -> None:
    key = key_of()
    plain = trusting(key)
    assert json.loads(plain.to_bytes()).keys() == {"schema_version", "keys", "thresholds"}
    trust = plain.granting("ml-platform", (Role.RUNNER,)).administered(key.keyid)
    assert parse_trust(trust.to_bytes()) == trust
    assert trust.administrators == (key.keyid,)
    assert trust.administered(key.keyid, remove=True).granting("ml-platform", ()) == plain
    for remove, known in ((False, trust), (True, plain)):
        with pytest.raises(BadInput, match="administrator"):
            known.administered(key.keyid, remove=remove)


def test_roles_are_not_given_to_a_twin_of_a_team() -> None:
    with pytest.raises(BadInput, match="mistaken"):
        trusting(key_of("infra")).granting("lnfra", (Role.RUNNER,))
    with pytest.raises(BadInput, match="team name"):
        TrustList().granting("ML", (Role.RUNNER,))
    with pytest.raises(BadInput, match="mistaken"):
        TrustList().granting("infra", (Role.RUNNER,)).refuse_twin("lnfra")
