"""What two servers answered to the same prompts, greedily: token by token, and by log-probability. Pure.

Both were asked twice. What one server answers otherwise the second time is its own noise, and a difference between two
servers that does not stand out of it is nobody's. Definitions are in docs/methodology/accuracy.md.
"""

import json
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadResult
from lynxbench.measure.accuracy import Metrics, judge_loss, loss_in
from lynxbench.measure.task_scores import Marks01, task_change, task_metrics
from lynxbench.measure.telling import (
    LEVEL_NATS,
    TELLING,
    Hashes,
    is_blind,
    is_level,
    is_level_text,
    why_blind,
    why_level,
)
from lynxbench.model.contract import AccuracyMetric, AccuracyPolicy
from lynxbench.model.interval import Interval
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES, Accuracy
from lynxbench.model.samples import Float64, Int64, Outputs
from lynxbench.stats.intervals import mean_interval
from lynxbench.stats.shares import paired_share_change, share_interval

SERVED_ANSWERS: Final = "served answers"


@dataclass(frozen=True, slots=True)
class AnswerNotes:
    """Which prompts were asked and how; two sets are compared only where these are the same."""

    greedy: str = ""
    task: str = ""
    text: str = ""
    random_weights: bool = False
    failed: int = 0
    """Prompts of the greedy set that had no answer at least once."""
    said: tuple[str, ...] = ()
    """What the server could not give."""


@dataclass(frozen=True, slots=True)
class ServedAnswers:
    """One server's answers: rows are prompts, columns tokens; the first index of three is the asking."""

    notes: AnswerNotes
    prefixes: Hashes
    """Hash of an answer up to each token; 0 where it has ended, or did not come."""
    logprobs: Float64
    margins: Float64
    """By how much the likeliest token led, in the first asking."""
    text_logprobs: Float64
    """Of a fixed text's own tokens, where the server gives those of prompts."""
    marks: Marks01

    def outputs(self) -> Outputs:
        """As a file keeps them."""
        notes = {name: getattr(self.notes, name) for name in AnswerNotes.__dataclass_fields__}
        arrays: dict[str, npt.NDArray[np.generic]] = {
            name: getattr(self, name) for name in ServedAnswers.__dataclass_fields__ if name != "notes"
        }
        return Outputs(SERVED_ANSWERS, arrays | {"notes": np.array(json.dumps(notes))}, self.inputs)

    @property
    def inputs(self) -> str:
        """What was asked, in words."""
        return "; ".join(filter(None, (self.notes.greedy, self.notes.text, self.notes.task)))


