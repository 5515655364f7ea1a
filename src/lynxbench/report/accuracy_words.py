"""Accuracy in words: the metric, its change against the reference, the policy's verdict."""

from __future__ import annotations

import math

from lynxbench.model.result import Accuracy, Result
from lynxbench.report import words
from lynxbench.report.doc import Tone
from lynxbench.report.words import NBSP


def accuracy_metric(result: Result) -> str:
    """The policy's metric, else the first that the task has."""
    policy = result.contract.policy.accuracy
    present = {name for figures in result.per_precision if figures.accuracy for name in figures.accuracy.metrics}
    if policy is not None and policy.metric.value in present:
        return policy.metric.value
    usual = ("task", "perplexity", "top1", "cosine", "training-loss", "relative-error")
    fallback = "no metric of its own" if present else "not measured"
    return next((metric for metric in usual if metric in present), fallback)


def accuracy_text(accuracy: Accuracy | None, metric: str) -> str:
    """`15.48 (+1.8 %) go`: the metric, its change against the reference, the policy's verdict."""
    if accuracy is None or accuracy.verdict == "not measured":
        return "not measured"
    value = accuracy.metrics.get(metric)
    shown_value = metric_text(metric, value)
    if accuracy.is_reference:
        return f"{shown_value}{NBSP}(reference)" if value is not None else "reference"
    change = accuracy.metrics.get(f"{metric}-change")
    text = shown_value if change is None else f"{shown_value}{NBSP}({words.percent(change, signed=True)})"
    verdict = {"go": " go", "no-go": " NO-GO", "no policy": " (no policy)"}.get(accuracy.verdict, "")
    return text + verdict.replace(" ", NBSP)


def metric_text(metric: str, value: float | None) -> str:
    """A value of an accuracy metric with the digits that make sense for it."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if metric.endswith("-change"):
        return words.percent(value, signed=True)
    if metric == "relative-error":
        return words.percent(value)
    if metric == "top1":
        return words.percent(value, decimals=1)
    if metric == "cosine":
        return words.number(value, 5)
    return words.digits(value, 4)


def accuracy_tone(accuracy: Accuracy | None) -> Tone:
    """Red for a no-go, quiet otherwise."""
    if accuracy is None or accuracy.verdict == "not measured":
        return Tone.WARN
    return {"no-go": Tone.BAD, "go": Tone.GOOD}.get(accuracy.verdict, Tone.PLAIN)
