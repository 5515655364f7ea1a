"""What the views of a trace are drawn from: plain values, already computed."""

from __future__ import annotations

from dataclasses import dataclass

from lynxbench.model.attribution import Attribution
from lynxbench.model.interval import Interval
from lynxbench.model.trace_detail import Movement, RooflinePoint, StepTime, WorstGap


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank beside the others."""

    number: int
    step_ms: float | None
    own_ms: float | None
    exposed_ms: float | None
    bottleneck: str
    note: str


@dataclass(frozen=True, slots=True)
class TraceView:
    """Everything that is shown of a trace."""

    source: str
    device: str
    version: str
    attribution: Attribution
    steps: tuple[StepTime, ...] = ()
    gap: WorstGap | None = None
    dots: tuple[RooflinePoint, ...] = ()
    arithmetic_per_s: float | None = None
    bytes_per_s: float | None = None
    movements: tuple[Movement, ...] = ()
    swaps: tuple[tuple[str, Interval], ...] = ()
    swap_sentence: str = ""
    ranks: tuple[RankRow, ...] = ()
    rank_lines: tuple[str, ...] = ()
