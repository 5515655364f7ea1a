"""How fast a product runs here at a precision, against fp32: what tells native from emulated on a CPU."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from lynxbench.engines.torch.linear import Int8DynamicCpu, Int8WeightOnly, choose_quantised_engine
from lynxbench.engines.torch.timing import measure_best_s
from lynxbench.model.precision import Precision

EMULATED_SLOWDOWN = 3.0
"""Emulated when even the better of two products takes so many times its fp32 time. Formats a CPU multiplies itself are
at worst level with fp32; those it must convert were 5 to 300 times slower (docs/methodology/precision.md)."""
WIDTH, OUTER = 576, 1536
"""A feed-forward layer of a 135M model: small enough that 0.1 GFLOP/s ends within a second."""
FEW_ROWS, MANY_ROWS = 1, 32
ROUNDS = 6
ROUND_BUDGET_S = 0.03
PATIENCE_S = 1.0
"""The formats take turns, so that a passing load hits both; no round begins once the patience is used up."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Times of two products at a precision over their times in fp32."""

    few_rows: float
    many_rows: float
    fp32_few_s: float
    fp32_many_s: float

    @property
    def emulated(self) -> bool:
        """Even the better of the two is far behind fp32."""
        return min(self.few_rows, self.many_rows) > EMULATED_SLOWDOWN

    @property
    def words(self) -> str:
        """For people."""
        few, many = f"{self.few_rows:.2g}", f"{self.many_rows:.2g}"
        return f"product of {FEW_ROWS} row {few}×, of {MANY_ROWS} rows {many}× the fp32 time"


def measure_slowdown(precision: Precision) -> Slowdown:
    """Time the two products in both formats with the threads now set; at most about two seconds."""
    cpu = torch.device("cpu")
    times: dict[tuple[bool, int], float] = {}
    generator = torch.Generator().manual_seed(0)
    linear = nn.Linear(WIDTH, OUTER, bias=False)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that its bf16 path lacks the instructions; the time says the same
        linear.weight.copy_(torch.randn(OUTER, WIDTH, generator=generator) * 0.02)
        other = _at(precision, linear)
        for rows in (FEW_ROWS, MANY_ROWS):
            x = torch.randn(rows, WIDTH, generator=generator)
            began = time.perf_counter()
            for _ in range(ROUNDS):
                for is_other, product in ((False, linear), (True, other)):
                    taken = measure_best_s(partial(product, x), cpu, ROUND_BUDGET_S)
                    times[is_other, rows] = min(taken, times.get((is_other, rows), math.inf))
                if time.perf_counter() - began > PATIENCE_S:
                    break
    return Slowdown(
        few_rows=times[True, FEW_ROWS] / times[False, FEW_ROWS],
        many_rows=times[True, MANY_ROWS] / times[False, MANY_ROWS],
        fp32_few_s=times[False, FEW_ROWS],
        fp32_many_s=times[False, MANY_ROWS],
    )


def _at(precision: Precision, linear: nn.Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    dtypes = {Precision.FP16: torch.float16, Precision.BF16: torch.bfloat16}
    if precision in dtypes:
        dtype = dtypes[precision]
        weight = linear.weight.to(dtype)
        kept: dict[int, torch.Tensor] = {}

        def product(x: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear(kept.setdefault(x.shape[0], x.to(dtype)), weight)

        return product
    if precision is Precision.INT8:
        choose_quantised_engine()
        return Int8DynamicCpu(linear)
    if precision is Precision.INT8_WEIGHT_ONLY:
        return Int8WeightOnly(linear, torch.float32)
    return linear  # type: ignore[no-any-return]
