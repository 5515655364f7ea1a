"""What a device kernel does, by its name, where no operator with shapes stands behind it (graphs, compiled code)."""

from __future__ import annotations

import re
from functools import lru_cache

from lynxbench.attribute.operators import OperatorKind

SKINNY_TILE = 16
"""A product whose output tile is at most this narrow serves a few rows: each weight is read for few operations."""

_RETURNED = re.compile(r"^std::enable_if<.*?>::type\s+")
"""A return type that hides brackets of its own before the kernel's name."""
_COLLECTIVE = re.compile(
    r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|multimem|deep_ep", re.IGNORECASE
)
_ATTENTION = re.compile(r"flash|fmha|attention|sdpa|mha_", re.IGNORECASE)
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|cublas|matmul|_mm_|conv|wgrad|dgrad|hgemm|sgemm|splitk|dot_kernel|marlin|implicit_con",
    re.IGNORECASE,
)
_SKINNY = re.compile(r"gemv|splitk_?kv|split_?kv|dot_kernel|decode", re.IGNORECASE)
_TILE = re.compile(r"(\d{1,3})x(\d{1,3})")
_REDUCTION = re.compile(r"reduce|argmax|cumsum|scan|sort|topk", re.IGNORECASE)
_NORMALISATION = re.compile(r"norm(?!al)|softmax", re.IGNORECASE)
_GATHER = re.compile(r"gather|index|embedding|scatter", re.IGNORECASE)
_COPY = re.compile(r"copy|catarray|fill|memcpy|transpose", re.IGNORECASE)


@lru_cache(maxsize=65_536)
def kernel_kind(name: str) -> OperatorKind:
    """The kind of a kernel by its name alone."""
    plain = _RETURNED.sub("", name.replace("(anonymous namespace)", ""))
    short = plain.partition("(")[0]  # operands name types, not what is done
    for pattern, kind in _BY_NAME:
        if pattern.search(short):
            return kind
    return OperatorKind.ELEMENTWISE


def is_skinny(name: str) -> bool:
    """Whether a product's kernel serves so few rows that reading the weights bounds it."""
    if _SKINNY.search(name):
        return True
    tile = _TILE.search(name)
    return tile is not None and min(int(tile.group(1)), int(tile.group(2))) <= SKINNY_TILE


def is_attention(name: str) -> bool:
    """Whether a kernel multiplies activations with each other, and no weights."""
    return _ATTENTION.search(name) is not None


_WHOLE_GRAPH = re.compile(r"^CUDA graph")
_BY_NAME: tuple[tuple[re.Pattern[str], OperatorKind], ...] = (
    (_WHOLE_GRAPH, OperatorKind.COMPILED),
    (_COLLECTIVE, OperatorKind.COMMUNICATION),
    (_ATTENTION, OperatorKind.PRODUCT),
    (_PRODUCT, OperatorKind.PRODUCT),
    (_NORMALISATION, OperatorKind.NORMALISATION),
    (_GATHER, OperatorKind.GATHER),
    (_COPY, OperatorKind.COPY),
    (_REDUCTION, OperatorKind.REDUCTION),
)
