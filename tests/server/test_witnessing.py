"""Checkpoints between ledgers over real HTTP: exchanged on push and pull, and every liar told on both sides."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import CommandRun, lynxbench_here
from hosted import PASSWORD, ROLES, World, hosted
from ledgers import decision, key_of
from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.checkpoints import prove_stored
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.log_witnesses import current_note
from lynxbench.ledger.seen import Seen
from lynxbench.ledger.signed_notes import cosign_note, parse_note, sign_note
from lynxbench.record.recording import seal
from lynxbench.server.rights import API
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import store_url
from recording_teams import OTHER, TEAM, Team, canonical, made_result, make_team, record

PLAIN = {"Content-Type": "text/plain"}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[World]:
    """A server with two teams that know each other and it, and three entries of nobody's interest."""
    team, other, host = (make_team(name, tmp_path) for name in (TEAM, OTHER, "bench"))
    for here in (team, other, host):
        for there in (team, other, host):
            if here is not there:
                trust(here, there)
    settings = ServerSettings(
        host="127.0.0.1", reads_per_s=0, upload_folder=tmp_path / "uploads", environment=host.environment
    )
    with host.open() as ledger:
        ledger.log.append_all([seal(decision(text), host.key) for text in ("a", "b", "c")])
    server = Server(settings, host.location, store_url(None, host.location))
    tokens = {}
    for role, name, scopes in (("submitter", TEAM, ROLES["submitter"]), ("stranger", OTHER, ROLES["submitter"])):
        server.access.add_user(role, name, scopes, PASSWORD)
        tokens[role] = server.access.make_token(role, "test", scopes).text
    tokens["reader"] = server.access.make_token("submitter", "reads", ROLES["reader"]).text
    for friend in (team, other):
        server.keys.register(canonical(friend.keyring.keys.card(friend.name).model_dump_json().encode()), "test")
    server.changed()
    with hosted(World(server, team, other, tokens, [], [])) as listening:
        yield listening


def trust(here: Team, there: Team) -> None:
    card = there.keyring.keys.card(there.name)
    here.keyring.change_trust(lambda known: known.adding(card, datetime.fromisoformat(card.made_at)))


def recorded(team: Team, number: int) -> str:
    with team.open() as ledger:
        return record(ledger, made_result(number), team.key).result_id


def command(world: World, team: Team, token: str, *words: str) -> CommandRun:
    address = {"LYNXBENCH_SERVER": f"http://127.0.0.1:{world.port}", "LYNXBENCH_TOKEN": world.tokens[token]}
    return lynxbench_here(*words, cwd=team.home, **team.environment, **address)


def pushed(world: World, team: Team, number: int, token: str = "submitter") -> CommandRun:
    return command(world, team, token, "push", recorded(team, number), "--json")


def state(world: World) -> dict:  # type: ignore[type-arg]
    found: dict = world.caller("reader").get(f"{API}/ledger").json()  # type: ignore[type-arg]
    return found


def fork(log: Ledger, file: Path, key: SigningKey, keep: int, *texts: str) -> Ledger:
    """A log of the same name that goes on otherwise."""
    other = Ledger(f"sqlite:///{file}")
    other.append_all([log.read(seq).envelope for seq in range(keep)] + [seal(decision(text), key) for text in texts])
    other.origin = log.origin
    return other


def send(world: World, path: str, text: str, token: str = "submitter") -> tuple[int, str]:
    answer = world.caller(token).ask("POST", f"{API}/ledger/{path}", text.encode(), PLAIN)
    return answer.status, answer.text


# --- honest logs ------------------------------------------------------------------------------------------------------


def test_a_push_has_both_logs_witnessed(small: World) -> None:
    assert state(small)["witnesses"] == []
    assert "no outside witness" in small.caller("reader").get("/ledger").text
    for number in (1, 2):
        done = pushed(small, small.team, number)
        assert done.code == 0, done.err
        said = json.loads(done.out)["checkpoints"]
        assert said["seen"] == small.server.ledger.log.head().size
        assert said["not_done"] == []
        (mine,) = said["witnessed_by"]
        with small.team.open() as ledger:
            assert (mine["team"], mine["tree_size"]) == ("bench", ledger.log.head().size)
    (seen,) = state(small)["witnesses"]
    assert (seen["team"], seen["tree_size"]) == (TEAM, small.server.ledger.log.head().size)
    assert f"{TEAM} saw {seen['tree_size']} entries" in small.caller("reader").get("/ledger").text
    assert "bench saw" in command(small, small.team, "submitter", "results", "log", "--verify").out
    assert recompute(small.server.ledger.log).size == seen["tree_size"]
    assert prove_stored(small.server.ledger.log) > 0


