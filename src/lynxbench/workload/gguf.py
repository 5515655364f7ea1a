"""GGUF files as Hugging Face folders: dequantised once to fp32, cached under the hash of the source.

The values are those that any GGUF runtime computes with; nothing is re-quantised. Rows of q and k are put back into the
order the Llama code of transformers expects (llama.cpp stores the two halves of each head interleaved).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadInput, CannotRun
from lynxbench.workload.cache import cache_root, is_complete, make_folder_once
from lynxbench.workload.gguf_tokenizer import build_tokenizer
from lynxbench.workload.hashing import file_sha256

CONVERSION = 1
"""Raised whenever the converted bytes would differ, so that an older cache entry is not taken for a new one."""

Progress = Callable[[float], None]
"""Told the fraction done, from 0 to 1."""
Array = npt.NDArray[np.float32]

_TENSORS = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
_PERMUTED = {"llama"}
"""Architectures whose q and k llama.cpp interleaves; the others are stored as they are."""


def convert_gguf(source: Path, *, progress: Progress | None = None) -> Path:
    """The folder with the converted model; made on the first call, found on later ones."""
    if not source.is_file():
        raise BadInput(f"workload.model.path: {source} is not a file")
    folder = cache_root() / "gguf" / f"{file_sha256(source)}-{CONVERSION}"
    if is_complete(folder):
        return folder
    try:
        import gguf
    except ImportError as error:
        raise CannotRun("reading GGUF weights needs the package gguf: pip install 'lynxbench[torch]'") from error
    try:
        reader = gguf.GGUFReader(source)
    except (ValueError, IndexError, KeyError) as error:
        raise BadInput(f"workload.model.path: {source.name} is not a GGUF file: {error}") from error
    return make_folder_once(folder, lambda draft: _write(reader, draft, progress or (lambda _: None)))


def _write(reader: Any, folder: Path, progress: Progress) -> None:
    from safetensors.numpy import save_file

    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = build_config(fields, tied=not any(tensor.name == "output.weight" for tensor in reader.tensors))
    build_tokenizer(fields).save(str(folder / "tokenizer.json"))
    weights = _read_weights(reader, config, progress)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    progress(1.0)


def build_config(fields: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    """A transformers config.json from GGUF metadata; BadInput names what is missing or not supported."""
    architecture = fields.get("general.architecture")
    if architecture not in _CLASSES:
        known = ", ".join(_CLASSES)
        raise BadInput(f"GGUF architecture {architecture!r} is not known (known: {known}); use a Hugging Face folder")

    def get(key: str, default: Any = None) -> Any:
        value = fields.get(f"{architecture}.{key}", default)
        if value is None:
            raise BadInput(f"GGUF metadata lacks {architecture}.{key}")
        return value

    heads = get("attention.head_count")
    tokens = fields.get("tokenizer.ggml.tokens", ())
    return {
        "architectures": [_CLASSES[architecture]],
        "model_type": architecture,
        "vocab_size": get("vocab_size", len(tokens) or None),
        "hidden_size": get("embedding_length"),
        "intermediate_size": get("feed_forward_length"),
        "num_hidden_layers": get("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": get("attention.head_count_kv", heads),
        "max_position_embeddings": get("context_length"),
        "rms_norm_eps": _float32_as_written(get("attention.layer_norm_rms_epsilon")),
        "rope_theta": get("rope.freq_base", 10_000.0),
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "bos_token_id": fields.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": fields.get("tokenizer.ggml.eos_token_id"),
        "dtype": "float32",
    }


def _float32_as_written(value: float) -> float:
    # 1e-5 travels as a 32-bit float and comes back as 9.999999747e-06; the shortest spelling is what was meant.
    return float(str(np.float32(value)))


def _read_weights(reader: Any, config: dict[str, Any], progress: Progress) -> dict[str, Array]:
    from gguf.quants import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights: dict[str, Array] = {}
    for done, tensor in enumerate(reader.tensors):
        if tensor.name == "rope_freqs.weight":
            raise BadInput("GGUF files with rope_freqs (Llama 3.1 and later) are not known; use a Hugging Face folder")
        name, part = _name_of(tensor.name)
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if part in heads and config["model_type"] in _PERMUTED:
            values = uninterleave(values, heads[part])
        weights[name] = np.ascontiguousarray(values)
        progress(0.9 * (done + 1) / len(reader.tensors))
    return weights


def _name_of(gguf_name: str) -> tuple[str, str]:
    stem, _, kind = gguf_name.rpartition(".")
    prefix, part = "", stem
    if stem.startswith("blk."):
        _, layer, part = stem.split(".", 2)
        prefix = f"model.layers.{layer}."
    if part not in _TENSORS:
        raise BadInput(f"GGUF tensor {gguf_name!r} has no counterpart in this architecture")
    return f"{prefix}{_TENSORS[part]}.{kind}", part


def uninterleave(rows: Array, heads: int) -> Array:
    """Undo llama.cpp's row order of q and k: within each head, even rows first, then odd ones."""
    width = rows.shape[0] // heads // 2
    return rows.reshape(heads, width, 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)
