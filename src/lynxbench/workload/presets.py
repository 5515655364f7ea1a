"""Named public model shapes as plain data: right for speed with seeded random weights, meaningless for task accuracy.

`config` holds the keys of the model's public `config.json`. Parameter counts are those of the public checkpoints; a
test builds every shape and holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lynxbench.errors import BadInput


class ModelFamily(StrEnum):
    """What a model consumes and produces."""

    DECODER = "decoder"
    ENCODER = "encoder"
    VISION = "vision"


FAMILY_OF_TYPE: dict[str, ModelFamily] = {
    "llama": ModelFamily.DECODER,
    "mistral": ModelFamily.DECODER,
    "qwen2": ModelFamily.DECODER,
    "bert": ModelFamily.ENCODER,
    "resnet": ModelFamily.VISION,
    "vit": ModelFamily.VISION,
}
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


def _llama3(factor: float) -> dict[str, Any]:
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


def _decoder(
    vocabulary: int, width: int, feed_forward: int, layers: int, heads: int, kv_heads: int, positions: int, **more: Any
) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": positions,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        **more,
    }


def _bert(width: int, feed_forward: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "vocab_size": 30522,
        "hidden_size": width,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    }


def _vit(width: int, feed_forward: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "hidden_size": width,
        "intermediate_size": feed_forward,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "num_labels": 1000,
    }


def _resnet(kind: str, widths: tuple[int, ...], depths: tuple[int, ...]) -> dict[str, Any]:
    return {
        "num_channels": 3,
        "embedding_size": 64,
        "hidden_sizes": list(widths),
        "depths": list(depths),
        "layer_type": kind,
        "hidden_act": "relu",
        "num_labels": 1000,
    }


_WIDE = (256, 512, 1024, 2048)

PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset("smollm2-135m", "llama", 134_515_008, _decoder(49152, 576, 1536, 30, 9, 3, 8192, rope_theta=100_000.0,
                                                              tie_word_embeddings=True)),
        Preset("llama-3.2-1b", "llama", 1_235_814_400, _decoder(128256, 2048, 8192, 16, 32, 8, 131072, head_dim=64,
               rope_theta=500_000.0, rope_scaling=_llama3(32.0), tie_word_embeddings=True)),
        Preset("llama-3.2-3b", "llama", 3_212_749_824, _decoder(128256, 3072, 8192, 28, 24, 8, 131072, head_dim=128,
               rope_theta=500_000.0, rope_scaling=_llama3(32.0), tie_word_embeddings=True)),
        Preset("llama-3.1-8b", "llama", 8_030_261_248, _decoder(128256, 4096, 14336, 32, 32, 8, 131072,
               rope_theta=500_000.0, rope_scaling=_llama3(8.0), tie_word_embeddings=False)),
        Preset("mistral-7b", "mistral", 7_248_023_552, _decoder(32768, 4096, 14336, 32, 32, 8, 32768,
               rope_theta=1_000_000.0, sliding_window=None, tie_word_embeddings=False)),
        Preset("qwen2.5-0.5b", "qwen2", 494_032_768, _decoder(151936, 896, 4864, 24, 14, 2, 32768,
               rope_theta=1_000_000.0, rms_norm_eps=1e-6, tie_word_embeddings=True)),
        Preset("qwen2.5-1.5b", "qwen2", 1_543_714_304, _decoder(151936, 1536, 8960, 28, 12, 2, 32768,
               rope_theta=1_000_000.0, rms_norm_eps=1e-6, tie_word_embeddings=True)),
        Preset("qwen2.5-7b", "qwen2", 7_615_616_512, _decoder(152064, 3584, 18944, 28, 28, 4, 32768,
               rope_theta=1_000_000.0, rms_norm_eps=1e-6, tie_word_embeddings=False)),
        Preset("bert-base", "bert", 109_482_240, _bert(768, 3072, 12, 12)),
        Preset("bert-large", "bert", 335_141_888, _bert(1024, 4096, 24, 16)),
        Preset("minilm-l6", "bert", 22_713_216, _bert(384, 1536, 6, 12)),
        Preset("resnet-18", "resnet", 11_689_512, _resnet("basic", (64, 128, 256, 512), (2, 2, 2, 2))),
        Preset("resnet-50", "resnet", 25_557_032, _resnet("bottleneck", _WIDE, (3, 4, 6, 3))),
        Preset("resnet-101", "resnet", 44_549_160, _resnet("bottleneck", _WIDE, (3, 4, 23, 3))),
        Preset("vit-b-16", "vit", 86_567_656, _vit(768, 3072, 12, 12)),
        Preset("vit-l-16", "vit", 304_326_632, _vit(1024, 4096, 24, 16)),
    )
}  # fmt: skip


def find_preset(name: str) -> Preset:
    """The preset of that name; BadInput lists the known ones."""
    try:
        return PRESETS[name]
    except KeyError:
        known = ", ".join(sorted(PRESETS))
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
