"""`lynxbench key publish, log, bind, team, administrator, issuer`: what is said of keys, and to whom it counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from issued import ISSUER, SUBJECT, FakeIssuer
from lynxbench.cli.main import app
from lynxbench.errors import LynxbenchError

ISSUED = FakeIssuer()
Key = Callable[..., str]


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Key:
    """The command in this process, for one of several people who share a ledger."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LYNXBENCH_LEDGER", str(tmp_path / "ledger"))

    def call(who: str, *words: str, expected: int = 0, given: str | None = None) -> str:
        monkeypatch.setenv("LYNXBENCH_HOME", str(tmp_path / who))
        done = CliRunner().invoke(app, ["key", *words], input=given)
        if isinstance(done.exception, LynxbenchError):
            assert int(done.exception.exit_code) == expected, done.exception
            return str(done.exception)
        assert done.exit_code == expected, done.output
        return done.stdout

    return call


def made(key: Key, who: str, team: str, *words: str) -> str:
    return str(json.loads(key(who, "new", who, "--team", team, *words, "--json"))["keyid"])


def trusts(key: Key, who: str, other: str, tmp_path: Path) -> None:
    card = tmp_path / f"{other}.card"
    card.write_text(key(other, "export", other))
    key(who, "trust", str(card))


def test_the_history_of_a_key_is_shown_to_whoever_reads(key: Key, tmp_path: Path) -> None:
    keyid = made(key, "ann", "infra")
    made(key, "bob", "ml")
    trusts(key, "bob", "ann", tmp_path)
    assert "recorded as entry 0" in key("ann", "publish", keyid[:8])
    assert "says so already" in key("ann", "publish", keyid[:8])
    text = key("bob", "log")
    assert f"key {keyid[:12]} is infra's (runner) since" in text
    assert "by infra" in text
    key("ann", "revoke", keyid, "--reason", "laptop lost")
    assert "key-revoked recorded as entry 1" in key("ann", "publish", keyid)
    assert "was revoked since" in key("ann", "log")
    text = key("bob", "log", expected=1)
    assert "your trust list says otherwise" in text
    assert "laptop lost" in text
    document = json.loads(key("bob", "log", "--json", expected=1))
    assert [event["kind"] for event in document["events"]] == ["key", "key-revoked"]
    assert all(event["counts"] for event in document["events"])
    assert len(document["disagreements"]) == 1
    assert "says nothing of keys" in key("bob", "log", "--team", "ml")


def test_a_strangers_word_is_shown_and_does_not_count(key: Key) -> None:
    keyid = made(key, "eve", "infra")
    key("eve", "publish", keyid)
    made(key, "bob", "ml")
    text = key("bob", "log")
    assert "by nobody you trust" in text
    assert "does not count: no key of infra that you trust signed it" in text
    (event,) = json.loads(key("bob", "log", "--json"))["events"]
    assert event["counts"] is False


def test_nobody_publishes_for_another_team(key: Key, tmp_path: Path) -> None:
    keyid = made(key, "ann", "infra")
    other = made(key, "bob", "ml")
    trusts(key, "bob", "ann", tmp_path)
    assert "nobody would count it" in key("bob", "publish", keyid, expected=3)
    assert "administrator" in key("bob", "administrator", other[:10])
    assert "recorded" in key("bob", "publish", keyid)
    assert other in json.loads(key("bob", "list", "--json"))["administrators"]
    assert "no administrator any more" in key("bob", "administrator", other, "--remove")
    assert "is no administrator" in key("bob", "administrator", other, "--remove", expected=2)


def test_what_a_team_may_act_as(key: Key) -> None:
    made(key, "ann", "infra")
    assert key("ann", "team", "infra") == "infra: as the cards of its keys say\n"
    assert key("ann", "team", "infra", "--role", "witness") == "infra: witness\n"
    assert "infra acts here as witness alone" in key("ann", "list")
    assert json.loads(key("ann", "team", "infra", "--json")) == {"team": "infra", "roles": ["witness"]}
    assert "contradict" in key("ann", "team", "infra", "--role", "witness", "--any", expected=2)
    assert "mistaken" in key("ann", "team", "lnfra", "--role", "runner", expected=2)
    assert "cards" in key("ann", "team", "infra", "--any")
    key("ann", "team", "infra", "--role", "boss", expected=2)


