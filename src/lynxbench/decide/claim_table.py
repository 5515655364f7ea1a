"""A row of a results table, such as one that MLCommons publishes: the header states, the row fills in."""

from __future__ import annotations

import csv
from io import StringIO

from pydantic import JsonValue

TELLING = ("scenario", "accelerator", "benchmark", "model", "division", "submitter", "system name", "units", "result")
"""Column names of which a results table has several."""


def looks_like_row(text: str) -> bool:
    """Whether this is CSV or TSV with a header that names at least three telling columns."""
    rows = _rows(text)
    if len(rows) < 2 or len(rows[0]) < 3:
        return False
    head = " | ".join(cell.lower() for cell in rows[0])
    return sum(word in head for word in TELLING) >= 3


def rows_of(text: str) -> list[dict[str, JsonValue]]:
    """Every row as keys and values; empty cells say nothing."""
    head, *rest = _rows(text)
    return [
        {name.strip(): cell.strip() for name, cell in zip(head, row, strict=False) if cell.strip() and name.strip()}
        for row in rest
        if any(cell.strip() for cell in row)
    ]


def _rows(text: str) -> list[list[str]]:
    first = text.lstrip().split("\n", 1)[0]
    delimiter = "\t" if first.count("\t") > first.count(",") else ","
    try:
        return list(csv.reader(StringIO(text.lstrip()), delimiter=delimiter))
    except csv.Error:
        return []
