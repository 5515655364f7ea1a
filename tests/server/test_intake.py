"""Bundles are taken in outside the serving process: the same answers, and one that dies of a bundle is replaced."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from forged_runs import bundle_of, forged_run
from lynxbench.errors import BadLedger, EvidenceInvalid, Refused
from lynxbench.ledger.location import locate, open_ledger
from lynxbench.ledger.queries import find_result
from lynxbench.server.ingest import OfferedBundle
from lynxbench.server.intake import IntakeProcess, intake_bounds
from lynxbench.server.intake_worker import LOW_PRIORITY
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.settings import MOST_BUNDLE_BYTES, WorkerBounds
from lynxbench.server.uploads import Taken
from recording_teams import TEAM, Team, made_result, make_team

SUBMITTER = Principal("agent", TEAM, frozenset({AccessScope.SUBMIT}), "token")


@pytest.fixture
def host(tmp_path: Path) -> Team:
    return make_team("host", tmp_path)


@pytest.fixture
def intake(tmp_path: Path, host: Team) -> Iterator[IntakeProcess]:
    location = locate(None, host.environment)
    assert location is not None
    open_ledger(location, host.environment, create=True).log.close()
    made = IntakeProcess(location, host.environment, tmp_path / "scratch", intake_bounds(MOST_BUNDLE_BYTES))
    yield made
    made.close()


def test_it_answers_as_the_server_itself_would_and_outlives_its_process(
    intake: IntakeProcess, host: Team, spin_run: Path, tmp_path: Path
) -> None:
    team = make_team(TEAM, tmp_path)
    result_id, bundle = bundle_of(team, forged_run(spin_run, tmp_path / "runs", 1))
    file, damaged = tmp_path / "a bundle.lynx", tmp_path / "damaged.lynx"
    file.write_bytes(bundle)
    at = bundle.index(b"attempts")
    damaged.write_bytes(bundle[:at] + b"A" + bundle[at + 1 :])
    trust = team.keyring.trust

    with pytest.raises(EvidenceInvalid, match="not what the manifest says"):
        intake.take_in(damaged, trust, SUBMITTER, time.time())
    stranger = Principal("agent", "others", SUBMITTER.scopes, "token")
    with pytest.raises(Refused, match="signed by a key of its own team, others"):
        intake.take_in(file, trust, stranger, time.time())
    with pytest.raises(EvidenceInvalid, match="still to come"):
        intake.take_in(file, trust, SUBMITTER, time.time() - 86400)
    first = intake._process
    assert first is not None
    assert first.pid != os.getpid()
    assert os.getsid(first.pid) == os.getsid(0), "in another session its priority would count for nothing"
    assert os.getpgid(first.pid) == first.pid, "Ctrl-C is for the server"
    assert psutil.Process(first.pid).nice() == min(psutil.Process().nice() + LOW_PRIORITY, 19)

    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    with pytest.raises(BadLedger, match=r"the bundle was not taken in: .* was killed.*; try again"):
        intake.take_in(file, trust, SUBMITTER, time.time())
    taken = intake.take_in(file, trust, SUBMITTER, time.time())
    assert taken.new_results == [result_id]
    assert intake.take_in(file, trust, SUBMITTER, time.time()).new == 0, "taking it in twice changes nothing"
    with host.open() as ledger:
        assert find_result(ledger.log, result_id) is not None


def test_a_process_that_dies_of_several_takes_none_of_them_with_it(
    intake: IntakeProcess, host: Team, tmp_path: Path
) -> None:
    """Killed with three bundles before it: each is asked for again by itself, and has an outcome of its own."""
    team = make_team(TEAM, tmp_path)
    offers = []
    for number in range(3):
        file = tmp_path / f"{number}.lynx"
        file.write_bytes(team.bundle(made_result(number)))
        offers.append(OfferedBundle(file, SUBMITTER))
    (first,) = intake.take_in_all(offers[:1], team.keyring.trust, time.time())
    assert isinstance(first, Taken)
    data = bytearray(offers[1].path.read_bytes())
    data[-1500] ^= 1
    offers[1].path.write_bytes(data)
    process = intake._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    again, damaged, last = intake.take_in_all(offers, team.keyring.trust, time.time())
    assert (again, type(damaged)) == (Taken(first.results, first.entries, 0, []), EvidenceInvalid)
    assert isinstance(last, Taken)
    assert last.new_results == [made_result(2).result_id]
    with host.open() as ledger:
        known = [find_result(ledger.log, made_result(number).result_id) is not None for number in range(3)]
    assert known == [True, False, True]


def test_its_memory_grows_with_the_bundles_that_are_allowed() -> None:
    assert intake_bounds(1 << 20).memory_bytes == WorkerBounds().memory_bytes
    assert intake_bounds(4 << 30).memory_bytes > 5 * (4 << 30)
    assert intake_bounds(4 << 30).disk_bytes is None, "the ledger itself may be larger than any bundle"
