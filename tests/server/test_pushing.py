"""A bundle by one request: taken in like one that came in pieces, and held against its own manifest byte by byte."""

from __future__ import annotations

import http.client
import io
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from hosted import Caller, World
from lynxbench.ledger.archive import read_archive, write_archive
from lynxbench.ledger.queries import find_result
from lynxbench.record.remote import Remote
from lynxbench.server.limits import Limiter
from lynxbench.server.rights import API, AccessScope
from lynxbench.server.settings import MOST_PUSHED_BYTES
from lynxbench.server.uploads import MOST_OPEN
from recording_teams import TEAM, made_result

PLACE = f"{API}/bundles"
BASE = 330
Members = list[tuple[str, bytes]]


def parts_of(world: World) -> set[Path]:
    """Other tests leave uploads on their way in the same world."""
    return set(world.server.settings.upload_folder.glob("*.part"))


def wait_for_no_more(world: World, parts: set[Path]) -> None:
    """Whoever was answered before his bundle was let go of may look a moment too early."""
    deadline = time.monotonic() + 60.0
    while (more := parts_of(world) - parts) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not more


@pytest.fixture
def left_alone(world: World) -> Iterator[None]:
    """Whatever is tried here reaches neither the log nor the disk."""
    before, parts = world.server.ledger.log.head().size, parts_of(world)
    yield
    wait_for_no_more(world, parts)
    assert world.server.ledger.log.head().size == before


def members_of(bundle: bytes) -> Members:
    with tempfile.TemporaryFile() as stream:
        stream.write(bundle)
        stream.seek(0)
        return list(read_archive(stream, "a bundle"))


def packed(members: Members, folder: Path) -> bytes:
    write_archive(folder / "made.lynx", members)
    return (folder / "made.lynx").read_bytes()


def audited(world: World) -> list[tuple[str, str, str]]:
    return [(line.action, line.outcome, line.detail) for line in world.server.audit.list(limit=3)]


def test_it_is_taken_in_once_however_it_comes(world: World) -> None:
    bundle, submitter, parts = world.team.bundle(made_result(BASE)), world.caller("submitter"), parts_of(world)
    before = world.server.ledger.log.head().size
    first = submitter.push(bundle)
    assert first.status == 200, first.text
    assert first.json()["state"] == "done"
    assert first.json()["size_bytes"] == first.json()["received_bytes"] == len(bundle)
    assert first.json()["outcome"]["new_results"] == [made_result(BASE).result_id]
    assert world.server.ledger.log.head().size == before + first.json()["outcome"]["new"]
    assert audited(world)[0][:2] == ("submit", "ok")
    assert submitter.push(bundle).json() == first.json(), "whoever sends it again is told the same"
    place = f"{API}/uploads/{first.json()['upload_id']}"
    assert submitter.get(place).json() == first.json()
    assert world.caller("stranger").get(place).status == 404
    in_pieces = submitter.submit(bundle).json()["outcome"]
    assert (in_pieces["new"], in_pieces["entries"]) == (0, first.json()["outcome"]["entries"])
    wait_for_no_more(world, parts)


def test_several_at_once_are_all_taken_in_and_a_bundle_sent_twice_once(world: World) -> None:
    results, parts = [made_result(BASE + 1 + number) for number in range(4)], parts_of(world)
    bundles = [world.team.bundle(result) for result in results]
    with ThreadPoolExecutor(8) as agents:
        answers = list(agents.map(world.caller("submitter").push, bundles * 2))
    assert [answer.status for answer in answers] == [200] * 8
    new = [name for answer in answers for name in answer.json()["outcome"]["new_results"]]
    assert set(new) == {result.result_id for result in results}
    assert all(find_result(world.server.ledger.log, name) is not None for name in new)
    wait_for_no_more(world, parts)


def one_byte_of_a_document(members: Members) -> Members:
    name, data = members[-1]
    return [*members[:-1], (name, data[:-1] + bytes([data[-1] ^ 1]))]


def other_bytes_under_the_name(members: Members) -> Members:
    return [*members[:-1], (members[-1][0], members[-2][1])]