def answers_of(outputs: Outputs) -> ServedAnswers:
    """Kept answers; BadResult where the arrays do not belong together."""
    try:
        stored = json.loads(str(outputs.arrays["notes"]))
        notes = AnswerNotes(**{**stored, "said": tuple(stored["said"])})
        answers = ServedAnswers(
            notes=notes,
            prefixes=np.asarray(outputs.arrays["prefixes"], dtype=np.uint64),
            logprobs=np.asarray(outputs.arrays["logprobs"], dtype=np.float64),
            margins=np.asarray(outputs.arrays["margins"], dtype=np.float64),
            text_logprobs=np.asarray(outputs.arrays["text_logprobs"], dtype=np.float64),
            marks=np.asarray(outputs.arrays["marks"], dtype=np.int8),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadResult(f"served answers cannot be read: {error}") from None
    shapes = answers.prefixes.shape, answers.logprobs.shape, (2, *answers.margins.shape)
    if outputs.kind != SERVED_ANSWERS or len(set(shapes)) != 1 or answers.text_logprobs.ndim != 3:
        raise BadResult(f"served answers of shapes {shapes} do not belong together")
    return answers


@dataclass(frozen=True, slots=True)
class PrefixAgreement:
    """How far two sets of greedy answers go together, prompt by prompt."""

    agreed: Int64
    """Tokens from the first on that are the same."""
    whole: npt.NDArray[np.bool_]
    """Whether all are."""
    error: Float64
    """Mean |difference| of log-probability over the agreed tokens; NaN where none is known."""
    change: Float64

    @property
    def share(self) -> Interval:
        """Prompts whose answers are the same from the first token to the last."""
        return share_interval(int(self.whole.sum()), len(self.whole))

    @property
    def top1(self) -> float:
        """Of the tokens with the same context before them, the share that is the same."""
        compared = int(self.agreed.sum()) + int((~self.whole).sum())
        return float(self.agreed.sum()) / compared if compared else math.nan


def agree(a: Hashes, b: Hashes, a_logprobs: Float64, b_logprobs: Float64) -> PrefixAgreement:
    """Two askings of the same prompts; hashes are of whole prefixes, so equal ones mean equal tokens up to there."""
    same = a == b
    agreed = np.where(same.all(axis=1), (a != 0).sum(axis=1), np.argmin(same, axis=1))
    moved = np.where(np.arange(a.shape[1]) < agreed[:, None], b_logprobs - a_logprobs, np.nan)
    known = np.isfinite(moved).any(axis=1)
    change, error = np.full(len(a), np.nan), np.full(len(a), np.nan)
    change[known], error[known] = np.nanmean(moved[known], axis=1), np.nanmean(np.abs(moved[known]), axis=1)
    return PrefixAgreement(agreed.astype(np.int64), same.all(axis=1), error, change)


def judge_answers(
    candidate: ServedAnswers,
    reference: ServedAnswers | None,
    policy: AccuracyPolicy | None,
    precision: Precision,
    reference_precision: Precision,
    against: str | None = None,
    rules: int = RULES,
) -> Accuracy:
    """What a server's answers are worth: by themselves, or against a reference's to the same prompts."""
    trained = not candidate.notes.random_weights
    notes = list(candidate.notes.said)
    metrics = _own_noise(candidate) | (task_metrics(candidate.marks) if trained and len(candidate.marks) else {})
    if trained:
        metrics |= _perplexity(candidate)
    else:
        notes.append("the weights are random: agreement is numerical alone, and nothing is said of any task")
    if candidate.notes.failed:
        notes.append(f"{candidate.notes.failed} prompts of the greedy set had no answer and are left out")
    loss = floor = None
    if reference is not None:
        against_it, floors, words = _against(candidate, reference, trained and not reference.notes.random_weights)
        metrics |= against_it
        notes += words
        loss = None if policy is None else loss_in(policy.metric, against_it)
        floor = None if policy is None or policy.metric is not AccuracyMetric.TOP1 else floors.get("top1")
    verdict = "reference" if reference is None else judge_loss(loss, policy)
    if verdict == "no-go" and loss is not None and floor is not None and 1 - floor >= loss:
        verdict = "not measured"
        notes.append(f"a server's own noise ({1 - floor:.2%} of tokens) is no smaller than the loss: ask more prompts")
    if reference is not None and rules >= TELLING:
        untold, about = _untold(candidate, reference)
        notes += [untold] if untold else []
        if verdict in ("go", "no-go") and policy is not None and policy.metric in about:
            verdict = "undetermined"  # of no-go too: tokens that are level change places for nothing
    return Accuracy(
        reference=reference_precision if reference is not None else precision,
        is_reference=reference is None,
        metrics={name: value if math.isfinite(value) else None for name, value in metrics.items()},
        task_metric="share of labelled prompts right" if "task" in metrics else None,
        inputs=candidate.inputs,
        loss=loss,
        verdict=verdict,
        notes=tuple(notes),
        against=against if reference is not None else None,
    )


# --- one server against itself ---------------------------------------------------------------------------------------


def _twice(answers: ServedAnswers, rows: npt.NDArray[np.bool_] | None = None) -> PrefixAgreement | None:
    came = (answers.prefixes[:, :, 0] != 0).all(axis=0) if answers.prefixes.shape[2] else np.zeros(0, bool)
    kept = came if rows is None else rows
    if not kept.any():
        return None
    prefixes, logprobs = answers.prefixes[:, kept], answers.logprobs[:, kept]
    return agree(prefixes[0], prefixes[1], logprobs[0], logprobs[1])


def _own_noise(answers: ServedAnswers) -> Metrics:
    twice = _twice(answers)
    if twice is None:
        return {}
    return {
        "self-agreement": twice.share.estimate,
        "self-agreement-low": twice.share.low,
        "self-agreement-high": twice.share.high,
        **({"self-logprob-error": float(np.nanmean(twice.error))} if np.isfinite(twice.error).any() else {}),
    }


def _perplexity(answers: ServedAnswers) -> Metrics:
    first = answers.text_logprobs[0]
    if not np.isfinite(first).any():
        return {}
    return {"perplexity": math.exp(min(-float(np.nanmean(first)), 700.0))}


# --- two servers -----------------------------------------------------------------------------------------------------


def _against(candidate: ServedAnswers, reference: ServedAnswers, trained: bool) -> tuple[Metrics, Metrics, list[str]]:
    metrics: Metrics = {}
    floors: Metrics = {}
    notes: list[str] = []
    if candidate.notes.greedy != reference.notes.greedy:
        notes.append("the reference was asked another greedy set: no agreement is stated")
    elif candidate.prefixes.size:
        metrics, floors, notes = _greedy(candidate, reference)
    if candidate.notes.text and candidate.notes.text == reference.notes.text:
        metrics |= _text(candidate, reference, trained)
    if trained and len(candidate.marks):
        if candidate.notes.task == reference.notes.task:
            metrics |= task_change(reference.marks, candidate.marks)
        else:
            notes.append("the reference was asked another task, or scored another way: no change of it is stated")
    return metrics, floors, notes


def _untold(candidate: ServedAnswers, reference: ServedAnswers) -> tuple[str, tuple[AccuracyMetric, ...]]:
    """Why the reference's answers cannot tell a difference, and in which metrics; empty where they can."""
    rows = _both(candidate, reference)
    margins = reference.margins[rows] if candidate.notes.greedy == reference.notes.greedy else np.zeros(0)
    if is_level(margins) or is_level_text(reference.text_logprobs[:1]):
        return why_level(), (AccuracyMetric.TOP1, AccuracyMetric.PERPLEXITY)
    if not margins.size:
        return "", ()
    asked = reference.prefixes[0, rows]
    return (
        (why_blind(len(np.unique(asked, axis=0)), len(asked)), (AccuracyMetric.TOP1,)) if is_blind(asked) else ("", ())
    )


def _both(candidate: ServedAnswers, reference: ServedAnswers) -> npt.NDArray[np.bool_]:
    """Prompts that both answered, each time."""
    if not candidate.prefixes.size or candidate.prefixes.shape != reference.prefixes.shape:
        return np.zeros(reference.prefixes.shape[1], dtype=bool)
    came = np.stack((candidate.prefixes[:, :, 0], reference.prefixes[:, :, 0])) != 0
    return np.asarray(came.all(axis=(0, 1)))


def _greedy(candidate: ServedAnswers, reference: ServedAnswers) -> tuple[Metrics, Metrics, list[str]]:
    rows = _both(candidate, reference)
    own = [twice for side in (reference, candidate) if (twice := _twice(side, rows)) is not None]
    if len(own) < 2:
        return {}, {}, ["no prompt of the greedy set was answered by both: no agreement is stated"]
    a, b = reference, candidate
    between = agree(a.prefixes[0, rows], b.prefixes[0, rows], a.logprobs[0, rows], b.logprobs[0, rows])
    noisier = min(own, key=lambda twice: twice.share.estimate)
    margins = reference.margins[rows]
    parted = np.flatnonzero(~between.whole)
    level = np.array([margins[row, between.agreed[row]] <= LEVEL_NATS for row in parted], dtype=bool)
    count = len(between.whole)
    metrics = {
        "token-agreement": between.share.estimate,
        "token-agreement-low": between.share.low,
        "token-agreement-high": between.share.high,
        "token-agreement-noise": noisier.share.estimate,
        "agreed-prefix": float(between.agreed.mean()),
        "top1": between.top1,
        "greedy-prompts": float(count),
    }
    if np.isfinite(margins).any():
        metrics["level-agreement"] = float((int(between.whole.sum()) + int(level.sum())) / count)
    fell = paired_share_change(
        int((between.whole & ~noisier.whole).sum()), int((~between.whole & noisier.whole).sum()), count
    )
    tokens = reference.prefixes.shape[2]
    words = f"{int(between.whole.sum())} of {count} prompts agree in all {tokens} tokens"
    alone = f"the noisier server agrees with itself in {int(noisier.whole.sum())}"
    told = f"{words}; {alone}" + ("" if fell.high < 0 else ": not told from a server's own noise")
    notes = [told]
    noise = [float(np.nanmean(twice.error)) for twice in own if np.isfinite(twice.error).any()]
    if np.isfinite(between.change).any():
        change = mean_interval(between.change[np.isfinite(between.change)])
        metrics |= {
            "logprob-change": change.estimate,
            "logprob-change-low": change.low,
            "logprob-change-high": change.high,
            "logprob-error": float(np.nanmean(between.error)),
            "logprob-error-noise": max(noise, default=math.nan),
        }
    return metrics, {"top1": min(twice.top1 for twice in own)}, notes


def _text(candidate: ServedAnswers, reference: ServedAnswers, trained: bool) -> Metrics:
    """The fixed text's own log-probabilities, passage by passage; no token was chosen, so nothing is selected."""
    if candidate.text_logprobs.shape != reference.text_logprobs.shape or not candidate.text_logprobs.size:
        return {}
    moved = candidate.text_logprobs[0] - reference.text_logprobs[0]
    known = np.isfinite(moved).any(axis=1)
    if not known.any():
        return {}
    change = mean_interval(np.nanmean(moved[known], axis=1))
    again = [np.abs(side.text_logprobs[1] - side.text_logprobs[0]) for side in (reference, candidate)]
    noise = [float(np.nanmean(part)) for part in again if np.isfinite(part).any()]
    metrics = {
        "text-logprob-change": change.estimate,
        "text-logprob-change-low": change.low,
        "text-logprob-change-high": change.high,
        "text-logprob-error": float(np.nanmean(np.abs(moved[known]))),
        "text-logprob-error-noise": max(noise, default=math.nan),
    }
    if trained:
        low, estimate, high = (math.expm1(min(-bound, 700.0)) for bound in (change.high, change.estimate, change.low))
        metrics |= {"perplexity-change": estimate, "perplexity-change-low": low, "perplexity-change-high": high}
    return metrics
