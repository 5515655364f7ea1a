"""Accuracy against outputs with known differences."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from lynxbench.errors import BadResult
from lynxbench.measure.accuracy import (
    compare_outputs,
    mean_cosine,
    relative_error,
    score_labelled_vectors,
    share_interval,
)
from lynxbench.measure.token_scores import negative_log_likelihood
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.precision import Precision
from lynxbench.model.result import Accuracy
from lynxbench.model.samples import Outputs

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.standard_normal((300, 20)).astype(np.float32)
TARGETS = RANDOM.integers(0, 20, 300)


def outputs(kind: str, inputs: str = "same", **arrays: npt.NDArray[np.generic]) -> Outputs:
    return Outputs(kind=kind, arrays=arrays, inputs=inputs)


def policy(metric: str, largest_loss: float) -> AccuracyPolicy:
    return AccuracyPolicy(metric=AccuracyMetric(metric), largest_loss=f"{largest_loss * 100} %")  # type: ignore[arg-type]


def compare(reference: Outputs, candidate: Outputs, rule: AccuracyPolicy | None = None) -> Accuracy:
    return compare_outputs(reference, candidate, rule, reference_precision=Precision.FP32)


def labelled_vectors(noise: float, seed: int = 0) -> Outputs:
    """Two clouds that overlap as much as the noise says; the labels and halves never change."""
    random = np.random.default_rng(5)
    labels = np.tile([0, 1], 100)
    direction = random.standard_normal(16)
    clouds = (labels[:, None] * 2 - 1) * direction + random.standard_normal((200, 16))
    vectors = clouds + noise * np.random.default_rng(seed).standard_normal((200, 16))
    return outputs("embedding", vectors=vectors, labels=labels, split=np.repeat([0, 1], 100))


def test_equal_outputs_lose_nothing() -> None:
    same = outputs("logits", logits=LOGITS, targets=TARGETS)
    result = compare(same, same, policy("perplexity", 0.0))
    assert result.verdict == "go"
    assert result.loss == 0
    assert result.metrics["relative-error"] == 0
    assert result.metrics["cosine"] == pytest.approx(1)
    assert result.metrics["top1"] == 1
    assert result.metrics["perplexity-change"] == 0


def test_perplexity_is_that_of_the_definition() -> None:
    uniform = outputs("logits", logits=np.zeros((10, 7)), targets=np.arange(10) % 7)
    result = compare_outputs(None, uniform, None, reference_precision=Precision.FP32, is_reference=True)
    assert result.verdict == "reference"
    assert result.metrics["perplexity"] == pytest.approx(7)
    shifted = negative_log_likelihood(LOGITS + 1e4, TARGETS)  # a constant added to all scores changes nothing
    np.testing.assert_allclose(shifted, negative_log_likelihood(LOGITS, TARGETS), atol=1e-2)


def test_perplexity_change_is_relative_and_bracketed() -> None:
    worse = LOGITS.astype(np.float64)
    worse[np.arange(300), TARGETS] -= 0.05
    result = compare(
        outputs("logits", logits=LOGITS, targets=TARGETS),
        outputs("logits", logits=worse, targets=TARGETS),
        policy("perplexity", 0.01),
    )
    change = result.metrics["perplexity-change"]
    assert change is not None
    assert 0.03 < change < math.expm1(0.05)
    low, high = result.metrics["perplexity-change-low"], result.metrics["perplexity-change-high"]
    assert low is not None
    assert high is not None
    assert low < change < high
    assert result.loss == change
    assert result.verdict == "no-go"


def test_relative_error_and_cosine_by_hand() -> None:
    left, right = np.array([[3.0, 4.0], [1.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]])
    assert relative_error(left, right) == pytest.approx(math.sqrt(2 / 26))
    assert mean_cosine(left, right) == pytest.approx(0.5)


def test_zero_answers_are_neither_crash_nor_agreement() -> None:
    zero, one = np.zeros((2, 3)), np.ones((2, 3))
    assert mean_cosine(zero, zero) == 1
    assert mean_cosine(zero, one) == 0
    assert relative_error(zero, zero) == 0
    result = compare(outputs("values", values=zero), outputs("values", values=one), policy("relative-error", 1.0))
    assert result.verdict == "no-go"
    assert result.loss is None
    assert result.metrics["relative-error"] is None


@pytest.mark.parametrize(
    ("metric", "loss"), [("top1", 0.25), ("cosine", None), ("relative-error", None), ("task", 0.25)]
)
def test_loss_is_in_the_policys_metric(metric: str, loss: float | None) -> None:
    scores = np.eye(4)
    flipped = scores.copy()
    flipped[3] = scores[0]
    labels = np.arange(4)
    result = compare(
        outputs("classes", scores=scores, labels=labels),
        outputs("classes", scores=flipped, labels=labels),
        policy(metric, 0.3),
    )
    assert result.loss is not None
    if loss is not None:
        assert result.loss == pytest.approx(loss)
        assert result.verdict == "go"
    assert result.metrics["task"] == 0.75
    assert result.task_metric == "share of labels right"


def test_polarity_falls_with_noise_and_the_verdict_follows() -> None:
    clean = labelled_vectors(0.0)
    slight = compare(clean, labelled_vectors(0.05), policy("task", 0.02))
    heavy = compare(clean, labelled_vectors(30.0), policy("task", 0.02))
    assert slight.verdict == "go"
    assert heavy.verdict == "no-go"
    assert heavy.loss is not None
    assert heavy.loss > 0.2
    low, estimate, high = (heavy.metrics[name] for name in ("task-low", "task", "task-high"))
    assert low is not None
    assert estimate is not None
    assert high is not None
    assert low < estimate < high
    assert heavy.metrics["task-inputs"] == 100


def test_classifier_is_right_on_separable_and_at_chance_on_shuffled_labels() -> None:
    split = np.repeat([0, 1], 100)
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 200)
    vectors = np.eye(3)[labels] + 0.05 * random.standard_normal((200, 3))
    assert score_labelled_vectors(vectors, labels, split).all()
    wide = random.standard_normal((200, 400))
    assert 0.15 < score_labelled_vectors(wide, random.permutation(labels), split).mean() < 0.55


def test_gains_are_negative_losses() -> None:
    labels = np.arange(4)
    wrong = np.eye(4)[[1, 1, 2, 3]]
    before, after = outputs("classes", scores=wrong, labels=labels), outputs("classes", scores=np.eye(4), labels=labels)
    result = compare(before, after, policy("task", 0.0))
    assert result.loss == pytest.approx(-0.25)
    assert result.verdict == "go"


def test_training_compares_losses_and_gradients() -> None:
    gradient = RANDOM.standard_normal(1000)
    result = compare(
        outputs("training", losses=np.array([2.0, 1.0]), gradient=gradient),
        outputs("training", losses=np.array([2.2, 1.0]), gradient=2 * gradient),
        policy("cosine", 0.01),
    )
    assert result.metrics["loss-difference"] == pytest.approx(0.1 / 1.5)
    assert result.metrics["cosine"] == pytest.approx(1)
    assert result.metrics["relative-error"] == pytest.approx(1)
    assert result.verdict == "go"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_answers_are_no_go_with_the_share(bad: float) -> None:
    broken = np.ones((4, 5), np.float32)
    broken[1, 2] = bad
    result = compare(outputs("embedding", vectors=np.ones((4, 5))), outputs("embedding", vectors=broken))
    assert result.verdict == "no-go"
    assert result.metrics == {"non-finite": pytest.approx(0.05)}
    reversed_result = compare(outputs("embedding", vectors=broken), outputs("embedding", vectors=np.ones((4, 5))))
    assert reversed_result.verdict == "not measured"
    assert "reference-non-finite" in reversed_result.metrics


def test_absent_metrics_and_absent_outputs_are_not_measured() -> None:
    vectors = outputs("embedding", vectors=np.ones((4, 5)))
    assert compare(vectors, vectors, policy("perplexity", 0.1)).verdict == "not measured"
    assert compare(vectors, vectors).verdict == "no policy"
    assert compare_outputs(vectors, None, None, reference_precision=Precision.FP32).verdict == "not measured"
    assert compare_outputs(None, vectors, None, reference_precision=Precision.FP32).verdict == "not measured"


@pytest.mark.parametrize(
    ("reference", "candidate", "said"),
    [
        (outputs("values", values=np.ones(3)), outputs("values", values=np.ones(4)), "cannot be compared"),
        (
            outputs("values", values=np.ones(3)),
            outputs("values", inputs="other", values=np.ones(3)),
            "different inputs",
        ),
        (outputs("values", values=np.ones(3)), outputs("embedding", vectors=np.ones((3, 1))), "cannot be compared"),
        (outputs("values", values=np.ones(3)), outputs("sound", values=np.ones(3)), "kind 'sound'"),
        (outputs("values", values=np.ones(3)), outputs("values"), "lack 'values'"),
        (outputs("values", values=np.ones(3)), outputs("values", values=np.empty(0)), "lack 'values'"),
        (outputs("values", values=np.ones(3)), outputs("embedding", vectors=np.ones(3)), "rows and columns"),
        (
            outputs("logits", logits=LOGITS, targets=TARGETS),
            outputs("logits", logits=LOGITS, targets=TARGETS[::-1].copy()),
            "targets differ",
        ),
        (
            outputs("logits", logits=LOGITS, targets=TARGETS),
            outputs("logits", logits=LOGITS, targets=TARGETS + 20),
            "token ids below 20",
        ),
        (
            outputs("logits", logits=LOGITS, targets=TARGETS),
            outputs("logits", logits=LOGITS, targets=TARGETS[:5]),
            "do not fit 300 answers",
        ),
    ],
)
def test_outputs_that_do_not_fit_together_are_bad_results(reference: Outputs, candidate: Outputs, said: str) -> None:
    with pytest.raises(BadResult, match=said):
        compare(reference, candidate)


def test_labels_without_two_halves_are_bad_results() -> None:
    with pytest.raises(BadResult, match="split 0"):
        score_labelled_vectors(np.ones((4, 2)), np.zeros(4), np.array([0, 0, 1, 1]))


def test_wilson_interval_by_the_book() -> None:
    bounds = share_interval(8, 10)  # Wilson score interval of 8 in 10 at 95 %
    assert (bounds.low, bounds.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert share_interval(10, 10).high == 1
    assert share_interval(0, 10).low == 0


# --- scores that cannot tell -----------------------------------------------------------------------------------------


def with_first(share: float) -> Outputs:
    """Scores that put token 0 first at that share of the positions, the others where chance has it."""
    logits = LOGITS.copy()
    logits[: round(share * len(logits)), 0] += 10
    return outputs("logits", logits=logits, targets=TARGETS)


@pytest.mark.parametrize(
    ("share", "verdict"), [(1.0, "undetermined"), (0.99, "undetermined"), (0.5, "go"), (0.0, "go")]
)
def test_top1_of_one_token_everywhere_is_no_go(share: float, verdict: str) -> None:
    result = compare(with_first(share), with_first(share), policy("top1", 0.05))
    assert (result.verdict, result.metrics["top1"]) == (verdict, 1.0)
    assert bool(result.notes) is (verdict == "undetermined")
    assert compare(with_first(share), with_first(share), policy("perplexity", 0.05)).verdict == "go"


@pytest.mark.parametrize("metric", ["top1", "perplexity"])
def test_scores_that_are_level_tell_nothing(metric: str) -> None:
    level = outputs("logits", logits=1e-3 * LOGITS, targets=TARGETS)
    result = compare(level, level, policy(metric, 0.05))
    assert result.verdict == "undetermined"
    assert "scores are level" in result.notes[0]
    assert compare(level, level, policy("cosine", 0.05)).verdict == "go"
    kept = compare_outputs(level, level, policy(metric, 0.05), reference_precision=Precision.FP32, rules=6)
    assert (kept.verdict, kept.notes) == ("go", ())


def test_one_class_for_every_input_tells_nothing() -> None:
    scores = np.tile([0.1, 0.9, 0.2], (6, 1))
    one = outputs("classes", scores=scores)
    assert compare(one, one, policy("top1", 0.05)).verdict == "undetermined"
    scores = scores.copy()
    scores[0, 0] = 2.0
    two = outputs("classes", scores=scores)
    assert compare(two, two, policy("top1", 0.05)).verdict == "go"
