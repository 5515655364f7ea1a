"""Planted bottlenecks in real steps, profiled for real; the cases live in the benchmark."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lynxbench.attribute.attributing import RESOURCE_FILE
from lynxbench.attribute.judge.process_accounts import measure_contention
from lynxbench.attribute.read.resource_record import read_resource
from lynxbench.model.attribution import Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS, Layer

pytest.importorskip("torch")
pytestmark = pytest.mark.slow


def _load() -> ModuleType:
    folder = Path(__file__).parents[3] / "benchmarks"
    sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.spec_from_file_location("attribution_cpu", folder / "attribution_cpu.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(folder))


planted = _load()
STEPS, LONG_STEPS = 25, 7
"""Profiled a case; those of a tenth of a second need fewer."""
LONG = ("compute", "training", "memory", "elementwise", "copies", "concatenated", "cast")


@pytest.fixture(scope="module")
def measured_ceilings() -> Iterator[tuple[Ceiling, ...]]:
    """On one thread: on a machine that others use too, a parallel region waits for whichever core is taken away."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield planted.measure_ceilings()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("name", planted.KNOWN)
def test_the_planted_cause_is_named_and_never_surely_another(
    name: str, measured_ceilings: tuple[Ceiling, ...], tmp_path: Path
) -> None:
    """Whoever had its CPUs is told the cause; who waited for one is told that, and no other cause without doubt."""
    case = planted.KNOWN[name]
    steps = LONG_STEPS if name in LONG else STEPS
    attribution, _ = planted.run_case(case, measured_ceilings, tmp_path, steps=steps)
    assert sum(attribution.shares.values()) == pytest.approx(1.0)
    assert attribution.layer is None or attribution.owner == DEFAULT_OWNERS[attribution.layer]
    record = read_resource(tmp_path / RESOURCE_FILE)
    contention = measure_contention(record)
    if contention is not None and contention.matters:
        assert attribution.bottleneck in case.right or attribution.weak or attribution.layer is Layer.SYSTEM, (
            attribution.sentence
        )
        waited = f"waited for a CPU {contention.waited:.0%} of their time"
        assert any(waited in line for line in attribution.evidence)
    else:
        assert attribution.bottleneck in case.right, (attribution.sentence, attribution.evidence)
        if case.bound == planted.SOFTWARE:  # how near kernels come to a ceiling, others' use of the memory decides too
            assert attribution.bound in case.bound, (attribution.sentence, attribution.evidence)
