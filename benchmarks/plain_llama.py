"""Llama's shape in plain PyTorch, as an engineer would write it in an afternoon: what the engine is held against.

A static cache, keys and values never repeated, and whatever the caller compiles. Nothing here is lynxbench's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda"
FP8_LARGEST = 448.0
"""Largest finite e4m3 value."""


class PlainLinear(nn.Module):
    """A product with a random weight: bf16, or stored in eight bits with a scale for each row."""

    def __init__(self, inner: int, outer: int, kind: str) -> None:
        super().__init__()
        self.kind = kind
        weight = torch.randn(outer, inner, device=DEVICE) * 0.02
        largest = weight.abs().amax(dim=1)
        if kind == "int8":
            self.scale = (largest / 127).bfloat16()
            weight = (weight / (largest / 127)[:, None]).round().to(torch.int8)
        elif kind == "fp8":
            self.scale = (largest / FP8_LARGEST)[None, :]
            weight = (weight / (largest / FP8_LARGEST)[:, None]).to(torch.float8_e4m3fn)
        else:
            weight = weight.bfloat16()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x · Wᵀ."""
        if self.kind == "int8":
            return functional.linear(x, self.weight.to(x.dtype)) * self.scale
        if self.kind == "fp8":
            rows = x.flatten(0, -2)
            scale = rows.abs().amax(dim=-1, keepdim=True).float() / FP8_LARGEST
            narrow = (rows / scale).clamp(-FP8_LARGEST, FP8_LARGEST).to(torch.float8_e4m3fn)
            y = torch._scaled_mm(
                narrow, self.weight.t(), scale_a=scale, scale_b=self.scale, out_dtype=x.dtype, use_fast_accum=True
            )
            return y.view(*x.shape[:-1], -1)
        return functional.linear(x, self.weight)


class PlainBlock(nn.Module):
    """One layer with its part of the cache."""

    def __init__(self, shape: dict[str, Any], kind: str, batch: int, capacity: int) -> None:
        super().__init__()
        width, inner = shape["hidden_size"], shape["intermediate_size"]
        self.heads, self.shared, self.eps = shape["num_attention_heads"], shape["num_key_value_heads"], 1e-5
        self.size = width // self.heads
        self.sizes = [width, self.shared * self.size, self.shared * self.size]
        self.attended, self.out = PlainLinear(width, sum(self.sizes), kind), PlainLinear(width, width, kind)
        self.gated, self.down = PlainLinear(width, 2 * inner, kind), PlainLinear(inner, width, kind)
        self.before, self.after = (nn.Parameter(torch.ones(width, device=DEVICE).bfloat16()) for _ in range(2))
        cache = torch.zeros(2, batch, self.shared, capacity, self.size, device=DEVICE, dtype=torch.bfloat16)
        self.register_buffer("cached_keys", cache[0].clone())
        self.register_buffer("cached_values", cache[1].clone())

    def forward(self, x: torch.Tensor, turn: tuple[torch.Tensor, ...], at: torch.Tensor, bias: Any) -> torch.Tensor:
        """Attention and the feed-forward part, each with its residual."""
        batch, length, width = x.shape
        h = functional.rms_norm(x, (width,), self.before, self.eps)
        parts = self.attended(h).split(self.sizes, dim=-1)
        q, k, v = (part.view(batch, length, -1, self.size).transpose(1, 2) for part in parts)
        q, k = rotated(q, *turn), rotated(k, *turn)
        self.cached_keys.index_copy_(2, at, k)
        self.cached_values.index_copy_(2, at, v)
        if length > 1:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:  # the queries that share a key are rows of one product
            grouped = q.reshape(batch, self.shared, -1, self.size)
            y = functional.scaled_dot_product_attention(grouped, self.cached_keys, self.cached_values, attn_mask=bias)
            y = y.reshape(batch, self.heads, 1, self.size)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        h = functional.rms_norm(x, (width,), self.after, self.eps)
        gate, up = self.gated(h).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class PlainLlama(nn.Module):
    """Tokens at positions in, the likeliest next token out."""

    def __init__(self, shape: dict[str, Any], kind: str, batch: int, capacity: int) -> None:
        super().__init__()
        width, self.capacity = shape["hidden_size"], capacity
        self.embedding = nn.Embedding(shape["vocab_size"], width, device=DEVICE, dtype=torch.bfloat16)
        self.blocks = nn.ModuleList(PlainBlock(shape, kind, batch, capacity) for _ in range(shape["num_hidden_layers"]))
        self.head = PlainLinear(width, shape["vocab_size"], "bf16" if kind == "fp8" else kind)
        self.last = nn.Parameter(torch.ones(width, device=DEVICE).bfloat16())
        size = width // shape["num_attention_heads"]
        turns = shape["rope_theta"] ** (-torch.arange(0, size, 2, device=DEVICE).float() / size)
        self.register_buffer("turns", torch.cat([turns, turns]))

    def forward(self, tokens: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """The next token of each row."""
        x = self.embedding(tokens)
        angles = at[:, None].float() * self.turns
        turn = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        seen = torch.arange(self.capacity, device=x.device) <= at[-1]
        bias = torch.where(seen, 0.0, float("-inf")).to(x.dtype)[None, None, None, :]
        for block in self.blocks:
            x = block(x, turn, at, bias)
        x = functional.rms_norm(x[:, -1], (x.shape[-1],), self.last, 1e-5)
        return self.head(x).argmax(dim=-1, keepdim=True)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin
