"""HTML and SVG as text in which escaping is the rule: only what `tag` built, or `raw` vouches for, is markup."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from typing import TypeAlias

from lynxbench.report.words import clean


class Safe(str):
    """Text that is already markup."""

    __slots__ = ()


Child: TypeAlias = "str | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})


def raw(text: str) -> Safe:
    """Vouch for text that this package wrote itself (its style sheet, its script)."""
    return Safe(text)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Safe:
    """One element. `class_` is class, `data_tip` is data-tip; None and False leave an attribute out."""
    opened = "".join([name, *[_attribute(key, value) for key, value in attributes.items()]])
    if name in _VOID:
        return Safe(f"<{opened}>")
    return Safe(f"<{opened}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Safe:
    """Several pieces after one another, the plain ones escaped."""
    return Safe("".join(_flat(children)))


def said(text: str) -> Safe:
    """Somebody's text, isolated so that its writing direction cannot reorder what stands around it."""
    return tag("bdi", clean(text))


def code(text: str) -> Safe:
    """An id, a path or a command."""
    return tag("code", clean(text))


def _flat(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Safe):
            yield child
        elif isinstance(child, str):
            yield escape(child, quote=True)
        else:
            yield from _flat(child)


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _spelled(key)
    if value is True:
        return f" {name}"
    if isinstance(value, float):  # most attributes of a plot; digits need no escaping
        digits = f"{value:.2f}".rstrip("0").rstrip(".")
        return f' {name}="{digits}"'
    return f' {name}="{escape(str(value), quote=True)}"'


@cache
def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
