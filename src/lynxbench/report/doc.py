"""What people read, as values: a report of blocks, blocks of inline pieces. How each looks is the renderers' affair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, TypeAlias

from lynxbench import __version__
from lynxbench.model.categories import Category
from lynxbench.model.layers import Layer

if TYPE_CHECKING:
    from lynxbench.report.chart import Chart
    from lynxbench.report.markup import Safe


class Tone(StrEnum):
    """How a statement is coloured; the word itself always says it too."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    PLAIN = "plain"


class Depth(IntEnum):
    """How far down somebody reads: a terminal shows the first, Markdown the second as well, a page everything."""

    GLANCE = 0
    READ = 1
    WHOLE = 2


class Style(StrEnum):
    """What a piece of text is; on a page the word is its class."""

    SAID = "said"
    """Somebody's own words: isolated, so that their writing direction cannot reorder what stands around them."""
    CODE = "code"
    ID = "id"
    STRONG = "strong"
    QUIET = "quiet"
    LINK = "link"
    EMPTY = "empty"
    ALERT = "alert"
    NOWRAP = "nowrap"
    UNDER = "under"
    """A second line in a cell."""
    BIG = "big"
    UNIT = "unit"
    INVENTED = "invented"


class Bullet(StrEnum):
    """What kind of list it is; on a page the word is its class."""

    PLAIN = "plain"
    ORDERED = "ordered"
    WARNS = "cautions"
    OUTCOMES = "outcomes"
    ATTENTION = "attention"


Inline: TypeAlias = "str | Span | Picture | Embedded | tuple[Inline, ...]"
Look: TypeAlias = Style | Tone | Layer | Category
"""A layer is set as a chip in its colour, a category with a swatch of its own."""
Fact: TypeAlias = tuple[str, *tuple[Inline, ...]]
"""A name with its value; further values are further lines."""
Datum: TypeAlias = str | int | float
Drawing: TypeAlias = Callable[[str, int], "Safe"]
"""A kind of plot with its data bound: a title and a width give the picture."""


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text in one style; where it leads to, and what a tip or a screen reader says of it."""

    content: Inline
    style: Look
    href: str = ""
    """A place that begins with / is a page of the server, and a link only there."""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A small drawing inside a line; pages alone show it."""

    drawing: Drawing
    title: str


def said(text: str) -> Span:
    """Somebody's text."""
    return Span(text, Style.SAID)


def code(text: str) -> Span:
    """An id, a path or a command."""
    return Span(text, Style.CODE)


def strong(content: Inline) -> Span:
    """What leads."""
    return Span(content, Style.STRONG)


def quiet(content: Inline) -> Span:
    """What steps back."""
    return Span(content, Style.QUIET)


def link(content: Inline, href: str, label: str = "") -> Span:
    """A way elsewhere."""
    return Span(content, Style.LINK, href, label)


def refer(kind: str, identifier: str, content: Inline = "") -> Span:
    """A result, contract or executor by its id: a link wherever there is a page of it."""
    place = f"/{kind}/{identifier}"
    return link(content, place) if content else Span(identifier[:12], Style.CODE, place)


def chip(layer: Layer) -> Span:
    """A layer in its own colour, wherever it is named."""
    return Span(layer.value, layer)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with values; `compact` ones stand in columns on a page."""

    pairs: Sequence[Fact | None]
    title: Inline = ""
    compact: bool = False
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head, the first cell naming its row; the last cell of a short row takes the rest of it."""

    head: Sequence[str]
    rows: Sequence[Sequence[Inline]]
    title: str = ""
    right: Sequence[int] = ()
    """SideBySide of numbers."""
    note: Inline = ""
    empty: Inline = ""
    """What is said where there are no rows; without it nothing is."""
    most: int = 0
    """Rows that a terminal shows, the others are counted; 0 shows all."""
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Points:
    """A list."""

    items: Sequence[Inline]
    title: str = ""
    kind: Bullet = Bullet.PLAIN
    empty: Inline = ""
    most: int = 0
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph."""

    content: Inline
    style: Style | None = None
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Listing:
    """Text to copy as it is: a command, a document."""

    text: str
    depth: Depth = Depth.WHOLE


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with what it shows in words, and its data."""

    name: str
    title: str
    caption: Inline
    drawing: Drawing
    head: Sequence[str]
    rows: Sequence[Sequence[Datum]]
    characters: Callable[[int], Sequence[str]] | None = None
    """The same for a terminal of a width; without it a plot at a glance is its data."""
    legend: Sequence[Inline] = ()
    links: Sequence[tuple[str, str]] = ()
    """Names and places of files that replace the data in the page."""
    chart: Chart | None = None
    """The same as data, where a page's script can draw it anew: to zoom, to overlay, to open a point's result."""
    depth: Depth = Depth.WHOLE


