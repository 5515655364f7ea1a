"""A report as markup: blocks, which the server's pages share, and a page of its own that opens without a network."""

import base64
import csv
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from io import StringIO
from urllib.parse import quote

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer
from lynxbench.report import doc
from lynxbench.report.chart import chart_text
from lynxbench.report.doc import Depth, Fact, Inline, Span, Style, Tone
from lynxbench.report.markup import Child, Safe, join, raw, tag
from lynxbench.report.palette import category_class, colour_rules
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.words import clean
from lynxbench.tables import read_table

SCRIPTS = ("script.js", "tables.js", "chart.js")
_ELEMENTS: dict[doc.Look, tuple[str, str | None]] = {
    Style.SAID: ("bdi", None),
    Style.CODE: ("code", None),
    Style.ID: ("code", "id"),
    Style.STRONG: ("strong", None),
    **{style: ("span", style.value) for style in (Style.QUIET, Style.NOWRAP, Style.UNDER, Style.BIG, Style.UNIT)},
    **{tone: ("span", f"tone-{tone}") for tone in Tone},
    **{layer: ("span", f"chip layer-{layer}") for layer in Layer},
}


@dataclass(slots=True)
class HtmlRenderer:
    """Blocks to markup; on a page of the server (`site`) references lead somewhere and plots are files as well."""

    site: bool = False
    plots_at: str = ""
    pictures: dict[str, Safe] = field(default_factory=dict)
    """The wide pictures of plots that were rendered, by name."""

    def blocks(self, blocks: Iterable[doc.Block | None], caption: str = "") -> Safe:
        """Blocks under one another; a table without a title is named by the `caption`."""
        return join([self._block(block, caption) for block in doc.shown(blocks, Depth.WHOLE)])

    def header(self, report: doc.Report) -> Safe:
        """What it is about, and the way around in it."""
        sections = [block for block in report.blocks if isinstance(block, doc.Section)] if report.contents else []
        contents = doc.Links("Contents", [Span(section.title, Style.LINK, f"#{section.name}") for section in sections])
        return join(
            [
                tag("p", report.brand, class_="brand") if report.brand else None,
                tag("h1", self.inline(report.title or report.name)),
                tag("p", self.inline(report.lead), class_="lead") if report.lead else None,
                self._facts(report.facts, "facts"),
                self._links(report.links) if report.links is not None else None,
                self._links(contents) if sections else None,
            ]
        )

    def inline(self, content: Inline) -> Child:
        """A line's pieces; plain text is escaped wherever it is put."""
        if isinstance(content, str):
            return content
        if isinstance(content, tuple):
            return [self.inline(piece) for piece in content]
        if isinstance(content, doc.Picture):
            return content.drawing(content.title, NARROW)
        if isinstance(content, doc.Embedded):
            return content.markup
        style, inner = content.style, self.inline(content.content)
        leads = bool(content.href) and (self.site or not content.href.startswith("/"))
        if isinstance(style, Category):
            inner = [tag("span", class_=f"swatch {category_class(style)}"), " ", inner]
        elif style is not Style.LINK:
            name, css = _ELEMENTS[style]
            inner = clean(inner) if style is Style.SAID and isinstance(inner, str) else inner
            inner = tag(name, inner, class_=css, title=content.label or None if not leads else None)
        return tag("a", inner, href=content.href, aria_label=content.label or None) if leads else inner

    def _block(self, block: doc.Block, caption: str) -> Child:
        match block:
            case doc.Section():
                return self._section(block)
            case doc.Verdict():
                return self._verdict(block)
            case doc.Table():
                return self._table(block, caption)
            case doc.Facts():
                return [
                    self._heading(block.title),
                    self._facts(block.pairs, f"facts {'grid' if block.compact else 'rows'}"),
                ]
            case doc.Points():
                return self._points(block, caption)
            case doc.Note():
                alert = block.style is Style.ALERT
                css = "tone-bad" if alert else block.style
                return tag("p", self.inline(block.content), class_=css, role="alert" if alert else None)
            case doc.Listing():
                return tag("pre", tag("code", block.text), tabindex="0")
            case doc.Plot():
                return self._plot(block)
            case doc.Group():
                return self._group(block, caption)
            case doc.SideBySide():
                lists = [tag("article", self._points(points), class_="answer") for points in block.lists]
                return tag("div", lists, class_="answers")
            case doc.Layers():
                return self._layers(block)
            case doc.Cards():
                return self._cards(block)
            case doc.Links():
                return self._links(block)
            case doc.Embedded():
                return block.markup

    def _section(self, block: doc.Section) -> Safe:
        return tag(
            "section",
            tag("h2", block.title, id=f"{block.name}-title"),
            tag("p", block.lead, class_="lead") if block.lead else None,
            self.blocks(block.blocks, block.title),
            id=block.name,
            aria_labelledby=f"{block.name}-title",
        )

    def _verdict(self, block: doc.Verdict) -> Safe:
        look = f"layer-{block.look}" if isinstance(block.look, Layer) else f"tone-{block.look}"
        mark = block.mark[:1].upper() + block.mark[1:]
        lead: Child = [tag("strong", mark), ": " if block.sentence else None] if mark else None
        return tag(
            "section",
            tag("h2", block.title, id=f"{block.name}-title", class_="eyebrow"),
            tag("p", lead, self.inline(block.sentence), class_="headline"),
            self._facts(block.facts, "facts rows"),
            self._points(doc.Points(block.cautions, kind=doc.Bullet.WARNS)),
            id=block.name,
            class_=f"verdict {look}",
            aria_labelledby=f"{block.name}-title",
        )

    def _heading(self, title: Inline, above: str = "") -> Child:
        return tag("h3", self.inline(title)) if title and title != above else None

    def _facts(self, pairs: Iterable[Fact | None], css: str) -> Child:
        facts = [
            tag("div", tag("dt", _term(name)), [tag("dd", self.inline(value)) for value in values])
            for name, *values in filter(None, pairs)
        ]
        return tag("dl", facts, class_=css) if facts else None

    def _table(self, block: doc.Table, caption: str) -> Child:
        if not block.rows:
            return tag("p", self.inline(block.empty), class_="empty") if block.empty else None
        note = tag("p", self.inline(block.note), class_="quiet") if block.note else None
        rows = [[self.inline(cell) for cell in row] for row in block.rows]
        return [_grid(block.title or caption, block.head, rows, block.right, named=block.title in ("", caption)), note]

    def _points(self, block: doc.Points, caption: str = "") -> Child:
        if not block.items:
            return tag("p", self.inline(block.empty), class_="empty") if block.empty else None
        items = [tag("li", self.inline(item), class_=_tone_of(item)) for item in block.items]
        css = None if block.kind in (doc.Bullet.PLAIN, doc.Bullet.ORDERED) else block.kind.value
        return [
            self._heading(block.title, caption),
            tag("ol" if block.kind is doc.Bullet.ORDERED else "ul", items, class_=css),
        ]

    def _group(self, block: doc.Group, caption: str) -> Safe:
        inner = self.blocks(block.blocks, doc.plain_text(block.title) or caption)
        if block.folded:
            return tag("details", tag("summary", self.inline(block.title)), inner)
        return tag("div", self._heading(block.title), inner, class_="part", id=block.name or None)

    def _layers(self, block: doc.Layers) -> Safe:
        parts = [
            tag(
                "details",
                tag(
                    "summary",
                    self.inline(Span(part.layer.value, part.layer)),
                    tag("span", self.inline(Span(part.owner, Style.SAID)), class_="owner"),
                    tag("span", part.about, class_="quiet holds"),
                    tag("span", part.many, class_="quiet many"),
                ),
                self.blocks(part.blocks, f"Fields of layer {part.layer}"),
                class_=f"layer layer-{part.layer}",
                open=part.open,
            )
            for part in block.parts
        ]
        return tag("div", parts, class_="layers")

    def _cards(self, block: doc.Cards) -> Safe:
        cards = [
            tag(
                "article",
                tag("h3", card.title, " ", tag("span", card.state, class_="state")),
                tag("p", tag("span", card.value, class_="big"), " ", tag("span", card.unit, class_="unit")),
                self.inline(card.picture),
                tag("p", card.note, class_="quiet"),
                class_="card",
            )
            for card in block.cards
        ]
        return tag("div", cards, class_="cards")

    def _links(self, block: doc.Links) -> Safe:
        return tag("nav", [self.inline(item) for item in block.items], aria_label=block.label)

    def _plot(self, block: doc.Plot) -> Safe:
        pictures = [block.drawing(block.title, width) for width in (WIDE, NARROW)]
        self.pictures[block.name] = pictures[0]
        title = block.title
        legend = tag("ul", [tag("li", self.inline(item)) for item in block.legend], class_="legend")
        data: list[Child] = []
        if 0 < len(block.rows) <= doc.MOST_TABLE_ROWS:
            cells = [[doc.datum_text(value) for value in row] for row in block.rows]
            inner = _grid(f"Data of: {title}", block.head, cells, doc.number_columns(block.head, block.rows))
            data.append(tag("details", tag("summary", "Data as a table"), inner))
        files_ = list(block.links)
        if not files_:
            file = f"{block.name}.csv"
            place = "data:text/csv;charset=utf-8," + quote(csv_text(block.head, block.rows), safe=",.-_")
            data.append(_file_link(title, "Data as CSV", place, file))  # the data itself: nothing is fetched
            files_ = [("Plot as SVG", f"{self.plots_at}/{block.name}.svg")] if self.plots_at else []
        data += [_file_link(title, name, place, True) for name, place in files_]
        caption = tag("figcaption", tag("h3", title), tag("p", self.inline(block.caption)))
        return tag(
            "figure",
            caption,
            pictures,
            legend if block.legend else None,
            tag("div", data, class_="data"),
            id=block.name,
            data_chart=None if block.chart is None else chart_text(block.chart),
            data_at="/results/" if block.chart is not None and self.site else None,
            data_more=block.chart.more or None if block.chart is not None and self.site else None,
        )


