"""Traces analysed in a line, and what a doubtful one may say: a refusal in one line, or shares without a verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.attribute.attributing import TraceAnalysis, TraceSettings, analyse_trace, attribute_trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound, Ceiling
from lynxbench.model.layers import DEFAULT_OWNERS
from lynxbench.model.precision import Precision


def analyse(path: Path) -> TraceAnalysis:
    return analyse_trace(path, TraceSettings())


def attribute(path: Path) -> Attribution:
    return analyse(path).attribution


def attribute_by(rules: int, path: Path, ceilings: tuple[Ceiling, ...], step_ms: float) -> Attribution:
    """A trace in fp32 judged by an edition of the rules, with the step's time without a profiler."""
    return attribute_trace(
        path,
        ceilings=ceilings,
        precision=Precision.FP32,
        unprofiled_step_ms=step_ms,
        owner=DEFAULT_OWNERS.__getitem__,
        rules=rules,
    )


def took(attribution: Attribution) -> dict[str, float]:
    """Milliseconds a step by operator."""
    spent: dict[str, float] = {}
    for operator in attribution.operators:
        spent[operator.name] = spent.get(operator.name, 0.0) + operator.ms_per_step
    return spent


def is_open(attribution: Attribution) -> None:
    """Shares that add up, and nobody blamed."""
    assert (attribution.bound, attribution.layer, attribution.owner) == (Bound.UNDETERMINED, None, None)
    assert attribution.candidates == ()
    assert attribution.gain_if_removed.estimate == 1.0
    assert sum(attribution.shares.values()) == pytest.approx(1.0)


def refusal(path: Path) -> str:
    """The one line that says why a file cannot be used."""
    with pytest.raises(BadInput) as caught:
        analyse(path)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert str(path) in line
    assert len(line) < 500
    return line


def is_doubted(path: Path) -> str:
    """Refused in one line, or open and called damaged; what was said."""
    try:
        said = attribute(path)
    except BadInput:
        return refusal(path)
    is_open(said)
    assert said.weak
    assert "damaged or incomplete" in said.sentence
    return said.sentence
