"""Tables that profilers write as CSV: found behind whatever the profiled program printed, read row by row."""

import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lynxbench.errors import BadInput
from lynxbench.plain_files import LARGEST_EVIDENCE_BYTES, open_plain

LONGEST_FIELD = 1 << 20
"""Demangled names of templates run to some ten thousand characters; a field beyond this is no field."""
LONGEST_LINE = 16 * LONGEST_FIELD
HEAD_LINES = 100_000
"""Lines that a program may print before its profiler's table begins."""
_SAID_BY_PROFILER = re.compile(r"^==(PROF|WARNING|ERROR)==")


@dataclass
class CsvTable:
    """A table's columns by name, and how many of its rows could not be read."""

    columns: dict[str, int]
    names: list[str]
    needed: int = 0
    """Fields that a row must have."""
    short: int = 0
    notes: list[str] = field(default_factory=list)

    def pick(self, row: list[str], column: str) -> str:
        """The field of a row in a column; empty where the table or the row has no such column."""
        place = self.columns.get(column)
        return row[place] if place is not None and place < len(row) else ""

    def need(self, *columns: str) -> None:
        """Leave out, and count, the rows that end before these columns."""
        self.needed = max(self.needed, *(1 + self.columns[name] for name in columns))


def is_header(line: str, wanted: tuple[str, ...]) -> bool:
    """Whether a line names all the wanted columns."""
    if not all(name in line for name in wanted):
        return False
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:
        return False
    return set(wanted) <= {cell.strip() for cell in cells}


def read_table_rows(path: Path, wanted: tuple[str, ...]) -> tuple[CsvTable, Iterator[list[str]]]:
    """The table whose header names the wanted columns, and its rows; BadInput where there is none."""
    lines = _lines(path)
    for _, line in zip(range(HEAD_LINES), lines, strict=False):
        if is_header(line, wanted):
            names = [cell.strip() for cell in next(csv.reader([line]))]
            table = CsvTable({name: place for place, name in reversed(list(enumerate(names)))}, names)
            table.need(*wanted)
            return table, _rows(lines, table)
    raise BadInput(f"{path}: no line names the columns {', '.join(wanted)}; export the table again, with its header")


def _lines(path: Path) -> Iterator[str]:
    try:
        with open_plain(path) as stream:
            if os.fstat(stream.fileno()).st_size > LARGEST_EVIDENCE_BYTES:
                raise BadInput(f"{path}: larger than {LARGEST_EVIDENCE_BYTES >> 30} GiB; no table of a profiler")
            with io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="") as file:
                yield from iter(lambda: file.readline(LONGEST_LINE), "")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); give a trace file") from None


def _rows(lines: Iterator[str], table: CsvTable) -> Iterator[list[str]]:
    csv.field_size_limit(LONGEST_FIELD)
    last = ""

    def spoken() -> Iterator[str]:
        nonlocal last
        for line in lines:
            if not _SAID_BY_PROFILER.match(line):
                last = line
                yield line

    try:
        for row in csv.reader(spoken()):
            if len(row) >= table.needed:
                yield row
            elif row:
                table.short += 1
    except csv.Error as error:
        table.notes.append(f"the table breaks off ({error}); what came before is kept")
    if last and not last.endswith("\n") and last.count('"') % 2:
        table.notes.append("the file ends inside a row")
