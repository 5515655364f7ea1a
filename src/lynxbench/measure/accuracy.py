"""How much a lower precision changes the answers: fidelity to the highest one on the same inputs, and the task metric.

Pure numpy. Definitions, and why each was chosen, are in docs/methodology/accuracy.md.
"""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadResult
from lynxbench.measure.task_scores import Marks01, task_change, task_metrics
from lynxbench.measure.telling import TELLING, is_blind_choice, is_level_text, why_blind, why_level
from lynxbench.measure.token_scores import ROWS_AT_ONCE, SKETCHED, alike, firsts_of, losses_of
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, Accuracy
from lynxbench.model.samples import Float64, Outputs
from lynxbench.stats.shares import Z_95, share_interval

Array = npt.NDArray[np.generic]
Metrics = dict[str, float]
Verdict = Literal["reference", "go", "no-go", "undetermined", "not measured", "no policy"]

ANSWERS: dict[str, str] = {
    "logits": "logits",
    SKETCHED: "sketch",
    "embedding": "vectors",
    "classes": "scores",
    "training": "gradient",
    "values": "values",
}
"""Kind of outputs → the array that fidelity is measured on."""
TOKENS = ("logits", SKETCHED)
BESIDE = {
    "logits": ("targets",),
    SKETCHED: ("targets", "first", "log_total", "own", "vocabulary", "non_finite"),
    "training": ("losses",),
}
"""What else a kind cannot be without."""

RIDGE = 1.0
"""Penalty on unit-length vectors: the usual default of ridge classifiers; fixed, so that no precision is tuned."""


def compare_outputs(
    reference: Outputs | None,
    candidate: Outputs | None,
    policy: AccuracyPolicy | None,
    *,
    reference_precision: Precision,
    is_reference: bool = False,
    rules: int = RULES,
) -> Accuracy:
    """What the candidate's answers lose against the reference's, and whether the policy allows it.

    The reference itself is compared with nothing: it gets its absolute metrics and the verdict `reference`.
    """
    if candidate is None or (reference is None and not is_reference):
        inputs = candidate.inputs if candidate is not None else "no outputs were taken"
        return Accuracy(
            reference=reference_precision, is_reference=is_reference, metrics={}, inputs=inputs, verdict="not measured"
        )
    _check_shape(candidate)
    broken = _non_finite(candidate)
    metrics: Metrics = {}
    loss: float | None = None
    untold = ""
    verdict: Verdict
    if broken > 0:
        metrics["non-finite"] = broken
        verdict = "no-go"
    elif is_reference or reference is None:
        metrics = _absolute(candidate)
        verdict = "reference"
    else:
        _check_shape(reference)
        reference, candidate = alike(reference, candidate)
        _check_pair(reference, candidate)
        if _non_finite(reference) > 0:
            metrics = {"reference-non-finite": _non_finite(reference)}
            verdict = "not measured"
        else:
            metrics = _fidelity(reference, candidate) | _absolute(candidate) | _changes(reference, candidate)
            loss = None if policy is None else loss_in(policy.metric, metrics)
            verdict = judge_loss(loss, policy)
            untold, about = _untold(reference) if rules >= TELLING else ("", ())
            if verdict in ("go", "no-go") and policy is not None and policy.metric in about:
                verdict = "undetermined"
    return Accuracy(
        reference=reference_precision,
        is_reference=is_reference,
        metrics={name: value if math.isfinite(value) else None for name, value in metrics.items()},
        task_metric=_task_metric(candidate),
        inputs=candidate.inputs,
        loss=loss if loss is not None and math.isfinite(loss) else None,
        verdict=verdict,
        notes=(untold,) if untold else (),
    )


def relative_error(reference: Array, candidate: Array) -> float:
    """‖candidate − reference‖ / ‖reference‖ in the Frobenius norm; infinite where only the reference is zero."""
    difference = square = 0.0
    for left, right in _pieces(reference, candidate):
        difference += float(np.sum(np.abs(right - left) ** 2))
        square += float(np.sum(np.abs(left) ** 2))
    if square == 0:
        return 0.0 if difference == 0 else math.inf
    return math.sqrt(difference / square)


