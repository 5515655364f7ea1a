"""The key log: who may say whose a key is, what a revocation takes away, and where it disagrees with a reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from issued import ISSUER, SUBJECT, FakeIssuer
from ledgers import key_of, recorded, registered, sha
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.key_entries import announcement_of
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import open_entry, seal_entry, subjects_of
from lynxbench.evidence.trust import TrustedIdentity, TrustList
from lynxbench.ledger.key_log import NEWEST, KeyEvent, logged_trust, read_key_log, tokens_beside
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.queries import find_result
from lynxbench.ledger.result_standings import standings
from lynxbench.model.entries import Entry, EntryBody, KeyAnnounced, KeyRevoked, ResultVerified, Role

START = datetime(2020, 1, 1, tzinfo=UTC)
EARLY = "2021-01-01T00:00:00+00:00"
LONG_SINCE = "2020-02-01T00:00:00+00:00"
RESULT = sha("result a")


def trusting(*keys: SigningKey) -> TrustList:
    trust = TrustList()
    for key in keys:
        trust = trust.adding(key.card, START)
    return trust


ALPHA, SECOND, BRAVO, ADMIN, STRANGER = (
    key_of("alpha"),
    key_of("alpha"),
    key_of("bravo"),
    key_of("office"),
    key_of("stranger"),
)
TRUST = trusting(ALPHA, SECOND, BRAVO, ADMIN).administered(ADMIN.keyid)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as opened:
        yield opened


def say(ledger: Ledger, body: EntryBody, *keys: SigningKey, made_at: str | None = None) -> int:
    entry = Entry(made_at=made_at or datetime.now(UTC).isoformat(), body=body)
    return ledger.append(seal_entry(entry, list(keys)))


def card(key: SigningKey, team: str | None = None, roles: tuple[Role, ...] | None = None, **more: str) -> KeyAnnounced:
    (trusted,) = TrustList().adding(key.card, START).keys
    changed = {"team": team or key.team, "roles": roles or key.card.roles, **more}
    return announcement_of(trusted).model_copy(update=changed)


def revocation(key: SigningKey, since: str = LONG_SINCE) -> KeyRevoked:
    return KeyRevoked(keyid=key.keyid, since=since, reason="laptop lost")


def last(ledger: Ledger, trust: TrustList = TRUST) -> KeyEvent:
    return read_key_log(ledger, trust).events[-1]


# --- who may say whose a key is ---------------------------------------------------------


def test_a_key_is_announced_by_its_team_or_by_an_administrator(ledger: Ledger) -> None:
    fresh, other = key_of("alpha"), key_of("charlie")
    for body, keys, by in (
        (card(ALPHA), (ALPHA,), ("alpha",)),
        (card(fresh), (ALPHA, fresh), ("alpha",)),
        (card(other), (ADMIN,), ("office",)),
    ):
        say(ledger, body, *keys)
        event = last(ledger)
        assert (event.refusal, event.by) == (None, by)
    assert set(read_key_log(ledger, TRUST).announced) == {ALPHA.keyid, fresh.keyid, other.keyid}


def test_an_announced_key_is_trusted_by_nobody_for_it(ledger: Ledger) -> None:
    fresh = key_of("alpha")
    say(ledger, card(fresh), ALPHA, fresh)
    say(ledger, recorded("a"), fresh)
    assert logged_trust(ledger, TRUST).at(NEWEST) == TRUST
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "untrusted"


ATTACKS: dict[str, tuple[KeyAnnounced, tuple[SigningKey, ...], str]] = {
    "a stranger for themselves": (card(STRANGER), (STRANGER,), "no key of stranger"),
    "a stranger in a team's name": (card(STRANGER, "alpha"), (STRANGER,), "no key of alpha"),
    "another team takes a trusted key": (card(ALPHA, "bravo"), (BRAVO,), "is alpha's key"),
    "another team takes an unknown key": (card(STRANGER, "bravo"), (BRAVO,), "the key itself did not sign"),
    "another team lends its word": (card(STRANGER, "alpha"), (BRAVO, STRANGER), "no key of alpha"),
    "a role that no signer has": (
        card(runner := key_of("echo", Role.RUNNER), roles=(Role.RUNNER, Role.WITNESS)),
        (runner,),
        "claims witness",
    ),
}


@pytest.mark.parametrize(("body", "keys", "why"), ATTACKS.values(), ids=ATTACKS.keys())
def test_what_nobody_entitled_says_does_not_count(
    ledger: Ledger, body: KeyAnnounced, keys: tuple[SigningKey, ...], why: str
) -> None:
    say(ledger, body, *keys)
    event = last(ledger, TRUST.adding(runner.card, START))
    assert why in str(event.refusal)
    assert not read_key_log(ledger, TRUST).announced


def test_a_role_that_the_team_lacks_is_not_announced(ledger: Ledger) -> None:
    say(ledger, card(ALPHA), ALPHA)
    assert "alpha is not witness" in str(last(ledger, TRUST.granting("alpha", (Role.RUNNER,))).refusal)


def test_the_administrator_is_the_readers_own(ledger: Ledger) -> None:
    say(ledger, card(STRANGER), ADMIN)
    assert last(ledger).counts
    assert not last(ledger, trusting(ALPHA, ADMIN)).counts
    assert not last(ledger, trusting(ALPHA)).counts


def test_the_first_word_stands(ledger: Ledger) -> None:
    say(ledger, card(ALPHA), ALPHA)
    say(ledger, card(ALPHA, since="2019-01-01T00:00:00+00:00"), ALPHA)
    assert "earlier entry" in str(last(ledger).refusal)


# --- revoking ---------------------------------------------------------


def test_a_revocation_counts_for_readers_whose_list_does_not_know_it(ledger: Ledger) -> None:
    before = say(ledger, recorded("a"), ALPHA)
    number = say(ledger, revocation(ALPHA, datetime.now(UTC).isoformat()), SECOND)
    say(ledger, recorded("b"), ALPHA)
    first, second = (standings(ledger, [sha(f"result {name}")], TRUST)[sha(f"result {name}")] for name in "ab")
    assert (first.short, first.signed_by) == ("key revoked", ("alpha",))
    assert (second.short, second.signed_by) == ("untrusted", ())
    checked = logged_trust(ledger, TRUST).check(ledger.read(number + 1))
    assert f"entry {number} of the ledger" in checked.ignored[0]
    assert logged_trust(ledger, TRUST).check(ledger.read(before)).signers[0].revoked is not None


def test_a_revoked_key_comes_back_neither_by_an_early_date_nor_by_a_new_word(ledger: Ledger) -> None:
    say(ledger, revocation(ALPHA, datetime.now(UTC).isoformat()), ADMIN)
    say(ledger, recorded("a"), ALPHA, made_at=EARLY)
    found = find_result(ledger, RESULT)
    assert found is not None
    backdated = replace(found, logged_at=EARLY)  # as whoever keeps the ledger would write it
    for logged in (found, backdated):
        assert logged_trust(ledger, TRUST).check(logged).signers == (), "the order of entries is in the tree"
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "untrusted"
    say(ledger, card(ALPHA), ALPHA)
    assert "does not come back" in str(last(ledger).refusal)
    say(ledger, card(ALPHA), ADMIN)
    assert "does not come back" in str(last(ledger).refusal)


@pytest.mark.parametrize("keys", [(STRANGER,), (BRAVO,), (BRAVO, STRANGER)])
def test_nobody_else_revokes_a_key(ledger: Ledger, keys: tuple[SigningKey, ...]) -> None:
    say(ledger, recorded("a"), ALPHA)
    say(ledger, revocation(ALPHA), *keys)
    assert "neither the key, nor alpha" in str(last(ledger).refusal)
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "recorded"


def test_a_revoked_key_revokes_nobody(ledger: Ledger) -> None:
    say(ledger, revocation(ALPHA, datetime.now(UTC).isoformat()), ADMIN)
    say(ledger, revocation(SECOND), ALPHA, made_at=EARLY)
    assert "neither the key, nor alpha" in str(last(ledger).refusal)
    assert SECOND.keyid not in logged_trust(ledger, TRUST).revoked


def test_a_key_alone_revokes_itself_for_what_follows_not_for_what_was(ledger: Ledger) -> None:
    """A thief can end a key, and cannot take back what its team signed before."""
    say(ledger, recorded("a"), ALPHA)
    say(ledger, revocation(ALPHA, LONG_SINCE), ALPHA)
    assert last(ledger).counts
    assert last(ledger).since > datetime.now(UTC).isoformat()[:10]
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "key revoked"
    say(ledger, recorded("b"), ALPHA)
    assert standings(ledger, [sha("result b")], TRUST)[sha("result b")].short == "untrusted"


def test_another_key_of_the_team_may_revoke_for_the_past(ledger: Ledger) -> None:
    say(ledger, recorded("a"), ALPHA)
    say(ledger, revocation(ALPHA, LONG_SINCE), SECOND)
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "untrusted"


def test_a_reader_who_trusts_nobody_is_not_told_what_to_distrust(ledger: Ledger) -> None:
    say(ledger, revocation(ALPHA), ALPHA)
    assert "neither your trust list nor this log" in str(last(ledger, TrustList()).refusal)


def test_a_forged_signature_of_a_trusted_key_does_not_count(ledger: Ledger) -> None:
    envelope = seal_entry(Entry(made_at=EARLY, body=revocation(ALPHA)), [SECOND])
    (signature,) = envelope.signatures
    forged = type(signature)(signature.keyid, bytes(63) + b"\1")
    ledger.append(type(envelope)(envelope.payload_type, envelope.payload, (forged,)))
    assert "does not hold" in str(last(ledger).refusal)
    assert logged_trust(ledger, TRUST).revoked == {}


# --- where a reader and the log disagree ---------------------------------------------------------


def test_agreement_is_silent(ledger: Ledger) -> None:
    say(ledger, card(ALPHA, since=START.isoformat()), ALPHA)
    assert read_key_log(ledger, TRUST).disagreements(TRUST) == ()


def test_every_disagreement_is_said(ledger: Ledger) -> None:
    later = (START + timedelta(days=1)).isoformat()
    say(ledger, card(ALPHA, roles=(Role.RUNNER,), since=later, until=(START + timedelta(days=900)).isoformat()), ALPHA)
    say(ledger, card(SECOND, "bravo"), BRAVO, SECOND)
    say(ledger, card(BRAVO), BRAVO)
    say(ledger, revocation(ADMIN), ADMIN)
    trust = TRUST.revoking(BRAVO.keyid, "left", datetime.now(UTC) + timedelta(hours=1))
    text = "\n".join(read_key_log(ledger, trust).disagreements(trust))
    for line in (
        "runner in the ledger, runner, witness in your trust list",
        f"since {later} in the ledger, already from",
        "without an end in your trust list",
        f"key {SECOND.keyid[:12]} of alpha: entry 1 says that it is bravo's",
        "revoked in your trust list since",
        "laptop lost), and not in your trust list; run: lynxbench key revoke",
    ):
        assert line in text, text
    only = read_key_log(ledger, trust).disagreements(trust, {SECOND.keyid})
    assert len(only) == 1


# --- roles by team ---------------------------------------------------------


def test_a_team_that_is_no_runner_records_nothing_that_counts(ledger: Ledger) -> None:
    say(ledger, registered("a"), ALPHA)
    say(ledger, recorded("a"), ALPHA)
    say(ledger, ResultVerified(result_id=RESULT, holds=True, checks=("figures: holds",)), BRAVO)
    full = standings(ledger, [RESULT], TRUST)[RESULT]
    assert (full.signed_by, full.short) == (("alpha",), "verified")
    for bound in (TRUST.granting("alpha", (Role.WITNESS,)), trusting(key_of("alpha"), BRAVO)):
        assert standings(ledger, [RESULT], bound)[RESULT].short == "untrusted"
    without = standings(ledger, [RESULT], TRUST.granting("bravo", (Role.RUNNER,)))[RESULT]
    assert without.verified == ()


# --- keys of an issuer ---------------------------------------------------------

ISSUED = FakeIssuer()
IDENTITY = TrustedIdentity(issuer=ISSUER, subject=SUBJECT, team="ci", roles=(Role.RUNNER,), keys=ISSUED.keys)
READER = TRUST.identifying(IDENTITY)


def bound(key: SigningKey, seconds_ago: int = 0, **changed: object) -> KeyAnnounced:
    now = int(datetime.now(UTC).timestamp()) - seconds_ago
    token = ISSUED.token(key.keyid, iat=now, exp=now + 300, **changed)
    return card(key).model_copy(update={"token": token})


def test_a_bound_key_counts_without_being_listed(ledger: Ledger) -> None:
    key = key_of("ci", Role.RUNNER)
    number = say(ledger, bound(key), key)
    say(ledger, recorded("a"), key)
    assert standings(ledger, [RESULT], READER)[RESULT].signed_by == ("ci",)
    assert standings(ledger, [RESULT], TRUST)[RESULT].short == "untrusted", "whoever lists no such identity"
    assert last(ledger, READER).counts
    found = find_result(ledger, RESULT)
    assert found is not None
    assert [logged.seq for logged in tokens_beside(ledger, [found])] == [number]


def test_the_runs_of_a_team_are_counted_over_its_short_lived_keys(ledger: Ledger) -> None:
    """Best of three with a key for each: the other two are not forgotten with their keys."""
    keys = [key_of("ci", Role.RUNNER) for _ in range(3)]
    for key, name in zip(keys, "abc", strict=True):
        say(ledger, bound(key), key)
        say(ledger, registered(name), key)
    say(ledger, recorded("a"), keys[0])
    standing = standings(ledger, [RESULT], READER)[RESULT]
    assert (standing.runs_registered, standing.runs_without_result) == (3, 2)


@pytest.mark.parametrize("changed", [{"sub": f"{SUBJECT}x"}, {"iss": f"{ISSUER}/"}, {"aud": "lynxbench"}])
def test_a_token_for_another_identity_makes_nobody_trusted(ledger: Ledger, changed: dict[str, object]) -> None:
    key = key_of("ci", Role.RUNNER)
    say(ledger, bound(key, **changed), key)
    say(ledger, recorded("a"), key)
    assert standings(ledger, [RESULT], READER)[RESULT].short == "untrusted"
    assert not last(ledger, READER).counts


def test_what_is_logged_after_the_token_ended_does_not_count(ledger: Ledger) -> None:
    key = key_of("ci", Role.RUNNER)
    say(ledger, bound(key, seconds_ago=1000), key)
    ended = (datetime.now(UTC) - timedelta(seconds=900)).isoformat()
    say(ledger, recorded("a"), key, made_at=ended)
    assert standings(ledger, [RESULT], READER)[RESULT].short == "untrusted", "logged too late, whatever it says"


def test_a_short_lived_key_can_be_revoked(ledger: Ledger) -> None:
    key = key_of("ci", Role.RUNNER)
    say(ledger, bound(key), key)
    say(ledger, revocation(key), ADMIN)
    say(ledger, recorded("a"), key)
    assert standings(ledger, [RESULT], READER)[RESULT].short == "untrusted"


def test_a_short_lived_key_has_no_say_over_other_keys(ledger: Ledger) -> None:
    """Whoever takes over a job of a team neither ends the keys of its people nor makes new ones."""
    reader = READER.identifying(IDENTITY.model_copy(update={"team": "alpha"}))
    key, fresh = key_of("alpha", Role.RUNNER), key_of("alpha", Role.RUNNER)
    say(ledger, bound(key), key)
    assert last(ledger, reader).by == ("alpha",)
    say(ledger, revocation(ALPHA), key)
    assert "neither the key, nor alpha" in str(last(ledger, reader).refusal)
    assert logged_trust(ledger, reader).revoked == {}
    say(ledger, card(fresh), key, fresh)
    assert "no key of alpha" in str(last(ledger, reader).refusal)
    say(ledger, revocation(key), key)
    assert last(ledger, reader).counts, "over itself it has"


# --- what is no entry about a key ---------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"keyid": "00" * 32},
        {"public_key": "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
        {"team": "ML Platform"},
        {"roles": ()},
        {"since": "yesterday"},
        {"since": "2026-01-01T00:00:00"},
        {"until": "2019-01-01T00:00:00+00:00"},
    ],
)
def test_an_entry_that_describes_no_key_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(EvidenceInvalid, match="entry"):
        seal_entry(Entry(made_at=EARLY, body=card(ALPHA).model_copy(update=changed)), [ALPHA])


def test_an_entry_about_a_key_names_it_as_a_subject() -> None:
    envelope = seal_entry(Entry(made_at=EARLY, body=revocation(ALPHA)), [ALPHA])
    assert ("keyid", ALPHA.keyid) in subjects_of(open_entry(envelope), "")
    with pytest.raises(EvidenceInvalid, match="ISO 8601"):
        seal_entry(Entry(made_at=EARLY, body=revocation(ALPHA, "tomorrow")), [ALPHA])
