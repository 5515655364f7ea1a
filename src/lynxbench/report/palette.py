"""One colour per layer and per category, in light and in dark; the tests hold every pair to its contrast."""

from collections.abc import Mapping
from dataclasses import dataclass

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer

COLOURS = {
    "page": ("#f6f7f9", "#0f141a"),
    "surface": ("#ffffff", "#171e26"),
    "sunken": ("#f0f2f5", "#1e2731"),
    "ink": ("#16202c", "#e8edf3"),
    "muted": ("#566372", "#a3b0bf"),
    "line": ("#d5dbe3", "#303b48"),
    "grid": ("#e6eaef", "#26303b"),
    "accent": ("#1f5fae", "#84b6f4"),
    "good": ("#1a7045", "#6fcf9b"),
    "warn": ("#8a5800", "#e5b45a"),
    "bad": ("#b3261e", "#ff8f86"),
    "on-fill": ("#ffffff", "#0f141a"),  # text that stands on a category's fill
    "shade": ("#e9ecf1", "#232d38"),
    "shade-strong": ("#ccd3dc", "#3a4755"),
}
"""Light and dark, as #rrggbb."""
LAYERS = {
    Layer.APPLICATION: ("#7a3ea8", "#c9a0f0"),
    Layer.SERVING: ("#a8326a", "#f094be"),
    Layer.RUNTIME: ("#b0431b", "#ff9f77"),
    Layer.FRAMEWORK: ("#8a5a00", "#e6b65c"),
    Layer.SYSTEM: ("#4d6800", "#b4d160"),
    Layer.ACCELERATOR: ("#00704a", "#62d3a5"),
    Layer.PROCUREMENT: ("#006d77", "#62cad4"),
    Layer.FACILITY: ("#1a62b3", "#84b8f5"),
    Layer.DEMAND: ("#4a4fc4", "#adb1f8"),
}
CATEGORIES = {
    Category.COMPUTE: ("#1d5fa8", "#7fb2ee"),
    Category.MEMORY_BANDWIDTH: ("#0b7285", "#5cc3d4"),
    Category.TRANSFER: ("#5b55c0", "#aeaaf5"),
    Category.LAUNCH: ("#b84a14", "#f59d6c"),
    Category.SYNCHRONIZATION: ("#a3346f", "#ee93c0"),
    Category.ALLOCATOR: ("#86600a", "#dcb75e"),
    Category.INPUT: ("#3d7317", "#9bcf72"),
    Category.COMMUNICATION: ("#7b3fb0", "#caa2f2"),
    Category.QUEUEING: ("#a03a3a", "#f09a95"),
    Category.NETWORK: ("#2d6e5b", "#7fcdb5"),
    Category.IDLE: ("#5d6875", "#a4b0bd"),
    Category.UNATTRIBUTED: ("#6f7782", "#8f9aa7"),
}
SERIES_SLOTS = (Layer.FACILITY, Layer.RUNTIME, Layer.ACCELERATOR, Layer.APPLICATION, Layer.FRAMEWORK, Layer.PROCUREMENT)
"""Lines in one plot take these layers' tones in turn, so that no further colours enter the page."""


@dataclass(frozen=True, slots=True)
class Theme:
    """All colours of one colour scheme."""

    colours: Mapping[str, str]
    layers: Mapping[Layer, str]
    categories: Mapping[Category, str]

    def variables(self) -> str:
        """The CSS custom properties."""
        named = dict(self.colours)
        named |= {f"layer-{layer}": colour for layer, colour in self.layers.items()}
        named |= {category_class(category): colour for category, colour in self.categories.items()}
        named |= {f"slot-{index}": self.layers[layer] for index, layer in enumerate(SERIES_SLOTS)}
        return ";".join(f"--{name}:{colour}" for name, colour in named.items())


def _theme(scheme: int) -> Theme:
    return Theme(
        {name: pair[scheme] for name, pair in COLOURS.items()},
        {layer: pair[scheme] for layer, pair in LAYERS.items()},
        {category: pair[scheme] for category, pair in CATEGORIES.items()},
    )


LIGHT, DARK = _theme(0), _theme(1)


def colour_rules() -> str:
    """Both schemes, and the classes through which plots and chips take their colour."""
    rules = [
        f":root{{{LIGHT.variables()}}}",
        f"@media screen and (prefers-color-scheme:dark){{:root{{{DARK.variables()}}}}}",
        *(f".layer-{layer}{{--tone:var(--layer-{layer})}}" for layer in Layer),
        *(f".{category_class(category)}{{--tone:var(--{category_class(category)})}}" for category in Category),
        *(f".slot-{index}{{--tone:var(--slot-{index})}}" for index in range(len(SERIES_SLOTS))),
    ]
    return "\n".join(rules)


def category_class(category: Category) -> str:
    """The CSS class of a category."""
    return f"cat-{category.replace('_', '-')}"
