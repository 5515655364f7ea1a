"""From a function to its verdict: work at full speed that values show to be needless, and healthy twins of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import torch
from torch import nn

from attributed import attribute_by
from lynxbench.engines.torch.profiling import profile_steps, write_trace
from lynxbench.engines.torch.value_flow import record_dataflow
from lynxbench.model.attribution import Attribution, Bound, Ceiling
from lynxbench.model.precision import Precision

pytestmark = pytest.mark.usefixtures("nothing_compiled")

SIDE, STEPS = 512, 5
PRODUCT = 2.0 * SIDE**3
CPU = torch.device("cpu")


def verdict(step: Callable[[int], object], into: Path) -> Attribution:
    """By ceilings that its own products reach, so that all of it runs at full speed whatever the machine does."""
    step(0)
    trace = write_trace(profile_steps(step, STEPS, CPU), into, record_dataflow(step, CPU, first=STEPS))
    events = json.loads(trace.read_bytes())["traceEvents"]
    product_us = median(event["dur"] for event in events if event.get("name") == "aten::mm")
    step_us = median(event["dur"] for event in events if str(event.get("name")).startswith("step#"))
    rate = PRODUCT / product_us * 1e6
    ceilings = (
        Ceiling(name="matmul", precision=Precision.FP32, per_s=rate, unit="operations/s", how="its own products"),
        Ceiling(name="copy", precision=None, per_s=20e9, unit="bytes/s", how="declared"),
    )
    return attribute_by(12, trace, ceilings, step_us / 1e3)


def two_products(w: torch.Tensor) -> Callable[[int], object]:
    x = torch.randn(SIDE, SIDE)
    return lambda _: (x @ w).add_(x @ w)


def twin_of_two_products(w: torch.Tensor) -> Callable[[int], object]:
    x = torch.randn(SIDE, SIDE)
    return lambda _: (x @ w) @ w


def frozen(_: torch.Tensor, *, all_of_it: bool = False) -> Callable[[int], object]:
    net = nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(4)))
    trained = net if all_of_it else net[3]
    sgd, x = torch.optim.SGD(trained.parameters(), lr=1e-6), torch.randn(SIDE, SIDE)

    def step(_: int) -> None:
        net.zero_grad()
        net(x).sum().backward()
        sgd.step()

    return step


def all_trained(w: torch.Tensor) -> Callable[[int], object]:
    return frozen(w, all_of_it=True)


@pytest.mark.parametrize(
    ("made", "said"),
    [(two_products, "compute anew"), (frozen, "nobody reads")],
)
def test_needless_work_is_named_from_the_function_on(
    made: Callable[[torch.Tensor], Callable[[int], object]], said: str, tmp_path: Path
) -> None:
    found = verdict(made(torch.randn(SIDE, SIDE) / SIDE), tmp_path)
    assert found.bound is Bound.SOFTWARE
    assert said in found.sentence
    assert found.gain_if_removed.estimate > 1.3


@pytest.mark.parametrize("made", [twin_of_two_products, all_trained])
def test_its_healthy_twin_is_not(made: Callable[[torch.Tensor], Callable[[int], object]], tmp_path: Path) -> None:
    found = verdict(made(torch.randn(SIDE, SIDE) / SIDE), tmp_path)
    assert not any(word in found.sentence for word in ("anew", "nobody reads", "zeros"))
    assert any("no operator of weight computes anew" in line for line in found.evidence)