def test_a_pull_witnesses_the_server_with_the_right_to_read_alone(small: World) -> None:
    name = recorded(small.team, 1)
    assert command(small, small.team, "submitter", "push", name).code == 0
    done = command(small, small.other, "reader", "pull", name, "--json")
    assert done.code == 0, done.err
    said = json.loads(done.out)["checkpoints"]
    assert said["seen"] == small.server.ledger.log.head().size
    assert "this ledger is not witnessed there" in said["not_done"][0], "that needs the right to submit"
    assert {one["team"] for one in state(small)["witnesses"]} == {TEAM, OTHER}


def test_a_server_that_exchanges_nothing_still_takes_results(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lynxbench.record.gossiping.PLACE", "/api/v1/of-an-older-server")
    done = command(small, small.team, "submitter", "push", recorded(small.team, 1))
    assert done.code == 0, done.err
    assert "checkpoints were not exchanged" in done.out


def test_whoever_does_not_trust_the_server_does_not_witness_it(small: World, tmp_path: Path) -> None:
    bench = small.server.signing_key().keyid
    known = small.team.keyring.trust
    alone = known.model_copy(update={"keys": tuple(key for key in known.keys if key.keyid != bench)})
    small.team.keyring.change_trust(lambda _: alone)
    done = pushed(small, small.team, 1)
    assert done.code == 0, done.err
    said = json.loads(done.out)["checkpoints"]
    assert said["seen"] is None
    assert "nobody in the trust list signs it" in said["not_done"][0]
    assert said["witnessed_by"] == [], "a witness that nobody trusts is none"


# --- liars ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grown", [0, 2])
def test_a_server_that_forks_is_told_so_and_shown(small: World, tmp_path: Path, grown: int) -> None:
    assert pushed(small, small.team, 1).code == 0
    honest, size = small.server.ledger, small.server.ledger.log.head().size
    texts = [f"other {number}" for number in range(grown)]
    lying = fork(honest.log, tmp_path / "fork.sqlite", small.server.signing_key(), 2, *texts)
    small.server.ledger = replace(honest, log=lying, seen=Seen(tmp_path))  # a liar does not look at what it saw
    done = pushed(small, small.team, 2)
    assert done.code == 5, done.out + done.err
    assert lying.head().size == size + grown
    expected = f"two histories of {size} entries" if not grown else f"not proven to begin with the {size}"
    assert expected in done.err
    assert json.loads(done.out)["new"] > 0, "what was pushed is said all the same"
    (split,) = state(small)["split_views"]
    assert split["tree_size"] == size, "the server shows what it signed and does not contain"
    assert "that it does not contain" in small.caller("reader").get("/ledger").text


def test_a_server_that_was_rolled_back_is_noticed(small: World, tmp_path: Path) -> None:
    assert pushed(small, small.team, 1).code == 0
    honest = small.server.ledger
    early = fork(honest.log, tmp_path / "early.sqlite", small.server.signing_key(), 1)
    small.server.ledger = replace(honest, log=early, seen=Seen(tmp_path))
    done = pushed(small, small.team, 2)
    assert done.code == 5
    assert "it was rolled back" in done.err
    assert state(small)["split_views"] != []


def test_a_server_whose_ledger_was_rewritten_behind_its_back_takes_nothing(small: World, tmp_path: Path) -> None:
    assert pushed(small, small.team, 1).code == 0
    honest = small.server.ledger
    small.server.ledger = replace(honest, log=fork(honest.log, tmp_path / "fork.sqlite", small.server.signing_key(), 2))
    done = pushed(small, small.team, 2)
    assert (done.code, done.out) == (5, "")
    assert "entries were taken away" in done.err
    assert small.server.ledger.log.head().size == 2


def test_a_server_that_shows_another_log_is_noticed(small: World, tmp_path: Path) -> None:
    assert pushed(small, small.team, 1).code == 0
    honest = small.server.ledger
    fresh = Ledger(f"sqlite:///{tmp_path / 'fresh.sqlite'}")
    small.server.ledger = replace(honest, log=fresh)
    done = pushed(small, small.team, 2)
    assert done.code == 5
    assert f"{honest.log.origin} was seen there before" in done.err


def test_a_team_that_restored_an_old_ledger_learns_it_from_the_server(small: World, tmp_path: Path) -> None:
    team, folder = small.team, small.team.home / "ledger"
    recorded(team, 1)
    shutil.copytree(folder, tmp_path / "early")
    assert pushed(small, team, 2).code == 0
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "early", folder)
    assert command(small, team, "submitter", "results", "log", "--accept").code == 0, "nobody here remembers any more"
    recorded(team, 3)
    done = pushed(small, team, 4)
    assert done.code == 5, done.out + done.err
    assert "entries were taken away here, or its history was rewritten" in done.err
    assert "that it does not contain" in command(small, team, "submitter", "results", "log").out


