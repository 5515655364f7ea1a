"""Steps with one bottleneck planted in each, and the same step with it taken away: plain PyTorch, any device.

Sizes are those of a large GPU; `small` makes the same code run on a CPU in a moment, to see that it runs at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Step = Callable[[], object]


@dataclass(frozen=True)
class Plant:
    """A step, the step without its bottleneck, and the verdicts that are right."""

    accepted: tuple[str, ...]
    step: Step
    fixed: Step
    change: str
    """What `fixed` does differently."""
    precision: str = "bf16"
    least_gain: float = 1.05
    """A cause is shown by at least this; a healthy step gains no more than `most_gain`."""
    most_gain: float | None = None
    units: float = 1.0
    """Work of the changed step over that of the plain one."""


class Block(nn.Module):  # type: ignore[misc]
    """One layer of a decoder: attention and a gated feed-forward part."""

    def __init__(self, width: int, inner: int, heads: int, *, naive: bool = False) -> None:
        super().__init__()
        self.heads, self.naive = heads, naive
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x plus attention plus feed-forward."""
        rows, length, width = x.shape
        parts = self.qkv(self.first(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = self._attend(*parts).transpose(1, 2).reshape(rows, length, width)
        x = x + self.out(mixed)
        gate, up = self.up(self.second(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if not self.naive:
            return functional.scaled_dot_product_attention(q, k, v)
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
        return torch.softmax(scores.float(), dim=-1).to(q.dtype) @ v


def stack(layers: int, width: int, inner: int, heads: int, device: torch.device, dtype: torch.dtype) -> nn.Sequential:
    """So many layers with random weights."""
    torch.manual_seed(20260101)
    return nn.Sequential(*(Block(width, inner, heads) for _ in range(layers))).to(device, dtype)


def recorded(step: Step) -> Step:
    """The step as a CUDA graph; the step itself where there is no CUDA device."""
    if not torch.cuda.is_available():
        return step
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside), torch.inference_mode():
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.inference_mode():
        step()
    return graph.replay


def launch_bound_decode(device: torch.device, small: bool) -> Plant:
    """One token through many small layers: the host cannot launch as fast as the device works."""
    layers, width = (2, 64) if small else (28, 1024)
    model = stack(layers, width, 3 * width, 8, device, torch.bfloat16).eval()
    token = torch.randn(1, 1, width, device=device, dtype=torch.bfloat16)

    def step() -> object:
        with torch.inference_mode():
            return model(token)

    return Plant(("launch",), step, recorded(step), "replay as a CUDA graph")


def pageable_transfer(device: torch.device, small: bool) -> Plant:
    """A large batch comes from pageable memory in every step."""
    count = 1 << (12 if small else 27)
    host = torch.rand(count)
    there = host.to(device)
    weight = torch.randn(1 << (4 if small else 11), 1 << (4 if small else 11), device=device)
    side = weight.shape[0]

    def work(batch: torch.Tensor) -> object:
        return batch[: side * side].view(side, side) @ weight

    return Plant(
        ("transfer",), lambda: work(host.to(device)), lambda: work(there), "keep the input on the device", "fp32"
    )


class _Decoded(torch.utils.data.Dataset[torch.Tensor]):
    """Samples that take a while to prepare on the host, as pictures do."""

    def __init__(self, seconds: float, width: int) -> None:
        self._seconds, self._width = seconds, width

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        until = time.perf_counter() + self._seconds
        values = torch.rand(self._width)
        while time.perf_counter() < until:
            values = values.sort().values
        return values


def input_stall(device: torch.device, small: bool) -> Plant:
    """A loader without workers prepares the batch while the device waits."""
    width = 64 if small else 4096
    model = stack(1 if small else 8, width, width, 8, device, torch.bfloat16).eval()
    rows = 2 if small else 16
    loader = torch.utils.data.DataLoader(_Decoded(1e-4 if small else 2e-3, width), batch_size=rows, num_workers=0)
    batches: Iterator[torch.Tensor] = iter(loader)
    kept = torch.randn(rows, 128, width, device=device, dtype=torch.bfloat16)

    def work(batch: torch.Tensor) -> object:
        with torch.inference_mode():
            return model(kept + batch[:, None, :].to(device, torch.bfloat16))

    ready = next(batches).to(device)
    return Plant(("input",), lambda: work(next(batches)), lambda: work(ready), "prepare the batches beforehand")


def synchronisation(device: torch.device, small: bool) -> Plant:
    """A number is read back after every two operators, so nothing is queued ahead."""
    x = torch.rand(1 << (10 if small else 22), device=device)

    def chain(read: bool) -> object:
        y = x
        for _ in range(40):
            y = torch.sigmoid(y * 1.01)
            if read:
                float(y[0])
        return y

    return Plant(("synchronization",), lambda: chain(True), lambda: chain(False), "do not read back in between", "fp32")


def fp32_without_tf32(device: torch.device, small: bool) -> Plant:
    """Products in full fp32 on a device whose tensor cores are left alone."""
    side = 64 if small else 4096
    a, b = (torch.randn(side, side, device=device) for _ in range(2))

    def products(precision: str) -> object:
        torch.set_float32_matmul_precision(precision)
        y = a
        for _ in range(4):
            y = y @ b
        return y

    return Plant(("compute",), lambda: products("highest"), lambda: products("high"), "allow TF32", "fp32")


def naive_attention(device: torch.device, small: bool) -> Plant:
    """Attention that writes its scores to memory and reads them back several times."""
    shape = (1, 2, 32, 16) if small else (4, 16, 4096, 64)
    q, k, v = (torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(3))
    block = Block(64, 64, 2, naive=True)

    def fused() -> object:
        return functional.scaled_dot_product_attention(q, k, v)

    return Plant(("memory_bandwidth",), lambda: block._attend(q, k, v), fused, "the fused attention kernel")


def unfused_chain(device: torch.device, small: bool) -> Plant:
    """Ten operators over one large tensor: each reads and writes all of it."""
    x = torch.rand(1 << (10 if small else 27), device=device)

    def chain(y: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            y = torch.tanh(y) * 1.01
        return y

    fused = torch.compile(chain) if device.type == "cuda" else chain
    return Plant(("memory_bandwidth",), lambda: chain(x), lambda: fused(x), "fuse with torch.compile", "fp32")


def healthy_prefill(device: torch.device, small: bool) -> Plant:
    """Long prompts through wide layers: the matrix units are the limit, and a larger batch gains nothing."""
    width, length = (64, 16) if small else (4096, 2048)
    model = stack(1 if small else 8, width, (7 * width) // 2, 32 if not small else 4, device, torch.bfloat16).eval()
    one, two = (torch.randn(rows, length, width, device=device, dtype=torch.bfloat16) for rows in (4, 8))

    def run(x: torch.Tensor) -> object:
        with torch.inference_mode():
            return model(x)

    return Plant(
        ("compute",), lambda: run(one), lambda: run(two), "double the batch", least_gain=0.0, most_gain=1.1, units=2.0
    )


def healthy_training(device: torch.device, small: bool) -> Plant:
    """Forward, backward and a fused optimiser at a size that fills the device."""
    width, length = (64, 16) if small else (4096, 2048)
    model = stack(1 if small else 4, width, (7 * width) // 2, 32 if not small else 4, device, torch.bfloat16)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.type == "cuda")
    one, two = (torch.randn(rows, length, width, device=device, dtype=torch.bfloat16) for rows in (4, 8))

    def run(x: torch.Tensor) -> object:
        optimiser.zero_grad(set_to_none=True)
        model(x).float().square().mean().backward()
        optimiser.step()
        return None

    return Plant(
        ("compute", "memory_bandwidth"), lambda: run(one), lambda: run(two), "double the batch",
        least_gain=0.0, most_gain=1.2, units=2.0,
    )  # fmt: skip


def allocator_thrash(device: torch.device, small: bool) -> Plant:
    """The cache is emptied in every step, so every tensor is asked of the driver again."""
    count = 1 << (10 if small else 24)
    x = torch.rand(count, device=device)

    def work() -> object:
        kept = [x * float(number) for number in range(24)]
        return kept[-1] + kept[0]

    def thrash() -> object:
        out = work()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        return out

    return Plant(("allocator",), thrash, work, "leave the allocator's cache alone", "fp32")


PLANTS: dict[str, Callable[[torch.device, bool], Plant]] = {
    "launch-bound decode": launch_bound_decode,
    "pageable transfer": pageable_transfer,
    "input stall": input_stall,
    "synchronisation": synchronisation,
    "fp32 without tf32": fp32_without_tf32,
    "naive attention": naive_attention,
    "unfused chain": unfused_chain,
    "healthy prefill": healthy_prefill,
    "healthy training step": healthy_training,
    "allocator thrash": allocator_thrash,
}


def timed_ms(step: Step, device: Any, seconds: float) -> float:
    """Milliseconds a step over so many seconds, the device drained at both ends and not in between."""
    for _ in range(3):
        step()
    _drain(device)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds or count < 3:
        step()
        count += 1
        if count % 16 == 0:
            _drain(device)  # the queue stays short: the host's clock must not run away from the device
    _drain(device)
    return (time.perf_counter() - began) / count * 1e3


def _drain(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
