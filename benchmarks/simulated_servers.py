"""Servers whose capacity can be known, for searches held against it: slots, shared batches, batchers, limiters.

A server's speed may change with time. Everything is simulated in work time (the integral of the speed) and mapped back,
so every kind of server can vary, stall, warm up or wear out. Its clock goes on from probe to probe of a search, as a
real server's does.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

import numpy as np

from lynxbench.load.saturation_judge import LatencyBound
from simulated_queues import Draw, fcfs_kernel, kernels

Pace = Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]
"""Seconds and speed of so many stretches from the one of this number on."""
FIRST_TOKEN, PER_TOKEN, WHOLE = "first token", "time per token", "latency"
STILL = 1e-9
"""The speed of a server that stalls: not zero, so that work time can be mapped back."""
AHEAD = 4096
"""Arrivals simulated at a time beyond those asked for: in a shared server later requests slow down earlier ones."""
STEP_AHEAD = 256
"""The same for continuous batching, whose answers take about a second."""
LONGEST_WAIT = 20.0
"""Limits after which a request that is still open counts as lost."""


def steady_pace(rng: np.random.Generator, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Full speed for ever."""
    return np.full(count, 1e6), np.ones(count)


class WorkClock:
    """The work a server can have done by a moment, and back."""

    def __init__(self, pace: Pace, rng: np.random.Generator, start_s: float = 0.0) -> None:
        self._pace, self._rng = pace, rng
        self._moments, self._work, self._count = np.zeros(1), np.zeros(1), 0
        self.start_s = start_s

    def work(self, moments: np.ndarray) -> np.ndarray:
        """Work done by these moments."""
        while self._moments[-1] < moments[-1]:
            self._extend()
        return np.interp(moments, self._moments, self._work)

    def moment(self, work: np.ndarray) -> np.ndarray:
        """When so much work will have been done; infinite stays infinite."""
        finite = work[np.isfinite(work)]
        while finite.size and self._work[-1] < finite.max():
            self._extend()
        return np.where(np.isfinite(work), np.interp(work, self._work, self._moments), math.inf)

    def _extend(self) -> None:
        count = max(64, self._count)
        seconds, speeds = self._pace(self._rng, self._count, count)
        self._count += count
        self._moments = np.append(self._moments, self._moments[-1] + np.cumsum(seconds))
        self._work = np.append(self._work, self._work[-1] + np.cumsum(seconds * speeds))


class Arrivals:
    """Poisson arrivals of one probe, made as they are needed."""

    def __init__(self, rate_per_s: float, clock: WorkClock, start_s: float, rng: np.random.Generator) -> None:
        self._rate, self._clock, self._rng = rate_per_s, clock, rng
        self.last_s = start_s
        self.moments, self.work = np.empty(0), np.empty(0)

    def extend(self, total: int) -> None:
        """Have at least so many."""
        count = total - len(self.moments)
        if count > 0:
            moments = self.last_s + np.cumsum(self._rng.exponential(1 / self._rate, count))
            self.last_s = float(moments[-1])
            self.moments = np.append(self.moments, moments)
            self.work = np.append(self.work, self._clock.work(moments))


