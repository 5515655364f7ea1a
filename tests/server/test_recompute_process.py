"""A process of its own recomputes: last in line, within bounds; one that dies, hangs or is killed is an outcome."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from forged_runs import catch_up, forged_run, pushed, seal_again
from hosted import World, hosted, make_world
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.sample_file import read_samples, write_samples
from lynxbench.ledger.location import Location
from lynxbench.record.recording import record_folder
from lynxbench.server.recompute_queue import RecomputeProcess
from lynxbench.server.recompute_worker import LOWEST_PRIORITY
from lynxbench.server.settings import WorkerBounds
from lynxbench.watch.recomputations import RecomputationState


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server that recomputes when it is told to."""
    with hosted(make_world(tmp_path_factory.mktemp("recomputed"), shapes=(), decisions=False)) as made:
        yield made


Processes = Callable[..., RecomputeProcess]


@pytest.fixture
def process(place: World, tmp_path: Path) -> Iterator[Processes]:
    """Processes with bounds of their own, over the same ledger."""
    made: list[RecomputeProcess] = []

    def make(**bounds: int) -> RecomputeProcess:
        database = place.server.ledger.log.database.url.render_as_string(hide_password=False)
        blobs = str(Path(str(place.server.ledger.log.database.url.database)).parent / "blobs")
        scratch = tmp_path / f"scratch-{len(made)}"
        environment = place.server.settings.environment
        made.append(RecomputeProcess(Location(database, blobs), environment, scratch, WorkerBounds(**bounds)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def pid_of(process: RecomputeProcess) -> int:
    assert process._process is not None
    return process._process.pid


def asked(place: World, process: Processes, folder: Path) -> tuple[RecomputeProcess, str]:
    """A process that has recomputed an honest run, and the run."""
    honest = pushed(place, folder)
    catch_up(place)
    worker = process()
    assert worker.ask(honest)[0] is RecomputationState.HOLDS
    return worker, honest


def test_it_runs_after_everything_else_and_outside_the_serving_process(
    place: World, spin_run: Path, tmp_path: Path, process: Processes
) -> None:
    worker, _ = asked(place, process, forged_run(spin_run, tmp_path, 60))
    running = psutil.Process(pid_of(worker))
    assert running.pid != os.getpid()
    assert running.nice() == LOWEST_PRIORITY
    assert os.sched_getscheduler(running.pid) == os.SCHED_BATCH
    assert running.rlimit(psutil.RLIMIT_AS)[0] == WorkerBounds().memory_bytes
    assert running.rlimit(psutil.RLIMIT_CPU)[0] < 2 * WorkerBounds().cpu_s + 60
    assert list((tmp_path / "scratch-0").iterdir()) == [], "nothing stays of what it laid out"
    worker.close()
    assert not running.is_running()
    assert not (tmp_path / "scratch-0").exists()


def test_more_memory_than_a_result_may_take_is_an_outcome(
    place: World, spin_run: Path, tmp_path: Path, process: Processes
) -> None:
    """The bound is just above what an idle process has: reading three million samples then does not fit."""
    idle, honest = asked(place, process, forged_run(spin_run, tmp_path, 61))
    taken = psutil.Process(pid_of(idle)).memory_info().vms
    folder = forged_run(spin_run, tmp_path, 62)
    seal_again(folder, with_samples(folder, 3_000_000))
    large = record_folder(place.server.ledger, folder, place.team.key).result_id
    small = process(memory_bytes=taken + (96 << 20))
    state, lines = small.ask(large)
    assert state is RecomputationState.CANNOT, lines
    assert "memory" in lines[0]
    assert small.ask(honest)[0] is RecomputationState.HOLDS, "the next one is recomputed"


def with_samples(folder: Path, rows: int):  # type: ignore[no-untyped-def]
    """The result of a folder whose samples file has so many rows, one nanosecond each."""
    from lynxbench.model.samples import Iterations

    first, *others = read_samples(folder / "samples.npz")
    start = np.arange(rows, dtype=np.int64)
    iterations = Iterations(start, start + 1, np.ones(rows, dtype=np.int64))
    longer = replace(first.samples, iterations=iterations)
    many = type(first)(samples=longer, phase=np.zeros(rows, dtype=np.int8))  # type: ignore[arg-type]
    (folder / "samples.npz").unlink()
    samples = write_samples(folder / "samples.npz", (many, *others))
    return read_result(folder).model_copy(update={"samples": samples})


@pytest.mark.parametrize(
    ("kill", "word"),
    [
        (signal.SIGXCPU, "of a processor"),
        (signal.SIGSEGV, "ended (-11)"),
        (None, "gave no answer"),
    ],
    ids=str,
)
def test_a_process_that_dies_or_hangs_is_an_outcome_and_another_goes_on(
    place: World,
    spin_run: Path,
    tmp_path: Path,
    process: Processes,
    monkeypatch: pytest.MonkeyPatch,
    kill: signal.Signals | None,
    word: str,
) -> None:
    monkeypatch.setattr("lynxbench.server.bounded_process.GRACE_S", 1.0)
    honest = pushed(place, forged_run(spin_run, tmp_path, 70 if kill is None else 70 + kill))
    catch_up(place)
    worker = process()
    worker.ask(honest)
    held = pid_of(worker)
    os.kill(held, signal.SIGSTOP)
    if kill is None:
        worker._bounds = WorkerBounds(wall_s=1)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(worker.ask(honest)))
    asking.start()
    if kill is not None:
        time.sleep(0.3)
        os.kill(held, kill)
        os.kill(held, signal.SIGCONT)
    asking.join(timeout=600)
    ((state, lines),) = answers
    assert state is RecomputationState.CANNOT
    assert word in lines[0]
    assert not psutil.pid_exists(held) or psutil.Process(held).status() == psutil.STATUS_ZOMBIE
    worker._bounds = WorkerBounds()
    assert worker.ask(honest)[0] is RecomputationState.HOLDS


@pytest.mark.parametrize(
    ("kills", "state"), [(1, RecomputationState.HOLDS), (2, RecomputationState.CANNOT)], ids=["once", "twice"]
)
def test_who_is_killed_is_asked_again_and_who_is_killed_twice_is_an_outcome(
    place: World,
    spin_run: Path,
    tmp_path: Path,
    process: Processes,
    monkeypatch: pytest.MonkeyPatch,
    kills: int,
    state: RecomputationState,
) -> None:
    """Where memory runs out the system kills whom it likes; an honest result must not be refused for good by that."""
    names = [pushed(place, forged_run(spin_run, tmp_path, 160 + 2 * kills + number)) for number in range(2)]
    catch_up(place)
    worker, tell = process(), RecomputeProcess._tell
    killed: list[int] = []

    def kill_after(self: RecomputeProcess, child: Any, lines: Any) -> bool:
        if "result" in lines[0] and len(killed) < kills:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            killed.append(child.pid)
        return tell(self, child, lines)

    monkeypatch.setattr(RecomputeProcess, "_tell", kill_after)
    ((found, lines), *more) = worker.ask_all(names, whole=True)
    assert len(set(killed)) == kills
    assert (found, more) == (state, []), lines
    assert state is RecomputationState.HOLDS or "was killed" in lines[0]
    assert [outcome[0] for outcome in worker.ask_all(names, whole=True)] == [RecomputationState.HOLDS] * 2
