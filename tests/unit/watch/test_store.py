"""The server's own tables on SQLite and on a real PostgreSQL: made, migrated, and used by every part alike."""

from __future__ import annotations

import hashlib
import os
import socketserver
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from compared import make_contract
from ledgers import postgres_server
from light_passwords import light_passwords
from lynxbench.errors import BadInput, Refused
from lynxbench.server.access import Access, fits, hash_password
from lynxbench.server.administration import AuditLog, ChangeAuthor
from lynxbench.server.provider_accounts import AccountRefused, ProviderAccounts
from lynxbench.server.provider_settings import MappedRights
from lynxbench.server.rights import AccessScope
from lynxbench.server.uploads import Taken, Uploads
from lynxbench.watch.notifying import MOST_ATTEMPTS, Contacts, Courier
from lynxbench.watch.regressions import Notice
from lynxbench.watch.schedules import LEASE_S, RunState, Scheduler
from lynxbench.watch.sealed_secrets import KEY_FILE, SecretSealer
from lynxbench.watch.store import Store
from lynxbench.watch.store_tables import SERVER_SCHEMA

READ = frozenset({AccessScope.READ})


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        made = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    else:
        made = Store(request.getfixturevalue("postgres"))
    yield made
    made.migrate("base")
    made.close()


def test_migrations_go_down_and_up(store: Store) -> None:
    assert store.schema() == SERVER_SCHEMA.newest
    store.migrate("base")
    assert store.schema() is None
    store.migrate()
    assert store.schema() == SERVER_SCHEMA.newest