class Machine(Protocol):
    """What answers, in work time."""

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of the requests from first to last, infinite where one is refused or open beyond patience."""


@dataclass(frozen=True)
class Steps:
    """What a step of continuous batching takes: in all, for each that runs, for each token of a prompt that is read."""

    fixed_s: float
    each_s: float
    prompt_s: float
    most: int = 256
    budget: int = 8192

    def rate_per_s(self, in_flight: int, prompt: float, length: float) -> float:
        """Requests a second in a closed loop whose answers all end at other steps."""
        return in_flight / (length * (self.fixed_s + self.each_s * in_flight) + in_flight * self.prompt_s * prompt)


class Slots:
    """So many slots, first come, first served."""

    def __init__(self, slots: int, draw: Draw, rng: np.random.Generator) -> None:
        self._free, self._draw, self._rng = np.zeros(slots), draw, rng
        self._now = 0.0

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """Kiefer and Wolfowitz."""
        arrivals.extend(last)
        moments = arrivals.work[first:last]
        sizes, spent = self._draw(self._rng, last - first), np.empty(last - first)
        gaps = np.diff(moments, prepend=self._now)
        self._now = fcfs_kernel()(self._now, gaps, sizes, self._free, spent)
        return moments + spent - sizes, moments + spent


class Sharing:
    """Up to `most` requests at once, each slower the more there are; the others wait."""

    def __init__(self, speeds: Sequence[float], draw: Draw, rng: np.random.Generator) -> None:
        self._speeds = np.array([0.0, *speeds])
        self._most, self._draw, self._rng = len(speeds), draw, rng
        self._state = _Shared(0.0, 0.0, 0, 0)
        self._marks, self._ids = np.zeros(self._most + 1), np.zeros(self._most + 1, dtype=np.int64)
        self._sizes, self._starts, self._ends = np.empty(0), np.empty(0), np.empty(0)
        self._fed = 0

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """Go on with later arrivals until these have ended, or have waited long enough."""
        want = max(last, self._fed)
        while True:
            arrivals.extend(want)
            grown = want - len(self._sizes)
            if grown > 0:
                self._sizes = np.append(self._sizes, self._draw(self._rng, grown))
                self._starts = np.append(self._starts, np.full(grown, math.inf))
                self._ends = np.append(self._ends, np.full(grown, math.inf))
            _shared_take()(
                ctypes.byref(self._state), self._fed, want, self._most, self._speeds, arrivals.work, self._sizes,
                self._starts, self._ends, self._marks, self._ids,
            )  # fmt: skip
            self._fed = want
            open_ = np.isinf(self._ends[first:last])
            if not open_.any() or arrivals.last_s - arrivals.moments[last - 1] > patience:
                return self._starts[first:last].copy(), self._ends[first:last].copy()
            want += AHEAD


class Stepping:
    """Continuous batching: a token a step for all that run, prompts read in between; `starts` are first tokens."""

    def __init__(self, steps: Steps, prompts: Draw, lengths: Draw, rng: np.random.Generator) -> None:
        self._steps, self._prompts, self._lengths, self._rng = steps, prompts, lengths, rng
        self._state = np.zeros(3)
        self._ids, self._left = np.zeros(steps.most + 1, dtype=np.int64), np.zeros(steps.most + 1)
        self._columns = np.empty((4, 0))
        """Prompt tokens, tokens of the answer, first tokens and ends, a row each."""

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """Go on with later arrivals until these have ended, or have waited long enough."""
        want, steps = max(last, self._columns.shape[1]), self._steps
        while True:
            arrivals.extend(want)
            grown = want - self._columns.shape[1]
            drawn = [self._prompts(self._rng, grown), np.ceil(self._lengths(self._rng, grown))]
            self._columns = np.hstack((self._columns, [*drawn, *np.full((2, grown), math.inf)]))
            _stepped_take()(
                want, steps.most, steps.budget, steps.fixed_s, steps.each_s, steps.prompt_s, self._state,
                arrivals.work, *self._columns, self._ids, self._left,
            )  # fmt: skip
            if not np.isinf(self._columns[3, first:last]).any() or (
                arrivals.last_s - arrivals.moments[last - 1] > patience
            ):
                return self._columns[2, first:last].copy(), self._columns[3, first:last].copy()
            want += STEP_AHEAD


class Batcher:
    """Takes all that wait, up to `most`, whenever it is idle."""

    def __init__(self, most: int, fixed: float, each: float) -> None:
        self._most, self._fixed, self._each = most, fixed, each
        self._free = np.zeros(1)

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """A batch is cut where the requests asked for end: once a call."""
        arrivals.extend(last)
        moments, ends = np.ascontiguousarray(arrivals.work[first:last]), np.empty(last - first)
        _batch_take()(last - first, self._most, self._fixed, self._each, self._free, moments, ends)
        return ends, ends


class RateLimited:
    """Any machine behind a token bucket: what is over the rate is refused at once."""

    def __init__(self, inner: Machine, per_s: float, depth: float) -> None:
        self._inner, self._per_s, self._depth = inner, per_s, depth
        self._state = np.array([depth, 0.0])

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """Refused requests still take a slot's time in the inner machine; it is far from its own limit."""
        starts, ends = self._inner.serve(arrivals, first, last, patience)
        through = np.empty(last - first)
        moments = np.ascontiguousarray(arrivals.moments[first:last])
        _bucket_take()(last - first, self._per_s, self._depth, self._state, moments, through)
        return starts, np.where(through > 0, ends, math.inf)


