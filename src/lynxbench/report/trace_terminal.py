"""A trace's attribution in a terminal: the verdict first, then the shares, then where to dig."""

from __future__ import annotations

import textwrap

from lynxbench.report import words
from lynxbench.report.trace_view import TraceView

LABEL = 10
BAR = 30
SHOWN_OPERATORS = 8


def render_trace_terminal(view: TraceView, *, width: int) -> str:
    """Plain text, wrapped to the width."""
    found = view.attribution
    lines = [f"{words.clean(view.source)} · {words.clean(view.device)} · {words.count(found.steps, 'step')}", ""]
    lines += _labelled("VERDICT", found.sentence, width)
    owner = f'layer {found.layer} → owner "{words.clean(found.owner or "")}"' if found.layer else "no owner is named"
    symptom = f"; symptom seen in layer {found.symptom_layer}" if found.symptom_layer not in (None, found.layer) else ""
    lines += _labelled("", owner + symptom, width)
    lines += _labelled("", f"next: {found.next_step}", width)
    lines += _labelled("", f"expected gain if removed: {words.factor_text(found.gain_if_removed)}", width)
    lines.append("")
    timing = f"{words.digits(found.wall_ms_per_step)} ms under the profiler"
    if found.unprofiled_ms_per_step:
        timing += f", {words.digits(found.unprofiled_ms_per_step)} ms without"
    lines += _labelled("step", timing, width)
    for category, share in sorted(found.shares.items(), key=lambda item: -item[1]):
        if share >= 0.0005:
            bar = "█" * max(1, round(share * BAR))
            lines.append(f"  {'':{LABEL}} {category.value:17}{words.percent(share):>7}  {bar}")
    lines += _operators(view)
    if view.rank_lines:
        lines.append("")
        for index, one in enumerate(view.rank_lines):
            lines += _labelled("ranks" if index == 0 else "", one, width)
    if view.swap_sentence:
        lines += ["", *_labelled("what if", view.swap_sentence, width)]
    lines.append("")
    for index, line in enumerate(found.evidence):
        lines += _labelled("evidence" if index == 0 else "", line, width)
    for index, other in enumerate(found.candidates):
        text = f"{other.layer} ({words.clean(other.owner)}): {other.reason}"
        lines += _labelled("candidates" if index == 0 else "", text, width)
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def _labelled(label: str, text: str, width: int) -> list[str]:
    room = max(30, width - LABEL - 4)
    wrapped = textwrap.wrap(words.clean(text), room, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"  {label if index == 0 else '':{LABEL}} {line}" for index, line in enumerate(wrapped)]


def _operators(view: TraceView) -> list[str]:
    rows = view.attribution.operators[:SHOWN_OPERATORS]
    if not rows:
        return []
    lines = ["", f"  {'operators':{LABEL}} {'':44}{'calls':>8}{'ms':>9}{'share':>8}  bound by (of its ceiling)"]
    for row in rows:
        name = words.clean(row.name)
        short = name if len(name) <= 43 else name[:42] + "…"
        reached = f" ({words.percent(row.efficiency)})" if row.efficiency is not None else ""
        calls, ms, share = words.digits(row.calls_per_step), words.digits(row.ms_per_step), words.percent(row.share)
        lines.append(f"  {'':{LABEL}} {short:44}{calls:>8}{ms:>9}{share:>8}  {row.category.value}{reached}")
    return lines
