"""Planted bottlenecks in real steps, profiled for real; the cases live in the benchmark."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lynxbench.attribute.judge.time_book import HOST_CATEGORIES
from lynxbench.model.attribution import Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.alone]


def _load() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "attribution_cpu.py"
    spec = importlib.util.spec_from_file_location("attribution_cpu", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


planted = _load()
TRIES = 4
"""Steps of a few milliseconds are drowned when other programs take the core away; each try takes more of them."""
SEEN = 0.2
"""What the planted category takes at least when others' load hides that it leads."""
LONG_STEPS = ("compute", "training", "memory", "elementwise", "copies")


@pytest.fixture(scope="module")
def measured_ceilings() -> Iterator[tuple[Ceiling, ...]]:
    """On one thread: on a machine that others use too, a parallel region waits for whichever core is taken away."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield planted.measure_ceilings()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", planted.CASES)
def test_the_planted_cause_is_named(name: str, measured_ceilings: tuple[Ceiling, ...]) -> None:
    case = planted.CASES[name]
    for number in range(1, TRIES + 1):
        said, _ = planted.run_case(case, measured_ceilings, steps=number * (5 if name in LONG_STEPS else 15))
        if said.bottleneck in case.right:
            break
    else:  # a loaded machine may hide the cause; it may not make the verdict sure of another
        seen = sum(said.shares.get(category, 0.0) for category in case.right)
        assert said.weak, (said.sentence, said.evidence)
        assert seen >= SEEN, (said.sentence, said.evidence)
    assert sum(said.shares.values()) == pytest.approx(1.0)
    if said.layer is not None:
        assert said.owner == DEFAULT_OWNERS[said.layer]
    if said.bottleneck in HOST_CATEGORIES and said.bottleneck in case.right:
        assert said.bound in case.bound, said.sentence