def mean_cosine(reference: Array, candidate: Array) -> float:
    """Mean over rows of the cosine between both answers; two zero rows agree, one zero row does not."""
    total = rows = 0.0
    for left, right in _pieces(reference, candidate):
        norms = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)
        both = norms[0] * norms[1]
        dot = np.real(np.sum(left * np.conj(right), axis=1))
        safe = np.where(both > 0, both, 1.0)
        cosine = np.where(both > 0, dot / safe, np.where((norms[0] == 0) & (norms[1] == 0), 1.0, 0.0))
        total += float(np.sum(np.clip(cosine, -1.0, 1.0)))
        rows += len(left)
    return total / rows


def top1_agreement(reference: Array, candidate: Array) -> float:
    """Share of rows in which both answers put the same entry first."""
    return float(np.mean(np.argmax(reference, axis=1) == np.argmax(candidate, axis=1)))


def score_labelled_vectors(vectors: Array, labels: Array, split: Array) -> npt.NDArray[np.bool_]:
    """Train on the rows with split 0, answer for the rows with split 1, and say which answers are right.

    One-against-rest ridge regression on centred unit vectors (Hastie, Tibshirani, Friedman: ESL, 3.4.1), solved in the
    smaller of the two dimensions.
    """
    train, test = split == 0, split == 1
    classes = np.unique(labels[train])
    if not test.any() or len(classes) < 2:
        raise BadResult("labelled vectors need a training part with two labels (split 0) and a scored part (split 1)")
    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    unit = wide / np.where(norms > 0, norms, 1.0)
    centre = unit[train].mean(axis=0)
    known, scored = unit[train] - centre, unit[test] - centre
    signs = np.where(labels[train][:, None] == classes[None, :], 1.0, -1.0)
    offset = signs.mean(axis=0)
    if len(known) <= known.shape[1]:
        dual = np.linalg.solve(known @ known.T + RIDGE * np.eye(len(known)), signs - offset)
        scores = scored @ (known.T @ dual)
    else:
        primal = np.linalg.solve(known.T @ known + RIDGE * np.eye(known.shape[1]), known.T @ (signs - offset))
        scores = scored @ primal
    return np.asarray(classes[np.argmax(scores + offset, axis=1)] == labels[test])


def _pieces(reference: Array, candidate: Array) -> list[tuple[Float64, Float64]]:
    left, right = (a.reshape(len(a) if a.ndim > 1 else 1, -1) for a in (reference, candidate))
    wide = np.complex128 if np.iscomplexobj(left) or np.iscomplexobj(right) else np.float64
    return [
        (left[start : start + ROWS_AT_ONCE].astype(wide), right[start : start + ROWS_AT_ONCE].astype(wide))
        for start in range(0, len(left), ROWS_AT_ONCE)
    ]


def _fidelity(reference: Outputs, candidate: Outputs) -> Metrics:
    left, right = reference.arrays[ANSWERS[reference.kind]], candidate.arrays[ANSWERS[candidate.kind]]
    metrics = {"relative-error": relative_error(left, right), "cosine": mean_cosine(left, right)}
    if reference.kind in TOKENS:
        metrics["top1"] = float(np.mean(firsts_of(reference) == firsts_of(candidate)))
    elif reference.kind == "classes":
        metrics["top1"] = top1_agreement(left, right)
    return metrics