def one_more_document(members: Members) -> Members:
    return [*members, (f"blobs/{'0' * 64}", b"brought along")]


def one_document_less(members: Members) -> Members:
    return members[:-1]


def a_manifest_of_fewer(members: Members) -> Members:
    (name, manifest), rest = members[0], members[1:]
    start = manifest.rindex(b',{"name"')
    return [(name, manifest[:start] + manifest[manifest.index(b"}", start) + 1 :]), *rest]


def another_first_member(members: Members) -> Members:
    return [members[1], members[0], *members[2:]]


@pytest.mark.parametrize(
    "change",
    [
        one_byte_of_a_document,
        other_bytes_under_the_name,
        one_more_document,
        one_document_less,
        a_manifest_of_fewer,
        another_first_member,
    ],
)
def test_what_its_manifest_does_not_name_is_not_taken(
    world: World, tmp_path: Path, left_alone: None, change: Callable[[Members], Members]
) -> None:
    members = members_of(world.team.bundle(made_result(BASE + 10)))
    answer = world.caller("submitter").push(packed(change(members), tmp_path))
    assert answer.status == 422
    assert answer.json()["error"]["exit_code"] == 5, "evidence does not hold"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-512],
        lambda data: data[: len(data) // 2],
        lambda data: data[:100],
        lambda data: data + b"\0" * 512,
        lambda data: data + b"x",
        lambda data: b"x" + data,
        lambda data: data * 2,
        lambda data: b"",
        lambda data: b"{}",
    ],
)
def test_a_body_that_is_not_the_bundle_is_not_taken(
    world: World, left_alone: None, change: Callable[[bytes], bytes]
) -> None:
    bundle = world.team.bundle(made_result(BASE + 11))
    assert world.caller("submitter").push(change(bundle)).status == 422


def raw(world: World, head: str, body: bytes) -> bytes:
    """What comes back for bytes as they are, from whoever sends no more after them."""
    told = f"Host: localhost\r\nAuthorization: Bearer {world.tokens['submitter']}\r\n{head}\r\n"
    lines = f"POST {PLACE} HTTP/1.1\r\n{told}"
    with socket.create_connection(("127.0.0.1", world.port), timeout=600) as connection:
        connection.sendall(lines.encode() + body)
        connection.shutdown(socket.SHUT_WR)
        answered = io.BytesIO()
        with suppress(ConnectionResetError):  # whoever closes with bytes unread may reset: what came is the answer
            while more := connection.recv(65536):
                answered.write(more)
        return answered.getvalue()


def test_who_leaves_in_the_middle_leaves_nothing(world: World, left_alone: None) -> None:
    bundle = world.team.bundle(made_result(BASE + 12))
    assert b" 200 " not in raw(world, f"Content-Length: {len(bundle)}\r\n", bundle[:-1])
    chunked = f"{len(bundle):x}\r\n".encode() + bundle + b"\r\n"
    assert b" 200 " not in raw(world, "Transfer-Encoding: chunked\r\n", chunked), "without its last chunk"


def test_a_length_that_is_wrong_takes_nothing_in(world: World, left_alone: None) -> None:
    bundle = world.team.bundle(made_result(BASE + 13))
    short = str(len(bundle) - 512)  # what follows is no request: that may be answered first, or with the line closed
    for length in (short, "-1", "many", "1e6", f"{len(bundle)}\r\nContent-Length: 7", ""):
        answer = raw(world, f"Content-Length: {length}\r\n", bundle)
        assert b" 200 " not in answer, length


