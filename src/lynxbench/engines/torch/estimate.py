"""Whether a precision can be measured here within the contract's patience, before anything is loaded."""

from __future__ import annotations

import math

import torch

from lynxbench.engines.torch.device import FP8_CAPABILITY, TF32_CAPABILITY, capability, choose_device
from lynxbench.engines.torch.model_loading import Source, find_source
from lynxbench.engines.torch.number_formats import EIGHT_BIT
from lynxbench.engines.torch.probe import OUTER, WIDTH, Slowdown, measure_slowdown
from lynxbench.model.contract import TorchEngine
from lynxbench.model.job import Job, Skip
from lynxbench.model.precision import Precision
from lynxbench.model.workload import Task, Workload
from lynxbench.workload.lengths import typical
from lynxbench.workload.presets import ModelFamily

LEAST_STEPS = 12
"""Fewer iterations of a process say nothing about a steady state, however long each one takes."""
ASSUMED_TOKENS = 128
IMAGE_OPERATIONS = 4.1e9
"""One ResNet-50 image at 224 by 224 pixels, multiply-adds (He et al. 2016); the right order for the others."""
TRAINING_FACTOR = 3
"""Forward, and twice as much again backward."""


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
    if not slowdown.emulated:
        return None
    return _judge(job, slowdown)


def _unsupported(precision: Precision, device: torch.device, workload: Workload) -> str | None:
    if precision in (Precision.TF32, Precision.FP8):
        needed = TF32_CAPABILITY if precision is Precision.TF32 else FP8_CAPABILITY
        if device.type == "cpu":
            return f"{precision} is a format of CUDA tensor cores; this device is a CPU"
        if capability(device) < needed:
            have, want = ".".join(map(str, capability(device))), ".".join(map(str, needed))
            return f"{precision} needs compute capability {want}, this device has {have}"
    if precision in EIGHT_BIT and workload.task is Task.TRAIN_STEP:
        return f"{precision} kernels have no backward pass, so there is no training step to time"
    if precision in EIGHT_BIT and find_source(workload).model_type == "resnet":
        return f"{precision} here quantises linear layers, and a ResNet's work is in its convolutions"
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
