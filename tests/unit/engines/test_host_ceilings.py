"""Ceilings of the host: sought as long as the contract's own measuring allows, and never with fewer repeats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lynxbench.engines.host_ceilings import (
    BUDGET_S,
    LARGEST_STREAM_BYTES,
    LEAST_MATMUL_SIDE,
    LEAST_REPEATS,
    LEAST_STREAM_BYTES,
    MATMUL_SIDE,
    budget_within,
    filled_block,
    last_level_cache_bytes,
    measure_best_s,
    measure_matmul,
    measure_streams,
    stream_bytes,
)
from lynxbench.model.precision import Precision


@pytest.mark.parametrize(("limit_s", "budget_s"), [(600.0, BUDGET_S), (1.6, BUDGET_S), (0.6, 0.15), (0.02, 0.005)])
def test_ceilings_take_no_longer_than_a_process_may_measure(limit_s: float, budget_s: float) -> None:
    assert budget_within(limit_s) == pytest.approx(budget_s)


class Clock:
    """Time that passes only while a kernel works."""

    def __init__(self, steps_ms: list[int]) -> None:
        self.now_ns, self.left_ms = 0, iter(steps_ms)

    def perf_counter(self) -> float:
        return self.now_ns / 1e9

    def perf_counter_ns(self) -> int:
        return self.now_ns

    def work(self) -> None:
        self.now_ns += next(self.left_ms) * 1_000_000


@pytest.mark.parametrize(
    ("budget_s", "best_s", "unused"),
    [(0.001, 0.02, [7, 5]), (0.095, 0.007, [5]), (9.0, 0.0, [])],
    ids=["too short for its repeats", "used up", "long"],
)
def test_the_shortest_counts_after_a_warm_up_and_enough_repeats(
    monkeypatch: pytest.MonkeyPatch, budget_s: float, best_s: float, unused: list[int]
) -> None:
    first = 1  # the shortest of all, and not counted
    clock = Clock([first, 30, 20, 20, 20, 7, 5] if unused else [first, *[1000] * 8, 0, 1000])
    monkeypatch.setattr("lynxbench.engines.host_ceilings.time", clock)
    assert measure_best_s(clock.work, budget_s) == pytest.approx(best_s)
    assert list(clock.left_ms) == unused
    assert LEAST_REPEATS == 4


def test_each_says_how_long_it_was_sought() -> None:
    product = measure_matmul("float32", Precision.FP32, 1, 0.02)
    copy, read = measure_streams(2, 0.02)
    assert all("best of 0.02 s" in ceiling.how for ceiling in (product, copy, read))
    assert f"numpy matmul {LEAST_MATMUL_SIDE}³" in product.how, "a run's own limit leaves no time for a larger one"
    assert f"numpy matmul {MATMUL_SIDE}³" in measure_matmul("float32", Precision.FP32, 1, BUDGET_S).how
    assert (product.precision, product.unit) == (Precision.FP32, "FLOP/s")
    assert copy.per_s > LEAST_STREAM_BYTES / 60, "twice the bytes: read and written"
    assert read.per_s > LEAST_STREAM_BYTES / 60


@pytest.mark.parametrize("cache", ["36608K", "33M", "25344K", "55296K", "1K"])
def test_streams_are_measured_whatever_the_size_of_the_cache(cache: str, tmp_path: Path) -> None:
    """Caches of eleven or twenty-two ways, and shares of one, are no power of two."""
    (tmp_path / "index3").mkdir()
    (tmp_path / "index3" / "size").write_text(cache)
    size = stream_bytes(last_level_cache_bytes(tmp_path))
    assert size >= 4 * last_level_cache_bytes(tmp_path)
    assert filled_block(2 * size).nbytes == 2 * size


def test_streams_go_past_the_largest_cache(tmp_path: Path) -> None:
    assert last_level_cache_bytes(tmp_path / "none") == 32 << 20, "a guess"
    for index, size in enumerate(("48K", "2048K", "266240K", "many", "")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n")
    assert last_level_cache_bytes(tmp_path) == 260 << 20
    assert [stream_bytes(mib << 20) >> 20 for mib in (1, 16, 32, 128, 260)] == [64, 64, 128, 512, 512]
    assert LEAST_STREAM_BYTES < LARGEST_STREAM_BYTES


@pytest.mark.parametrize("size", [64 << 20, 128 << 20, 2 * 4 * (36_608 << 10), (64 << 20) + 4096])
def test_memory_is_there_before_anything_is_timed(size: int) -> None:
    """What is touched first is given by the system, which takes many times what a copy does."""
    block = filled_block(size)
    assert block.nbytes == size
    pages = block.reshape(-1, 1024)
    assert ((pages > 0.0).any(axis=1) & (pages < 1.0).all(axis=1)).all()
    assert len(np.unique(block[: 1 << 20])) > 1 << 19, "not constant: bits that stand still cost less power"
