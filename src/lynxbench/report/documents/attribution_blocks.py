"""What an attribution says, for results and traces alike: whose it is, the shares, the operators, the evidence."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.layers import Layer
from lynxbench.report import doc, words
from lynxbench.report.doc import Depth, Fact, Inline, Span, chip, code, said, strong
from lynxbench.report.svg.bar_plots import draw_shares

SHOWN_OPERATORS = 8
LONGEST_BAR = 30
LEAST_SHARE = 0.0005
"""A smaller share of a step is not listed."""

Bars: TypeAlias = Sequence[tuple[str, Mapping[Category, float]]]


def mark_of(attribution: Attribution) -> str:
    """The verdict in a word."""
    return "undetermined" if attribution.bound is Bound.UNDETERMINED else f"{attribution.bound}-bound"


def sentence_of(attribution: Attribution) -> str:
    """The verdict's sentence without the word that stands before it."""
    sentence, mark = words.clean(attribution.sentence), f"{mark_of(attribution)}:"
    return sentence[len(mark) :].lstrip() if sentence.lower().startswith(mark) else sentence


def cause_facts(attribution: Attribution, owner_of: Callable[[Layer], str] | None = None) -> list[Fact | None]:
    """Whose the cause is, who sees its symptom, what to do next and what that would gain; open questions stay open."""
    layer, owner, seen_in = attribution.layer, attribution.owner, attribution.symptom_layer
    cause: Inline = "not established: no owner is named"
    if layer is not None:
        cause = (chip(layer), " → ", said(owner or "nobody is named in the contract"))
    elif attribution.candidates:
        layers = [piece for other in attribution.candidates for piece in (", ", chip(other.layer))][1:]
        cause = ("not established: no owner is named; it may lie in ", *layers)
    symptom: Fact | None = None
    if seen_in is not None:
        seer: Inline = (" → ", said(owner_of(seen_in))) if owner_of is not None else ""
        symptom = ("Symptom seen by" if owner_of is not None else "Symptom seen in", (chip(seen_in), seer))
    return [
        ("Points to" if attribution.bound is Bound.UNDETERMINED else "Cause owned by", cause),
        symptom,
        ("Next step", (said(attribution.next_step or "none is known"), _expected(attribution))),
    ]


def _expected(attribution: Attribution) -> Inline:
    """What the fix would gain; where no fix is named, what the same work has left to gain, and no bound on more."""
    gain = attribution.gain_if_removed
    if not math.isfinite(gain.estimate) or (attribution.bound is Bound.UNDETERMINED and gain.high <= 1.0):
        return "" if attribution.bound is Bound.UNDETERMINED else "; gain unknown"
    if takes_work_as_needed(attribution):
        return ("; left to gain with the same work ", strong(words.factor_text(gain)), ", with less work unknown")
    if any(test.measured == gain for test in attribution.interventions):
        return ("; measured ", strong(words.factor_text(gain)), " where the bottleneck was removed")
    return ("; predicted ", strong(words.factor_text(gain)), " if the bottleneck were removed")


def takes_work_as_needed(attribution: Attribution) -> bool:
    """Whether a gain is that of the same work better done: nobody's mistake is named, and all of the work was taken as
    needed."""
    in_kernels = attribution.bottleneck in (Category.COMPUTE, Category.MEMORY_BANDWIDTH)
    return attribution.bound is Bound.HARDWARE or (attribution.bound is Bound.UNDETERMINED and in_kernels)


def shares_plot(bars: Bars, depth: Depth = Depth.GLANCE) -> doc.Plot:
    """One bar a precision or trace, each category with its share of a step."""
    several = len(bars) > 1
    rows = [
        (*((name,) if several else ()), words.category_name(category), round(100 * share, 2))
        for name, shares in bars
        for category, share in _largest_first(shares)
    ]
    legend: list[Inline] = []
    for category in Category:
        parts = [f"{name} {words.percent(shares[category])}" for name, shares in bars if shares.get(category, 0.0) > 0]
        if parts:
            text = ", ".join(parts) if several else parts[0].removeprefix(f"{bars[0][0]} ")
            legend.append((Span(words.category_name(category), category), " ", strong(text)))
    caption = "Every nanosecond belongs to exactly one category. Shares are of time, not credit to a layer."
    head, title = (*(("precision",) if several else ()), "category", "% of a step"), "Share of a step by category"
    drawing, lines = partial(draw_shares, tuple(bars)), partial(_bar_lines, bars)
    return doc.Plot("shares", title, caption, drawing, head, rows, lines, legend, depth=depth)


def category_key(categories: Iterable[Category]) -> list[Inline]:
    """Colours in words, for pictures that stand far from the legend with the shares."""
    return [Span(words.category_name(category), category) for category in categories]


def _largest_first(shares: Mapping[Category, float]) -> list[tuple[Category, float]]:
    return sorted(((c, share) for c, share in shares.items() if share >= LEAST_SHARE), key=lambda item: -item[1])


def _bar_lines(bars: Bars, width: int) -> list[str]:
    lines = []
    for name, shares in bars:
        lines += [name] if len(bars) > 1 else []
        for category, share in _largest_first(shares):
            bar = "█" * max(1, round(share * min(LONGEST_BAR, width - 28)))
            lines.append(f"{words.category_name(category):17}{words.percent(share):>7}  {bar}")
    return lines


def operators_table(attribution: Attribution, most: int | None = None, depth: Depth = Depth.GLANCE) -> doc.Table:
    """Those with the most exclusive time, each against its ceiling."""
    chosen = sorted(attribution.operators, key=lambda operator: -operator.share)[:most]
    rows = [
        (
            code(operator.name),
            Span(words.category_name(operator.category), operator.category),
            words.digits(operator.calls_per_step),
            words.digits(operator.ms_per_step),
            words.percent(operator.share),
            words.percent(operator.efficiency) if operator.efficiency is not None else "unknown",
        )
        for operator in chosen
    ]
    head = ("Operator or kernel", "Bound by", "Calls a step", "ms a step", "Share", "Of its ceiling")
    title = "Operators and kernels with the most exclusive time"
    return doc.Table(head, rows, title, (2, 3, 4, 5), most=SHOWN_OPERATORS, depth=depth)


def evidence_points(attribution: Attribution) -> tuple[doc.Points, doc.Points]:
    """What the verdict rests on, and the layers that could be the cause as well."""
    others = [
        (chip(other.layer), " → ", said(other.owner), ": ", said(other.reason)) for other in attribution.candidates
    ]
    evidence = [said(line) for line in attribution.evidence]
    return doc.Points(evidence, "Evidence for the verdict"), doc.Points(others, "Other candidates")