class LateBursts:
    """Answers of one size, but now and then a run of 20 to 50 requests is late, more often at higher rates."""

    def __init__(self, often: Callable[[float], float], base_s: float, late_s: float, rng: np.random.Generator) -> None:
        self._often, self._base_s, self._late_s, self._rng = often, base_s, late_s, rng
        self._left = 0

    def serve(self, arrivals: Arrivals, first: int, last: int, patience: float) -> tuple[np.ndarray, np.ndarray]:
        """A run begins after a geometric number of requests; at rates far above capacity, with every one."""
        arrivals.extend(last)
        late = np.zeros(last - first, dtype=bool)
        place = min(self._left, last - first)
        late[:place] = True
        self._left -= place
        often = min(1.0, self._often(arrivals._rate))  # a search may begin where the rule is above 1
        while True:
            place += int(self._rng.geometric(often)) - 1
            if place >= last - first:
                break
            length = int(self._rng.integers(20, 51))
            late[place : place + length] = True
            self._left = max(0, place + length - (last - first))
            place += length
        spent = np.where(late, self._late_s, self._base_s) * self._rng.uniform(0.9, 1.1, last - first)
        moments = arrivals.work[first:last]
        return moments, moments + spent


MachineMaker = Callable[[np.random.Generator], Machine]


@dataclass(frozen=True)
class Shape:
    """A server, its objective and the conditions of a search."""

    name: str
    make: MachineMaker
    bounds: tuple[LatencyBound, ...]
    ceiling_per_s: float
    """Completions a second at full speed, however many are in flight."""
    pace: Pace = steady_pace
    budget_s: float = math.inf
    tolerance: float = 0.05
    first_s: float = 0.0
    """From the start of a request to its first token."""
    tokens: float = 0.0
    """Of an answer, where time per token is bounded: all are of one length."""
    between_s: float = 0.0
    """What a probe takes beside its load: clients that start and stop."""
    settle_s: float = 0.0
    """The start of the server's life that its long-run capacity leaves out."""
    every_s: float = 0.0
    """Mean time from one disturbance to the next; 0 where nothing disturbs."""
    tags: frozenset[str] = field(default_factory=frozenset)


class World:
    """One server over a search; probes follow each other on its clock."""

    def __init__(self, shape: Shape, seed: int, start_s: float = 0.0) -> None:
        self.shape = shape
        self._rng = np.random.default_rng((seed, 11))
        self.clock = WorkClock(shape.pace, np.random.default_rng((seed, 12)))
        self.now_s = start_s

    def start(self, rate_per_s: float) -> SimulatedProbe:
        """A fresh probe on a server at rest."""
        return SimulatedProbe(self, rate_per_s, self._rng)