@dataclass(frozen=True, slots=True)
class Card:
    """A figure that is read from across a room."""

    title: str
    state: str
    value: str
    unit: str
    picture: Picture
    note: str


@dataclass(frozen=True, slots=True)
class Cards:
    """Figures beside one another."""

    cards: Sequence[Card]
    depth: Depth = Depth.WHOLE


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Lists beside one another."""

    lists: Sequence[Points]
    depth: Depth = Depth.READ


@dataclass(frozen=True, slots=True)
class LayerPart:
    """What one layer has: its owner, a word on it, and blocks that a page unfolds."""

    layer: Layer
    owner: str
    about: str
    many: str
    blocks: Sequence[Block]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers under one another; Markdown lists them without what is inside."""

    parts: Sequence[LayerPart]
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks under a small heading; folded, they are seen when asked for."""

    title: Inline
    blocks: Sequence[Block | None]
    name: str = ""
    folded: bool = False
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a manager reads: the word, the sentence after it, whose it is, what to beware of."""

    sentence: Inline
    mark: str = ""
    look: Tone | Layer = Tone.PLAIN
    facts: Sequence[Fact | None] = ()
    cautions: Sequence[Inline] = ()
    title: str = "Verdict"
    name: str = "verdict"
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Section:
    """A part under a heading of its own. Terminals show the titles of blocks alone."""

    name: str
    title: str
    blocks: Sequence[Block | None]
    lead: str = ""
    depth: Depth = Depth.GLANCE


@dataclass(frozen=True, slots=True)
class Links:
    """Ways around and elsewhere."""

    label: str
    items: Sequence[Span]
    depth: Depth = Depth.WHOLE


@dataclass(frozen=True, slots=True)
class Embedded:
    """Markup of a page that is no text to read: a form, a live view; a block, or a piece of a line."""

    markup: Safe
    depth: Depth = Depth.WHOLE


Block: TypeAlias = (
    Facts
    | Table
    | Points
    | Note
    | Listing
    | Plot
    | Cards
    | SideBySide
    | Layers
    | Group
    | Verdict
    | Section
    | Links
    | Embedded
)


@dataclass(frozen=True, slots=True)
class Report:
    """All that is read together."""

    name: str
    """Of the page; also its heading where there is no title."""
    blocks: Sequence[Block | None]
    title: Inline = ""
    """The heading; without one a terminal begins with the first block."""
    brand: str = ""
    lead: Inline = ""
    facts: Sequence[Fact | None] = ()
    links: Links | None = None
    version: str = __version__
    """Of the lynxbench that made the values."""
    motto: str = "A number never travels without its context."
    contents: bool = False
    """Whether a page lists its sections at the top."""
    scripted: bool = False
    """Whether a page brings the script that makes tips quicker and plots such that one can touch them."""


MOST_TABLE_ROWS = 40
"""A longer table of plotted data is not shown as one."""


def datum_text(value: Datum, digits: int = 5) -> str:
    """A plotted value for people."""
    if isinstance(value, float):
        return f"{value:.{digits}g}" if math.isfinite(value) else "unknown"
    return str(value)


def number_columns(head: Sequence[str], rows: Sequence[Sequence[Datum]]) -> list[int]:
    """The columns of plotted data that hold numbers alone."""
    return [i for i in range(len(head)) if not any(isinstance(row[i], str) for row in rows)]


def shown(blocks: Iterable[Block | None], depth: Depth) -> Iterator[Block]:
    """The blocks that are there at a depth."""
    return (block for block in blocks if block is not None and block.depth <= depth)


def plain_text(content: Inline) -> str:
    """The words alone."""
    if isinstance(content, str):
        return content
    if isinstance(content, Span):
        return plain_text(content.content)
    return "".join(map(plain_text, content)) if isinstance(content, tuple) else ""
