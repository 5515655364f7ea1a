"""A report as Markdown, for a ticket or a wiki: the same blocks, a plot as its data."""

import re
from collections.abc import Iterable, Sequence

from lynxbench.report import doc
from lynxbench.report.doc import Depth, Fact, Inline, Span, Style
from lynxbench.report.words import clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LINK = re.compile(r"(?i)\b(https?|ftp|file|javascript|data):")


def render_markdown(report: doc.Report) -> str:
    """One Markdown document, the verdict first."""
    parts = [f"# {_inline(report.title or report.name)}"]
    parts.append(" · ".join(f"{name} {_values(values)}" for name, *values in filter(None, report.facts)))
    parts += _blocks(report.blocks)
    return "\n\n".join(part for part in parts if part) + "\n"


def escape_markdown(text: str) -> str:
    """Somebody's text as text: no markup, no links, no new table cells."""
    return _LINK.sub(lambda match: match.group(0)[:-1] + "\\:", _SPECIAL.sub(r"\\\1", clean(text)))


def _inline(content: Inline) -> str:
    """Text; pieces keep the spaces that stand between them."""
    if isinstance(content, Span) and content.style is Style.STRONG:
        return f"**{_inline(content.content)}**"
    if isinstance(content, tuple):
        return "".join(map(_inline, content))
    text = doc.plain_text(content)
    before, after = (" " if text[:1].isspace() else ""), (" " if text.strip() and text[-1:].isspace() else "")
    return before + escape_markdown(text) + after


def _values(values: Iterable[Inline]) -> str:
    return "; ".join(map(_inline, values))


def _blocks(blocks: Iterable[doc.Block | None]) -> list[str]:
    return [part for block in doc.shown(blocks, Depth.READ) for part in _block(block)]


def _block(block: doc.Block) -> list[str]:
    match block:
        case doc.Section():
            parts = _blocks(block.blocks)
            return [f"## {escape_markdown(block.title)}", escape_markdown(block.lead), *parts] if parts else []
        case doc.Verdict():
            lead = f"**{escape_markdown(block.mark)}**" + (": " if block.sentence else "") if block.mark else ""
            return [
                f"## {escape_markdown(block.title)}",
                lead + _inline(block.sentence),
                "\n".join([*_facts(block.facts), *_points(doc.Points(block.cautions, kind=doc.Bullet.WARNS))]),
            ]
        case doc.Facts():
            return _titled(block.title, "\n".join(_facts(block.pairs)))
        case doc.Table():
            if not block.rows:
                return [_inline(block.empty)]
            rows = [[_inline(cell) for cell in row] for row in block.rows]
            return [*_titled(block.title, _table(block.head, rows, block.right)), _inline(block.note)]
        case doc.Points():
            return _titled(block.title, "\n".join(_points(block))) if block.items else [_inline(block.empty)]
        case doc.Note():
            return [_inline(block.content)]
        case doc.Listing():
            return ["\n".join(f"    {line}" for line in block.text.splitlines())]
        case doc.Plot():
            data = [[escape_markdown(doc.datum_text(value)) for value in row] for row in block.rows]
            lines = _table(block.head, data, doc.number_columns(block.head, block.rows))
            many = f"{len(data)} rows of data: a page draws them."
            return [*_titled(block.title, _inline(block.caption)), lines if len(data) <= doc.MOST_TABLE_ROWS else many]
        case doc.SideBySide():
            return _blocks(block.lists)
        case doc.Layers():
            rows = [
                [part.layer.value, escape_markdown(part.owner), escape_markdown(part.about), escape_markdown(part.many)]
                for part in block.parts
            ]
            return [_table(("Layer", "Owner", "About", "Fields"), rows, ())] if rows else []
        case doc.Group():
            parts = _blocks(block.blocks)
            return [f"### {_inline(block.title)}", *parts] if parts else []
        case doc.Cards() | doc.Links() | doc.Embedded():
            return []


def _titled(title: Inline, text: str) -> list[str]:
    return [f"### {_inline(title)}", text] if title and text else [text]


def _facts(pairs: Iterable[Fact | None]) -> list[str]:
    return [f"- {escape_markdown(name)}: {_values(values)}" for name, *values in filter(None, pairs)]


def _points(block: doc.Points) -> list[str]:
    marks = {doc.Bullet.WARNS: "- ⚠ ", doc.Bullet.ORDERED: "1. "}
    return [marks.get(block.kind, "- ") + _inline(item) for item in block.items]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int]) -> str:
    numbers = frozenset(right)
    marks = ["--:" if column in numbers else ":--" for column in range(len(head))]
    filled = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    lines = [[escape_markdown(name) for name in head], marks, *filled]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
