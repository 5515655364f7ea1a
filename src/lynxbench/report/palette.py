"""One colour per layer and per category, in light and in dark; the tests hold every pair to its contrast."""

from collections.abc import Mapping
from dataclasses import dataclass

from lynxbench.model.attribution import Category
from lynxbench.model.layers import Layer
from lynxbench.tables import read_table

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
    table = read_table("report/palette.toml")
    return Theme(
        {name: pair[scheme] for name, pair in table["colours"].items()},
        {layer: table["layers"][layer][scheme] for layer in Layer},
        {category: table["categories"][category][scheme] for category in Category},
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
