"""A key said in a ledger: by those who may, once, and a token only after it is bound."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from issued import ISSUER, FakeIssuer
from lynxbench.errors import BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.id_tokens import LONG_LIFE, parse_id_token
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.key_log import read_key_log
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.model.entries import KeyAnnounced, KeyRevoked, Role
from lynxbench.record.key_publishing import bind_key, life_warning, publish_key

ISSUED = FakeIssuer()
NOW = datetime.now(UTC)


@pytest.fixture
def ring(tmp_path: Path) -> Keyring:
    made = Keyring(tmp_path, {"LYNXBENCH_HOME": str(tmp_path)})
    made.create("mine", "infra", (Role.RUNNER,), NOW - timedelta(minutes=1))
    return made


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[OpenLedger]:
    environment = {"LYNXBENCH_HOME": str(tmp_path)}
    location = locate(None, environment)
    assert location is not None
    with open_ledger(location, environment, create=True) as opened:
        yield opened


def token(keyid: str, life_s: int = 300, **changed: object) -> str:
    start = int(datetime.now(UTC).timestamp())
    return ISSUED.token(keyid, iat=start, exp=start + life_s, **changed)


def test_a_key_is_published_once_then_its_revocation(ring: Keyring, ledger: OpenLedger) -> None:
    keyid = ring.keys.card("mine").keyid
    published = publish_key(ledger, ring, keyid, datetime.now(UTC))
    assert published is not None
    assert isinstance(published.body, KeyAnnounced)
    assert publish_key(ledger, ring, keyid, datetime.now(UTC)) is None
    ring.change_trust(lambda trust: trust.revoking(keyid, "laptop lost", datetime.now(UTC)))
    revoked = publish_key(ledger, ring, keyid, datetime.now(UTC))
    assert revoked is not None
    assert isinstance(revoked.body, KeyRevoked)
    assert publish_key(ledger, ring, keyid, datetime.now(UTC)) is None
    assert read_key_log(ledger.log, ring.trust).disagreements(ring.trust) == ()


def test_a_key_that_nobody_would_count_is_not_published(ring: Keyring, ledger: OpenLedger, tmp_path: Path) -> None:
    other = Keyring(tmp_path / "other", {}).create("other", "ml", (Role.RUNNER,), NOW)
    ring.change_trust(lambda trust: trust.adding(other.card, NOW))
    with pytest.raises(Refused, match="the key itself did not sign"):
        publish_key(ledger, ring, other.keyid, datetime.now(UTC))
    ring.change_trust(lambda trust: trust.revoking(other.keyid, "no reason of ours", NOW))
    with pytest.raises(Refused, match="neither the key, nor ml"):
        publish_key(ledger, ring, other.keyid, datetime.now(UTC))
    with pytest.raises(BadInput, match="not in the trust list"):
        publish_key(ledger, ring, "00" * 32, datetime.now(UTC))
    assert ledger.log.head().size == 0
    mine = ring.keys.card("mine").keyid
    ring.change_trust(lambda trust: trust.administered(mine))
    assert publish_key(ledger, ring, other.keyid, datetime.now(UTC)) is not None, "the reader's own administrator"


def test_a_revocation_that_lies_ahead_is_said_when_it_is_due(ring: Keyring, ledger: OpenLedger) -> None:
    keyid = ring.keys.card("mine").keyid
    ring.change_trust(lambda trust: trust.revoking(keyid, "moving", datetime.now(UTC) + timedelta(days=1)))
    with pytest.raises(BadInput, match="then"):
        publish_key(ledger, ring, keyid, datetime.now(UTC))


def test_a_token_is_stored_after_it_is_bound(ring: Keyring, ledger: OpenLedger) -> None:
    keyid = ring.keys.card("mine").keyid
    published, read = bind_key(ledger, ring, "mine", token(keyid), ISSUED.keys, datetime.now(UTC))
    assert isinstance(published.body, KeyAnnounced)
    assert published.body.token is not None
    assert (read.issuer, life_warning(read, LONG_LIFE)) == (ISSUER, None)
    assert published.body.until == read.expires_at.isoformat()


@pytest.mark.parametrize("attack", ["another key", "another issuer's key", "ended", "not yet", "everybody", "damaged"])
def test_an_unbound_token_goes_nowhere(ring: Keyring, ledger: OpenLedger, attack: str) -> None:
    keyid = ring.keys.card("mine").keyid
    start = int(datetime.now(UTC).timestamp())
    texts = {
        "another key": token("ab" * 32),
        "another issuer's key": FakeIssuer(which=1).token(keyid, iat=start, exp=start + 300),
        "ended": ISSUED.token(keyid, iat=start - 900, exp=start - 600),
        "not yet": ISSUED.token(keyid, iat=start + 600, exp=start + 900),
        "everybody": token(keyid, aud="lynxbench"),
        "damaged": token(keyid)[:-8],
    }
    with pytest.raises(EvidenceInvalid) as refused:
        bind_key(ledger, ring, "mine", texts[attack], ISSUED.keys, datetime.now(UTC))
    assert ledger.log.head().size == 0
    assert texts[attack].split(".")[1] not in str(refused.value), "no live token in a message"


def test_a_long_life_is_warned_of(ring: Keyring) -> None:
    keyid = ring.keys.card("mine").keyid
    assert life_warning(parse_id_token(token(keyid, 3600)), LONG_LIFE) is None
    assert "2:00:00" in str(life_warning(parse_id_token(token(keyid, 7200)), LONG_LIFE))
