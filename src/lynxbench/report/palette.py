"""One colour per layer and per category, in light and in dark; the tests hold every pair to its contrast."""

from __future__ import annotations

from dataclasses import dataclass

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer


@dataclass(frozen=True, slots=True)
class Theme:
    """All colours of one colour scheme, as #rrggbb."""

    page: str
    surface: str
    sunken: str
    ink: str
    muted: str
    line: str
    grid: str
    accent: str
    good: str
    warn: str
    bad: str
    on_fill: str
    """Text that stands on a category's fill."""
    shade: str
    shade_strong: str
    layers: dict[Layer, str]
    categories: dict[Category, str]


LIGHT = Theme(
    page="#f6f7f9",
    surface="#ffffff",
    sunken="#f0f2f5",
    ink="#16202c",
    muted="#566372",
    line="#d5dbe3",
    grid="#e6eaef",
    accent="#1f5fae",
    good="#1a7045",
    warn="#8a5800",
    bad="#b3261e",
    on_fill="#ffffff",
    shade="#e9ecf1",
    shade_strong="#ccd3dc",
    layers={
        Layer.APPLICATION: "#7a3ea8",
        Layer.SERVING: "#a8326a",
        Layer.RUNTIME: "#b0431b",
        Layer.FRAMEWORK: "#8a5a00",
        Layer.SYSTEM: "#4d6800",
        Layer.ACCELERATOR: "#00704a",
        Layer.PROCUREMENT: "#006d77",
        Layer.FACILITY: "#1a62b3",
        Layer.DEMAND: "#4a4fc4",
    },
    categories={
        Category.COMPUTE: "#1d5fa8",
        Category.MEMORY_BANDWIDTH: "#0b7285",
        Category.TRANSFER: "#5b55c0",
        Category.LAUNCH: "#b84a14",
        Category.SYNCHRONIZATION: "#a3346f",
        Category.ALLOCATOR: "#86600a",
        Category.INPUT: "#3d7317",
        Category.COMMUNICATION: "#7b3fb0",
        Category.QUEUEING: "#a03a3a",
        Category.NETWORK: "#2d6e5b",
        Category.IDLE: "#5d6875",
        Category.UNATTRIBUTED: "#6f7782",
    },
)

DARK = Theme(
    page="#0f141a",
    surface="#171e26",
    sunken="#1e2731",
    ink="#e8edf3",
    muted="#a3b0bf",
    line="#303b48",
    grid="#26303b",
    accent="#84b6f4",
    good="#6fcf9b",
    warn="#e5b45a",
    bad="#ff8f86",
    on_fill="#0f141a",
    shade="#232d38",
    shade_strong="#3a4755",
    layers={
        Layer.APPLICATION: "#c9a0f0",
        Layer.SERVING: "#f094be",
        Layer.RUNTIME: "#ff9f77",
        Layer.FRAMEWORK: "#e6b65c",
        Layer.SYSTEM: "#b4d160",
        Layer.ACCELERATOR: "#62d3a5",
        Layer.PROCUREMENT: "#62cad4",
        Layer.FACILITY: "#84b8f5",
        Layer.DEMAND: "#adb1f8",
    },
    categories={
        Category.COMPUTE: "#7fb2ee",
        Category.MEMORY_BANDWIDTH: "#5cc3d4",
        Category.TRANSFER: "#aeaaf5",
        Category.LAUNCH: "#f59d6c",
        Category.SYNCHRONIZATION: "#ee93c0",
        Category.ALLOCATOR: "#dcb75e",
        Category.INPUT: "#9bcf72",
        Category.COMMUNICATION: "#caa2f2",
        Category.QUEUEING: "#f09a95",
        Category.NETWORK: "#7fcdb5",
        Category.IDLE: "#a4b0bd",
        Category.UNATTRIBUTED: "#8f9aa7",
    },
)

SERIES_SLOTS = (Layer.FACILITY, Layer.RUNTIME, Layer.ACCELERATOR, Layer.APPLICATION, Layer.FRAMEWORK, Layer.PROCUREMENT)
"""Lines in one plot take these layers' tones in turn, so that no further colours enter the page."""


def variables(theme: Theme) -> str:
    """The CSS custom properties of one colour scheme."""
    plain = {
        name.replace("_", "-"): getattr(theme, name) for name in Theme.__slots__ if name not in {"layers", "categories"}
    }
    layers = {f"layer-{layer}": colour for layer, colour in theme.layers.items()}
    categories = {f"cat-{category.replace('_', '-')}": colour for category, colour in theme.categories.items()}
    slots = {f"slot-{index}": theme.layers[layer] for index, layer in enumerate(SERIES_SLOTS)}
    return ";".join(f"--{name}:{colour}" for name, colour in (plain | layers | categories | slots).items())


def colour_rules() -> str:
    """Both schemes, and the classes through which plots and chips take their colour."""
    rules = [
        f":root{{{variables(LIGHT)}}}",
        f"@media screen and (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}",
        *(f".layer-{layer}{{--tone:var(--layer-{layer})}}" for layer in Layer),
        *(f".{category_class(category)}{{--tone:var(--{category_class(category)})}}" for category in Category),
        *(f".slot-{index}{{--tone:var(--slot-{index})}}" for index in range(len(SERIES_SLOTS))),
    ]
    return "\n".join(rules)


def category_class(category: Category) -> str:
    """The CSS class of a category."""
    return f"cat-{category.replace('_', '-')}"