def render_html(report: doc.Report) -> str:
    """A whole HTML text that opens without a network; only its own script may run, and none where it has none."""
    renderer = HtmlRenderer()
    script = page_script() if report.scripted else ""
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", renderer.header(report)),
        tag("main", renderer.blocks(report.blocks), id="content"),
        tag("footer", tag("p", f"lynxbench {report.version}. {report.motto}")),
        tag("script", raw(script)) if script else None,
    )
    style = f"\n{colour_rules()}\n{asset('style.css')}"
    allowed = f"style-src 'sha256-{_digest(style)}'; " + (f"script-src 'sha256-{_digest(script)}'; " if script else "")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"default-src 'none'; {allowed}base-uri 'none'; form-action 'none'",
        ),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"{report.name} · lynxbench"),
        tag("style", raw(style)),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


@cache
def page_script() -> str:
    """What a page runs, of a report or of the server: tips, tables, plots."""
    return "".join(asset(name) for name in SCRIPTS)


@cache
def asset(name: str) -> str:
    """A file of this package; part of the code, not of anybody's data."""
    return files("lynxbench.report").joinpath(name).read_text(encoding="utf-8")


def csv_text(head: Sequence[str], rows: Iterable[Sequence[doc.Datum]]) -> str:
    """Plotted data for a spreadsheet."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([[_csv_cell(value) for value in row] for row in rows])
    return out.getvalue()


def _csv_cell(value: doc.Datum) -> str:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    text = str(value)
    # A spreadsheet would run a cell that begins like a formula.
    return "'" + text if text[:1] in {"=", "+", "-", "@", "\t"} else text


def _file_link(title: str, name: str, place: str, download: str | bool) -> Safe:
    return tag("a", name, href=place, download=download, aria_label=f"{title}: {name[:1].lower()}{name[1:]}")


def _grid(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], numeric: Iterable[int], *, named: bool = False
) -> Safe:
    """A table that scrolls inside its own box; the first cell of a row is its heading. `named`: so it says above."""
    right = frozenset(numeric)
    top = [tag("th", _term(name), scope="col", class_="num" if i in right else None) for i, name in enumerate(head)]
    body = []
    for first, *rest in rows:
        short = len(head) - len(rest)  # a row of words in place of figures
        cells = [tag("td", cell, class_="num" if i in right else None) for i, cell in enumerate(rest, start=1)]
        if short > 1 and rest:
            cells[-1] = tag("td", rest[-1], colspan=short, class_="note")
        body.append(tag("tr", tag("th", first, scope="row"), cells))
    shown_caption = tag("caption", caption, class_="aside" if named else None)
    inner = tag("table", shown_caption, tag("thead", tag("tr", top)), tag("tbody", body))
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


@cache
def glossary() -> dict[str, str]:
    """What a word of a heading means, in one sentence."""
    return dict(read_table("report/glossary.toml")["words"])


@cache
def _term(name: str) -> str:
    """A name of a value or a column; one of the glossary explains itself."""
    meaning = glossary().get(name.lower()) or glossary().get(name.lower().removesuffix("s"))
    return tag("span", name, class_="term", title=meaning) if meaning else name


def _tone_of(item: Inline) -> str | None:
    return f"tone-{item.style}" if isinstance(item, Span) and isinstance(item.style, Tone) else None


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
