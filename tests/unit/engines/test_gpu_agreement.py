"""The agreement benchmark's own arithmetic, on a device made of a clock: which steps count, which pairs are judged."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

from lynxbench.engines.torch.events import EventClock

FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("gpu_agreement", FOLDER / "gpu_agreement.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(FOLDER))


class Stamp:
    def record(self) -> None:
        self.at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        return

    def elapsed_time(self, end_event: Stamp) -> float:
        return (end_event.at_ns - self.at_ns) / 1e6


def test_flushes_are_left_out_of_the_median(agreement: ModuleType) -> None:
    seen: list[int] = []

    def step(index: int) -> None:
        seen.append(index)
        time.sleep(0.002)

    clock = EventClock(Stamp, lambda: None)
    took = agreement.flushed_ms(step, lambda: time.sleep(0.012), None, 0.3, 0.02, clock)
    assert 2.0 <= took < 8.0
    assert seen == list(range(len(seen)))


def test_the_burst_without_flush_is_shown_and_not_judged(agreement: ModuleType) -> None:
    near, far = {"apart": 0.004}, {"apart": 0.07}
    assert agreement.judge({"burst": near, "sustained": near, "burst_without_flush": far})
    assert not agreement.judge({"burst": far, "sustained": near, "burst_without_flush": near})
    assert not agreement.judge({"burst": near, "sustained": near, "graph_replay": far})
