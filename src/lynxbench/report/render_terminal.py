"""A report in a terminal: one wrapper of words, one layout of tables, no character that could drive the terminal."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from lynxbench.report import doc
from lynxbench.report.doc import Depth, Fact, Inline, Style, Tone
from lynxbench.report.words import NBSP, clean, printable
from lynxbench.visible import visible

NARROWEST = 60
"""Below this the layout stays as it is and the terminal wraps; numbers would otherwise be torn apart."""
INDENT = 2
GAP = 2
LONGEST_LABEL = 34
NARROWEST_WORDS = 16
"""A column of words is not squeezed below this; the rows become lists instead."""
DIM, BOLD = "2", "1"

_CODES: dict[doc.Look | None, str] = {
    Style.STRONG: BOLD,
    **dict.fromkeys((Style.QUIET, Style.EMPTY), DIM),
    Tone.GOOD: "32",
    **dict.fromkeys((Tone.WARN, Style.INVENTED), "33"),
    **dict.fromkeys((Tone.BAD, Style.ALERT), "1;31"),
}


class Piece(NamedTuple):
    """A run of text with the code of its colour; it may be broken at plain spaces only."""

    text: str
    code: str = ""


Line = list[Piece]


def render_terminal(report: doc.Report, *, width: int, colour: bool = False) -> str:
    """What is read at a glance, in lines of at most that width."""
    width = max(width, NARROWEST)
    lines = [*_header(report, width), *_blocks(report.blocks, width)]
    return "".join(f"{_text(line, colour)}\n" for line in lines)


def _header(report: doc.Report, width: int) -> list[Line]:
    if not report.title:
        return []
    about: Line = []
    for name, *values in filter(None, report.facts):
        pieces = [piece for value in values for piece in (Piece(" ", DIM), *_pieces(value, DIM))]
        about += [Piece(" · " if about else "", DIM), Piece(printable(name), DIM), *pieces]
    return [*_wrapped(_pieces(report.title, BOLD), width), *(_wrapped(about, width) if about else []), []]


def _blocks(blocks: Iterable[doc.Block | None], width: int) -> list[Line]:
    lines: list[Line] = []
    for block in doc.shown(blocks, Depth.GLANCE):
        if rendered := _block(block, width):
            lines += [[], *rendered] if lines else rendered
    return lines


def _block(block: doc.Block, width: int) -> list[Line]:
    match block:
        case doc.Section():
            return _blocks(block.blocks, width)
        case doc.Verdict():
            return _verdict(block, width)
        case doc.Note():
            return _wrapped(_pieces(block.content, _CODES.get(block.style, "")), width)
        case doc.Listing():
            return [line for text in block.text.splitlines() for line in _fitted(printable(text), width)]
        case doc.SideBySide():
            return _blocks(block.lists, width)
        case doc.Layers():
            return [line for part in block.parts for line in _titled(_layer_title(part), part.blocks, width)]
        case doc.Group():
            return _titled(_pieces(block.title, BOLD), block.blocks, width)
        case doc.Plot():
            if block.characters is None:
                rows = [[doc.datum_text(value, 4) for value in row] for row in block.rows]
                right = doc.number_columns(block.head, block.rows)
                return _listed(doc.Table(block.head, rows, block.title, right), width)
            lines = [
                line for text in block.characters(width - INDENT) for line in _fitted(printable(text), width - INDENT)
            ]
            return [*_wrapped([Piece(printable(block.title), BOLD)], width), *_indented(lines)] if lines else []
        case doc.Facts() | doc.Table() | doc.Points():
            return _listed(block, width)
        case doc.Cards() | doc.Links() | doc.Embedded():
            return []


def _listed(block: doc.Facts | doc.Table | doc.Points, width: int) -> list[Line]:
    """A block under its title; one without rows is what it says instead of them."""
    if not isinstance(block, doc.Facts) and not _rows(block):
        return _wrapped(_pieces(block.empty), width) if block.empty else []
    room = width - INDENT if block.title else width
    match block:
        case doc.Facts():
            lines = _facts(block.pairs, room)
        case doc.Table():
            lines = [*_table(block, room), *_left(block), *(_wrapped(_pieces(block.note), room) if block.note else [])]
        case doc.Points():
            lines = [*_points(block, room), *_left(block)]
    return [*_wrapped(_pieces(block.title, BOLD), width), *_indented(lines)] if block.title else lines


def _rows(block: doc.Table | doc.Points) -> Sequence[object]:
    return block.rows if isinstance(block, doc.Table) else block.items


def _left(block: doc.Table | doc.Points) -> list[Line]:
    left = len(_rows(block)) - block.most
    return [[Piece(f"and {left} more", DIM)]] if block.most and left > 0 else []


def _titled(title: Line, blocks: Iterable[doc.Block | None], width: int) -> list[Line]:
    return [*_wrapped(title, width), *_indented(_blocks(blocks, width - INDENT))]


def _layer_title(part: doc.LayerPart) -> Line:
    owner = Piece(f" · owner: {clean(part.owner)}", DIM)
    return [Piece(part.layer.value.upper(), BOLD), Piece(f" · {printable(part.about)}"), owner]


def _verdict(block: doc.Verdict, width: int) -> list[Line]:
    colour = "" if not isinstance(block.look, Tone) else _CODES.get(block.look, "")
    mark = f"{printable(block.mark).upper()}{': ' if block.sentence else ''}"
    head = [Piece(mark, f"1;{colour}".strip(";"))] if block.mark else []
    lines = _wrapped([*head, *_pieces(block.sentence)], width)
    lines += _indented(_facts(block.facts, width - INDENT))
    return lines + _indented(_points(doc.Points(block.cautions, kind=doc.Bullet.WARNS), width - INDENT))


def _points(block: doc.Points, width: int) -> list[Line]:
    lines: list[Line] = []
    for place, item in enumerate(block.items[: block.most or None], start=1):
        warns = block.kind is doc.Bullet.WARNS
        mark = f"{place}. " if block.kind is doc.Bullet.ORDERED else "! " if warns else "- "
        lines += _hung(Piece(mark, "33" if warns else ""), _wrapped(_pieces(item), width - len(mark)))
    return lines


def _facts(pairs: Iterable[Fact | None], width: int) -> list[Line]:
    return _labelled([(printable(name), *map(_pieces, values)) for name, *values in filter(None, pairs)], width)


def _labelled(facts: Sequence[tuple[str, *tuple[Line, ...]]], width: int) -> list[Line]:
    column = min(max((_cells(name) for name, *_ in facts), default=0), LONGEST_LABEL, width // 3) + GAP
    lines: list[Line] = []
    for name, *values in facts:
        wrapped = [line for value in values for line in _wrapped(value, width - column)]
        if _cells(name) > column - GAP:
            lines += [*_wrapped([Piece(name, DIM)], width), *_indented(wrapped, column)]
        else:
            lines += _hung(Piece(name + " " * (column - _cells(name)), DIM), wrapped)
    return lines


# --- tables ---------------------------------------------------------------------------------------------------------


def _table(block: doc.Table, width: int) -> list[Line]:
    rows = [[_pieces(cell) for cell in row] for row in block.rows[: block.most or None]]
    head = [[Piece(printable(name), DIM)] for name in block.head]
    widths = _widths([head, *rows], frozenset(block.right), width - GAP * (len(head) - 1))
    if widths is None:
        return _stacked([printable(name) for name in block.head], rows, width)
    lines = _row(head, widths, block.right, width) if any(block.head) else []
    return lines + [line for row in rows for line in _row(row, widths, block.right, width)]


def _widths(rows: Sequence[Sequence[Line]], right: frozenset[int], room: int) -> list[int] | None:
    """As wide as needed, columns of words squeezed from the widest on; None where they do not fit side by side."""
    columns = len(rows[0])
    full = [row if len(row) == columns else row[:-1] for row in rows]
    widths = [max((_size(row[i]) for row in full if i < len(row)), default=0) for i in range(columns)]
    if sum(widths) <= room:
        return widths
    floors = [min(widths[i], _floor(full, i, whole=i in right)) for i in range(columns)]
    if sum(floors) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(columns) if widths[i] > floors[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _floor(rows: Sequence[Sequence[Line]], column: int, *, whole: bool) -> int:
    """A name torn apart is no name: a column is as wide as its longest word, and one of numbers (`whole`) as those."""
    head, *cells = [row[column] for row in rows if column < len(row)]
    longest = max(map(_size, _words(head)), default=0)
    if whole:
        return max([longest, *map(_size, cells)])
    return max([NARROWEST_WORDS, longest, *(_size(word) for cell in cells for word in _words(cell))])


def _row(row: Sequence[Line], widths: Sequence[int], right: Sequence[int], width: int) -> list[Line]:
    sizes = list(widths[: len(row)])
    if len(row) < len(widths):
        sizes[-1] = width - sum(sizes[:-1]) - GAP * (len(row) - 1)
    cells = [[cell] if _size(cell) <= size else _wrapped(cell, size) for cell, size in zip(row, sizes, strict=True)]
    lines: list[Line] = []
    for at in range(max(len(cell) for cell in cells)):
        line: Line = []
        for column, (cell, size) in enumerate(zip(cells, sizes, strict=True)):
            pieces = cell[at] if at < len(cell) else []
            pad = Piece(" " * (size - _size(pieces)))
            aligned = (pad, *pieces) if column in right and len(row) == len(widths) else (*pieces, pad)
            line += [*([Piece(" " * GAP)] if column else []), *aligned]
        lines.append(line)
    return lines


def _stacked(head: Sequence[str], rows: Iterable[Sequence[Line]], width: int) -> list[Line]:
    """Rows that are too wide for the terminal, each as a list of its cells."""
    lines: list[Line] = []
    for first, *rest in rows:
        lines += _wrapped([Piece(piece.text, piece.code or BOLD) for piece in first], width)
        if len(rest) < len(head) - 1:
            lines += [line for cell in rest for line in _indented(_wrapped(cell, width - INDENT))]
            continue
        cells = [(name, cell) for name, cell in zip(head[1:], rest, strict=True) if _size(cell)]
        lines += _indented(_labelled(cells, width - INDENT))
    return lines


# --- words on a grid of cells ---------------------------------------------------------------------------------------


def _pieces(content: Inline, code: str = "") -> Line:
    if isinstance(content, str):
        return [Piece(printable(content).replace(" %", f"{NBSP}%"), code)]
    if isinstance(content, tuple):
        return [piece for part in content for piece in _pieces(part, code)]
    if isinstance(content, doc.Picture | doc.Embedded):
        return []
    if content.style is Style.SAID and isinstance(content.content, str):
        return [Piece(clean(content.content), code)]
    return _pieces(content.content, _CODES.get(content.style, "") or code)


def _words(pieces: Iterable[Piece]) -> list[Line]:
    words: list[Line] = [[]]
    for text, code in pieces:
        first, *rest = text.split(" ")
        if first:
            words[-1].append(Piece(first, code))
        words += [[Piece(part, code)] if part else [] for part in rest]
    return [word for word in words if word]


def _wrapped(pieces: Iterable[Piece], width: int) -> list[Line]:
    """Break at plain spaces only: a number, its brackets and its unit are held together by no-break spaces."""
    lines: list[Line] = [[]]
    used = 0
    for word in _words(pieces):
        size = _size(word)
        if used and used + 1 + size > width:
            lines.append([])
            used = 0
        if size > width:  # longer than a whole line: it is cut, everything else stays in one piece
            *full, last = _cut(word, width)
            lines[-1:] = [*full, last]
            used = _size(last)
            continue
        lines[-1] += [Piece(" ", word[0].code), *word] if used else word
        used += size + bool(used)
    return lines


def _fitted(text: str, width: int) -> list[Line]:
    """A line of a drawing as it is; one that names something too long is wrapped."""
    return [[Piece(text)]] if _cells(text) <= width else _wrapped([Piece(text)], width)


def _cut(word: Line, width: int) -> list[Line]:
    lines: list[Line] = [[]]
    for text, code in word:
        for letter in text:
            if _size(lines[-1]) + _cells(letter) > width:
                lines.append([])
            lines[-1].append(Piece(letter, code))
    return lines


def _hung(first: Piece, lines: Iterable[Line]) -> list[Line]:
    hang = Piece(" " * _cells(first.text))
    return [[hang if index else first, *line] for index, line in enumerate(lines)]


def _indented(lines: Iterable[Line], by: int = INDENT) -> list[Line]:
    return [[Piece(" " * by), *line] if line else line for line in lines]


def _size(pieces: Iterable[Piece]) -> int:
    return sum(_cells(piece.text) for piece in pieces)


def _cells(text: str) -> int:
    if text.replace(NBSP, " ").isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _text(line: Line, colour: bool) -> str:
    plain = visible("".join(piece.text for piece in line)).replace(NBSP, " ").rstrip()
    if not colour:
        return plain
    text, left = "", len(plain)
    for code, run in groupby(line, key=lambda piece: piece.code):
        words = visible("".join(piece.text for piece in run))[:left].replace(NBSP, " ")
        left -= len(words)
        text += f"\x1b[{code}m{words}\x1b[0m" if code and words else words
    return text
