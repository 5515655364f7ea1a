"""Short-lived keys: an issuer's token binds one to an identity of the reader's list, for as long as the token lives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from issued import ISSUER, LIFE_S, NOW, SUBJECT, FakeIssuer
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import Envelope, check_signatures
from lynxbench.evidence.id_tokens import CLOCK_SLACK
from lynxbench.evidence.identities import identify, with_identities, with_tokens
from lynxbench.evidence.key_entries import announcement_of
from lynxbench.evidence.keys import SigningKey, new_signing_key
from lynxbench.evidence.statement import seal_entry
from lynxbench.evidence.trust import Revocation, TrustedIdentity, TrustList, parse_trust
from lynxbench.model.entries import Entry, KeyAnnounced, Role

ISSUED = FakeIssuer()
IDENTITY = TrustedIdentity(issuer=ISSUER, subject=SUBJECT, team="infra", roles=(Role.RUNNER,), keys=ISSUED.keys)
TRUST = TrustList().identifying(IDENTITY)


def short_lived(*roles: Role, team: str = "infra") -> SigningKey:
    return new_signing_key(team, roles or (Role.RUNNER,), NOW)


def announced(key: SigningKey, token: str | None, by: SigningKey | None = None) -> tuple[Envelope, KeyAnnounced]:
    (trusted,) = TrustList().adding(key.card, NOW).keys
    body = announcement_of(trusted, token)
    return seal_entry(Entry(made_at=NOW.isoformat(), body=body), [by or key]), body


def test_a_bound_key_counts_as_long_as_its_token_lives() -> None:
    key = short_lived()
    envelope, body = announced(key, ISSUED.token(key.keyid))
    trust = with_identities(TRUST, [(envelope, body)])
    assert with_tokens(TRUST, [envelope]) == trust
    for after, counts in (
        (timedelta(0), True),
        (-CLOCK_SLACK, True),
        (-CLOCK_SLACK - timedelta(seconds=1), False),
        (timedelta(seconds=LIFE_S), True),
        (timedelta(seconds=LIFE_S + 1), False),
        (timedelta(days=365), False),
    ):
        signers = check_signatures(envelope, trust, at=NOW + after).signers
        assert [signer.team for signer in signers] == (["infra"] if counts else []), after


def test_without_an_identity_nothing_is_trusted() -> None:
    key = short_lived()
    entry = announced(key, ISSUED.token(key.keyid))
    assert with_identities(TrustList(), [entry]) == TrustList()
    assert with_tokens(TrustList(), [entry[0]]) == TrustList()
    with pytest.raises(EvidenceInvalid, match="no token"):
        identify(*announced(key, None), TRUST)


SUBJECTS = {
    "another branch": "repo:acme/bench:ref:refs/heads/evil",
    "a longer one": f"{SUBJECT}-evil",
    "a shorter one": SUBJECT[:-1],
    "in front": f"x{SUBJECT}",
    "another letter": SUBJECT.replace("acme", "Acme"),
    "a dot for a letter": SUBJECT.replace("repo:", "rep."),
    "a pull request": "repo:acme/bench:pull_request",
}


@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=SUBJECTS.keys())
def test_the_subject_is_the_whole_one(subject: str) -> None:
    key = short_lived()
    with pytest.raises(EvidenceInvalid, match="subject"):
        identify(*announced(key, ISSUED.token(key.keyid, sub=subject)), TRUST)


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("repo:acme/*:ref:refs/heads/main", SUBJECT, True),
        ("repo:acme/*:ref:refs/heads/*", SUBJECT, True),
        ("repo:acme/bench:*:refs/heads/main", SUBJECT, True),
        ("repo:acme/*", SUBJECT, False),  # one part alone: not whatever follows
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/x/y:ref:refs/heads/main", False),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/:ref:refs/heads/main", False),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/b:ref:refs/heads/main:ref:refs/heads/main", False),
        ("repo:acme/bench:ref:refs/heads/m.in", SUBJECT, False),  # no regular expression
        ("repo:acme/bench:ref:refs/heads/[a-z]*", SUBJECT, False),
    ],
)
def test_a_star_is_one_part_of_a_subject(pattern: str, subject: str, matches: bool) -> None:
    assert IDENTITY.model_copy(update={"subject": pattern}).names(subject) is matches


@pytest.mark.parametrize("pattern", ["*", "ab*", "", "repo:**", "repo:a*b*c*d*e*", "repo:\nx", "*:ref:main"])
def test_a_pattern_of_everybody_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError, match="pattern"):
        TrustedIdentity(issuer=ISSUER, subject=pattern, team="infra", roles=(Role.RUNNER,), keys=ISSUED.keys)


@pytest.mark.parametrize("issuer", ["http://token.example.org", "token.example.org", "https://a@b", "https://a b", ""])
def test_an_issuer_is_an_https_address(issuer: str) -> None:
    with pytest.raises(ValidationError, match="issuer"):
        TrustedIdentity(issuer=issuer, subject=SUBJECT, team="infra", roles=(Role.RUNNER,), keys=ISSUED.keys)


FORGED: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://token.example.com"},
    "the issuer with a slash": {"iss": f"{ISSUER}/"},
    "another audience": {"aud": "sts.example.org"},
    "made out to everybody": {"aud": "lynxbench"},
}


@pytest.mark.parametrize("changed", FORGED.values(), ids=FORGED.keys())
def test_a_token_for_somebody_else_counts_for_nothing(changed: dict[str, Any]) -> None:
    key = short_lived()
    entry = announced(key, ISSUED.token(key.keyid, **changed))
    with pytest.raises(EvidenceInvalid):
        identify(*entry, TRUST)
    assert with_identities(TRUST, [entry]) == TRUST


def test_a_stolen_token_binds_no_other_key() -> None:
    """Whoever reads a live token in the ledger cannot announce a key of their own with it."""
    theirs, thief = short_lived(), short_lived()
    token = ISSUED.token(theirs.keyid)
    with pytest.raises(EvidenceInvalid, match="made out to"):
        identify(*announced(thief, token), TRUST)
    with pytest.raises(EvidenceInvalid, match="did not sign"):
        identify(*announced(theirs, token, by=thief), TRUST)


def test_keys_of_the_issuer_are_those_of_the_readers_list() -> None:
    key = short_lived()
    for other in (FakeIssuer("first", which=1), FakeIssuer("second"), FakeIssuer("first", "ES256")):
        with pytest.raises(EvidenceInvalid, match="signed the token"):
            identify(*announced(key, other.token(key.keyid)), TRUST)


def test_an_identity_acts_for_its_team_and_in_its_roles() -> None:
    key = short_lived(team="ml")
    with pytest.raises(EvidenceInvalid, match="stands for ml"):
        identify(*announced(key, ISSUED.token(key.keyid)), TRUST)
    key = short_lived(Role.RUNNER, Role.WITNESS)
    with pytest.raises(EvidenceInvalid, match="claims runner, witness"):
        identify(*announced(key, ISSUED.token(key.keyid)), TRUST)


def test_a_revoked_identity_binds_nothing_from_then_on() -> None:
    at = NOW + timedelta(seconds=60)
    revoked = Revocation(at=at.isoformat(), reason="the repository was sold")
    trust = TrustList().identifying(IDENTITY.model_copy(update={"revoked": revoked}))
    key = short_lived()
    entry = announced(key, ISSUED.token(key.keyid))
    bound = with_identities(trust, [entry])
    assert check_signatures(entry[0], bound, at=at - timedelta(seconds=1)).signers
    assert check_signatures(entry[0], bound, at=at).signers == ()


def test_a_listed_key_stays_as_the_list_has_it() -> None:
    key = short_lived()
    trust = TRUST.adding(key.card, NOW).revoking(key.keyid, "lost", NOW)
    assert with_identities(trust, [announced(key, ISSUED.token(key.keyid))]) == trust


def test_a_false_token_in_front_does_not_keep_the_true_one_out() -> None:
    key = short_lived()
    false = announced(key, FakeIssuer("first", which=1).token(key.keyid))
    true = announced(key, ISSUED.token(key.keyid))
    assert [known.keyid for known in with_identities(TRUST, [false, true]).keys] == [key.keyid]


def test_identities_are_kept_in_the_list() -> None:
    assert parse_trust(TRUST.to_bytes()) == TRUST
    assert b"identities" not in TrustList().to_bytes()
    renewed = IDENTITY.model_copy(update={"keys": (*ISSUED.keys, *FakeIssuer("second").keys)})
    (known,) = TRUST.identifying(renewed).identities
    assert len(known.keys) == 2
