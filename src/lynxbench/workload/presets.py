"""Named public model shapes as plain data: right for speed with seeded random weights, meaningless for task accuracy.

`config` holds the keys of the model's public `config.json`. Parameter counts are those of the public checkpoints; a
test builds every shape and holds the two against each other.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from lynxbench.errors import BadInput
from lynxbench.tables import read_table


class ModelFamily(StrEnum):
    """What a model consumes and produces."""

    DECODER = "decoder"
    ENCODER = "encoder"
    VISION = "vision"


ARCHITECTURES = read_table("workload/data/architectures.toml")
FAMILY_OF_TYPE = {name: ModelFamily(keys["family"]) for name, keys in ARCHITECTURES.items()}
"""By the `model_type` of a config.json."""

TASKS_OF_FAMILY: dict[ModelFamily, tuple[str, ...]] = {
    ModelFamily.DECODER: ("generate", "prefill", "decode", "embed", "train-step"),
    ModelFamily.ENCODER: ("embed", "classify", "train-step"),
    ModelFamily.VISION: ("classify", "train-step"),
}


@dataclass(frozen=True, slots=True)
class Preset:
    """One public shape."""

    name: str
    model_type: str
    parameters: int
    """Of the public checkpoint, counted without a task head except for vision models (1000 classes)."""
    config: Mapping[str, Any]

    @property
    def family(self) -> ModelFamily:
        """What it consumes and produces."""
        return FAMILY_OF_TYPE[self.model_type]


@cache
def presets() -> dict[str, Preset]:
    """Every shape by its name."""
    shapes = json.loads((files("lynxbench.workload") / "data" / "presets.json").read_text(encoding="utf-8"))
    return {name: Preset(name=name, **shape) for name, shape in shapes.items()}


def find_preset(name: str) -> Preset:
    """The preset of that name; BadInput lists the known ones."""
    try:
        return presets()[name]
    except KeyError:
        known = ", ".join(sorted(presets()))
        raise BadInput(f"workload.model.name: no preset {name!r}; known: {known}") from None


def shaped_config(preset: Preset, layers: int | None) -> dict[str, Any]:
    """The preset's configuration with another depth (for a ResNet: that many blocks in each stage)."""
    config = dict(preset.config)
    if layers is None:
        return config
    if "depths" in config:
        config["depths"] = [layers] * len(config["depths"])
    else:
        config["num_hidden_layers"] = layers
    return config
