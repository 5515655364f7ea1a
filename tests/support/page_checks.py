"""What every page is held against in a real browser: our own audit and axe-core, in both schemes, at two widths.

A page is loaded once. The scheme and the width are changed under it as a reader would change them; then two frames
pass, so that what the page draws anew is there. Our own audit, contrast included, sees all of the page each time. So do
the rules of axe-core, at a desk in the light and on a phone in the dark, but for its rule of contrast, which takes
nine tenths of its time: that is asked about every kind of text once in each scheme. Texts are of one kind where all
that contrast rests on is equal, in them and in everything around them, and nothing lies over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page

AUDIT = (Path(__file__).parent / "page_audit.js").read_text(encoding="utf-8")
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
PHONE_RULES = ["target-size"]
"""Off by themselves in axe-core (WCAG 2.2, 2.5.8): what a finger has to meet, so it is asked on a phone."""
RUN_AXE = """async ([more, contrast]) => {
  const about = contrast ? { include: [["[data-kind]"]] } : document;
  const switched = [["color-contrast", { enabled: false }], ...more.map((name) => [name, { enabled: true }])];
  const also = Object.fromEntries(switched);
  const rules = contrast ? { runOnly: { type: "rule", values: ["color-contrast"] } } : { rules: also };
  const found = await axe.run(about, { resultTypes: ["violations"], preload: false, ...rules });
  return found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .flatMap((one) => one.nodes.slice(0, 2).map((node) => `axe ${one.id}: ${node.target.join(" ")}`.slice(0, 160)));
}"""
KINDS = (Path(__file__).parent / "text_kinds.js").read_text(encoding="utf-8")
TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
HEIGHT = 900
MOST_SHOWN = 6
DESK, PHONE, NARROWEST = 1280, 390, 320
"""Pixels; WCAG 2.2, 1.4.10 asks that nothing but a table or a plot scrolls sideways at 320."""


class Appearance(NamedTuple):
    """How a page is looked at, and whether all of axe-core's rules are asked there."""

    width: int
    scheme: str
    whole: bool


APPEARANCES = (
    Appearance(DESK, "light", whole=True),
    Appearance(DESK, "dark", whole=False),
    Appearance(PHONE, "dark", whole=True),
    Appearance(PHONE, "light", whole=False),
)


class PageChecker:
    """Checks pages one after the other; kinds of text that were asked about are not asked about again."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self.asked: Counter[str] = Counter()

    def check(self, page: Page) -> dict[str, list[str]]:
        """Everything that is wrong with the page that is open, by how it was looked at."""
        wrong: dict[str, list[str]] = {}
        for width, scheme, whole in APPEARANCES:
            show(page, width, scheme)
            found = audit(page)
            if whole:
                found += ask_axe(page, PHONE_RULES if width == PHONE else [])
            found += self._contrast(page)
            if found:
                wrong[f"{width} {scheme}"] = found[:MOST_SHOWN]
        show(page, NARROWEST, "light")
        beyond = page.evaluate(SIDEWAYS)
        if beyond > 0:
            wrong[str(NARROWEST)] = [f"scrolls sideways by {beyond} px"]
        show(page, DESK, "light")
        return wrong

    def _contrast(self, page: Page) -> list[str]:
        fresh: list[str] = page.evaluate(KINDS, list(self._known))
        self._known |= set(fresh)
        self.asked["texts"] += len(fresh)
        return ask_axe(page, contrast=True) if fresh else []


def audit(page: Page) -> list[str]:
    """By our own audit, as the page is now."""
    found: list[str] = page.evaluate(AUDIT)
    return found


def ask_axe(page: Page, more: Sequence[str] = (), *, contrast: bool = False) -> list[str]:
    """What axe-core calls serious or critical: by all its rules and `more`, or the contrast of the marked texts."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    found: list[str] = page.evaluate(RUN_AXE, [list(more), contrast])
    return found


def show(page: Page, width: int, scheme: str) -> None:
    """The page that is open, at another width or in another scheme; what it draws anew is drawn when this returns."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.evaluate(TWO_FRAMES)
