"""The result in a terminal: the verdict first, in words; then the figure with its context; then where to dig."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

from lynxbench.model.canonical import short
from lynxbench.model.result import Result
from lynxbench.report import accuracy_words, findings, words
from lynxbench.report.economics import economics_rows
from lynxbench.report.findings import Row
from lynxbench.report.load_words import load_lines
from lynxbench.report.tone import Tone
from lynxbench.report.words import NBSP, clean

if TYPE_CHECKING:
    from rich.text import Text

NARROWEST = 60
"""Below this the layout stays as it is and the terminal wraps; numbers would otherwise be torn apart."""
INDENT = 2
LABEL = 12
GAP = 3
APART = " " * GAP
"""A piece that begins with it is a remark of its own: it moves to the next line whole, where it fits there."""

_STYLES = {Tone.GOOD: "green", Tone.WARN: "yellow", Tone.BAD: "bold red", Tone.PLAIN: ""}


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text with a style; it may be broken at plain spaces only."""

    text: str
    style: str = ""


def render_terminal(result: Result, *, width: int, colour: bool, paths: Mapping[str, str]) -> str:
    """The summary a manager reads in ten seconds; `paths` names what was written, by label."""
    width = max(width, NARROWEST)
    lines: list[list[Piece]] = []
    lines += _title(result, width)
    lines += [[]]
    lines += _verdict(result, width)
    lines += [[]]
    lines += _precisions(result, width)
    lines += _energy(result, width)
    lines += [[]]
    lines += _basis(result, width)
    lines += [[]]
    lines += _where(result, width, paths)
    return _print(lines, width, colour)


def _title(result: Result, width: int) -> list[list[Piece]]:
    name = f"{clean(result.contract.name)} · {clean(result.contract.question)}"
    contract, executor = words.abbreviated(result.contract_id), words.abbreviated(result.executor_id)
    ids = f"contract{NBSP}{contract}  executor{NBSP}{executor}"
    if _cells(name) + _cells(ids) + GAP <= width:
        space = " " * (width - _cells(name) - _cells(ids))
        return [[Piece(name, "bold"), Piece(space + ids, "dim")]]
    return [*_wrapped([Piece(name, "bold")], width), [Piece(ids, "dim")]]


def _verdict(result: Result, width: int) -> list[list[Piece]]:
    head = findings.headline(result)
    style = _STYLES[head.tone] or "bold"
    words_of_it = [Piece(f"{head.mark}: ", f"bold {style}".strip()), Piece(head.sentence)]
    lines = _labelled("VERDICT", words_of_it, width, "bold")
    found = head.attribution
    if found is not None:
        pieces = [Piece(findings.owner_line(found), "bold")]
        if symptom := findings.symptom_line(found, result):
            pieces.append(Piece(f"   {symptom}"))
        lines += _labelled("", pieces, width)
        lines += _labelled("", [Piece("next: ", "bold"), Piece(findings.next_line(found))], width)
    for caution in head.cautions:
        lines += _labelled("", [Piece(f"! {caution}", "yellow")], width)
    return lines


# --- the precision table --------------------------------------------------------------------------------------------


def _precisions(result: Result, width: int) -> list[list[Piece]]:
    rows = findings.table_rows(result)
    latency = findings.latency_name(findings.main_latency(result), served=findings.is_served(result))
    headings = (
        "precision",
        f"sustained {findings.rate_unit(result)}",
        "peak",
        f"{latency} p50 / p99",
        f"accuracy ({accuracy_words.accuracy_metric(result)})",
    )
    cells = [(row.precision.value, row.sustained, row.peak, row.latency, row.accuracy) for row in rows if not row.note]
    if not cells:
        return _rows_without_figures(rows, width)
    widths = [max(_cells(text) for text in column) for column in zip(headings, *cells, strict=True)]
    widths[0] = max(_cells(row.precision.value) for row in rows) if len(rows) else widths[0]
    widths[0] = max(widths[0], _cells(headings[0]))
    before_last = INDENT + sum(widths) + GAP * len(widths)
    last = width - before_last
    longest = max((_cells(word) for row in rows for word in row.executed.split(" ")), default=0)
    if last < max(longest, len("executed as")):  # a name torn apart is no name
        return _stacked(result, rows, width, latency)
    lines = [[Piece(" " * INDENT + _padded(headings, widths) + "executed as", "dim")]]
    for row in rows:
        lines += _table_row(row, widths, last, width)
    return lines


