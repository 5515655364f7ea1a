from __future__ import annotations

import pytest
import torch

from lynxbench.engines.torch.library import KNOWN, import_config_class, import_model_class
from lynxbench.errors import BadInput
from lynxbench.model.workload import Task
from lynxbench.workload.presets import ModelFamily, find_preset, presets, shaped_config

TASK_OF_FAMILY = {
    ModelFamily.DECODER: Task.GENERATE,
    ModelFamily.ENCODER: Task.EMBED,
    ModelFamily.VISION: Task.CLASSIFY,
}


@pytest.mark.parametrize("name", sorted(presets()))
def test_the_shape_has_the_public_parameter_count(name: str) -> None:
    preset = presets()[name]
    config = import_config_class(preset.model_type)(**preset.config)
    with torch.device("meta"):
        model = import_model_class(preset.model_type, TASK_OF_FAMILY[preset.family])(config)
    model.tie_weights()
    assert sum(parameter.numel() for parameter in model.parameters()) == preset.parameters


def test_rotary_settings_reach_the_library() -> None:
    config = import_config_class("llama")(**presets()["llama-3.1-8b"].config)
    told = getattr(config, "rope_parameters", None) or {"rope_theta": config.rope_theta, **config.rope_scaling}
    assert told["rope_theta"] == 500_000.0
    assert told["factor"] == 8.0


def test_every_architecture_is_known_to_the_engine() -> None:
    assert {preset.model_type for preset in presets().values()} <= KNOWN.keys()


def test_depth_can_be_cut() -> None:
    assert shaped_config(presets()["bert-base"], 2)["num_hidden_layers"] == 2
    assert shaped_config(presets()["resnet-50"], 1)["depths"] == [1, 1, 1, 1]
    assert shaped_config(presets()["resnet-50"], None)["depths"] == [3, 4, 6, 3]


def test_an_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(BadInput, match=r"bert-base.*vit-l-16"):
        find_preset("llama-9")
