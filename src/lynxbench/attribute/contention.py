"""Whether a process had the CPUs it wanted, by the kernel's account of its threads' waits for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

CONTENDED = 0.25
"""Share of its threads' runnable time that a process may wait for a CPU before that is worth a name: schedulers hand
a core round in slices, and a tenth is common on a machine that does anything else at all."""
OWN_FACTOR = 1.25
"""A process whose work is shared by this many times as many threads as it has CPUs competes with itself."""


OWN_THREADS_FIX = "use no more threads than there are CPUs (OMP_NUM_THREADS, engine threads, worker counts)"
FOREIGN_LOAD_FIX = "stop other load, or give the process CPUs of its own"


class Scheduled(Protocol):
    """What a step must tell for its contention to be seen."""

    @property
    def wall_ns(self) -> int: ...
    @property
    def process_cpu_ns(self) -> int: ...
    @property
    def process_run_queue_ns(self) -> int | None: ...
    @property
    def threads(self) -> int | None: ...
    @property
    def effective_threads(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Contention:
    """How much of its runnable time a process waited for a CPU, and how many CPUs it wanted at once on average."""

    waited: float
    wanted: float
    used: float
    cpus: int
    threads: int | None
    sharing: float | None
    """How many threads shared the work."""

    @property
    def matters(self) -> bool:
        """Whether the wait is worth naming."""
        return self.waited >= CONTENDED

    @property
    def own(self) -> bool:
        """Whether the process's own threads are what it waits for: more of them work than there are CPUs."""
        return max(self.wanted, self.sharing or 0.0) > OWN_FACTOR * self.cpus

    @property
    def why(self) -> str:
        """The reason in words."""
        if self.own:
            many = max(self.wanted, self.sharing or 0.0)
            return f"{many:.0f} of its own threads share the work and there are {self.cpus} CPUs"
        return f"it wants {self.wanted:.1f} of {self.cpus} CPUs and gets {self.used:.1f}: other load holds them"

    @property
    def line(self) -> str:
        """The figures as a line of evidence."""
        count = f", {self.threads} threads" if self.threads is not None else ""
        return (
            f"threads ready to run waited for a CPU {self.waited:.0%} of their time "
            f"(wanted {self.wanted:.1f} CPUs, got {self.used:.1f} of {self.cpus}{count})"
        )


def measure_contention(steps: Sequence[Scheduled], cpus: int | None) -> Contention | None:
    """The process's contention over some steps; None where the kernel did not account it."""
    wall = sum(step.wall_ns for step in steps)
    if not cpus or wall <= 0 or any(step.process_run_queue_ns is None for step in steps):
        return None
    ran = sum(step.process_cpu_ns for step in steps)
    waited = sum(step.process_run_queue_ns or 0 for step in steps)
    if ran + waited <= 0:
        return None
    threads = max((step.threads for step in steps if step.threads is not None), default=None)
    shared = [step.effective_threads for step in steps if step.effective_threads is not None]
    sharing = float(np.median(shared)) if shared else None
    return Contention(waited / (ran + waited), (ran + waited) / wall, ran / wall, cpus, threads, sharing)
