"""HTML and SVG as text in which escaping is the rule: only what `tag` built, or `raw` vouches for, is markup."""

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import TypeAlias

from lynxbench.visible import UNSAFE, visible


class Safe(str):
    """Text that is already markup."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})
_SPECIAL = re.compile(f"[&<>\"'{UNSAFE.pattern[1:-1]}]")


def raw(text: str) -> Safe:
    """Vouch for text that this package wrote itself (its style sheet, its script)."""
    return Safe(text)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Safe:
    """One element. `class_` is class, `data_tip` is data-tip; None and False leave an attribute out."""
    opened = "".join([name, *[_attribute(key, value) for key, value in attributes.items() if value is not None]])
    if name in _VOID:
        return Safe(f"<{opened}>")
    return Safe(f"<{opened}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Safe:
    """Several pieces after one another, the plain ones escaped."""
    pieces: list[str] = []
    _collect(children, pieces)
    return Safe("".join(pieces))


def escaped(text: str) -> str:
    """Any text as text: no markup, and nothing that would drive a terminal or not be seen."""
    return text if _SPECIAL.search(text) is None else escape(visible(text), quote=True)


def _collect(children: Iterable[Child], pieces: list[str]) -> None:
    for child in children:
        if isinstance(child, Safe):
            pieces.append(child)
        elif isinstance(child, str):
            pieces.append(escaped(child))
        elif child is not None:
            _collect(child, pieces)


def _attribute(key: str, value: Attribute) -> str:
    if value is False:
        return ""
    name = _spelled(key)
    if value is True:
        return f" {name}"
    if isinstance(value, float):  # most attributes of a plot; digits need no escaping
        digits = f"{value:.2f}".rstrip("0").rstrip(".")
        return f' {name}="{digits}"'
    return f' {name}="{escaped(str(value))}"'


@cache
def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
