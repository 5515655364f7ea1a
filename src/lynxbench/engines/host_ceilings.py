"""The best this host does on bare numpy kernels, measured now: the envelope that a workload is held against."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from lynxbench.model.attribution import Ceiling
from lynxbench.model.precision import Precision

MATMUL_SIDE = 1024
"""Large enough to be bound by arithmetic (2·n³ operations on 3·n² numbers), small enough to repeat in the budget."""
LEAST_MATMUL_SIDE = 512
"""Where a run's own limit leaves less than the usual budget; still bound by arithmetic."""
STREAM_BYTES = 64 << 20
"""Beyond most last-level caches, so that the copy goes to memory (STREAM asks for 4 times the cache)."""
BUDGET_S = 0.4
KERNELS = 4
"""The most that a run measures here: two products, a copy and a read."""
LEAST_REPEATS = 4


def budget_within(limit_s: float) -> float:
    """A kernel's time: what bounds a run takes no longer than a process of it may; with the usual time where it may."""
    return min(BUDGET_S, limit_s / KERNELS)


def measure_best_s(work: Callable[[], object], budget_s: float) -> float:
    """The shortest of repeated executions within the budget; the first one warms up and does not count."""
    work()
    shortest = float("inf")
    began = time.perf_counter()
    repeats = 0
    while repeats < LEAST_REPEATS or time.perf_counter() - began < budget_s:
        start = time.perf_counter_ns()
        work()
        shortest = min(shortest, (time.perf_counter_ns() - start) / 1e9)
        repeats += 1
    return shortest


def measure_matmul(dtype: str, precision: Precision | None, threads: int, budget_s: float) -> Ceiling:
    """Operations per second of numpy's matrix product on seeded random data."""
    side = MATMUL_SIDE if budget_s >= BUDGET_S else LEAST_MATMUL_SIDE
    random = np.random.default_rng(0)
    left = random.standard_normal((side, side)).astype(dtype)
    right = random.standard_normal((side, side)).astype(dtype)
    out = np.empty_like(left)
    best_s = measure_best_s(lambda: np.matmul(left, right, out=out), budget_s)
    how = f"numpy matmul {side}³ {dtype}, random data, best of {budget_s:g} s, {threads} threads asked for"
    return Ceiling(name="matmul", precision=precision, per_s=2 * side**3 / best_s, unit="FLOP/s", how=how)


def measure_streams(threads: int, budget_s: float) -> tuple[Ceiling, Ceiling]:
    """Bytes per second of a copy (read and written) and of a pure read, over that many threads."""
    words = STREAM_BYTES // 8
    source = np.arange(words, dtype=np.int64)
    target = np.empty_like(source)
    edges = np.linspace(0, words, threads + 1, dtype=np.int64)
    parts = [slice(int(low), int(high)) for low, high in pairwise(edges)]
    with ThreadPoolExecutor(threads) as pool:  # numpy releases the GIL in both kernels

        def copy() -> None:
            list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))

        def read() -> None:
            list(pool.map(lambda part: np.bitwise_or.reduce(source[part]), parts))

        copy_s, read_s = measure_best_s(copy, budget_s), measure_best_s(read, budget_s)
    size = f"{STREAM_BYTES >> 20} MiB, {threads} threads, best of {budget_s:g} s"
    return (
        Ceiling(name="copy", precision=None, per_s=2 * STREAM_BYTES / copy_s, unit="B/s", how=f"numpy copyto, {size}"),
        Ceiling(name="read", precision=None, per_s=STREAM_BYTES / read_s, unit="B/s", how=f"numpy or-reduce, {size}"),
    )
