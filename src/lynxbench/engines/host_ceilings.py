"""The best this host does on bare numpy kernels, measured now: the envelope that a workload is held against."""

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np

from lynxbench.model.attribution import Ceiling
from lynxbench.model.precision import Precision

MATMUL_SIDE = 1024
"""Large enough to be bound by arithmetic (2·n³ operations on 3·n² numbers), small enough to repeat in the budget."""
LEAST_MATMUL_SIDE = 512
"""Where a run's own limit leaves less than the usual budget; still bound by arithmetic."""
STREAM_CACHES = 4
"""Arrays of so many times the last-level cache, so that they go to memory (McCalpin's rule for STREAM) …"""
LEAST_STREAM_BYTES, LARGEST_STREAM_BYTES = 64 << 20, 512 << 20
"""… but no smaller and no larger. What is read is two of the largest: four times a cache of 256 MiB."""
PIECE_BYTES = 4 << 20
"""What is streamed is filled by so many random bytes, again and again: drawing all of it would take seconds."""
GUESSED_CACHE_BYTES = 32 << 20
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
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


def last_level_cache_bytes(caches: Path = CACHES) -> int:
    """The largest cache of the processor; a cautious guess where it cannot be read, or says less."""
    sizes = [GUESSED_CACHE_BYTES]
    for size in caches.glob("index*/size"):
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            text = size.read_text().strip()
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
    return max(sizes)


def stream_bytes(cache_bytes: int) -> int:
    """How large each of two arrays is whose copy shall go to memory."""
    return min(max(STREAM_CACHES * cache_bytes, LEAST_STREAM_BYTES), LARGEST_STREAM_BYTES)


def measure_streams(threads: int, budget_s: float) -> tuple[Ceiling, Ceiling]:
    """Bytes per second of a copy (read and written) and of a pure read, over that many threads."""
    size = stream_bytes(last_level_cache_bytes()) if budget_s >= BUDGET_S else LEAST_STREAM_BYTES
    block = filled_block(2 * size).view(np.int64)
    source, target = np.split(block, 2)

    def shared(work: Callable[[slice], object], words: int) -> Callable[[], object]:
        edges = np.linspace(0, words, threads + 1, dtype=np.int64)
        parts = [slice(int(low), int(high)) for low, high in pairwise(edges)]
        return lambda: list(pool.map(work, parts))

    with ThreadPoolExecutor(threads) as pool:  # numpy releases the GIL in both kernels
        copy = shared(lambda part: np.copyto(target[part], source[part]), len(source))
        read = shared(lambda part: np.bitwise_or.reduce(block[part]), len(block))
        copy_s, read_s = measure_best_s(copy, budget_s), measure_best_s(read, budget_s)
    how = f"{threads} threads, best of {budget_s:g} s"
    copied = f"numpy copyto, {size >> 20} MiB, {how}"
    return (
        Ceiling(name="copy", precision=None, per_s=2 * source.nbytes / copy_s, unit="B/s", how=copied),
        Ceiling(
            name="read", precision=None, per_s=block.nbytes / read_s, unit="B/s",
            how=f"numpy or-reduce, {block.nbytes >> 20} MiB, {how}",
        ),
    )  # fmt: skip


def filled_block(size: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Memory that is there: what is touched first while a kernel is timed is no work of the kernel's.

    Never zeros, since constant bits cost less power.
    """
    block = np.empty(size // 4, dtype=np.float32)
    piece = np.random.default_rng(0).random(PIECE_BYTES // 4, dtype=np.float32)
    for start in range(0, len(block), len(piece)):
        part = block[start : start + len(piece)]
        part[:] = piece[: len(part)]
    return block