class SimulatedProbe:
    """A running open-loop probe."""

    def __init__(self, world: World, rate_per_s: float, rng: np.random.Generator) -> None:
        self._world, self._began_s = world, world.now_s
        self._arrivals = Arrivals(rate_per_s, world.clock, world.now_s, rng)
        self._machine = world.shape.make(rng)
        self._taken, self._ended_s = 0, world.now_s
        self._patience = LONGEST_WAIT * max(bound.limit_s for bound in world.shape.bounds)

    def take(self, requests: int) -> np.ndarray:
        """A column a bound."""
        first, last = self._taken, self._taken + requests
        starts, ends = self._machine.serve(self._arrivals, first, last, self._patience)
        self._taken = last
        moments = self._arrivals.moments[first:last]
        clock = self._world.clock
        spent = clock.moment(ends) - moments
        spent[spent > self._patience] = math.inf
        finite = spent[np.isfinite(spent)]
        self._ended_s = float(moments[-1]) + (float(finite[-AHEAD:].max()) if finite.size else 0.0)
        columns = []
        for bound in self._world.shape.bounds:
            if bound.name == FIRST_TOKEN:
                first_token = clock.moment(starts) - moments + self._world.shape.first_s
                columns.append(np.where(np.isfinite(spent), first_token, math.inf))
            elif bound.name == PER_TOKEN:
                columns.append((clock.moment(ends) - clock.moment(starts)) / (self._world.shape.tokens - 1))
            else:
                columns.append(spent)
        return np.stack(columns, axis=1)

    def end(self) -> float:
        """Seconds from the first arrival to the last answer, and what lies between two probes."""
        self._world.now_s = self._ended_s + self._world.shape.between_s
        return self._world.now_s - self._began_s


def closed_rate(speeds: Sequence[float], draw: Draw, inflight: int, seconds: float, seed: int) -> np.ndarray:
    """Moments at which a sharing server ends requests when so many are always in flight."""
    rng = np.random.default_rng(seed)
    table = np.array([0.0, *speeds])
    most = len(speeds)
    count = 256
    while True:
        sizes = draw(rng, count + inflight)
        starts, ends = np.empty(count + inflight), np.empty(count)
        marks, ids = np.zeros(most + 1), np.zeros(most + 1, dtype=np.int64)
        _shared_closed()(count, inflight, most, table, sizes, starts, ends, marks, ids)
        if ends[-1] >= seconds:
            return ends[ends <= seconds]
        count *= 2


class _Shared(ctypes.Structure):
    _fields_ = (
        ("now", ctypes.c_double),
        ("progress", ctypes.c_double),
        ("running", ctypes.c_size_t),
        ("next", ctypes.c_size_t),
    )


_ROW = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
_IDS = np.ctypeslib.ndpointer(np.int64, flags="C_CONTIGUOUS")
_SIZE, _DOUBLE = ctypes.c_size_t, ctypes.c_double


@cache
def _shared_take() -> Callable[..., None]:
    take = kernels().shared_take
    take.argtypes = [ctypes.POINTER(_Shared), _SIZE, _SIZE, _SIZE, _ROW, _ROW, _ROW, _ROW, _ROW, _ROW, _IDS]
    take.restype = None
    return take


@cache
def _shared_closed() -> Callable[..., None]:
    take = kernels().shared_closed
    take.argtypes = [_SIZE, _SIZE, _SIZE, _ROW, _ROW, _ROW, _ROW, _ROW, _IDS]
    take.restype = None
    return take


@cache
def _stepped_take() -> Callable[..., None]:
    take = kernels().stepped_take
    take.argtypes = [_SIZE, _SIZE, *[_DOUBLE] * 4, *[_ROW] * 6, _IDS, _ROW]
    take.restype = None
    return take


@cache
def _batch_take() -> Callable[..., None]:
    take = kernels().batch_take
    take.argtypes = [_SIZE, _SIZE, _DOUBLE, _DOUBLE, _ROW, _ROW, _ROW]
    take.restype = None
    return take


@cache
def _bucket_take() -> Callable[..., None]:
    take = kernels().bucket_take
    take.argtypes = [_SIZE, _DOUBLE, _DOUBLE, _ROW, _ROW, _ROW]
    take.restype = None
    return take
