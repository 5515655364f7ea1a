"""Samples and telemetry as a run would leave them; all of them deterministic."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry

SECOND_NS = 1_000_000_000
START_NS = 1_000 * SECOND_NS


def process(
    index: int, precision: str, *, rate: float, seconds: float, start_ns: int, tokens: int = 16, seed: int = 0
) -> CountedProcess:
    """One process: set-up, a slow warm-up, a transient, then a steady stretch with AR(1) noise and rare stalls."""
    random = np.random.default_rng(seed + index)
    many = max(8, int(rate * seconds / tokens))
    shocks = random.normal(0, 0.006, many - 1).tolist()
    noise = np.array(list(accumulate(shocks, lambda before, shock: 0.6 * before + shock, initial=0.0)))
    durations = tokens / rate * (1 + noise)
    warm, transient = many // 12, many // 6
    durations[:warm] *= np.linspace(1.9, 1.08, warm) if warm else 1
    durations[warm : warm + transient] *= np.linspace(0.94, 1.0, transient) if transient else 1
    durations[random.random(many) < 0.01] *= 1.25
    setup_ns = (start_ns, start_ns + int(1.2 * SECOND_NS))
    edges = setup_ns[1] + np.concatenate([[0], np.cumsum(durations)]) * SECOND_NS
    starts, ends = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
    phase = np.full(many, Phase.STEADY, dtype=np.int8)
    phase[:warm] = Phase.WARMUP
    phase[warm : warm + transient] = Phase.TRANSIENT
    shares = np.cumsum(random.gamma(400, 1, (many, tokens)), axis=1)
    shares /= shares[:, -1:]
    marks = (starts[:, None] + shares * (ends - starts)[:, None]).astype(np.int64)
    samples = ProcessSamples(
        process=index,
        precision=precision,
        setup_ns=setup_ns,
        compile_ns=None,
        iterations=Iterations(starts, ends, np.full(many, tokens, dtype=np.int64)),
        marks=Marks(np.repeat(np.arange(many), tokens).astype(np.int64), marks.reshape(-1)),
    )
    return CountedProcess(samples, phase)


def processes(
    plan: tuple[tuple[str, float], ...] = (("fp32", 18.9), ("int8", 27.1)), restarts: int = 3, tokens: int = 16
) -> tuple[CountedProcess, ...]:
    """Interleaved fresh processes, one after the other on one clock."""
    made, start = [], START_NS
    for restart in range(restarts):
        for slot, (precision, rate) in enumerate(plan):
            one = process(restart * len(plan) + slot, precision, rate=rate, seconds=28, start_ns=start, tokens=tokens)
            made.append(one)
            start = int(one.samples.iterations.end_ns[-1]) + SECOND_NS
    return tuple(made)


def telemetry(span_s: float = 190.0, *, gpu: bool = False) -> Telemetry:
    """What the sampler saw beside the run."""
    random = np.random.default_rng(7)
    many = int(span_s * 2)
    at = START_NS + (np.linspace(0, span_s, many) * SECOND_NS).astype(np.int64)
    time = np.linspace(0, 1, many)
    columns = {
        "cpu_busy_own": np.clip(0.96 + random.normal(0, 0.01, many), 0, 1),
        "cpu_busy_foreign": np.clip(0.012 + random.normal(0, 0.006, many), 0, 1),
        "cpu_clock_mhz": np.full(many, 2450.0) + random.normal(0, 3, many),
        "memory_used_bytes": 3.1e9 + 2e8 * np.sin(time * 20),
        "cpu_temperature_c": np.full(many, np.nan),
        "memory_total_bytes": np.full(many, 24e9),
    }
    if gpu:
        hot = time > 0.35
        columns |= {
            "gpu0_power_w": 410 + 290 * np.minimum(1, time * 6) + random.normal(0, 4, many),
            "gpu0_sm_clock_mhz": np.where(hot, 1485.0, 1980.0) + random.normal(0, 8, many),
            "gpu0_temperature_c": 38 + 30 * (1 - np.exp(-time * 5)),
            "gpu0_utilisation": np.full(many, 0.98),
            "gpu0_throttle_reasons": np.where(time > 0.8, 0x24, np.where(hot, 0x4, 0x1)).astype(float),
            "gpu0_memory_clock_mhz": np.full(many, 2619.0),
            "gpu0_memory_used_bytes": np.full(many, 41e9),
        }
    return Telemetry(at, columns)


# --- the shapes -----------------------------------------------------------------------------------------------------
