"""Building blocks of the page: sections, tables, figures with their data."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from io import StringIO
from urllib.parse import quote

from lynxbench.model.layers import Layer
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.words import NBSP

MOST_TABLE_ROWS = 40
"""A longer table of plotted data is offered as CSV only."""


def section(identifier: str, title: str, *children: Child, lead: str = "") -> Safe:
    """A part of the page under its own heading."""
    intro = tag("p", lead, class_="lead") if lead else None
    heading = tag("h2", title, id=f"{identifier}-title")
    return tag("section", heading, intro, *children, id=identifier, aria_labelledby=f"{identifier}-title")


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], numeric: Iterable[int] = ()) -> Safe:
    """A table that scrolls inside its own box; the first cell of a row is its heading."""
    right = frozenset(numeric)
    top = tag("tr", [tag("th", name, scope="col", class_="num" if i in right else None) for i, name in enumerate(head)])
    body = [_row(row, right) for row in rows]
    inner = tag("table", tag("caption", caption, class_="quiet"), tag("thead", top), tag("tbody", body))
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _row(row: Sequence[Child], right: frozenset[int]) -> Safe:
    first, *rest = row
    cells = [tag("th", first, scope="row")]
    cells += [tag("td", cell, class_="num" if i in right else None) for i, cell in enumerate(rest, start=1)]
    return tag("tr", cells)


def wide_cell_row(first: Child, note: Child, span: int) -> Safe:
    """A row that says in words why it has no figures."""
    return tag("tr", tag("th", first, scope="row"), tag("td", note, colspan=span, class_="note"))


def plot(
    identifier: str,
    title: str,
    caption: Child,
    pictures: Iterable[Safe],
    head: Sequence[str],
    rows: Sequence[Sequence[str | int | float]],
    links: Sequence[tuple[str, str]] = (),
) -> Safe:
    """A plot with its caption, and the drawn data to take away; `links` (name, place) replace the data in the page."""
    shown = None
    if 0 < len(rows) <= MOST_TABLE_ROWS:
        cells = [[_cell(value) for value in row] for row in rows]
        shown = tag(
            "details", tag("summary", "Data as a table"), table(f"Data of: {title}", head, cells, range(1, len(head)))
        )
    if links:
        link: Child = [
            tag("a", name, href=place, download=True, aria_label=f"{title}: {name}") for name, place in links
        ]
    else:
        link = tag(
            "a",
            "Data as CSV",
            href=csv_link(head, rows),
            download=f"{identifier}.csv",
            aria_label=f"{title}: data as CSV",
        )
    caption_box = tag("figcaption", tag("h3", title), tag("p", caption))
    return tag("figure", caption_box, pictures, tag("div", shown, link, class_="data"), id=identifier)


def _cell(value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "unknown"
    return str(value)


def csv_link(head: Sequence[str], rows: Iterable[Sequence[str | int | float]]) -> str:
    """The data itself as a link: nothing is fetched."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([[_csv_cell(value) for value in row] for row in rows])
    return "data:text/csv;charset=utf-8," + quote(out.getvalue(), safe=",.-_")


def _csv_cell(value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    text = str(value)
    # A spreadsheet would run a cell that begins like a formula.
    return "'" + text if text[:1] in {"=", "+", "-", "@", "\t"} else text


def chip(layer: Layer, words: Child = None) -> Safe:
    """A layer in its own colour, wherever it is named."""
    return tag("span", words or layer.value, class_=f"chip layer-{layer}")


def bullets(items: Iterable[Child], css: str | None = None) -> Safe:
    """A list."""
    return tag("ul", [tag("li", item) for item in items], class_=css)


def fact(name: str, *value: Child) -> Safe:
    """A name and its value, for description lists."""
    return tag("div", tag("dt", name), tag("dd", *value))


def result_name(identifier: str, at: str = "") -> Safe:
    """A result by the beginning of its id; `at` is where results are found, where there is such a place."""
    shown = tag("code", identifier[:12])
    return tag("a", shown, href=f"{at}{identifier}") if at and identifier else shown


def quoted(text: str) -> Safe:
    """Somebody's words inside a sentence of ours; no-break spaces stay."""
    return said(text) if NBSP not in text else tag("bdi", text)
