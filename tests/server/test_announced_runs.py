"""Runs announced to the server before they are measured: logged by its clock, and their own team's alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hosted import Answer, Caller, World
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.ledger.queries import find_run, open_runs
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import EntryKind, RunAbandoned, RunRegistered
from lynxbench.model.result import Result
from lynxbench.model.standing import Announcement
from lynxbench.record.recording import LedgerRecorder, seal
from lynxbench.server.rights import API
from recording_teams import made_result, record


def registration(result: Result) -> RunRegistered:
    return RunRegistered(
        run_id=result.run_id,
        nonce=result.result_id[:32],
        contract_id=result.contract_id,
        executor_id=result.executor_id,
        processes_planned=5,
    )


def announce(caller: Caller, envelope: Envelope) -> Answer:
    return caller.json("POST", f"{API}/registrations", {"envelope": envelope.to_bytes().decode()})


def made(number: int) -> Result:
    """Of a contract of its own: what a team registers of it travels with every later result."""
    return made_result(number, name="announced")


def test_a_run_is_announced_at_once_and_its_result_stands_on_it(world: World) -> None:
    submitter, log, now = world.caller("submitter"), world.server.ledger.log, datetime.now(UTC)
    times = {"started_at": now.isoformat(), "finished_at": (now + timedelta(seconds=45)).isoformat()}
    result = made(1).model_copy(update=times).sealed()
    envelope = seal(registration(result), world.team.key)
    first = announce(submitter, envelope)
    assert first.status == 200, first.text
    assert announce(submitter, envelope).json() == first.json(), "saying it again changes nothing"
    assert result.run_id in {run.run_id for run in open_runs(log)}
    with world.team.open() as ledger:
        ledger.log.append(envelope)
        result = record(ledger, result, world.team.key)
    assert submitter.submit(world.team.bundle(result)).status == 200
    standing = standings(log, [result.result_id], world.server.trust)[result.result_id]
    assert standing.announced is Announcement.IN_ADVANCE
    assert result.run_id not in {run.run_id for run in open_runs(log)}


def test_nobody_else_announces_ends_or_fills_it(world: World) -> None:
    result = made(2)
    log, body = world.server.ledger.log, registration(result)
    assert announce(world.caller("submitter"), seal(body, world.team.key)).status == 200
    before = log.head().size
    stranger = world.caller("stranger")
    assert announce(stranger, seal(body, world.other.key)).status == 422, "taken"
    assert announce(stranger, seal(body, world.team.key)).status == 409, "in its own team's name"
    assert stranger.submit(world.other.bundle(result)).status == 422, "a figure under its name"
    ended = RunAbandoned(
        run_id=body.run_id, nonce=body.nonce, contract_id=body.contract_id, attempts=1, reason="not theirs"
    )
    other = made(3)
    with world.other.open() as ledger:
        other = record(ledger, other, world.other.key)
        ledger.log.append(seal(ended, world.other.key))
    assert stranger.submit(world.other.bundle(other)).status == 422, "its end beside a result of one's own"
    assert log.head().size == before
    assert result.run_id in {run.run_id for run in open_runs(log)}


def test_only_a_registration_of_ones_own_is_announced(world: World) -> None:
    log, submitter = world.server.ledger.log, world.caller("submitter")
    before, result = log.head().size, made(4)
    assert announce(submitter, seal(registration(result), world.other.key)).status == 409
    assert announce(world.caller("reader"), seal(registration(result), world.team.key)).status == 403
    recorded = seal(summary_of(result, nonce="n" * 32, attempts=5), world.team.key)
    assert announce(submitter, recorded).status == 422
    for text in ("", "{}", "not json", "x" * 70_000):
        assert submitter.json("POST", f"{API}/registrations", {"envelope": text}).status == 422
    assert log.head().size == before


def test_a_recorder_tells_the_server_it_knows_and_never_fails_for_it(world: World, tmp_path: Path) -> None:
    result = made(5)
    run = RunFolder.create(tmp_path, result.contract, result.executor, 1, (), datetime.now(UTC))
    address = {"LYNXBENCH_SERVER": f"http://127.0.0.1:{world.port}", "LYNXBENCH_TOKEN": world.tokens["submitter"]}
    recorder = LedgerRecorder(world.team.location, {**world.team.environment, **address})
    recorder.register(run)
    assert (recorder.problem, recorder.news) == (None, None)
    (logged,) = find_run(world.server.ledger.log, run.registration.run_id, EntryKind.REGISTRATION)
    with world.team.open() as ledger:
        (mine,) = find_run(ledger.log, run.registration.run_id, EntryKind.REGISTRATION)
    assert logged.envelope == mine.envelope
    alone = RunFolder.create(tmp_path, result.contract, result.executor, 1, (), datetime.now(UTC))
    away = LedgerRecorder(world.team.location, {**world.team.environment, **address, "LYNXBENCH_TOKEN": "lynx_wrong"})
    away.register(alone)
    assert away.problem is None, "the run goes on"
    assert away.news is not None
    assert away.news.startswith("not announced before the run: ")
