"""Queues of known capacity for the saturation benchmark: first come, first served, k servers, Poisson arrivals.

The inner loop is a few lines of C, compiled once into a temporary folder; where no compiler is found the same loop runs
on Python's heap, some thirty times slower. Mean service time is 1 s everywhere.
"""

from __future__ import annotations

import ctypes
import heapq
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from lynxbench.load.saturation_judge import LatencyBound
from lynxbench.stats.queues import capacity

Draw = Callable[[np.random.Generator, int], np.ndarray]
TRUTH_REQUESTS = 10_000_000
"""Requests simulated at each of five rates around a capacity that has no closed form."""
PIECE = 1_000_000


def exponential(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1."""
    return rng.exponential(1.0, size)


def deterministic(rng: np.random.Generator, size: int) -> np.ndarray:
    """Always 1."""
    return np.ones(size)


def lognormal(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1, coefficient of variation 1.5."""
    spread = math.log(1 + 1.5**2)
    return rng.lognormal(-spread / 2, math.sqrt(spread), size)


def hyperexponential(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1, coefficient of variation 2, balanced means: most are fast, few are slow."""
    fast = 0.5 * (1 + math.sqrt(3 / 5))
    mean = np.where(rng.random(size) < fast, 1 / (2 * fast), 1 / (2 * (1 - fast)))
    return mean * rng.exponential(1.0, size)


@dataclass(frozen=True)
class Server:
    """A queue and its objective."""

    name: str
    draw: Draw
    servers: int
    bound: LatencyBound


class Queue:
    """A running probe of a simulated server; it starts empty."""

    def __init__(self, server: Server, rate_per_s: float, rng: np.random.Generator) -> None:
        self.server, self.rate_per_s, self.rng = server, rate_per_s, rng
        self._free = np.zeros(server.servers)
        self._now = 0.0

    def take(self, requests: int) -> np.ndarray:
        """The next requests' times in the system."""
        gaps = self.rng.exponential(1 / self.rate_per_s, requests)
        services = self.server.draw(self.rng, requests)
        spent = np.empty(requests)
        self._now = fcfs_kernel()(self._now, gaps, services, self._free, spent)
        return spent

    def end(self) -> float:
        """Seconds this probe took."""
        return self._now


Kernel = Callable[[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray], float]


@cache
def kernels() -> ctypes.CDLL:
    """queue_kernels.c, compiled once."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("these simulations need a C compiler (cc)")
    folder = tempfile.mkdtemp(prefix="queues-")
    source, library = Path(__file__).with_name("queue_kernels.c"), Path(folder) / "queues.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    shutil.rmtree(folder)  # it stays loaded
    return loaded


@cache
def fcfs_kernel() -> Kernel:
    """The next requests of a first-come-first-served queue."""
    if shutil.which("cc") is None:
        return _by_heap
    take = kernels().fcfs_take
    row = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    take.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_double, row, row, row, row]
    take.restype = ctypes.c_double

    def by_c(now: float, gaps: np.ndarray, services: np.ndarray, free: np.ndarray, spent: np.ndarray) -> float:
        return float(take(len(gaps), len(free), now, gaps, services, free, spent))

    return by_c


def _by_heap(now: float, gaps: np.ndarray, services: np.ndarray, free: np.ndarray, spent: np.ndarray) -> float:
    heap, replace = free.tolist(), heapq.heapreplace
    for place, (gap, service) in enumerate(zip(gaps.tolist(), services.tolist(), strict=True)):
        now += gap
        first = heap[0]
        end = (first if first > now else now) + service
        replace(heap, end)
        spent[place] = end - now
    free[:] = heap
    return now


def true_capacity(server: Server) -> float:
    """Closed form, or a line through the log shares of five long simulations around the capacity."""
    bound = server.bound
    if server.draw is exponential:
        return capacity(1.0, server.servers, bound.limit_s, bound.violations)
    low, high = 0.3 * server.servers, 0.999 * server.servers
    for _ in range(9):
        middle = (low + high) / 2
        low, high = (middle, high) if _share(server, middle, PIECE, 1) <= bound.violations else (low, middle)
    rates = (low + high) / 2 * np.array([0.98, 0.99, 1.0, 1.01, 1.02])
    rates = rates[rates < 0.999 * server.servers]
    shares = [_share(server, rate, TRUTH_REQUESTS, 2 + place) for place, rate in enumerate(rates)]
    slope, height = np.polyfit(np.log(rates), np.log(shares), 1)
    return float(math.exp((math.log(bound.violations) - height) / slope))


def _share(server: Server, rate_per_s: float, requests: int, seed: int) -> float:
    """Share of late requests of one long run; a piece at its start is left out."""
    queue = Queue(server, rate_per_s, np.random.default_rng(seed))
    queue.take(PIECE // 4)
    pieces = requests // PIECE
    return float(np.mean([(queue.take(PIECE) > server.bound.limit_s).mean() for _ in range(pieces)]))