def test_a_log_that_shows_two_teams_two_histories_is_told_to_the_server(small: World, tmp_path: Path) -> None:
    """ml-platform shows the server one history and infrastructure another; infrastructure's next exchange tells."""
    assert pushed(small, small.team, 1).code == 0
    with small.team.open() as ledger:
        size = ledger.log.head().size
        other = fork(ledger.log, tmp_path / "other.sqlite", small.team.key, size - 1, "another end")
    note = tmp_path / "shown.note"
    note.write_text(current_note(other, small.team.key, datetime.now(UTC)).to_text())
    other.close()
    assert lynxbench_here("results", "witness", str(note), cwd=tmp_path, **small.other.environment).code == 0
    done = command(small, small.other, "stranger", "push", recorded(small.other, 5))
    assert done.code == 0, done.err
    assert "SPLIT VIEW: ledger" in done.out
    assert "the server was told" in done.out
    (split,) = small.caller("reader").get(f"{API}/ledger/witnessed").json()["split_views"]
    assert split["tree_size"] == size
    assert len(split["notes"]) == 2
    assert "signed two histories" in small.caller("reader").get("/ledger").text


def test_nobody_speaks_in_another_logs_name(small: World) -> None:
    assert pushed(small, small.team, 1).code == 0
    with small.team.open() as ledger:
        origin, head = ledger.log.origin, ledger.log.head()
    status, text = send(small, "add-checkpoint", sign_note(origin, head, small.other.key).to_text(), "stranger")
    assert status == 422
    assert "signed in its name" in text
    own = small.server.ledger.log
    for key in (small.other.key, small.team.key):
        framed = sign_note(own.origin, replace(own.head(), root=bytes(32)), key)
        status, text = send(small, "witnessed", framed.to_text())
        assert status == 422, "nobody can make the server look like a liar"
    assert state(small)["split_views"] == []
    stranger = sign_note("lynxbench-ledger-x", head, small.server.signing_key())
    renamed = stranger.to_text().replace("lynxbench-ledger-x", "lynxbench-ledger-y")
    assert send(small, "add-checkpoint", renamed)[0] == 403
    assert send(small, "add-checkpoint", stranger.to_text(), "reader")[0] == 403
    for text in ("", "hello", "old 1\n\n", "old x\n\nhello\n\n— a AAAAAAAA\n"):
        assert send(small, "add-checkpoint", text)[0] == 422
        assert send(small, "witnessed", text)[0] == 422


def test_the_same_again_and_readers_fill_no_table(small: World) -> None:
    assert pushed(small, small.team, 1).code == 0
    log, caller = small.server.ledger.log, small.caller("reader")
    kept = prove_stored(log)
    text = caller.get(f"{API}/ledger/checkpoint").text
    note = parse_note(text.partition("\n\n")[2].encode())
    for _ in range(5):
        assert caller.get(f"{API}/ledger/checkpoint").text == text
        assert send(small, "witnessed", note.to_text(), "reader")[0] == 200
        unknown = note.adding([cosign_note(note, key_of("nobody-knows"), datetime.now(UTC))])
        assert send(small, "witnessed", unknown.to_text(), "reader")[0] == 200
    assert prove_stored(log) == kept
    assert caller.get(f"{API}/ledger/checkpoint?old=99999").status == 422
