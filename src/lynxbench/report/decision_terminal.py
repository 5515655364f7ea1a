"""A decision in a terminal: the sentence first, then what it rests on."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from lynxbench.report.decision_blocks import Block, Decision, Facts, Points, Table, blocks_of
from lynxbench.report.words import NBSP, clean

NARROWEST = 60
INDENT = "  "
GAP = 2
FEWEST_CELLS = 8
"""A column is not squeezed below this many characters; the row becomes a list instead."""


def render_decision(decision: Decision, width: int) -> str:
    """The decision as text of at most that width."""
    width = max(width, NARROWEST)
    lines = [*textwrap.wrap(clean(decision.sentence), width)]
    for block in blocks_of(decision):
        lines += ["", *_block(block, width)]
    return "\n".join(line.replace(NBSP, " ").rstrip() for line in lines) + "\n"


def _block(block: Block, width: int) -> list[str]:
    if isinstance(block, Facts):
        return [block.title, *_facts(block.pairs, width)]
    if isinstance(block, Points):
        if block.ordered:
            return [block.title, *(f"{INDENT}{place}. {item}" for place, item in enumerate(block.items, 1))]
        mark = "! " if block.warns else "- "
        return [
            block.title,
            *(line for item in block.items for line in _hung(item, width, INDENT + mark, INDENT + "  ")),
        ]
    note = _hung(block.note, width, INDENT, INDENT) if block.note else []
    return [block.title, *_table(block, width), *note]


def _facts(pairs: Sequence[tuple[str, str]], width: int) -> list[str]:
    column = min(max((len(name) for name, _ in pairs), default=0), 28) + GAP
    lines = []
    for name, value in pairs:
        lines += _hung(value, width, f"{INDENT}{name:<{column}}", INDENT + " " * column)
    return lines


def _table(table: Table, width: int) -> list[str]:
    rows = [table.head, *table.rows] if any(table.head) else list(table.rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.head))]
    room = width - len(INDENT) - GAP * (len(widths) - 1)
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if i not in table.right), key=lambda i: widths[i], default=0)
        spare = sum(widths) - room
        if widths[widest] <= max(FEWEST_CELLS, 16):
            return _stacked(table, width)
        widths[widest] = max(16, widths[widest] - spare)
    lines = []
    for row in rows:
        cells = [textwrap.wrap(cell, widths[i], break_long_words=True) or [""] for i, cell in enumerate(row)]
        for line in range(max(len(cell) for cell in cells)):
            parts = []
            for i, cell in enumerate(cells):
                text = cell[line] if line < len(cell) else ""
                parts.append(f"{text:>{widths[i]}}" if i in table.right else f"{text:<{widths[i]}}")
            lines.append(INDENT + (" " * GAP).join(parts))
    return lines


def _stacked(table: Table, width: int) -> list[str]:
    """A row too wide for the terminal as a list of its cells."""
    lines = []
    for row in table.rows:
        lines += _hung(row[0], width, INDENT, INDENT)
        pairs = [(head, cell) for head, cell in zip(table.head[1:], row[1:], strict=True) if cell]
        lines += [INDENT + line for line in _facts(pairs, width - len(INDENT))]
    return lines


def _hung(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest) or [first.rstrip()]
