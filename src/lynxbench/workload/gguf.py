"""GGUF files as Hugging Face folders, tokenizer included: dequantised once to fp32, cached under the source's hash.

The values are those that any GGUF runtime computes with; nothing is re-quantised. Rows of q and k are put back into the
order the Llama code of transformers expects (llama.cpp stores the two halves of each head interleaved).
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lynxbench.errors import BadInput, CannotRun
from lynxbench.workload.model_files import cache_root, file_sha256, is_complete, make_folder_once

CONVERSION = 1
"""Raised whenever the converted bytes would differ, so that an older cache entry is not taken for a new one."""

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

_CONTROL = 3
_USER_DEFINED = 4
"""GGUF token types: control tokens are special, user-defined ones are matched whole but are ordinary text."""

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_THE_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2_SPLIT = _CONTRACTIONS + r"\p{N}" + _THE_REST
_LLAMA3_SPLIT = _CONTRACTIONS + r"\p{N}{1,3}" + _THE_REST
"""How the two families cut text before byte-pair merging; part of the models' public tokenizer definitions."""


def convert_gguf(source: Path) -> Path:
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
    return make_folder_once(folder, lambda draft: _write(reader, draft))


def _write(reader: Any, folder: Path) -> None:
    from safetensors.numpy import save_file

    fields = {name: field.contents() for name, field in reader.fields.items()}
    config = build_config(fields, tied=not any(tensor.name == "output.weight" for tensor in reader.tensors))
    build_tokenizer(fields).save(str(folder / "tokenizer.json"))
    save_file(_read_weights(reader, config), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


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


def _read_weights(reader: Any, config: dict[str, Any]) -> dict[str, Array]:
    from gguf.quants import dequantize

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights: dict[str, Array] = {}
    for tensor in reader.tensors:
        if tensor.name == "rope_freqs.weight":
            raise BadInput("GGUF files with rope_freqs (Llama 3.1 and later) are not known; use a Hugging Face folder")
        name, part = _name_of(tensor.name)
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32)
        if part in heads and config["model_type"] in _PERMUTED:
            values = uninterleave(values, heads[part])
        weights[name] = np.ascontiguousarray(values)
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


def build_tokenizer(fields: dict[str, Any]) -> Any:
    """The tokenizer of the original model from GGUF metadata; BadInput where its kind cannot be rebuilt."""
    from tokenizers import AddedToken, Tokenizer, decoders, models

    model = fields.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise BadInput(f"GGUF tokenizer {model!r} cannot be rebuilt (known: gpt2 byte-pair); use a Hugging Face folder")
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, fuse_unk=False, byte_fallback=False))
    tokenizer.pre_tokenizer = _pre_tokenizer(fields.get("tokenizer.ggml.pre", "default"))
    tokenizer.decoder = decoders.ByteLevel()
    types: list[int] = fields.get("tokenizer.ggml.token_type", [])
    kinds = list(zip(tokens, types, strict=False))
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text, kind in kinds if kind == _CONTROL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text, kind in kinds if kind == _USER_DEFINED])
    return tokenizer


def _pre_tokenizer(name: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if name in ("smollm", "starcoder", "refact", "command-r"):
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    if name in ("gpt-2", "default"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    patterns = {"qwen2": _QWEN2_SPLIT, "llama-bpe": _LLAMA3_SPLIT}
    if name not in patterns:
        known = ", ".join(("gpt-2", "smollm", *patterns))
        raise BadInput(f"GGUF pre-tokenizer {name!r} cannot be rebuilt (known: {known}); use a Hugging Face folder")
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(patterns[name]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