def _untold(reference: Outputs) -> tuple[str, tuple[AccuracyMetric, ...]]:
    """Why the reference's scores cannot tell a difference, and in which metrics; empty where they can."""
    if reference.kind in TOKENS:
        if is_level_text(losses_of(reference)):
            return why_level(), (AccuracyMetric.TOP1, AccuracyMetric.PERPLEXITY)
        firsts = firsts_of(reference)
        if is_blind_choice(firsts):
            return why_blind(len(np.unique(firsts)), len(firsts), "positions of the text"), (AccuracyMetric.TOP1,)
    elif reference.kind == "classes":
        firsts = np.argmax(reference.arrays["scores"], axis=1)
        if len(firsts) > 1 and len(np.unique(firsts)) == 1:
            return why_blind(1, len(firsts), "inputs"), (AccuracyMetric.TOP1,)
    return "", ()


def _absolute(outputs: Outputs) -> Metrics:
    """What one precision's answers are worth by themselves."""
    arrays = outputs.arrays
    if outputs.kind in TOKENS:
        marks = _marks(outputs)
        perplexity = {"perplexity": math.exp(min(float(losses_of(outputs).mean()), 700.0))}
        return perplexity if marks is None else perplexity | task_metrics(marks)
    if outputs.kind == "training":
        return {"training-loss": float(np.mean(arrays["losses"].astype(np.float64)))}
    correct = _correct(outputs)
    if correct is None:
        return {}
    bounds = share_interval(int(correct.sum()), len(correct))
    counted = float(len(correct))
    return {"task": bounds.estimate, "task-low": bounds.low, "task-high": bounds.high, "task-inputs": counted}


def _changes(reference: Outputs, candidate: Outputs) -> Metrics:
    """How the absolute metrics moved. Both saw the same inputs, so intervals are on paired differences."""
    before, after = reference.arrays, candidate.arrays
    if reference.kind in TOKENS:
        moved = losses_of(candidate) - losses_of(reference)
        low, estimate, high = (math.expm1(min(x, 700.0)) for x in _paired(moved))
        moved_task = {}
        if (first := _marks(reference)) is not None and (then := _marks(candidate)) is not None:
            moved_task = task_change(first, then)
        bounds = {"perplexity-change": estimate, "perplexity-change-low": low, "perplexity-change-high": high}
        return bounds | moved_task
    if reference.kind == "training":
        left, right = before["losses"].astype(np.float64), after["losses"].astype(np.float64)
        scale = float(np.mean(np.abs(left)))
        gap = float(np.mean(np.abs(right - left)))
        return {"loss-difference": gap / scale if scale > 0 else (0.0 if gap == 0 else math.inf)}
    right_before, right_after = _correct(reference), _correct(candidate)
    if right_before is None or right_after is None:
        return {}
    low, estimate, high = _paired(right_after.astype(np.float64) - right_before.astype(np.float64))
    return {"task-change": estimate, "task-change-low": low, "task-change-high": high}


def _paired(differences: Float64) -> tuple[float, float, float]:
    mean = float(differences.mean())
    error = Z_95 * float(differences.std(ddof=1)) / math.sqrt(len(differences)) if len(differences) > 1 else 0.0
    return mean - error, mean, mean + error


def _marks(outputs: Outputs) -> Marks01 | None:
    """Labelled prompts that a language model answered beside its scores, marked."""
    marks = outputs.arrays.get("marks")
    return None if marks is None else np.asarray(marks, dtype=np.int8)


def _correct(outputs: Outputs) -> npt.NDArray[np.bool_] | None:
    """Which labelled inputs were answered rightly; None where there are no labels to tell."""
    labels = outputs.arrays.get("labels")
    if labels is None:
        return None
    if outputs.kind == "classes":
        return np.asarray(np.argmax(outputs.arrays["scores"], axis=1) == labels)
    split = outputs.arrays.get("split")
    if outputs.kind == "embedding" and split is not None:
        return score_labelled_vectors(outputs.arrays["vectors"], labels, split)
    return None


def _task_metric(outputs: Outputs) -> str | None:
    if "labels" in outputs.arrays and ("split" in outputs.arrays or "scores" in outputs.arrays):
        return {"embedding": "sentence polarity, share right", "classes": "share of labels right"}.get(outputs.kind)
    if "marks" in outputs.arrays:
        return "share of labelled prompts right"
    return "perplexity of the held-out text" if outputs.kind in TOKENS else None


