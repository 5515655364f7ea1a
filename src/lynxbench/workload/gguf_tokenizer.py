"""A `tokenizers` tokenizer from the metadata of a GGUF file, so that token ids match those of the original model."""

from __future__ import annotations

from typing import Any

from lynxbench.errors import BadInput

_CONTROL = 3
_USER_DEFINED = 4
"""GGUF token types: control tokens are special, user-defined ones are matched whole but are ordinary text."""

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_THE_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_QWEN2_SPLIT = _CONTRACTIONS + r"\p{N}" + _THE_REST
_LLAMA3_SPLIT = _CONTRACTIONS + r"\p{N}{1,3}" + _THE_REST
"""How the two families cut text before byte-pair merging; part of the models' public tokenizer definitions."""


def build_tokenizer(fields: dict[str, Any]) -> Any:
    """The tokenizer that GGUF metadata describes; BadInput where it is of a kind that cannot be rebuilt."""
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