def test_accounts_of_a_provider_come_and_go_with_its_table(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    access, accounts = Access(store), ProviderAccounts(store)
    access.add_user("ada", "ml", READ)
    store.migrate("0004")
    store.migrate()
    assert accounts.issuer_of("ada") is None, "who was there before comes in as before"
    rights = MappedRights("ml", READ)
    assert accounts.admit("https://a.example", "7", "Ada", rights) == "ada-d10a8456"
    assert accounts.admit("https://b.example", "7", "Ada", rights) != "ada-d10a8456", "another issuer, another person"
    assert accounts.admit("https://a.example", "7", "somebody else", rights) == "ada-d10a8456"
    token = access.make_token("ada-d10a8456", "ci", READ).text
    assert access.by_token(token) is not None
    monkeypatch.setattr("lynxbench.server.access.MOST_UNSEEN_S", -60)
    assert access.by_token(token) is None, "nobody vouched for this person lately"
    assert access.by_token(access.make_token("ada", "ci", READ).text) is not None
    monkeypatch.undo()
    with pytest.raises(AccountRefused, match="none of your groups"):
        accounts.admit("https://a.example", "7", "Ada", None)
    held = access.by_token(token)
    assert held is not None
    assert held.scopes == frozenset()
    store.migrate("0004")
    assert access.user("ada-d10a8456").disabled_at is not None
    assert access.user("ada").disabled_at is None
    store.migrate()


@pytest.mark.parametrize("twin", ["ml-p1atform", "ml.platform", "rnl-platform", "ml-platf0rm"])
def test_no_team_passes_for_another(store: Store, twin: str) -> None:
    """By whichever door it comes: in lists, histories and agreements one would be read for the other."""
    access, accounts = Access(store), ProviderAccounts(store)
    access.add_user("ada", "ml-platform", READ)
    with pytest.raises(BadInput, match="can be mistaken for 'ml-platform'"):
        access.add_team(twin)
    with pytest.raises(BadInput, match="can be mistaken for 'ml-platform'"):
        access.add_user("eve", twin, READ)
    with pytest.raises(AccountRefused, match="can be mistaken for 'ml-platform'"):
        accounts.admit("https://a.example", "7", "Eve", MappedRights(twin, READ))
    access.add_team("ml-platform")
    access.add_team("ml-platform-2")
    assert access.teams() == ["ml-platform", "ml-platform-2"]
    assert [user.name for user in access.users()] == ["ada"], "nothing is left of who was refused"


def test_tables_of_the_first_version_are_brought_here_with_their_rows(store: Store) -> None:
    Access(store).add_team("ml")
    store.migrate("0001")
    assert store.schema() == "0001"
    store.migrate()
    assert store.schema() == SERVER_SCHEMA.newest
    assert Access(store).teams() == ["ml"]
    assert Scheduler(store).runs() == []


def test_tables_are_those_that_the_program_uses(store: Store) -> None:
    from sqlalchemy import inspect

    from lynxbench.watch.store_tables import metadata

    with store.reading() as connection:
        found = inspect(connection)
        for table in metadata.sorted_tables:
            columns = {column["name"]: bool(column["nullable"]) for column in found.get_columns(table.name)}
            expected = {column.name: bool(column.nullable) for column in table.columns}
            assert columns == expected, table.name


@pytest.fixture
def light() -> Iterator[None]:
    with light_passwords():
        yield


@pytest.mark.usefixtures("light")
def test_passwords_tokens_and_sessions(store: Store) -> None:
    access = Access(store)
    access.add_user("ada", "ml", frozenset(AccessScope), "a long enough password")
    assert access.has_administrator()
    assert access.sign_in("ada", "another password") is None
    assert access.sign_in("nobody", "a long enough password") is None
    session = access.sign_in("ada", "a long enough password")
    assert session is not None
    found = access.by_session(session)
    assert found is not None
    assert (found.name, found.team) == ("ada", "ml")
    again, another = access.by_session(session), access.sign_in("ada", "a long enough password")
    assert again is not None
    assert another is not None
    other = access.by_session(another)
    assert other is not None
    assert found.csrf == again.csrf, "forms of one session carry one secret"
    assert len({found.csrf, other.csrf, session, another}) == 4, "which is neither another session's nor its own name"
    assert len(found.csrf) > 40
    token = access.make_token("ada", "push", READ)
    assert token.text not in repr(token)
    holder = access.by_token(token.text)
    assert holder is not None
    assert holder.scopes == READ
    access.revoke_token(token.token_id)
    assert access.by_token(token.text) is None
    with pytest.raises(BadInput, match="no token"):
        access.revoke_token(token.token_id)
    with pytest.raises(BadInput, match="another one"):
        access.change_password("ada", "not the password of now", "quite another password")
    access.change_password("ada", "a long enough password", "quite another password")
    assert access.by_session(session) is None
    for wrong in ("short", "x" * 300):
        with pytest.raises(BadInput, match="password"):
            access.change_password("ada", "quite another password", wrong)
    access.disable_user("ada")
    assert not access.has_administrator()
    assert access.sign_in("ada", "quite another password") is None


def test_equal_passwords_have_different_hashes() -> None:
    one, two = hash_password("a long enough password"), hash_password("a long enough password")
    assert one != two
    assert fits("a long enough password", one)
    assert not fits("a long enough passworD", one)


def test_the_audit_log_comes_newest_first(store: Store) -> None:
    log = AuditLog(store)
    for number in range(5):
        log.note(ChangeAuthor("ada"), f"did {number}", detail="x" * 5000)
    found = log.list(limit=2)
    assert [one.action for one in found] == ["did 4", "did 3"]
    assert [one.action for one in log.list(before=found[-1].number, limit=2)] == ["did 2", "did 1"]


def test_an_upload_survives_the_server(store: Store, tmp_path: Path) -> None:
    data = b"a bundle" * 100
    digest = hashlib.sha256(data).hexdigest()
    first = Uploads(store, tmp_path / "parts", 10_000)
    upload = first.begin("ml", digest, len(data), "ada")
    first.append(upload, 0, data[:300])
    again = Uploads(store, tmp_path / "parts", 10_000).begin("ml", digest, len(data), "ada")
    assert (again.upload_id, again.received_bytes) == (upload.upload_id, 300)
    with pytest.raises(Refused, match="next byte is 300"):
        first.append(again, 0, data)
    whole = first.append(again, 300, data[300:])
    assert first.whole(whole).read_bytes() == data
    taken = Taken(["a" * 64], 3, 1, ["a" * 64])
    assert first.finish(whole, taken).outcome == taken
    with pytest.raises(BadInput, match="are taken here"):
        first.begin("ml", digest, 10_001, "ada")


def test_a_silent_agent_loses_its_run_and_the_next_time_is_claimed(store: Store) -> None:
    scheduler = Scheduler(store)
    scheduler.put("s", "ml", "every 60 s", make_contract(), "ada")
    start = datetime.now(UTC) + timedelta(seconds=61)
    first = scheduler.poll("a", "ml", "1", start)
    assert first is not None
    later = start + timedelta(seconds=LEASE_S + 61)
    second = scheduler.poll("a", "ml", "1", later)
    assert second is not None
    assert scheduler.run(first[0].run).state == RunState.LOST
    assert scheduler.end(second[0].run, "ml", RunState.DONE, "", None).state == RunState.DONE
    assert scheduler.end(second[0].run, "ml", RunState.DONE, "", None).state == RunState.DONE
    with pytest.raises(Refused):
        scheduler.end(second[0].run, "ml", RunState.FAILED, "", None)
    with pytest.raises(Refused, match="another team"):
        scheduler.beat(second[0].run, "others")
    assert scheduler.counts()["lost"] == 1


def test_an_agent_with_places_has_several_runs_and_each_knows_its_node(store: Store) -> None:
    scheduler = Scheduler(store)
    for name in ("s1", "s2", "s3"):
        scheduler.put(name, "ml", "every 60 s", make_contract(), "ada")
    now = datetime.now(UTC) + timedelta(seconds=61)
    one, two = (scheduler.poll("a", "ml", "1", now, places=2) for _ in range(2))
    assert one is not None
    assert two is not None
    assert {one[1].name, two[1].name} == {"s1", "s2"}
    assert scheduler.poll("a", "ml", "1", now, places=2) is None
    assert scheduler.poll("a", "ml", "1", now) is None
    assert scheduler.last_node("s1", "a") is None
    scheduler.beat(one[0].run, "ml", now, node="node-1")
    assert scheduler.beat(one[0].run, "ml", now).node == "node-1", "a word without a node forgets none"
    scheduler.end(one[0].run, "ml", RunState.DONE, "", "ab" * 32)
    assert scheduler.last_node("s1", "a") == "node-1"
    assert scheduler.last_node("s1", "b") is None
    assert scheduler.place_of("ab" * 32) == "a/node-1"
    scheduler.end(two[0].run, "ml", RunState.DONE, "", "cd" * 32)
    assert scheduler.place_of("cd" * 32) == "a"
    third = scheduler.poll("a", "ml", "1", now, places=2)
    assert third is not None
    assert third[1].name == "s3"


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP (RFC 5321) as one message takes."""

    messages: list[str] = []

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = []
                while (one := self.rfile.readline()) != b".\r\n":
                    lines.append(one.decode())
                self.messages.append("".join(lines))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
            if word == b"QUIT":
                return


def test_mail_is_sent_once_with_the_evidence(tmp_path: Path) -> None:
    from sqlalchemy import insert

    from lynxbench.watch.store_tables import outbox

    store = Store(f"sqlite:///{tmp_path / 's.sqlite'}")
    Mailbox.messages.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        contacts = Contacts(store, SecretSealer(tmp_path))
        contacts.put("ops", "mail", "ops@example.org")
        notice = Notice(
            "n" * 32, "c" * 64, "chat\r\nBcc: x@y", "agent a", "fp32", "a" * 64, "b" * 64, "framework", "ops",
            0.79, 0.8, 0.81, "torch changed", "2026-11-15T09:00:00.000+00:00", None, None,
        )  # fmt: skip
        row = {"notice": notice.notice, "channel": "mail", "address": "ops@example.org", "state": "pending"}
        more = {"attempts": 0, "next_at": "2026-01-01T00:00:00.000+00:00", "said": ""}
        store.change(insert(outbox).values({**row, **more}))
        courier = Courier(store, contacts, "https://bench.example", f"smtp://127.0.0.1:{server.server_address[1]}")
        ((number, _),) = courier.waiting()
        assert courier.send(number, notice, "REGRESSED: throughput") == "sent"
        assert courier.send(number, notice, "REGRESSED: throughput") == "sent"
        assert courier.waiting() == []
        server.shutdown()
        thread.join(timeout=5)
    store.close()
    (message,) = Mailbox.messages
    assert "\nBcc:" not in message
    assert "https://bench.example/compare?a=" in message.replace("=\n", "").replace("=\r\n", "").replace("=3D", "=")
    assert "REGRESSED" in message


def test_a_webhook_that_does_not_answer_is_tried_again_and_then_given_up(tmp_path: Path) -> None:
    from sqlalchemy import insert, update

    from lynxbench.watch.store_tables import outbox

    store = Store(f"sqlite:///{tmp_path / 's.sqlite'}")
    long_ago = "2026-01-01T00:00:00.000+00:00"
    row = {"notice": "n", "channel": "webhook", "address": "http://127.0.0.1:9/closed", "state": "pending"}
    store.change(insert(outbox).values({**row, "attempts": 0, "next_at": long_ago, "said": ""}))
    notice = Notice("n", "c", "chat", "p", "fp32", "a", "b", None, "ops", None, None, None, "", long_ago, None, None)
    courier = Courier(store, Contacts(store, SecretSealer(tmp_path)), "http://127.0.0.1:8420")
    states = []
    for _ in range(MOST_ATTEMPTS):
        ((number, _name),) = courier.waiting()
        states.append(courier.send(number, notice, ""))
        assert courier.waiting() == [], "it waits before it is tried again"
        store.change(update(outbox).values(next_at=long_ago))
    assert states == ["pending"] * (MOST_ATTEMPTS - 1) + ["failed"]
    assert courier.waiting() == []
    store.close()


def test_the_servers_tables_are_for_their_owner_alone(tmp_path: Path) -> None:
    """Also those that an earlier version made readable, and whatever SQLite lays beside them."""
    file = tmp_path / "server.sqlite"
    before = os.umask(0)
    try:
        store = Store(f"sqlite:///{file}")
        Access(store).add_team("ml")
        parts = sorted(part.name for part in tmp_path.iterdir())
        assert parts == ["server.sqlite", "server.sqlite-shm", "server.sqlite-wal"]
        assert {oct(part.stat().st_mode & 0o777) for part in tmp_path.iterdir()} == {"0o600"}
        for part in tmp_path.iterdir():
            part.chmod(0o644)
        again = Store(f"sqlite:///{file}")
        assert {oct(part.stat().st_mode & 0o777) for part in tmp_path.iterdir()} == {"0o600"}
        again.close()
        store.close()
    finally:
        os.umask(before)


def test_a_webhooks_secret_is_in_no_file_of_the_tables(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    contacts = Contacts(store, SecretSealer(tmp_path / "home"))
    contacts.put("ops", "webhook", "https://hooks.example/x", "a very secret word")
    assert contacts.secret("ops") == "a very secret word"
    assert contacts.secret("somebody else") is None
    assert (tmp_path / "home" / KEY_FILE).stat().st_mode & 0o777 == 0o600
    for part in tmp_path.glob("server.sqlite*"):
        assert b"very secret" not in part.read_bytes(), part
    store.close()


def test_secrets_that_an_earlier_version_kept_clear_are_sealed(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    contacts = Contacts(store, SecretSealer(tmp_path / "home"))
    contacts.put("ops", "webhook", "https://hooks.example/x")
    contacts.put("ops", "mail", "ops@example.org")
    store.migrate("0002")
    store.change(text("UPDATE server_contacts SET secret = 'an old clear word' WHERE channel = 'webhook'"))
    store.migrate()
    assert contacts.seal_clear() == 1
    assert contacts.seal_clear() == 0
    assert contacts.secret("ops") == "an old clear word"
    for part in tmp_path.glob("server.sqlite*"):
        assert b"old clear word" not in part.read_bytes(), part
    store.close()


@pytest.mark.parametrize("theft", ["another key", "moved to another owner", "one letter changed"])
def test_a_sealed_secret_opens_nowhere_else(tmp_path: Path, theft: str) -> None:
    store = Store(f"sqlite:///{tmp_path / 'server.sqlite'}")
    contacts = Contacts(store, SecretSealer(tmp_path / "home"))
    for owner in ("ops", "mallory"):
        contacts.put(owner, "webhook", "https://hooks.example/x", f"the secret of {owner}")
    if theft == "another key":
        contacts = Contacts(store, SecretSealer(tmp_path / "elsewhere"))
    elif theft == "moved to another owner":
        mine = "(SELECT secret FROM server_contacts WHERE owner = 'ops')"
        store.change(text(f"UPDATE server_contacts SET secret = {mine} WHERE owner = 'mallory'"))
    else:
        store.change(text("UPDATE server_contacts SET secret = substr(secret, 1, 12) || 'AAAA' || substr(secret, 17)"))
    with pytest.raises(BadInput, match="give the contact its secret again"):
        contacts.secret("mallory")
    store.close()


def test_a_suspected_loss_is_measured_again_by_whoever_measured_it(store: Store) -> None:
    scheduler = Scheduler(store)
    contract = make_contract()
    scheduler.put("nightly", "ml", "every 1 d", contract, "ada")
    later = (datetime.now(UTC) + timedelta(days=2)).replace(hour=12)  # no slot of the timetable lies near
    claimed = scheduler.poll("rack", "ml", "x", later)
    assert claimed is not None
    run = claimed[0].run
    scheduler.end(run, "ml", RunState.DONE, "", "ab" * 32)
    assert not scheduler.ask_again("cd" * 32, later), "nobody scheduled that one"
    assert scheduler.ask_again("ab" * 32, later + timedelta(minutes=1))
    assert not scheduler.ask_again("ab" * 32, later + timedelta(minutes=2)), "once"
    assert scheduler.poll("another", "ml", "x", later + timedelta(minutes=2)) is not None, "has its own time due"
    again = scheduler.poll("rack", "ml", "x", later + timedelta(minutes=3))
    assert again is not None
    assert (again[0].confirms, again[0].state) == ("ab" * 32, RunState.CLAIMED)
    scheduler.end(again[0].run, "ml", RunState.DONE, "", "ef" * 32)
    assert scheduler.place_of("ef" * 32) == "rack"
    assert scheduler.ask_again("ef" * 32, later + timedelta(minutes=4)), "once more"
    once_more = scheduler.poll("rack", "ml", "x", later + timedelta(minutes=5))
    assert once_more is not None
    scheduler.end(once_more[0].run, "ml", RunState.DONE, "", "01" * 32)
    assert not scheduler.ask_again("01" * 32, later + timedelta(minutes=6)), "and that is enough"
    assert scheduler.poll("rack", "ml", "x", later + timedelta(minutes=7)) is None


def test_what_was_asked_for_is_missed_when_its_sitting_is_over(store: Store) -> None:
    scheduler = Scheduler(store)
    scheduler.put("nightly", "ml", "every 30 d", make_contract(), "ada")
    later = (datetime.now(UTC) + timedelta(days=61)).replace(hour=12)
    claimed = scheduler.poll("rack", "ml", "x", later)
    assert claimed is not None
    scheduler.end(claimed[0].run, "ml", RunState.DONE, "", "ab" * 32)
    assert scheduler.ask_again("ab" * 32, later)
    assert scheduler.poll("rack", "ml", "x", later + timedelta(hours=7)) is None
    (missed,) = (run for run in scheduler.runs() if run.confirms)
    assert missed.state == RunState.MISSED
    assert "nobody came" in missed.said
