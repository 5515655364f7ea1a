"""Blocks of an experiment side by side, where parts of the machine do not disturb each other: measured first."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.experiment.cells import CellPlan, changed
from lynxbench.experiment.definition import Definition
from lynxbench.experiment.visiting import Setting, Stop, Where, begin, end, responses, restarts_of, take
from lynxbench.model.job import JobReport
from lynxbench.run.run_outcome import Progress


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Whether lanes disturb each other, and what showed it."""

    disturbed: bool
    words: str


class Walker(Protocol):
    """Who visits cells."""

    @property
    def cells(self) -> tuple[CellPlan, ...]:
        """All of them, by position in the design."""

    @property
    def progress(self) -> Progress:
        """Who is told."""

    def visit(
        self,
        block: int,
        place: int,
        cell: CellPlan,
        *,
        lane: int,
        restart: int,
        beside: Callable[[], tuple[int, ...]],
        progress: Progress,
    ) -> None:
        """One visit."""


class LaneProgress:
    """One lane's progress: remembers the process at work, so that the other lanes know it, and stops when told."""

    def __init__(self, heard: Progress, stop: Stop) -> None:
        self._heard, self._stop = heard, stop

    def begin(self, run: RunFolder) -> None:
        """A run starts."""

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        self._stop.check()

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._heard.end_slot(slot, report, spent_s)

    def note(self, text: str) -> None:
        """A step between processes."""


class _Beside:
    """The harness's own process tree: every lane's worker is in it, and none of them is foreign load to another."""

    def __init__(self) -> None:
        import os

        self._own = os.getpid()

    def __call__(self) -> tuple[int, ...]:
        return (self._own,)


def walk_lanes(walker: Walker, lanes: int, order: Sequence[Sequence[int]]) -> None:
    """Each lane takes every n-th block; the first failure ends the others in order and is raised."""
    stop, lock = Stop(), threading.Lock()
    quiet = LaneProgress(walker.progress, stop)
    beside = _Beside()

    def walk(lane: int) -> None:
        try:
            mine = [block for block in range(len(order)) if block % lanes == lane]
            for restart, block in enumerate(mine):
                for place, position in enumerate(order[block]):
                    stop.check()
                    cell = walker.cells[position]
                    walker.visit(block, place, cell, lane=lane, restart=restart, beside=beside, progress=quiet)
        except BaseException:
            with lock:
                stop.tell()
            raise

    with ThreadPoolExecutor(max_workers=lanes) as pool:
        futures = [pool.submit(walk, lane) for lane in range(lanes)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stop.tell()
            raise


def disturbance(settings: Sequence[Setting], where: Where, progress: Progress, definition: Definition) -> Disturbance:
    """The baseline on the first lane alone, then on all lanes at once: they may differ by half of what counts."""
    single = [Setting(changed(one.contract, {}, restarts=1), one.environment, one.lock, one.cpus) for one in settings]
    alone = _one(single[0], where, progress, definition)
    with ThreadPoolExecutor(max_workers=len(single)) as pool:
        stop = Stop()
        quiet = LaneProgress(progress, stop)
        together = list(pool.map(lambda one: _one(one, where, quiet, definition), single))
    allowed = math.log1p(definition.smallest_effect) / 2
    if not all(math.isfinite(value) and value > 0 for value in (alone, *together)):
        return Disturbance(
            True, "lanes: the baseline could not be measured in all of them; blocks go one after another"
        )
    shift = math.log(together[0] / alone)
    said = f"the baseline changes by {math.expm1(shift):+.1%} when the other {len(single) - 1} lanes work"
    if abs(shift) > allowed:
        return Disturbance(True, f"lanes disturb each other: {said}; blocks go one after another")
    return Disturbance(False, f"lanes do not disturb each other: {said}")


def _one(setting: Setting, where: Where, progress: Progress, definition: Definition) -> float:
    run = begin(setting, where)
    take(run, 0, progress, _Beside())
    finished = end(run, where, progress)
    return responses(finished, restarts_of(run), definition.response).get(0, math.nan)
