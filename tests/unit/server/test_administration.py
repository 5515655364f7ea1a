"""What administrators change: every change, and every refusal, is one line in the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compared import make_contract
from lynxbench.errors import LynxbenchError, NotFound
from lynxbench.evidence.trust import TrustList
from lynxbench.server.administration import OK, REFUSED, Administration, ChangeAuthor
from lynxbench.watch.sealed_secrets import SecretSealer
from lynxbench.watch.store import Store
from recording_teams import canonical, make_team

ADA = ChangeAuthor("ada (ml)", "192.0.2.7")
PASSWORD = "a long enough password"


class Counted:
    """How often something changed."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def changed() -> Counted:
    return Counted()


@pytest.fixture
def administration(tmp_path: Path, changed: Counted) -> Iterator[Administration]:
    store = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    yield Administration(store, TrustList(), SecretSealer(tmp_path), changed)
    store.close()


def test_every_change_is_one_line(administration: Administration, changed: Counted, tmp_path: Path) -> None:
    card = make_team("ml", tmp_path).keyring.keys.card("ml")
    admin, contract = administration, make_contract()
    token = admin.add_user(ADA, "bob", "ml", "read, submit", PASSWORD)
    assert [scope.value for scope in token.scopes] == ["read", "submit"]
    made = admin.make_token(ADA, "bob", "push", ["submit"], 1.0)
    changes = [
        lambda: admin.add_team(ADA, "others"),
        lambda: admin.change_password(ADA, "bob", PASSWORD, "quite another password"),
        lambda: admin.revoke_token(ADA, made.token_id),
        lambda: admin.register_key(ADA, canonical(card.model_dump_json().encode())),
        lambda: admin.revoke_key(ADA, card.keyid, "lost"),
        lambda: admin.set_contact(ADA, "ops", "mail", "ops@example.org", None),
        lambda: admin.remove_contact(ADA, "ops", "mail"),
        lambda: admin.put_schedule(ADA, "nightly", "ml", "every 6 h", contract, []),
        lambda: admin.pause_schedule(ADA, "nightly", True),
        lambda: admin.remove_schedule(ADA, "nightly", "ml"),
        lambda: admin.disable_user(ADA, "bob"),
    ]
    for change in changes:
        change()
    lines = admin.audit.list()
    assert [line.action for line in reversed(lines)] == [
        "add user", "make token", "add team", "change password", "revoke token", "register key", "revoke key",
        "set contact", "remove contact", "put schedule", "pause schedule", "remove schedule", "disable user",
    ]  # fmt: skip
    assert {(line.who, line.remote, line.outcome) for line in lines} == {("ada (ml)", "192.0.2.7", OK)}
    assert changed.times == len(lines)
    assert not any(made.text in str(line) or PASSWORD in str(line) for line in lines), "no secret enters the log"


def test_what_is_refused_is_a_line_too_and_changes_nothing(administration: Administration, changed: Counted) -> None:
    refused = [
        lambda: administration.add_user(ADA, "bob", "ml", "read fly", PASSWORD),
        lambda: administration.add_user(ADA, "no name", "ml", "read", PASSWORD),
        lambda: administration.make_token(ADA, "nobody", "x", "read", None),
        lambda: administration.revoke_key(ADA, "ab" * 32, "lost"),
        lambda: administration.pause_schedule(ADA, "nightly", True),
        lambda: administration.set_contact(ADA, "ops", "pigeon", "x", None),
    ]
    for change in refused:
        with pytest.raises(LynxbenchError):
            change()
    lines = administration.audit.list()
    assert {line.outcome for line in lines} == {REFUSED}
    assert len(lines) == len(refused)
    assert all(line.detail for line in lines)
    assert changed.times == 0
    assert administration.access.users() == []
    with pytest.raises(NotFound):
        administration.disable_user(ADA, "bob")
