from __future__ import annotations

import math

import numpy as np
import pytest

from lynxbench.measure.responses import process_response, response_unit
from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples


def process(phases: list[Phase]) -> CountedProcess:
    starts = np.arange(len(phases), dtype=np.int64) * 10_000_000
    ends = starts + np.array([9_000_000, *[4_000_000] * (len(phases) - 1)])
    marks = Marks(
        np.repeat(np.arange(len(phases)), 2), np.concatenate([[s + 1_000_000, s + 3_000_000] for s in starts])
    )
    samples = ProcessSamples(0, "fp32", (0, 1), None, Iterations(starts, ends, np.full(len(phases), 2)), marks)
    return CountedProcess(samples, np.array(phases, dtype=np.int8))


def test_only_what_is_counted_responds() -> None:
    one = process([Phase.WARMUP, Phase.STEADY, Phase.STEADY])
    assert process_response(one, "throughput") == pytest.approx(2 / 0.004)
    assert process_response(one, "latency-p50") == pytest.approx(4.0)
    assert process_response(one, "time-to-first-token-p50") == pytest.approx(1.0)
    assert process_response(one, "time-per-token-p99") == pytest.approx(2.0)


def test_without_a_steady_state_what_follows_warm_up_stands_in() -> None:
    assert process_response(process([Phase.WARMUP, Phase.TRANSIENT]), "latency-p50") == pytest.approx(4.0)
    assert math.isnan(process_response(process([Phase.WARMUP]), "throughput"))


def test_units() -> None:
    assert response_unit("throughput", "tokens/s") == "tokens/s"
    assert response_unit("latency-p95", "tokens/s") == "ms"
