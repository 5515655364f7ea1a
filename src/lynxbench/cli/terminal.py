"""The only way onto standard output and standard error: whatever a text holds, it cannot drive the terminal."""

import os
import sys
from collections.abc import Iterable

from lynxbench.visible import visible, visible_json, visible_line

_OURS = f"\x1b{os.urandom(8).hex()}["
"""Begins a colour that this program put there: no text from elsewhere can know it."""


def coloured(text: str) -> str:
    """A text of the terminal renderer, which made everything but its colours visible: these pass `say`."""
    return text.replace("\x1b[", _OURS)


def say(text: str, end: str = "\n") -> None:
    """An answer, on standard output."""
    print(_harmless(text), end=end)


def say_json(text: str) -> None:
    """A JSON document, on standard output: its characters are escaped as JSON has it, and it stays the same."""
    print(visible_json(text), end="" if text.endswith("\n") else "\n")


def finish() -> None:
    """Hand over what is still held back, while a full disk or a closed pipe can be said: later nobody learns of it."""
    print(end="", flush=True)


def as_lines(lines: Iterable[str]) -> str:
    """Lines that quote somebody: each stays one, so nobody's text begins a line that looks like one of ours."""
    return "".join(f"{visible_line(line)}\n" for line in lines)


def tell(line: str, *, over: bool = False) -> None:
    """A message beside the answer: it never stands on standard output. `over` writes over the line before."""
    text = visible_line(line)
    print(f"\r{text}" if over else text, end="" if over else "\n", file=sys.stderr, flush=True)


def _harmless(text: str) -> str:
    return "\x1b[".join(visible(part) for part in text.split(_OURS))
