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


def test_flushes_and_the_first_steps_are_left_out(agreement: ModuleType) -> None:
    seen: list[int] = []

    def step(index: int) -> None:
        seen.append(index)
        time.sleep(0.002)

    clock = EventClock(Stamp, lambda: None)
    took = agreement.flushed(step, lambda: time.sleep(0.012), None, 3, 10, 0.3, clock)
    assert len(took) == 10
    assert (took >= 2.0).all()
    assert took.min() < 12.0, "a flush alone would take that"
    assert seen == list(range(len(seen)))


def test_the_course_tells_when_a_series_moves(agreement: ModuleType) -> None:
    moved = agreement.course(agreement.np.array([0.00139] * 40 + [0.00163] * 160))
    assert moved == [1.39] * 3 + [1.63] * 12
    assert agreement.course(agreement.np.array([0.06, 0.061])) == [60.0, 61.0]


def test_every_pair_in_the_same_state_is_judged(agreement: ModuleType) -> None:
    near, far = {"apart": 0.004}, {"apart": 0.07}
    assert agreement.judge({"burst": near, "sustained": near, "graph_replay": near})
    assert not agreement.judge({"burst": far, "sustained": near})
    assert not agreement.judge({"burst": near, "sustained": far})
    assert not agreement.judge({"burst": near, "sustained": near, "graph_replay": far})