def loss_in(metric: AccuracyMetric, metrics: Metrics) -> float | None:
    """The loss in the policy's metric; None where these outputs have no such metric. A gain is a negative loss."""
    nan = math.nan
    loss = {
        AccuracyMetric.RELATIVE_ERROR: metrics.get("relative-error", nan),
        AccuracyMetric.COSINE: 1 - metrics.get("cosine", nan),
        AccuracyMetric.TOP1: 1 - metrics.get("top1", nan),
        AccuracyMetric.PERPLEXITY: metrics.get("perplexity-change", nan),
        AccuracyMetric.TASK: -metrics.get("task-change", nan),
    }[metric]
    return None if math.isnan(loss) else loss


def judge_loss(loss: float | None, policy: AccuracyPolicy | None) -> Verdict:
    """What the policy says of a loss."""
    if policy is None:
        return "no policy"
    if loss is None:
        return "not measured"
    return "go" if loss <= policy.largest_loss else "no-go"


def _non_finite(outputs: Outputs) -> float:
    """The largest share of NaN and infinite numbers in any of the arrays that answer."""
    if outputs.kind == SKETCHED:
        return float(outputs.arrays["non_finite"][0])
    names = [ANSWERS[outputs.kind], *(["losses"] if outputs.kind == "training" else [])]
    return max(float(np.mean(~np.isfinite(outputs.arrays[name].astype(np.complex128)))) for name in names)


def _check_shape(outputs: Outputs) -> None:
    if outputs.kind not in ANSWERS:
        raise BadResult(f"outputs of kind {outputs.kind!r} cannot be compared; known are {', '.join(ANSWERS)}")
    needed = [ANSWERS[outputs.kind], *BESIDE.get(outputs.kind, ())]
    for name in needed:
        if name not in outputs.arrays or outputs.arrays[name].size == 0:
            raise BadResult(f"outputs of kind {outputs.kind!r} lack {name!r} (absent or empty)")
    answers = outputs.arrays[ANSWERS[outputs.kind]]
    if outputs.kind in (*TOKENS, "embedding", "classes") and answers.ndim != 2:
        raise BadResult(f"{ANSWERS[outputs.kind]} must have rows and columns; their shape is {answers.shape}")
    for name in ("targets", "labels", "split", "first", "log_total", "own"):
        if name in outputs.arrays and outputs.arrays[name].shape != answers.shape[:1]:
            raise BadResult(f"{name} of shape {outputs.arrays[name].shape} do not fit {len(answers)} answers")
    if outputs.kind in TOKENS:
        targets = outputs.arrays["targets"]
        vocabulary = int(outputs.arrays["vocabulary"][0]) if outputs.kind == SKETCHED else answers.shape[1]
        if targets.dtype.kind not in "iu" or int(targets.min()) < 0 or int(targets.max()) >= vocabulary:
            raise BadResult(f"targets must be token ids below {vocabulary}")


def _check_pair(reference: Outputs, candidate: Outputs) -> None:
    if reference.kind != candidate.kind:
        raise BadResult(f"outputs of kind {reference.kind!r} and {candidate.kind!r} cannot be compared")
    if reference.inputs != candidate.inputs:
        raise BadResult(f"outputs come from different inputs: {reference.inputs!r} and {candidate.inputs!r}")
    for name in (ANSWERS[reference.kind], "losses"):
        left, right = reference.arrays.get(name), candidate.arrays.get(name)
        if left is not None and right is not None and left.shape != right.shape:
            raise BadResult(f"{name} of shape {left.shape} and {right.shape} cannot be compared")
    for name in ("targets", "labels", "split", "vocabulary"):
        left, right = reference.arrays.get(name), candidate.arrays.get(name, np.empty(0))
        if left is not None and not np.array_equal(left, right):
            raise BadResult(f"{name} differ between the precisions; outputs must come from the same inputs")