def _energy(result: Result, width: int) -> list[list[Piece]]:
    """One line a precision whose energy is known: the bill beside the speed."""
    lines: list[list[Piece]] = []
    for name, _, energy, request, units, *_ in economics_rows(result):
        known = [text for text in (energy, request, units) if text not in ("unknown", words.NO_FIGURE)]
        if known:
            lines += _labelled("takes" if not lines else "", [Piece(f"{name}: {' · '.join(known)}")], width)
    return [[], *lines] if lines else []


def _table_row(row: Row, widths: list[int], last: int, width: int) -> list[list[Piece]]:
    if row.note:
        return _note_row(row, widths[0], width)
    figures = _padded((row.precision.value, row.sustained, row.peak, row.latency), widths[:4])
    accuracy = Piece(_fill(row.accuracy, widths[4] + GAP), _STYLES[row.accuracy_tone])
    executed = _wrapped([Piece(row.executed)], last)
    first = [Piece(" " * INDENT + figures), accuracy, *executed[0]]
    hang = " " * (width - last)
    return [first, *([Piece(hang), *line] for line in executed[1:])]


def _padded(cells: Iterable[str], widths: list[int]) -> str:
    # Only the peak is a lone number: it lines up on the right. The others carry their brackets after the number.
    texts = [
        (" " * (size - _cells(text)) + text if index == 2 else _fill(text, size)) + " " * GAP
        for index, (text, size) in enumerate(zip(cells, widths, strict=True))
    ]
    return "".join(texts)


def _note_row(row: Row, first: int, width: int) -> list[list[Piece]]:
    hang = INDENT + max(first, len("precision")) + GAP
    executed = f"   (executed as: {row.executed})" if row.executed != "unknown" else ""
    wrapped = _wrapped([Piece(row.note + executed, "yellow")], width - hang)
    name = Piece(" " * INDENT + _fill(row.precision.value, hang - INDENT))
    return [[name, *wrapped[0]], *([Piece(" " * hang), *line] for line in wrapped[1:])]


def _rows_without_figures(rows: Iterable[Row], width: int) -> list[list[Piece]]:
    listed = list(rows)
    first = max((_cells(row.precision.value) for row in listed), default=0)
    return [line for row in listed for line in _note_row(row, first, width)]


def _stacked(result: Result, rows: Iterable[Row], width: int, latency: str) -> list[list[Piece]]:
    lines: list[list[Piece]] = []
    for row in rows:
        if row.note:
            lines += _labelled(row.precision.value, [Piece(row.note, "yellow")], width, "bold")
            continue
        sustained = f"{row.sustained}{NBSP}{findings.rate_unit(result)}"
        peak = f"peak{NBSP}{row.peak}"
        name, metric = row.precision.value, accuracy_words.accuracy_metric(result)
        lines += _labelled(name, [Piece(f"sustained {sustained}   {peak}")], width, "bold")
        lines += _labelled("", [Piece(f"{latency} p50 / p99 {row.latency}")], width)
        accuracy = Piece(row.accuracy, _STYLES[row.accuracy_tone])
        lines += _labelled("", [Piece(f"accuracy ({metric}) "), accuracy], width)
        lines += _labelled("", [Piece(f"executed as {row.executed}")], width)
    return lines


# --- what the figures rest on ---------------------------------------------------------------------------------------


