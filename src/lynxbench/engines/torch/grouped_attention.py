"""Attention over keys and values as the cache holds them, by the kernel that a contract names.

The model library writes keys and values out once more for every query head wherever there is a mask, which is every
step over a cache of fixed size, and makes masks while a graph is compiled or recorded where none is needed. Here query
heads that share a key are rows of one product, and a mask is made only where positions or padding ask for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Attention

SWITCHES: Mapping[str, Attention] = {
    "flash": Attention.FLASH,
    "mem_efficient": Attention.EFFICIENT,
    "math": Attention.MATH,
    "cudnn": Attention.CUDNN,
}
"""PyTorch's kernels of scaled-dot-product attention by its word for the switch of each."""
KNOWN_AS = {Attention.GROUPED: "grouped", Attention.FLEX: "scores", Attention.EFFICIENT: "repeated"}
"""What the model library is told; it takes any name with flash in it for a package of its own."""
OF_THE_LIBRARY = (Attention.SDPA, Attention.EAGER)
"""Attention as the model library does it."""
WORTH_FILLING = 128
"""Heads and pieces at once at most: about the multiprocessors of a large device (an H200 has 132)."""
LEAST_PIECE, PIECE_MULTIPLE = 64, 8
"""Positions of a piece at the least, a tile of the kernel, and the alignment of its mask."""
NOT_TAKEN = ("softcap", "position_bias", "s_aux")
"""What some models add to attention: left out without a word, the answers would be others."""
NO_KERNEL = ("No available kernel", "No viable backend", "Invalid backend")
"""What PyTorch's refusals say where the kernels that are left on cannot take a call."""


def choose_attention(attention: Attention, *, compiled: bool) -> str:
    """Set PyTorch's switches as the contract says; returns the word that the model library knows it under."""
    if attention is Attention.FLEX and not compiled:
        raise CannotRun("engine.attention: flex is compiled into a kernel; use a graph that compiles, or grouped")
    chosen = attention if attention in SWITCHES.values() else None
    for word, kernel in SWITCHES.items():
        getattr(torch.backends.cuda, f"enable_{word}_sdp")(chosen is None or kernel is chosen)
    if attention in OF_THE_LIBRARY:
        return attention.value
    attend = {Attention.FLEX: attend_by_scores, Attention.GROUPED: attend_few}.get(attention, attend_grouped)
    repeats = attention is Attention.EFFICIENT
    name = f"lynxbench-{KNOWN_AS.get(attention, 'one-kernel')}"
    import_module("transformers.modeling_utils").AttentionInterface.register(name, _adapted(attend, repeats=repeats))
    masking = import_module("transformers.masking_utils")
    masking.AttentionMaskInterface.register(name, masks_by(masking.sdpa_mask))
    return name


@contextmanager
def refusing(attention: Attention) -> Iterator[None]:
    """Inside, one line of the engine's own where PyTorch has no such kernel for a call."""
    try:
        yield
    except RuntimeError as error:
        if not any(word in str(error) for word in NO_KERNEL):
            raise
        raise CannotRun(
            f"engine.attention: PyTorch has no {attention} kernel for this step; use grouped or sdpa"
        ) from error


def describe_attention(attention: Attention) -> str:
    """For people: what a result says of it."""
    if attention in OF_THE_LIBRARY:
        return attention.value
    chosen = "PyTorch's choice of kernel, a fixed cache in pieces where heads are few"
    kernel = chosen if attention is Attention.GROUPED else f"{attention.value} kernel"
    repeats = "repeated for prompts" if attention is Attention.EFFICIENT else "not repeated"
    return f"{attention.value}: {kernel}, keys and values {repeats}, masks only where needed"


def masks_by(library: Callable[..., torch.Tensor | None]) -> Callable[..., torch.Tensor | None]:
    """The library's masks, or None where `attend` needs none: no padding, and all positions or only earlier ones."""

    def make_mask(**asked: Any) -> torch.Tensor | None:
        if asked.get("attention_mask") is None and asked.get("local_size") is None:
            if asked.get("allow_is_bidirectional_skip"):
                return None
            causal = asked.get("allow_is_causal_skip", True) and asked.get("q_length", 0) > 1
            if causal and _begins_at_zero(asked.get("q_offset", 0)):
                return None
        return library(**asked)

    return make_mask


def _begins_at_zero(offset: int | torch.Tensor) -> bool:
    """Whether nothing lies in the cache yet; a count on the device is read only where reading is possible."""
    if not isinstance(offset, torch.Tensor):
        return offset == 0
    unreadable = torch.compiler.is_compiling() or (offset.is_cuda and torch.cuda.is_current_stream_capturing())
    return not unreadable and int(offset) == 0


