"""Steps that are followed value by value, and what was counted of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from lynxbench.attribute.read.dataflow import Dataflow
from lynxbench.engines.torch.value_flow import record_dataflow

SIDE, ROWS = 64, 128
CPU = torch.device("cpu")

Step = Callable[[int], object]
Counts = dict[str, int]


def follow(step: Step) -> Dataflow:
    return msgspec.convert(record_dataflow(step, CPU), Dataflow)


def counted(step: Step, what: str) -> Counts:
    """By operator, where there are any: calls that are `again` or `unread`; or those that could be left out as one.

    `summed`: as one product whose results are only added together, and those additions.
    """
    flow = follow(step)
    assert flow.whole, flow.why
    found: Counts = {}
    for one in flow.operators:
        number = one.calls - one.batches if what == "merged" and one.batches else getattr(one, what, 0)
        if what == "summed":
            number = one.adding + (one.calls - one.sums if one.sums else 0)
        if number:
            found[one.name.removeprefix("aten::")] = found.get(one.name.removeprefix("aten::"), 0) + number
    return found


class Parts:
    """Tensors that the steps below share; made anew for each."""

    def __init__(self) -> None:
        self.x, self.other = torch.randn(ROWS, SIDE), torch.randn(ROWS, SIDE)
        self.w, self.v = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
        self.kept: Any = None
        self.net = nn.Sequential(nn.Linear(SIDE, SIDE), nn.GELU(), nn.Linear(SIDE, SIDE), nn.GELU(), nn.Linear(SIDE, 8))
        self.adam = torch.optim.AdamW(self.net.parameters())
        self.generator = torch.Generator().manual_seed(3)

    def train(self, forward: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> None:
        self.adam.zero_grad()
        forward(x).square().mean().backward()
        self.adam.step()


def trained(p: Parts) -> None:
    p.train(p.net, p.x)


def checkpointed(p: Parts) -> None:
    p.train(lambda x: checkpoint(p.net, x, use_reentrant=False), p.x.requires_grad_())


def accumulated(p: Parts) -> None:
    p.adam.zero_grad()
    for part in p.x.split(32):
        p.net(part).square().mean().backward()
    p.adam.step()


def residuals(p: Parts) -> object:
    hidden = p.x
    for _ in range(3):
        hidden = hidden + functional.layer_norm(hidden, (SIDE,)) @ p.w
    return hidden
