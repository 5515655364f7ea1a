"""Blocks of an experiment side by side, where parts of the machine do not disturb each other: measured first."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from lynxbench.errors import Interrupted
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.experiment.cells import changed
from lynxbench.experiment.definition import Definition
from lynxbench.experiment.visiting import Setting, Where, begin, end, run_responses, take
from lynxbench.model.job import JobReport
from lynxbench.run.run_outcome import Progress


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Whether lanes disturb each other, and what showed it."""

    disturbed: bool
    words: str


class LaneProgress:
    """One lane's progress: passes on the ends of processes alone, and stops its own when another lane failed."""

    def __init__(self, progress: Progress, stopped: threading.Event) -> None:
        self._progress, self._stopped = progress, stopped

    def begin(self, run: RunFolder) -> None:
        """A run starts."""

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        if self._stopped.is_set():
            raise Interrupted("another lane stopped")

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._progress.end_slot(slot, report, spent_s)

    def note(self, text: str) -> None:
        """A step between processes."""


def own_tree() -> tuple[int, ...]:
    """This process with all below it: every lane's worker is there, and none of them is foreign load to another."""
    return (os.getpid(),)


def walk_lanes(
    visit_block: Callable[[int, int, int, Progress], None], lanes: int, blocks: int, progress: Progress
) -> None:
    """Lanes take the blocks in turn; the first failure ends the others in order and is raised.

    `visit_block` is given the block, its lane, which of the lane's own blocks it is, and the lane's progress.
    """
    stopped = threading.Event()
    quiet = LaneProgress(progress, stopped)

    def walk(lane: int) -> None:
        try:
            for restart, block in enumerate(range(lane, blocks, lanes)):
                visit_block(block, lane, restart, quiet)
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(max_workers=lanes) as pool:
        futures = [pool.submit(walk, lane) for lane in range(lanes)]
        try:
            for future in futures:
                future.result()
        except BaseException:
            stopped.set()
            raise


def disturbance(settings: Sequence[Setting], where: Where, progress: Progress, definition: Definition) -> Disturbance:
    """The baseline on the first lane alone, then on all lanes at once: they may differ by half of what counts."""
    single = [replace(setting, contract=changed(setting.contract, {}, restarts=1)) for setting in settings]
    alone = _measured(single[0], where, progress, definition)
    quiet = LaneProgress(progress, threading.Event())
    with ThreadPoolExecutor(max_workers=len(single)) as pool:
        together = list(pool.map(lambda setting: _measured(setting, where, quiet, definition), single))
    if not all(math.isfinite(value) for value in (alone, *together)):
        return Disturbance(
            True, "lanes: the baseline could not be measured in all of them; blocks go one after another"
        )
    shift = math.log(together[0] / alone)
    words = f"the baseline changes by {math.expm1(shift):+.1%} when the other {len(single) - 1} lanes work"
    if abs(shift) > math.log1p(definition.smallest_effect) / 2:
        return Disturbance(True, f"lanes disturb each other: {words}; blocks go one after another")
    return Disturbance(False, f"lanes do not disturb each other: {words}")


def _measured(setting: Setting, where: Where, progress: Progress, definition: Definition) -> float:
    run = begin(setting, where)
    take(run, 0, progress, own_tree)
    finished = end(run, where, progress)
    return run_responses(finished.folder, definition.response).get(0, math.nan)