def _adapted(attend: Callable[..., torch.Tensor], *, repeats: bool) -> Callable[..., tuple[torch.Tensor, None]]:
    """As the model library calls it: heads before positions going in, positions before heads coming out."""

    def call(
        module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None,
        dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None, **others: Any,
    ) -> tuple[torch.Tensor, None]:  # fmt: skip
        if strange := [word for word in NOT_TAKEN if others.get(word) is not None]:
            changed = f"this model changes its scores by {', '.join(strange)}"
            raise CannotRun(f"engine.attention: {changed}; use sdpa or eager")
        length = query.shape[2]
        causal = length > 1 and attention_mask is None
        causal = causal and bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        if causal and key.shape[2] > length:  # an empty cache of fixed size: nothing was written behind the prompt
            key, value = key[:, :, :length], value[:, :, :length]
        groups = query.shape[1] // key.shape[1]
        if repeats and length > 1 and groups > 1:
            key, value = (kept.repeat_interleave(groups, dim=1) for kept in (key, value))
        y = attend(query, key, value, attention_mask, dropout=dropout, scale=scaling, causal=causal)
        return y.transpose(1, 2).contiguous(), None

    return call


def attend_grouped(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    *, dropout: float = 0.0, scale: float | None = None, causal: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Query heads over fewer key heads, none repeated; those of a single position become rows of their key's head."""
    batch, heads, length, size = query.shape
    shared = key.shape[1]
    if length > 1 or heads == shared:
        return scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=heads > shared,
        )
    rows = query.reshape(batch, shared, -1, size)
    y = scaled_dot_product_attention(rows, key, value, attn_mask=mask, dropout_p=dropout, scale=scale)
    return y.reshape(batch, heads, 1, value.shape[-1])


def attend_few(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    *, dropout: float = 0.0, scale: float | None = None, causal: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The same, with a fixed cache cut into pieces where too few heads would leave most of a device idle."""
    batch, heads, length, _ = query.shape
    shared, positions = key.shape[1], key.shape[2]
    pieces = pieces_of(positions, batch * shared) if length == 1 and mask is not None and query.is_cuda else 1
    if pieces == 1 or dropout:
        return attend_grouped(query, key, value, mask, dropout=dropout, scale=scale, causal=causal)
    assert mask is not None
    rows = query.reshape(batch, shared, heads // shared, -1)
    return attend_in_pieces(rows, key, value, mask, pieces, scale).reshape(batch, heads, 1, -1)


def pieces_of(positions: int, at_once: int) -> int:
    """How many equal pieces of a cache fill a device that works on so many heads at once; 1 where none is worth it."""
    pieces = 1
    for more in range(2, WORTH_FILLING // at_once + 1):
        if positions % (more * PIECE_MULTIPLE) == 0 and positions // more >= LEAST_PIECE:
            pieces = more
    return pieces


def attend_in_pieces(
    rows: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, pieces: int, scale: float | None
) -> torch.Tensor:
    """Attention of each piece by itself, then their mean by what each piece's scores add up to (Dao et al. 2023).

    A piece that is masked as a whole has a sum of almost nothing: its mask is the smallest number by half, which
    neither the scores nor the kernel's change of base takes out of range.
    """
    batch, shared, count, size = rows.shape
    merged, length = batch * shared, key.shape[2] // pieces
    query = rows.reshape(merged, 1, count, size).expand(merged, pieces, count, size)
    cut_key, cut_value = (kept.reshape(merged, pieces, length, -1) for kept in (key, value))
    bias = torch.where(mask, 0.0, torch.finfo(rows.dtype).min / 2).to(rows.dtype)
    bias = bias.expand(batch, shared, 1, -1).reshape(merged, pieces, 1, length).expand(merged, pieces, count, length)
    if rows.is_cuda:
        parts, sums, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            query, cut_key, cut_value, bias, True, scale=scale
        )
    else:
        parts, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, cut_key, cut_value, attn_mask=bias, scale=scale
        )
    weights = sums[..., :count].float().softmax(dim=1).unsqueeze(-1)
    y: torch.Tensor = (parts.float() * weights).sum(dim=1).to(rows.dtype)
    return y.reshape(batch, shared, count, -1)


def attend_by_scores(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
    *, dropout: float = 0.0, scale: float | None = None, causal: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The same through flex_attention: the mask is part of the compiled kernel, which splits long caches."""
    from torch.nn.attention.flex_attention import flex_attention

    assert dropout == 0.0, "flex_attention has no dropout"

    def masked(score: Any, row: Any, _: Any, at: Any, seen: Any) -> Any:
        assert mask is not None
        return torch.where(mask[row, 0, at, seen], score, float("-inf"))

    def backwards(score: Any, _row: Any, _head: Any, at: Any, seen: Any) -> Any:
        return torch.where(at >= seen, score, float("-inf"))

    change = masked if mask is not None else backwards if causal else None
    y: torch.Tensor = flex_attention(
        query, key, value, score_mod=change, scale=scale, enable_gqa=query.shape[1] > key.shape[1]
    )
    return y