def test_more_than_one_request_may_carry_is_refused_before_it_is_read(world: World, left_alone: None) -> None:
    announced = raw(world, f"Content-Length: {MOST_PUSHED_BYTES + 1}\r\n", b"")
    assert b" 413 " in announced
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=600)
    pieces = (b"\0" * (1 << 20) for _ in range(12))
    headers = {"Authorization": f"Bearer {world.tokens['submitter']}"}
    try:
        connection.request("POST", PLACE, pieces, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused so early that the rest could not be sent
    finally:
        connection.close()


def test_the_bound_of_a_bundle_holds_here_too(world: World, left_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = world.team.bundle(made_result(BASE + 14))
    monkeypatch.setattr(world.server.uploads, "_largest", len(bundle) - 1)
    answer = world.caller("submitter").push(bundle)
    assert answer.status == 422
    assert f"a bundle of {len(bundle)} bytes; 1 to {len(bundle) - 1} are taken here" in answer.text


def test_who_may_not_is_refused(world: World, left_alone: None) -> None:
    bundle = world.team.bundle(made_result(BASE + 15))
    assert world.caller().push(bundle).status == 401
    assert Caller(world.port, "lynx_" + "0" * 16 + "_" + "A" * 43).push(bundle).status == 401
    for role in ("reader", "contester"):
        assert world.caller(role).push(bundle).status == 403
    stolen = world.caller("stranger").push(bundle)
    assert stolen.status == 409
    assert "a submission is signed by a key of its own team" in stolen.text
    assert audited(world)[0][:2] == ("submit", "refused")
    packed_ = world.caller("submitter").ask("POST", PLACE, bundle, {"Content-Encoding": "gzip"})
    assert packed_.status == 415


def test_a_token_that_was_revoked_pushes_nothing(world: World, left_alone: None) -> None:
    bundle = world.team.bundle(made_result(BASE + 16))
    made = world.server.access.make_token("submitter", "for a while", frozenset({AccessScope.SUBMIT}))
    caller = Caller(world.port, made.text)
    assert caller.push(b"{}").status == 422
    world.server.access.revoke_token(made.token_id)
    world.server.changed()
    assert caller.push(bundle).status == 401


def test_who_announces_too_much_waits(world: World, left_alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.server, "submissions", Limiter(0.001, 1))
    submitter = world.caller("submitter")
    assert submitter.push(b"{}").status == 422
    hurried = submitter.push(world.team.bundle(made_result(BASE + 17)))
    assert hurried.status == 429
    assert int(hurried.headers["retry-after"]) > 0


def test_a_team_has_so_many_on_their_way(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(world)
    monkeypatch.setitem(world.server.uploads._pushed, TEAM, MOST_OPEN)
    full = world.caller("submitter").push(world.team.bundle(made_result(BASE + 18)))
    assert (full.status, parts_of(world) - parts) == (409, set())
    assert f"{MOST_OPEN} bundles of {TEAM} are on their way already" in full.text


def test_its_run_is_named_beside_it(world: World) -> None:
    contract = made_result(0).contract
    world.server.scheduler.put("pushed", TEAM, "every 1 s", contract, "test")
    time.sleep(1.1)
    submitter = world.caller("submitter")
    claimed = submitter.json("POST", f"{API}/agents/an-agent/poll", {}).json()["run"]
    world.server.scheduler.remove("pushed", TEAM)
    result = made_result(BASE + 19)
    bundle = world.team.bundle(result)
    refused = submitter.push(bundle, "no-such-run")
    assert refused.status == 404
    assert "exit_code" in refused.json()["error"], "no missing route: whoever pushes need not try another way"
    assert submitter.push(bundle, claimed["run"]).status == 200
    runs = submitter.get(f"{API}/runs/{claimed['run']}").json()
    assert runs["result_id"] == result.result_id
    assert submitter.json("POST", f"{API}/runs/{claimed['run']}/end", {"state": "done"}).status == 200


def test_the_client_pushes_by_one_request(world: World, tmp_path: Path) -> None:
    file, told = tmp_path / "a.lynx", list[tuple[int, int]]()
    file.write_bytes(world.team.bundle(made_result(BASE + 20)))
    before = world.server.metrics.submissions._value.get()
    remote = Remote(f"http://127.0.0.1:{world.port}", world.tokens["submitter"])
    outcome = remote.push(file, progress=lambda sent, size: told.append((sent, size)))
    assert outcome["new_results"] == [made_result(BASE + 20).result_id]
    assert remote.push(file) == outcome
    assert told == [(file.stat().st_size,) * 2]
    assert world.server.metrics.submissions._value.get() == before + 1
