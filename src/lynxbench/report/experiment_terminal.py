"""An experiment in a terminal: the word first, then cells, effects, orders, and what each owner would conclude."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from lynxbench.model.experiment import (
    CellShown,
    CellStatus,
    Decomposability,
    EffectShown,
    ExperimentAnalysis,
    ExperimentDocument,
)
from lynxbench.report import words
from lynxbench.report.experiment_words import (
    LEVEL_NOTE,
    cell_levels,
    change_words,
    effect_title,
    gain_words,
    is_cube,
    order_words,
    pairs_of,
    ratio_words,
)
from lynxbench.report.text_plots import cube_lines, interaction_lines, whisker_lines
from lynxbench.report.words import clean

NARROWEST = 60
BAR = 24


def render_experiment(document: ExperimentDocument, *, width: int) -> str:
    """The whole experiment as text of at most that width."""
    width = max(width, NARROWEST)
    lines = [f"{clean(document.name)} · {clean(document.question)}", ""]
    found = document.analysis
    if found is None:
        lines += _wrapped("NO ANALYSIS: ", clean(document.analysis_missing), width)
    else:
        lines += _verdict(found, width)
    if document.accuracy_missing:
        lines += _wrapped(
            "  - ", f"{clean(document.accuracy_missing)}: what the changes do to answers is unknown", width
        )
    lines += ["", *_setup(document, width), "", *_cells(document, width)]
    if found is not None:
        lines += ["", *_effects(document, found, width), "", *_plots(document, width)]
        lines += _variation(found, width) + _orders(found, width) + _owners(found, width)
    lines += [line for note in document.notes for line in _wrapped("note    ", clean(note), width)]
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def _verdict(found: ExperimentAnalysis, width: int) -> list[str]:
    lines = _wrapped(f"{found.word.value.upper()}: ", clean(found.sentence), width)
    for reason in found.reasons:
        lines += _wrapped("  - ", clean(reason), width)
    if found.word is Decomposability.UNDETERMINED and found.restarts_needed:
        lines.append(f"  about {found.restarts_needed} restarts a cell would settle it")
    return lines


def _setup(document: ExperimentDocument, width: int) -> list[str]:
    spent = words.seconds_text(document.measuring_s)
    facts = [
        ("contract", f"{clean(document.contract_name)} {words.abbreviated(document.contract_id)}"),
        ("response", f"{document.response} in {clean(document.unit) or 'its unit'}"),
        ("design", clean(document.design)),
        ("order", f"random within {document.restarts} blocks of time, seed {document.seed}; {document.lanes}; {spent}"),
    ]
    lines = [line for name, text in facts for line in _wrapped(f"  {name:<9} ", text, width)]
    if document.aliases:
        lines.append("  aliases   the fraction cannot tell apart:")
        lines += [line for alias in document.aliases for line in _wrapped("              ", clean(alias), width)]
    return lines


def _cells(document: ExperimentDocument, width: int) -> list[str]:
    head = [*(factor.name for factor in document.factors), document.response, "accuracy", "evidence"]
    rows = [[*cell_levels(cell, document), *_cell(cell)] for cell in document.cells]
    unit = f"{clean(document.unit)}, " if document.unit else ""
    lines = [f"cells ({unit}{words.count(document.restarts, 'restart')} each)", *_table(head, rows, width)]
    for cell in document.cells:
        if cell.status in (CellStatus.INFEASIBLE, CellStatus.PARTLY):
            named = ", ".join(cell_levels(cell, document))
            lines += _wrapped(f"  {cell.status.value}: {named}: ", clean(cell.reason), width)
    doubts = sorted(
        {line for cell in document.cells for line in cell.validity.split("; ") if line not in ("", "valid")}
    )
    lines += [line for doubt in doubts[:4] for line in _wrapped("  doubt: ", clean(doubt), width)]
    return lines


def _cell(cell: CellShown) -> list[str]:
    if cell.response is None:
        return [cell.status.value, "", ""]
    ids = words.abbreviated(cell.result_ids[0]) if cell.result_ids else ""
    return [words.interval_text(cell.response), clean(cell.accuracy.partition(" (")[0]), ids]


def _effects(document: ExperimentDocument, found: ExperimentAnalysis, width: int) -> list[str]:
    sure = f"{words.percent(found.confidence)} intervals; * differs from nothing after Holm"
    lines = [f"effects as ratios ({sure}; interactions over the product of single effects)"]
    shown = [effect for effect in found.effects if math.isfinite(effect.ratio.estimate)]
    titles = [effect_title(effect) for effect in shown]
    size = min(max((len(title) for title in titles), default=0), 40)
    plots = whisker_lines([effect.ratio for effect in shown], max(20, min(44, width - size - 34)))
    for effect, title, picture in zip(shown, titles, plots, strict=True):
        mark = "*" if effect.sure else " "
        lines.append(f"  {title:<{size}} {mark} {ratio_words(effect.ratio):<24} {picture}")
        lines += _effect_notes(effect)
    missing = [effect_title(effect) for effect in found.effects if not math.isfinite(effect.ratio.estimate)]
    if missing:
        lines += _wrapped("  cannot be estimated (cells are missing): ", "; ".join(missing), width)
    if found.noise is not None:
        lines.append(f"  noise between restarts of a cell: {words.percent(found.noise)}")
    return lines


def _effect_notes(effect: EffectShown) -> list[str]:
    notes = []
    if effect.contexts:
        notes.append(f"      {effect.contexts}")
    if effect.aliases:
        notes.append(f"      or any of: {', '.join(effect.aliases)}")
    return notes


def _plots(document: ExperimentDocument, width: int) -> list[str]:
    lines: list[str] = []
    if is_cube(document):
        lines += ["cube", *cube_lines(document)]
    for first, second in pairs_of(document):
        lines += [
            f"interaction {first.name} × {second.name} ({LEVEL_NOTE})",
            *interaction_lines(document, first, second),
        ]
    return [*lines, ""] if lines else []


def _variation(found: ExperimentAnalysis, width: int) -> list[str]:
    if not found.variation:
        return [f"share of variation: {found.variation_missing}", ""] if found.variation_missing else []
    size = max(len(one.term) for one in found.variation)
    lines = ["share of variation between all processes"]
    for one in sorted(found.variation, key=lambda share: -share.share):
        if one.share >= 0.0005:
            bar = "█" * round(one.share * BAR) or "▏"
            lines.append(f"  {one.term:<{size}} {words.percent(one.share, decimals=1):>7} {bar}")
    return [*lines, ""]


def _orders(found: ExperimentAnalysis, width: int) -> list[str]:
    lines = []
    if found.joint is not None and found.sum_of_single is not None and found.gap is not None:
        lines += [
            "all changes together",
            f"  joint change                 {gain_words(found.joint)}",
            f"  product of single changes    {gain_words(found.sum_of_single)}",
            f"  joint over product           {gain_words(found.gap)}",
        ]
    if found.shapley:
        lines.append("what each change adds (mean over all orders; least and most that an order gives it)")
        size = max(len(one.factor) for one in found.shapley)
        for one in found.shapley:
            least = f"{change_words(one.least)} {order_words(one.least_after)}"
            most = f"{change_words(one.most)} {order_words(one.most_after)}"
            lines += _wrapped(f"  {one.factor:<{size}}  {gain_words(one.ratio)}   ", f"from {least} to {most}", width)
    if found.step_missing:
        lines += _wrapped("  ", clean(found.step_missing), width)
    return [*lines, ""] if lines else []


def _owners(found: ExperimentAnalysis, width: int) -> list[str]:
    if not found.owners:
        return []
    lines = ["what each owner would have concluded alone"]
    for one in found.owners:
        lines += _wrapped(f"  {one.judgement.value:<12} ", clean(one.sentence), width)
    return [*lines, ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        line = "  " + "  ".join(f"{clean(cell):<{size}}" for cell, size in zip(row, widths, strict=True))
        lines.append(line[:width])
    return lines


def _wrapped(label: str, text: str, width: int) -> list[str]:
    hang = " " * min(len(label), 30)
    return textwrap.wrap(
        text, width, initial_indent=label, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False
    ) or [label]
