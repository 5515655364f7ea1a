"""CSV, JSON and JSON-lines text as a table of named columns; what is malformed is one line of BadSeries."""

import csv
import io
import json
import math
from collections.abc import Mapping
from typing import Any

from lynxbench.errors import BadSeries

Cell = str | float | None
Table = dict[str, list[Cell]]


def parse_table(text: str, source: str) -> Table:
    """The columns of a text that begins like JSON, or is CSV."""
    return _parse_json(text, source) if text.lstrip()[0] in "[{" else _parse_csv(text, source)


def _parse_csv(text: str, source: str) -> Table:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise BadSeries(f"{source}: holds only comments")
    delimiter = max(",;\t", key=lines[0].count)
    try:
        records = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, skipinitialspace=True))
    except csv.Error as problem:
        raise BadSeries(f"{source}: is not CSV ({problem})") from None
    first = [cell.strip() for cell in records[0]]
    headless = all(number_in(cell) is not None for cell in first)
    names = [str(i + 1) for i in range(len(first))] if headless else first
    if len(set(names)) != len(names):
        raise BadSeries(f"{source}: two columns are called {next(n for n in names if names.count(n) > 1)!r}")
    body = records if headless else records[1:]
    if not body:
        raise BadSeries(f"{source}: has a header and no rows")
    for i, record in enumerate(body):
        if len(record) != len(names):
            model = "first row" if headless else "header"
            raise BadSeries(f"{source}: row {i + 1} has {len(record)} cells, the {model} has {len(names)}")
    return {name: [record[j].strip() for record in body] for j, name in enumerate(names)}


def _parse_json(text: str, source: str) -> Table:
    try:
        document = json.loads(text)
    except RecursionError:
        raise BadSeries(f"{source}: JSON nested too deeply; a series is a list of numbers or of flat objects") from None
    except ValueError as problem:
        document = _json_lines(text)
        if document is None:
            raise BadSeries(f"{source}: is not JSON ({problem})") from None
    if isinstance(document, Mapping):
        columns = {str(name): cells for name, cells in document.items() if isinstance(cells, list)}
        columns = {name: cells for name, cells in columns.items() if _flat(cells)}
        if not columns:
            raise BadSeries(f'{source}: no list of numbers in the object; {{"values": [1.0, 2.0, …]}} would be right')
    elif not document:
        raise BadSeries(f"{source}: the list is empty")
    elif all(isinstance(row, Mapping) for row in document):
        names = list(document[0])
        for i, row in enumerate(document):
            if set(row) != set(names):
                raise BadSeries(
                    f"{source}: object {i} has other keys than the first one ({', '.join(map(str, names))})"
                )
        columns = {str(name): [row[name] for row in document] for name in names}
        columns = {name: cells for name, cells in columns.items() if _flat(cells)}
        if not columns:
            raise BadSeries(f"{source}: the objects hold no plain values")
    elif _flat(document):
        columns = {"value": document}
    else:
        raise BadSeries(
            f"{source}: the list mixes numbers with lists or objects; all numbers or all objects would be right"
        )
    sizes = {name: len(cells) for name, cells in columns.items()}
    if len(set(sizes.values())) > 1:
        raise BadSeries(f"{source}: columns differ in length ({', '.join(f'{k} {v}' for k, v in sizes.items())})")
    if not next(iter(sizes.values())):
        raise BadSeries(f"{source}: the columns are empty")
    return {name: [_cell(cell) for cell in cells] for name, cells in columns.items()}


def _json_lines(text: str) -> list[Any] | None:
    try:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
    return rows if len(rows) > 1 else None


def _flat(cells: list[Any]) -> bool:
    return not any(isinstance(cell, (list, Mapping)) for cell in cells)


def _cell(cell: object) -> Cell:
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return str(cell).lower()
    try:
        return float(cell)  # type: ignore[arg-type]
    except (OverflowError, TypeError, ValueError):
        return math.inf


def number_in(cell: Cell) -> float | None:
    """The number a cell holds, or None."""
    if isinstance(cell, float):
        return cell
    if not cell or "_" in cell:  # float() accepts 1_000, no exporter means it
        return None
    try:
        return float(cell)
    except ValueError:
        return None