def token(keyid: str, life_s: int = 300, **changed: object) -> str:
    start = int(datetime.now(UTC).timestamp())
    return ISSUED.token(keyid, iat=start, exp=start + life_s, **changed)


def test_a_build_binds_a_key_and_a_reader_who_trusts_its_identity_counts_it(key: Key, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(ISSUED.key_set)
    keyid = made(key, "build", "infra")
    (tmp_path / "token").write_text(token(keyid) + "\n")
    said = key("build", "bind", "build", "--oidc-token", "token", "--jwks", "jwks.json")
    assert "key recorded as entry 0" in said
    made(key, "bob", "ml")
    assert "does not count: no identity" in key("bob", "log")
    words = ("issuer", ISSUER, "--subject", SUBJECT, "--team", "infra", "--jwks", "jwks.json")
    assert "trusted: " in key("bob", *words)
    text = key("bob", "log")
    assert "by an ID token" in text
    assert "does not count" not in text
    assert f"{SUBJECT} of {ISSUER}" in key("bob", "list")
    assert "revoked: " in key("bob", *words, "--revoke", "the repository was sold")
    assert "stays revoked" in key("bob", *words, expected=2)
    assert "stays revoked" in key("bob", *words, "--revoke", "again", expected=2)


def test_a_token_comes_from_a_file_a_pipe_or_the_environment(
    key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jwks.json").write_text(ISSUED.key_set)
    keyid = made(key, "build", "infra")
    assert "no ID token" in key("build", "bind", "build", "--jwks", "jwks.json", expected=2)
    key("build", "bind", "build", "--oidc-token", "-", "--jwks", "jwks.json", given=token(keyid) + "\n")
    second = str(json.loads(key("build", "new", "second", "--team", "infra", "--json"))["keyid"])
    monkeypatch.setenv("LYNXBENCH_OIDC_TOKEN", token(second))
    key("build", "bind", "second", "--jwks", "jwks.json")
    again = key("build", "bind", "second", "--jwks", "jwks.json", expected=3)
    assert "make a fresh key for each token" in again
    assert "no such file" in key("build", "bind", "build", "--oidc-token", "missing", expected=2)
    assert "not three parts" in key("build", "bind", "build", "--oidc-token", "jwks.json", expected=5)


def test_a_token_that_proves_nothing_is_refused_in_one_line(key: Key, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(ISSUED.key_set)
    keyid = made(key, "build", "infra")
    bind = ("bind", "build", "--oidc-token", "-", "--jwks", "jwks.json")
    assert f"lynxbench:{keyid}" in key("build", *bind, given=token("ab" * 32), expected=5)
    assert "signed the token" in key("build", *bind, given=FakeIssuer(which=1).token(keyid), expected=5)
    plain = token(keyid, iss="http://token.example.org")
    assert "--jwks" in key("build", "bind", "build", "--oidc-token", "-", given=plain, expected=2)
    assert "bench" in key("build", "bind", "bench", "--oidc-token", "-", "--jwks", "jwks.json", given=plain, expected=2)


def test_what_is_no_identity_is_refused_in_one_line(key: Key, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(ISSUED.key_set)
    (tmp_path / "other.json").write_text(FakeIssuer(which=1).key_set)
    words = ("--team", "infra", "--jwks", "jwks.json")
    assert "pattern" in key("bob", "issuer", ISSUER, "--subject", "*", *words, expected=2)
    assert "issuer" in key("bob", "issuer", "http://x", "--subject", SUBJECT, *words, expected=2)
    assert "team name" in key(
        "bob", "issuer", ISSUER, "--subject", SUBJECT, "--team", "ML", "--jwks", "jwks.json", expected=2
    )
    assert "no identity" in key("bob", "issuer", ISSUER, "--subject", SUBJECT, *words, "--revoke", "x", expected=2)
    key("bob", "issuer", ISSUER, "--subject", SUBJECT, *words)
    changed = ("issuer", ISSUER, "--subject", SUBJECT, "--team", "infra", "--jwks", "other.json")
    assert "another one than before" in key("bob", *changed, expected=2)