def _basis(result: Result, width: int) -> list[list[Piece]]:
    measured = [one for one in result.per_precision if one.skipped is None]
    several = len(measured) > 1
    lines: list[list[Piece]] = []
    size = max((len(one.precision) for one in measured), default=0) + 2
    for index, one in enumerate(measured):
        counted, excluded = findings.counted_line(one)
        name = _fill(one.precision, size) if several else ""
        rest = [Piece(f"   excluded {excluded}", "dim")] if excluded else []
        lines += _labelled("counted" if index == 0 else "", [Piece(name + counted), *rest], width)
    for index, one in enumerate(findings.shown(result)):
        drift, governed, tone = findings.stability_line(one)
        name = _fill(one.precision, size) if several else ""
        pieces = [Piece(name), Piece(drift, _STYLES[tone]), Piece(f"   governed by: {governed}")]
        lines += _labelled("stability" if index == 0 else "", pieces, width)
    if not findings.is_void(result):
        outcomes = [(one, outcome) for one in findings.shown(result) for outcome in one.slo]
        for index, (one, outcome) in enumerate(outcomes):
            text, tone = findings.slo_line(outcome, one.precision)
            lines += _labelled("objective" if index == 0 else "", [Piece(text, _STYLES[tone])], width)
    for one in result.per_precision:
        for label, text, tone in load_lines(one, result):
            lines += _labelled(label, [Piece(text, _STYLES[tone] if tone is not Tone.GOOD else "")], width)
    lines += _labelled("conditions", [Piece(findings.conditions_line(result))], width)
    text, tone = findings.validity_line(result)
    lines += _labelled("valid", [Piece(text, _STYLES[tone])], width)
    if loosened := findings.loosened_line(result):
        lines += _labelled("notice", [Piece(f"looser than the default protocol: {loosened}", "yellow")], width)
    return lines


def _where(result: Result, width: int, paths: Mapping[str, str]) -> list[list[Piece]]:
    lines: list[list[Piece]] = []
    for label, path in paths.items():
        lines += _labelled(clean(label), [Piece(clean(path))], width)
    if result.result_id and "evidence" not in paths:
        lines += _labelled("evidence", [Piece(f"sha256:{short(result.result_id)}…", "dim")], width)
    return lines


# --- text on a grid of cells ----------------------------------------------------------------------------------------


def _labelled(label: str, pieces: list[Piece], width: int, style: str = "dim") -> list[list[Piece]]:
    wide = max(LABEL, _cells(label) + 2)
    hang = INDENT + wide
    wrapped = _wrapped(pieces, width - hang)
    first = [Piece(" " * INDENT + _fill(label, wide), style), *wrapped[0]]
    return [first, *([Piece(" " * hang), *line] for line in wrapped[1:])]


def _wrapped(pieces: list[Piece], width: int) -> list[list[Piece]]:
    """Break at plain spaces only: a number, its brackets and its unit are held together by no-break spaces."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for piece in pieces:
        own_line = piece.text.startswith(APART) and _cells(piece.text.strip()) <= width
        if own_line and used and used + _cells(piece.text) > width:
            lines.append([])
            used = 0
        for index, word in enumerate(piece.text.split(" ")):
            space = " " if index and used else ""
            if used and used + len(space) + _cells(word) > width and word:
                lines.append([])
                used, space = 0, ""
            if not used and not word:
                continue
            for part in _chunks(word, width):
                if used and used + len(space) + _cells(part) > width:
                    lines.append([])
                    used, space = 0, ""
                lines[-1].append(Piece(space + part, piece.style))
                used += len(space) + _cells(part)
                space = ""
            if not word:
                lines[-1].append(Piece(space, piece.style))
                used += len(space)
    return lines


def _chunks(word: str, width: int) -> list[str]:
    """A word that is longer than a whole line is cut; everything else stays in one piece."""
    if _cells(word) <= width:
        return [word] if word else []
    chunks, current = [], ""
    for letter in word:
        if current and _cells(current + letter) > width:
            chunks.append(current)
            current = ""
        current += letter
    return [*chunks, current]


def _fill(text: str, size: int) -> str:
    return text + " " * max(0, size - _cells(text))


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _print(lines: list[list[Piece]], width: int, colour: bool) -> str:
    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out,
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in lines:
        text: Text = Text()
        for piece in line:
            text.append(piece.text.replace(NBSP, " "), style=piece.style)
        text.rstrip()
        console.print(text, soft_wrap=True)
    return out.getvalue()
