"""Submissions that are forged, stolen, replayed or changed on their way: none of them reaches the log."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hosted import Caller, World
from lynxbench.decide.demonstrating import make_demo
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.keys import new_signing_key
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.statement import seal_entry
from lynxbench.ledger.archive import read_archive, write_archive
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Entry, ResultContested, Role
from lynxbench.model.result import INVENTED_FIGURES
from lynxbench.record.recording import keep_files, seal
from lynxbench.server.rights import API, AccessScope
from recording_teams import OTHER, TEAM, Team, canonical, leave_run, made_result, make_team, record

BASE = 100


def size_of(world: World) -> int:
    return world.server.ledger.log.head().size


@pytest.fixture
def unchanged(world: World) -> Iterator[None]:
    """Nothing that is tried here may reach the log."""
    before = size_of(world)
    yield
    assert size_of(world) == before, "an attack reached the log"


def bundle_with(team: Team, number: int, samples: bytes) -> bytes:
    """A signed bundle whose samples are these bytes."""
    result = made_result(number)
    with team.open() as ledger, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "samples.npz").write_bytes(samples)
        update = {"sha256": hashlib.sha256(samples).hexdigest()}
        result = result.model_copy(update={"samples": result.samples.model_copy(update=update)}).sealed()
        write_result(folder / "result.json", result)
        leave_run(folder, result, "n" * 32)
        write_manifest(folder)
        blobs = keep_files(ledger.blobs, folder)
        (folder / "out").mkdir()
        ledger.log.append(seal(summary_of(result, nonce="n" * 32, attempts=5), team.key, blobs))
        path = folder / "out" / "b.lynx"
        export_bundle(ledger, [result.result_id], path, team.key, team.keyring.trust, datetime.now(UTC))
        return path.read_bytes()


def edited(data: bytes, tmp_path: Path, change: Callable[[str, bytes], bytes]) -> bytes:
    """A bundle with members changed and its manifest set right again, as an attacker would."""
    source, target = tmp_path / "in.lynx", tmp_path / "out.lynx"
    source.write_bytes(data)
    with source.open("rb") as stream:
        members = dict(read_archive(stream, "in"))
    manifest = json.loads(members.pop("manifest.json"))
    members = {name: change(name, content) for name, content in members.items()}
    for held in manifest["members"]:
        content = members[held["name"]]
        held["size_bytes"], held["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    write_archive(target, [("manifest.json", canonical_bytes(manifest)), *members.items()])
    return target.read_bytes()


def test_27_an_unregistered_key_signs_nothing_here(world: World, tmp_path: Path, unchanged: None) -> None:
    stranger = make_team("outsider", tmp_path)
    assert world.caller("submitter").submit(stranger.bundle(made_result(BASE + 27))).status == 422


def test_28_a_key_that_only_claims_the_teams_name_signs_nothing(world: World, tmp_path: Path, unchanged: None) -> None:
    impostor = make_team(TEAM, tmp_path)
    assert impostor.key.keyid != world.team.key.keyid
    assert world.caller("submitter").submit(impostor.bundle(made_result(BASE + 28))).status == 422


def test_29_another_teams_bundle_is_not_submitted_as_ones_own(world: World, unchanged: None) -> None:
    theirs = world.other.bundle(made_result(BASE + 29))
    answer = world.caller("submitter").submit(theirs)
    assert answer.status == 409
    assert OTHER in answer.text
    assert world.caller("stranger").submit(world.team.bundle(made_result(BASE + 290))).status == 409


def test_30_a_changed_figure_does_not_pass(world: World, tmp_path: Path, unchanged: None) -> None:
    changed = []

    def faster(name: str, content: bytes) -> bytes:
        better = re.sub(rb'("estimate": ?)[0-9.]+', rb"\g<1>900.0", content) if name.startswith("blobs/") else content
        changed.append(better != content)
        return better

    data = edited(world.team.bundle(made_result(BASE + 30)), tmp_path, faster)
    assert any(changed)
    assert world.caller("submitter").submit(data).status == 422


def test_31_a_flipped_bit_anywhere_does_not_pass(world: World, unchanged: None) -> None:
    data = world.team.bundle(made_result(BASE + 31))
    for place in (600, len(data) // 3, len(data) // 2, len(data) - 700):
        broken = bytearray(data)
        broken[place] ^= 1
        assert world.caller("submitter").submit(bytes(broken)).status == 422


def test_32_a_replay_changes_nothing(world: World) -> None:
    data = world.team.bundle(made_result(BASE + 32))
    submitter = world.caller("submitter")
    assert submitter.submit(data).json()["outcome"]["new"] > 0
    before = size_of(world)
    again = submitter.submit(data)
    assert again.status == 200
    assert size_of(world) == before
    assert world.caller("stranger").submit(data).status == 409, "a replay by another team"


def test_33_the_same_result_in_another_wrapping_changes_nothing_more(world: World) -> None:
    result = made_result(BASE + 33)
    submitter = world.caller("submitter")
    assert submitter.submit(world.team.bundle(result)).json()["outcome"]["new"] > 0
    before = size_of(world)
    time.sleep(1.1)  # a checkpoint has its second
    fresh = submitter.submit(world.team.bundle(result))  # another checkpoint, other bytes
    assert fresh.status == 200
    assert fresh.json()["outcome"]["new"] == 0
    assert size_of(world) == before


def test_34_a_second_result_of_one_run_is_refused(world: World) -> None:
    first, second = made_result(BASE + 34), made_result(BASE + 240, level=140.0)
    second = second.model_copy(update={"run_id": first.run_id}).sealed()
    assert world.caller("submitter").submit(world.team.bundle(first)).status == 200
    before = size_of(world)
    other_home = Team(
        TEAM, world.team.home, {**world.team.environment, "LYNXBENCH_LEDGER": str(world.team.home / "l2")}
    )
    assert world.caller("submitter").submit(other_home.bundle(second)).status == 422
    assert size_of(world) == before


def test_35_a_contest_needs_its_own_scope(world: World) -> None:
    result = made_result(BASE + 35)
    assert world.caller("submitter").submit(world.team.bundle(result)).status == 200
    before = size_of(world)
    with world.team.open() as ledger:
        doubt = ResultContested(result_id=result.result_id, reason="I would rather not")
        ledger.log.append(seal(doubt, world.team.key))
    data = world.team.bundle(result)
    assert world.caller("submitter").submit(data).status == 409
    assert size_of(world) == before
    assert world.caller("administrator").submit(data).json()["outcome"]["new"] == 1


def test_36_a_revoked_key_signs_nothing_new_whatever_date_it_writes(world: World, tmp_path: Path) -> None:
    team = make_team("short-lived", tmp_path)
    world.server.access.add_team(team.name)
    world.server.access.add_user("short", team.name, frozenset({AccessScope.READ, AccessScope.SUBMIT}))
    token = world.server.access.make_token("short", "x", frozenset({AccessScope.READ, AccessScope.SUBMIT})).text
    world.server.keys.register(canonical(team.keyring.keys.card(team.name).model_dump_json().encode()), "test")
    world.server.changed()
    data = team.bundle(made_result(BASE + 36, name="short-lived"))
    administrator = world.caller("administrator")
    revoked = administrator.json("POST", f"{API}/keys/{team.key.keyid}/revoke", {"reason": "it was stolen"})
    assert revoked.status == 200
    before = size_of(world)
    assert Caller(world.port, token).submit(data).status == 422
    assert size_of(world) == before


def test_37_an_entry_from_the_future_is_refused(world: World, unchanged: None) -> None:
    result = made_result(BASE + 37)
    with world.team.open() as ledger:
        late = (datetime.now(UTC) + timedelta(days=400)).isoformat(timespec="milliseconds")
        record(ledger, result, world.team.key)
        doubt = ResultContested(result_id=result.result_id, reason="not yet")
        ledger.log.append(seal_entry(Entry(made_at=late, body=doubt), [world.team.key]))
    assert world.caller("administrator").submit(world.team.bundle(result)).status == 422


def test_38_a_low_order_or_foreign_key_card_is_not_registered(world: World) -> None:
    administrator = world.caller("administrator")
    key = new_signing_key(TEAM, (Role.RUNNER,), datetime.now(UTC))
    card = json.loads(key.card.model_dump_json())
    for change in (
        {"public_key": "A" * 43 + "="},
        {"keyid": "0" * 64},
        {"team": "Ml-Platform"},
        {"team": "rnl-platform"},
    ):
        text = json.dumps({**card, **change}, sort_keys=True, separators=(",", ":"))
        assert administrator.json("POST", f"{API}/keys", {"card": text}).status == 422


def test_39_an_upload_belongs_to_its_team(world: World) -> None:
    data = world.team.bundle(made_result(BASE + 39))
    document = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    begun = world.caller("submitter").json("POST", f"{API}/uploads", document).json()
    thief = world.caller("stranger")
    place = f"{API}/uploads/{begun['upload_id']}"
    assert thief.get(place).status == 404
    assert thief.ask("PATCH", place, b"evil", {"Upload-Offset": "0"}).status == 404
    assert thief.json("POST", f"{place}/finish", {}).status == 404
    assert thief.ask("DELETE", place).status == 404
    assert world.caller("submitter").ask("DELETE", place).status == 200


def test_40_a_run_of_another_team_takes_no_word_of_ours(world: World) -> None:
    contract = made_result(0).contract
    world.server.scheduler.put("theirs", OTHER, "every 1 s", contract, "test")
    time.sleep(1.1)
    claimed = world.caller("stranger").json("POST", f"{API}/agents/their-agent/poll", {}).json()["run"]
    world.server.scheduler.remove("theirs", OTHER)
    ours = world.caller("submitter")
    assert ours.json("POST", f"{API}/runs/{claimed['run']}/live", {"events": []}).status == 409
    assert ours.json("POST", f"{API}/runs/{claimed['run']}/end", {"state": "done"}).status == 409
    assert ours.json("POST", f"{API}/agents/their-agent/poll", {}).status == 409


def test_22_nothing_packed_is_unpacked(world: World, unchanged: None) -> None:
    submitter = world.caller("submitter")
    bomb = gzip.compress(b"0" * (1 << 20))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert submitter.ask("POST", f"{API}/uploads", bomb, headers).status == 415
    assert submitter.submit(gzip.compress(world.team.bundle(made_result(BASE + 22)))).status == 422


def test_23_a_document_that_unfolds_to_more_than_was_sent_is_not_taken(world: World, unchanged: None) -> None:
    """A zip bomb in place of samples.npz, in a bundle that is otherwise signed and in order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("start_ns.npy", b"\0" * (8 << 20))
    answer = world.caller("submitter").submit(bundle_with(world.team, BASE + 23, packed.getvalue()))
    assert answer.status == 422
    assert "unfolds" in answer.text


def test_24_a_tar_member_that_claims_gigabytes_is_refused(world: World, unchanged: None) -> None:
    data = bytearray(world.team.bundle(made_result(BASE + 24)))
    data[124:136] = b"77777777777\0"
    assert world.caller("submitter").submit(bytes(data)).status == 422


def test_41_a_worked_example_is_not_taken_whoever_sends_it(world: World, tmp_path: Path, unchanged: None) -> None:
    pack = make_demo(tmp_path, pdf=False)[0].bundle.read_bytes()
    for role in ("submitter", "administrator", "stranger"):
        answer = world.caller(role).submit(pack)
        assert answer.status == 409
        assert "invented" in answer.text


def test_42_a_worked_example_signed_as_measured_is_not_taken(world: World, unchanged: None) -> None:
    result = made_result(BASE + 42)
    result = result.model_copy(update={"assumptions": (*result.assumptions, INVENTED_FIGURES)}).sealed()
    answer = world.caller("submitter").submit(world.team.bundle(result))
    assert answer.status == 409
    assert "invented" in answer.text
