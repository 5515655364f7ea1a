"""Which key signs, made where there is none, by however many programs at once."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, KeyNotReady
from lynxbench.evidence.keyring import Keyring
from lynxbench.model.entries import Role
from sealed import NOON, key_of


def ring(where: Path, **environment: str) -> Keyring:
    return Keyring(where, environment)


def test_the_first_key_is_made_said_and_trusted(tmp_path: Path) -> None:
    chosen = ring(tmp_path).signing_key(NOON)
    assert chosen.key.team == "local"
    assert chosen.news is not None
    assert chosen.key.keyid[:12] in chosen.news
    assert "\n" not in chosen.news
    assert ring(tmp_path).trust.find(chosen.key.keyid) is not None
    again = ring(tmp_path).signing_key(NOON)
    assert again.key.keyid == chosen.key.keyid
    assert again.news is None


def test_with_several_keys_one_must_be_chosen(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ring(tmp_path).create(name, name, (Role.RUNNER,), NOON)
    with pytest.raises(BadInput, match="LYNXBENCH_KEY"):
        ring(tmp_path).signing_key(NOON)
    assert ring(tmp_path, LYNXBENCH_KEY="two").signing_key(NOON).key.team == "two"


def test_programs_that_start_at_once_make_one_key(tmp_path: Path) -> None:
    found: list[str] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        found.append(ring(tmp_path).signing_key(datetime.now(UTC)).key.keyid)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(ring(tmp_path).trust.keys) == 1


def test_changes_at_once_are_not_lost(tmp_path: Path) -> None:
    keys = [key_of(f"team-{letter}") for letter in "abcdefgh"]
    threads = [
        threading.Thread(target=lambda key=key: ring(tmp_path).change_trust(lambda old: old.adding(key.card, NOON)))
        for key in keys
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {key.keyid for key in ring(tmp_path).trust.keys} == {key.keyid for key in keys}


def test_a_twin_of_a_known_team_gets_no_key(tmp_path: Path) -> None:
    ring(tmp_path).create("one", "infra", (Role.RUNNER,), NOON)
    with pytest.raises(BadInput, match="mistaken"):
        ring(tmp_path).create("two", "lnfra", (Role.RUNNER,), NOON)
    assert ring(tmp_path).keys.names() == ("one",)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="LYNXBENCH_HOME"):
        ring(tmp_path / "file" / "below").signing_key(NOON)


def test_a_key_is_chosen_by_its_name_or_its_team(tmp_path: Path) -> None:
    for name, team in (("one", "alpha"), ("two", "bravo"), ("three", "bravo")):
        ring(tmp_path).create(name, team, (Role.RUNNER,), NOON)
    assert ring(tmp_path).default is None
    with pytest.raises(KeyNotReady, match="lynxbench key use"):
        ring(tmp_path).signing_key(NOON)
    assert ring(tmp_path).use("alpha") == "one"
    assert ring(tmp_path).signing_key(NOON).key.team == "alpha"
    assert ring(tmp_path).use("two") == "two"
    assert ring(tmp_path).signing_key(NOON).key.team == "bravo"
    assert ring(tmp_path, LYNXBENCH_KEY="one").signing_key(NOON).key.team == "alpha", "one command may choose another"
    for wrong, says in (("bravo", "three, two"), ("charlie", "no such key"), ("", "no such key")):
        with pytest.raises(BadInput, match=says):
            ring(tmp_path).use(wrong)
    assert ring(tmp_path).default == "two", "a wrong choice changes nothing"


def test_a_choice_that_is_gone_is_no_choice(tmp_path: Path) -> None:
    for name in ("one", "two"):
        ring(tmp_path).create(name, name, (Role.RUNNER,), NOON)
    ring(tmp_path).use("two")
    for file in (tmp_path / "keys").glob("two.*"):
        file.unlink()
    assert ring(tmp_path).default is None
    assert ring(tmp_path).signing_key(NOON).key.team == "one", "the only one that is left"
    (tmp_path / "signing-key").write_bytes(b"\xff\xfe")
    assert ring(tmp_path).default is None


def test_a_chosen_key_that_cannot_be_opened_is_not_ready(tmp_path: Path) -> None:
    ring(tmp_path, LYNXBENCH_KEY_PASSPHRASE="right").create("one", "one", (Role.RUNNER,), NOON)
    with pytest.raises(KeyNotReady, match="passphrase"):
        ring(tmp_path).signing_key(NOON)
    with pytest.raises(KeyNotReady):
        ring(tmp_path, LYNXBENCH_KEY="nowhere").signing_key(NOON)
