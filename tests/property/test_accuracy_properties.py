"""What must hold for any outputs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lynxbench.measure.accuracy import (
    compare_outputs,
    mean_cosine,
    relative_error,
    share_interval,
)
from lynxbench.measure.token_scores import negative_log_likelihood
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.precision import Precision
from lynxbench.model.samples import Outputs

FINITE = st.floats(-1e6, 1e6, width=32)
MATRICES = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=FINITE)
ANY = arrays(np.float32, array_shapes(min_dims=1, max_dims=3, max_side=6), elements=st.floats(width=32))


@given(MATRICES)
def test_an_answer_agrees_with_itself(matrix: npt.NDArray[np.float32]) -> None:
    assert relative_error(matrix, matrix) == 0
    assert abs(mean_cosine(matrix, matrix) - 1) < 1e-6


@given(MATRICES, st.floats(0.015625, 64.0))
def test_scaling_keeps_the_cosine(matrix: npt.NDArray[np.float32], factor: float) -> None:
    assert abs(mean_cosine(matrix, matrix.astype(np.float64) * factor) - 1) < 1e-6


@given(ANY, st.sampled_from(list(AccuracyMetric)), st.data())
def test_no_values_crash_the_comparison(
    reference: npt.NDArray[np.float32], metric: AccuracyMetric, data: st.DataObject
) -> None:
    candidate = data.draw(arrays(np.float32, reference.shape, elements=st.floats(width=32)))
    policy = AccuracyPolicy.model_construct(metric=metric, largest_loss=0.01)
    result = compare_outputs(
        Outputs("values", {"values": reference}, "i"),
        Outputs("values", {"values": candidate}, "i"),
        policy,
        reference_precision=Precision.FP32,
    )
    finite = bool(np.isfinite(candidate).all())
    assert result.verdict in ({"go", "no-go", "not measured"} if finite else {"no-go"})
    assert all(value is None or np.isfinite(value) for value in result.metrics.values())


@given(MATRICES, st.data())
def test_likelihoods_are_probabilities(logits: npt.NDArray[np.float32], data: st.DataObject) -> None:
    targets = data.draw(arrays(np.int64, len(logits), elements=st.integers(0, logits.shape[1] - 1)))
    assert (negative_log_likelihood(logits, targets) >= -1e-9).all()


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_share_intervals_hold_the_share(pair: tuple[int, int]) -> None:
    bounds = share_interval(*pair)
    assert 0 <= bounds.low <= bounds.estimate <= bounds.high <= 1
