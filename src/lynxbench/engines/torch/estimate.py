"""How slow a precision is here, and whether it can be measured within the contract's patience; no model is loaded."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from lynxbench.engines.torch.device import capability, choose_device, measure_best_s
from lynxbench.engines.torch.model_loading import Source, find_source
from lynxbench.engines.torch.number_formats import FORMATS, recipe_for, supports
from lynxbench.errors import CannotRun
from lynxbench.executor.host import Host
from lynxbench.executor.native_precisions import cpu_precision
from lynxbench.executor.processor import parse_cpuinfo
from lynxbench.model.contract import TorchEngine
from lynxbench.model.job import Job, Skip
from lynxbench.model.precision import Native, Precision
from lynxbench.model.workload import Task, Workload
from lynxbench.workload.lengths import typical
from lynxbench.workload.presets import ModelFamily

TENSOR_CORE_FORMATS = (
    *(Precision.TF32, Precision.FP8, Precision.FP8_BLOCK, Precision.MXFP8, Precision.NVFP4, Precision.MXFP4),
)
"""Formats that nothing but matrix units takes."""
LEAST_STEPS = 12
"""Fewer iterations of a process say nothing about a steady state, however long each one takes."""
ASSUMED_TOKENS = 128
IMAGE_OPERATIONS = 4.1e9
"""One ResNet-50 image at 224 by 224 pixels, multiply-adds (He et al. 2016); the right order for the others."""
TRAINING_FACTOR = 3
"""Forward, and twice as much again backward."""
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


def estimate(job: Job) -> Skip | None:
    """A reason to skip this precision on this device, or None."""
    engine = job.contract.engine
    assert isinstance(engine, TorchEngine)
    device = choose_device(engine.device)
    workload = job.contract.workload
    unsupported = _unsupported(job.precision, device, workload)
    if unsupported is not None:
        return Skip(reason=f"unsupported: {unsupported}")
    if device.type != "cpu" or job.precision not in (Precision.FP16, Precision.BF16):
        return None
    torch.set_num_threads(job.threads)
    slowdown = measure_slowdown(job.precision)
    if not slowdown.emulated and lacking_arithmetic(job.precision) is None:
        return None
    return _judge(job, slowdown)


def lacking_arithmetic(precision: Precision) -> str | None:
    """Why this CPU multiplies no numbers of 16 bits itself, by its flags; None where it does, or they are not known.

    A product that waits for memory is no slower for being widened first, so its time alone does not tell.
    """
    if precision not in (Precision.FP16, Precision.BF16):
        return None
    first = next(iter(parse_cpuinfo(Host().text_or("/proc/cpuinfo"))), {})
    native, reason = cpu_precision((first.get("flags") or first.get("Features") or "").split(), precision.value)
    return reason if native is Native.EMULATED else None


def _unsupported(precision: Precision, device: torch.device, workload: Workload) -> str | None:
    number_format = FORMATS[precision]
    if precision in TENSOR_CORE_FORMATS:
        if device.type == "cpu":
            return f"{precision} is a format of CUDA tensor cores; this device is a CPU"
        needed = number_format.capability
        if needed is not None and supports(device, precision) is False:
            have, want = (".".join(map(str, version)) for version in (capability(device), needed))
            return f"{precision} needs compute capability {want}, this device has {have}"
    if number_format.unsupported:
        return number_format.unsupported
    if number_format.quantised and workload.task is Task.TRAIN_STEP:
        return f"{precision} kernels have no backward pass, so there is no training step to time"
    if number_format.quantised and find_source(workload).model_type == "resnet":
        return f"{precision} here quantises linear layers, and a ResNet's work is in its convolutions"
    try:
        recipe_for(precision, device)
    except CannotRun as refusal:
        return str(refusal)
    return None


def _judge(job: Job, slowdown: Slowdown) -> Skip | None:
    protocol = job.contract.protocol
    few_s, many_s = _fp32_step_s(job.contract.workload, slowdown)
    reference_s = job.reference_step_s or few_s + many_s
    share_few = few_s / (few_s + many_s)
    factor = share_few * slowdown.few_rows + (1 - share_few) * slowdown.many_rows
    step_s = reference_s * factor
    steps = max(LEAST_STEPS, math.ceil(protocol.min_duration_s / step_s))
    total_s = steps * step_s
    if total_s <= protocol.emulated_limit_s:
        return None
    about = f"{total_s / 60:.0f} min" if total_s >= 120 else f"{total_s:.0f} s"
    return Skip(
        reason=f"emulated on this CPU ({factor:.0f}× slower than fp32): skipped, would take about {about}",
        estimated_s=total_s,
    )


def _fp32_step_s(workload: Workload, slowdown: Slowdown) -> tuple[float, float]:
    """Seconds of a step in products of few rows (decoding) and of many rows (all else), by counting products."""
    source = find_source(workload)
    layers = _linear_parameters(source) / (WIDTH * OUTER)
    if source.family is ModelFamily.VISION:
        many = workload.batch * IMAGE_OPERATIONS / (WIDTH * OUTER * 32)
        few = 0.0
    else:
        tokens = typical(workload.input_tokens) if workload.input_tokens else ASSUMED_TOKENS
        rows = workload.batch * (1 if workload.task is Task.DECODE else tokens)
        many = layers * rows / 32
        few = layers * (typical(workload.output_tokens) - 1) if workload.output_tokens else 0.0
    factor = TRAINING_FACTOR if workload.task is Task.TRAIN_STEP else 1
    return few * slowdown.fp32_few_s * factor, max(many, 1e-9) * slowdown.fp32_many_s * factor


def _linear_parameters(source: Source) -> float:
    """Parameters that take part in matrix products, from the shape alone."""
    config = source.config
    width = float(config.get("hidden_size", WIDTH))
    inner = float(config.get("intermediate_size", 4 * width))
    layers = float(config.get("num_hidden_layers", 12))
    gated = 3 if source.family is ModelFamily.DECODER else 2
    heads = float(config.get("num_attention_heads", 1))
    shared = float(config.get("num_key_value_heads") or heads) / heads
    attention = width * width * (2 + 2 * shared)
    head = float(config.get("vocab_size", 0)) * width if source.family is ModelFamily.DECODER else 0.0
    return layers * (attention + gated * width * inner) + head


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
        other = _product_at(precision, linear)
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


def _product_at(precision: Precision, linear: nn.Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    recipe = recipe_for(precision, torch.device("cpu"))
    if recipe is not None:
        return recipe.layer(linear, torch.float32)
    dtype = FORMATS[precision].dtype
    weight = linear.weight.to(dtype)
    converted: dict[int, torch.Tensor] = {}

    def product(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(converted.setdefault(x.shape[0], x.to(dtype)), weight)

    return linear if dtype is torch.float32 else product
