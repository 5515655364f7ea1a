"""Every colour pair that carries text or meaning holds its contrast (WCAG 2.2: 4.5 for text, 3 for graphics)."""

from __future__ import annotations

import itertools

import pytest

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer
from lynxbench.report.palette import DARK, LIGHT, Theme, colour_rules

TEXT, GRAPHICS = 4.5, 3.0


def luminance(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: str, two: str) -> float:
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_formula_itself() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_contrast(theme: Theme) -> None:
    texts = {name: theme.colours[name] for name in ("ink", "muted", "accent", "good", "warn", "bad")}
    texts |= {f"layer {layer}": colour for layer, colour in theme.layers.items()}
    for (name, colour), ground in itertools.product(texts.items(), ("surface", "page", "sunken")):
        assert contrast(colour, theme.colours[ground]) >= TEXT, f"{name} on {ground}"
    # Tick labels may stand on shaded phases, tips are written in the surface's colour on ink.
    assert contrast(theme.colours["muted"], theme.colours["shade"]) >= TEXT
    assert contrast(theme.colours["surface"], theme.colours["ink"]) >= TEXT


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_fills_and_the_text_on_them(theme: Theme) -> None:
    on_fill = theme.colours["on-fill"]
    for category, colour in (theme.categories | {"accent": theme.colours["accent"]}).items():
        assert contrast(colour, theme.colours["surface"]) >= GRAPHICS, category
        if category is not Category.UNATTRIBUTED:
            assert contrast(on_fill, colour) >= TEXT, category
    assert contrast(on_fill, theme.categories[Category.UNATTRIBUTED]) >= TEXT


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_every_layer_and_category_has_a_colour_of_its_own(theme: Theme) -> None:
    assert set(theme.layers) == set(Layer)
    assert set(theme.categories) == set(Category)
    assert len(set(theme.layers.values())) == len(Layer)
    assert len(set(theme.categories.values())) == len(Category)


def test_rules_cover_both_schemes() -> None:
    rules = colour_rules()
    assert "prefers-color-scheme:dark" in rules
    assert all(f".layer-{layer}{{" in rules for layer in Layer)
