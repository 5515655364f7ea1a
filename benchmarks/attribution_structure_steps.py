"""Steps whose operands repeat few numbers, whose work is the same each time, or which pick by index; and healthy twins.

An instance is the step, called with its index; `fixed` is the step with its cause taken away, and None where there is
none. Sizes are those of a CPU with one thread: tens of milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

N = 768


def draw(*sizes: int) -> torch.Tensor:
    """Numbers of usual size."""
    return torch.randn(*sizes)


def near(a: Any, b: Any) -> bool:
    """Whether a fix gives what the step gave."""
    a, b = (torch.as_tensor(one).float() for one in (a, b))
    return bool(((a - b).norm() <= 1e-2 * (1.0 + b.norm())).item())


class Step:
    """One case; what it needs is made by `setup`, with the same numbers each time."""

    def __init__(
        self,
        setup: Callable[[], dict[str, Any]],
        step: Callable[[Any, int], Any],
        fixed: Callable[[Any, int], Any] | None = None,
    ) -> None:
        self._setup, self._step, self._fixed = setup, step, fixed

    def setup(self) -> None:
        """As the callable engine asks for it."""
        torch.manual_seed(13)
        vars(self).update(self._setup())

    def __call__(self, index: int) -> Any:
        return self._step(self, index)

    @property
    def fixed(self) -> Callable[[int], Any] | None:
        """The step without its cause."""
        fix = self._fixed
        return None if fix is None else lambda index: fix(self, index)


# --- operands that the step made of far fewer numbers -----------------------------------------------------------------

SIDE, FEW = 32, 12


def _kron(s: Any, _: int) -> Any:
    return s.x @ torch.einsum("ab,cd->acbd", s.a, s.b).reshape(SIDE * SIDE, SIDE * SIDE)


def _kron_fixed(s: Any, _: int) -> Any:
    return (s.a.T @ (s.x.unflatten(1, (SIDE, SIDE)) @ s.b)).flatten(1)


def _outer(s: Any, _: int) -> Any:
    return torch.addmm(s.y, s.x, s.u[:, None] * s.v * 0.5)


def _outer_fixed(s: Any, _: int) -> Any:
    return torch.addr(s.y, s.x @ s.u, s.v, alpha=0.5)


def _tiled_rows(s: Any, _: int) -> Any:
    return s.few.expand(64, FEW, N).reshape(-1, N) @ s.w


def _tiled_rows_fixed(s: Any, _: int) -> Any:
    return (s.few @ s.w).expand(64, FEW, N).reshape(-1, N)


def _upsampled(s: Any, _: int) -> Any:
    return s.narrow.repeat_interleave(8, dim=1) @ s.w


def _upsampled_fixed(s: Any, _: int) -> Any:
    return s.narrow @ s.w.unflatten(0, (-1, 8)).sum(1)


def _toeplitz(s: Any, _: int) -> Any:
    place = torch.arange(N)
    return s.taps[place[None, :] - place[:, None] + N - 1].T @ s.x


def _toeplitz_fixed(s: Any, _: int) -> Any:
    size = 3 * N
    product = torch.fft.rfft(s.taps, size)[:, None] * torch.fft.rfft(s.x, size, dim=0)
    return torch.fft.irfft(product, size, dim=0)[N - 1 : 2 * N - 1]


def _summed_up(s: Any, _: int) -> Any:
    return s.x @ torch.ones(N, N).triu()


def _paired(s: Any, _: int) -> Any:
    rows = s.left.shape[0]
    both = torch.cat((s.left[:, None].expand(-1, rows, -1), s.right[None].expand(rows, -1, -1)), dim=2)
    return both.reshape(rows * rows, -1) @ s.wide


def _paired_fixed(s: Any, _: int) -> Any:
    up, down = s.wide.chunk(2)
    return ((s.left @ up)[:, None] + (s.right @ down)[None]).flatten(0, 1)


def _alike(s: Any, _: int) -> Any:
    return (s.labels[:, None] == s.labels[None, :]).to(s.x.dtype) @ s.x


def _alike_fixed(s: Any, _: int) -> Any:
    return torch.zeros(4, N).index_add_(0, s.labels, s.x)[s.labels]


def _adapted(s: Any, _: int) -> Any:
    return s.x @ (s.up @ s.down).mul(0.25)


def _adapted_fixed(s: Any, _: int) -> Any:
    return (s.x @ s.up) @ s.down.mul(0.25)


# --- work that is the same in every step ------------------------------------------------------------------------------


def _with_state() -> dict[str, Any]:
    half = draw(N, N)
    matrix = half @ half.T / N + torch.eye(N)
    return {"matrix": matrix, "state": draw(N, 8), "kept": torch.linalg.cholesky(matrix)}


def _implicit(s: Any, _: int) -> Any:
    s.state = torch.cholesky_solve(s.state, torch.linalg.cholesky(s.matrix))
    return s.state


def _implicit_fixed(s: Any, _: int) -> Any:
    s.state = torch.cholesky_solve(s.state, s.kept)
    return s.state


def _batches() -> dict[str, Any]:
    return {
        "batches": list(draw(16, 64, N)),
        "corpus": draw(1024, N),
        "w": draw(N, N) / math.sqrt(N),
        "kept": None,
        "model": nn.Sequential(nn.Linear(N, N), nn.GELU(), nn.Linear(N, N)),
    }


def _retrieved(s: Any, index: int) -> Any:
    keys = functional.normalize(s.corpus @ s.w, dim=1)
    return (s.batches[index % 16] @ keys.T).softmax(1)


def _retrieved_fixed(s: Any, index: int) -> Any:
    if s.kept is None:
        s.kept = functional.normalize(s.corpus @ s.w, dim=1)
    return (s.batches[index % 16] @ s.kept.T).softmax(1)


def _whitened(s: Any, index: int) -> Any:
    return s.batches[index % 16] @ torch.linalg.inv(s.w)


def _whitened_fixed(s: Any, index: int) -> Any:
    if s.kept is None:
        s.kept = torch.linalg.inv(s.w)
    return s.batches[index % 16] @ s.kept


def _table() -> Any:
    place = torch.arange(N, dtype=torch.float32)
    return torch.cos(place[:, None] * (place[None] + 0.5) * (math.pi / N)) * math.sqrt(2.0 / N)


def _transformed(s: Any, index: int) -> Any:
    return s.batches[index % 16] @ _table()


def _transformed_fixed(s: Any, index: int) -> Any:
    if s.kept is None:
        s.kept = _table()
    return s.batches[index % 16] @ s.kept


# --- places picked by index -------------------------------------------------------------------------------------------


def _signals() -> dict[str, Any]:
    x = draw(256, 16_384)
    return {"x": x, "even": torch.arange(0, 16_384, 2), "rows": torch.randperm(256), "any": torch.randperm(16_384)}


def _halved(s: Any, _: int) -> Any:
    return s.x[:, s.even] + s.x[:, s.even + 1]


def _halved_fixed(s: Any, _: int) -> Any:
    return s.x[:, ::2] + s.x[:, 1::2]


def _windowed(s: Any, index: int) -> Any:
    return s.x.index_select(1, torch.arange(64, 12_352)).square().sum(1)


def _windowed_fixed(s: Any, index: int) -> Any:
    return s.x[:, 64:12_352].square().sum(1)


def _gathered(s: Any, _: int) -> Any:
    return torch.gather(s.x, 1, s.even.expand(256, -1)).abs().amax(1)


def _gathered_fixed(s: Any, _: int) -> Any:
    return s.x[:, ::2].abs().amax(1)


PLANTED: dict[str, Step] = {
    "kron": Step(
        lambda: {"x": draw(512, SIDE * SIDE), "a": draw(SIDE, SIDE), "b": draw(SIDE, SIDE)}, _kron, _kron_fixed
    ),
    "outer": Step(lambda: {"x": draw(N, N), "y": draw(N, N), "u": draw(N), "v": draw(N)}, _outer, _outer_fixed),
    "tiled": Step(lambda: {"few": draw(FEW, N), "w": draw(N, N)}, _tiled_rows, _tiled_rows_fixed),
    "upsampled": Step(lambda: {"narrow": draw(N, N // 8), "w": draw(N, N)}, _upsampled, _upsampled_fixed),
    "toeplitz": Step(lambda: {"x": draw(N, N), "taps": draw(2 * N - 1)}, _toeplitz, _toeplitz_fixed),
    "summed": Step(lambda: {"x": draw(N, N)}, _summed_up, lambda s, _: s.x.cumsum(1)),
    "paired": Step(
        lambda: {"left": draw(48, 256), "right": draw(48, 256), "wide": draw(512, 256)}, _paired, _paired_fixed
    ),
    "alike": Step(lambda: {"x": draw(N, N), "labels": torch.randint(0, 4, (N,))}, _alike, _alike_fixed),
    "adapted": Step(lambda: {"x": draw(N, N), "up": draw(N, 8), "down": draw(8, N)}, _adapted, _adapted_fixed),
    "implicit": Step(_with_state, _implicit, _implicit_fixed),
    "retrieved": Step(_batches, _retrieved, _retrieved_fixed),
    "whitened": Step(_batches, _whitened, _whitened_fixed),
    "transformed": Step(_batches, _transformed, _transformed_fixed),
    "halved": Step(_signals, _halved, _halved_fixed),
    "windowed": Step(_signals, _windowed, _windowed_fixed),
    "gathered": Step(_signals, _gathered, _gathered_fixed),
}

# --- in good health ---------------------------------------------------------------------------------------------------


def _weights() -> dict[str, Any]:
    w = draw(N, N) / math.sqrt(N)
    return {
        "x": draw(N, N), "w": w, "double": w.double(), "low": (w * 100).to(torch.int8), "scale": draw(N).abs(),
        "ids": torch.randint(0, 4096, (N,)), "embedding": draw(4096, N), "bias": draw(N), "out": draw(N, N),
    }  # fmt: skip


def _heads() -> dict[str, Any]:
    return {"q": draw(2, 8, 512, 32), "k": draw(2, 2, 512, 32), "v": draw(2, 2, 512, 32)}


def _grouped(s: Any, _: int) -> Any:
    k, v = (part[:, :, None].expand(2, 2, 4, 512, 32).flatten(1, 2) for part in (s.k, s.v))
    return functional.scaled_dot_product_attention(s.q, k, v)


def _grouped_plainly(s: Any, _: int) -> Any:
    k, v = (part.repeat_interleave(4, dim=1) for part in (s.k, s.v))
    return (s.q @ k.transpose(2, 3)).mul_(0.2).softmax(3) @ v


def _decoded(s: Any, _: int) -> Any:
    return s.net(s.latent)


def _trained(s: Any, index: int) -> Any:
    s.sgd.zero_grad()
    loss = (s.model(s.batches[index % 16]) - s.targets[index % 16]).square().mean()
    loss.backward()
    s.sgd.step()
    return loss.detach()


def _training() -> dict[str, Any]:
    made = _batches()
    made["targets"] = list(draw(16, 64, N))
    made["sgd"] = torch.optim.SGD(made["model"].parameters(), lr=1e-4)
    return made


def _powered(s: Any, _: int) -> Any:
    s.state = functional.normalize(s.matrix @ s.state, dim=0)
    return s.state


def _powers() -> dict[str, Any]:
    return {"matrix": draw(N, N), "state": draw(N, N)}


def _forward(s: Any, index: int) -> Any:
    with torch.no_grad():
        return s.model(s.batches[index % 16])


def _kernelled(s: Any, _: int) -> Any:
    return torch.cdist(s.points, s.points).neg_().exp_() @ s.x


def _generator() -> dict[str, Any]:
    net = nn.Sequential(
        nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
    )  # fmt: skip
    return {"net": net.requires_grad_(False), "latent": draw(1, 64, 16, 16)}


HEALTHY: dict[str, Step] = {
    "cast": Step(_weights, lambda s, _: s.x @ s.double.float()),
    "turned": Step(_weights, lambda s, _: s.x @ s.w.T.contiguous()),
    "dequantised": Step(_weights, lambda s, _: s.x @ (s.low.float() * s.scale)),
    "grouped": Step(_heads, _grouped),
    "grouped-plainly": Step(_heads, _grouped_plainly),
    "layers": Step(_weights, lambda s, _: functional.gelu(s.x @ s.w) @ s.out),
    "kernelled": Step(lambda: {"points": draw(N, 8), "x": draw(N, N)}, _kernelled),
    "looked-up": Step(_weights, lambda s, _: s.embedding[s.ids] @ s.w),
    "shifted": Step(_weights, lambda s, _: (s.x + s.bias) @ s.w),
    "over-batches": Step(lambda: {"x": draw(8, 256, 256), "w": draw(256, 512)}, lambda s, _: torch.matmul(
        s.x.transpose(1, 2), s.w.expand(8, 256, 512))),
    "joined": Step(_weights, lambda s, _: torch.cat((s.x[:, : N // 2], s.out[:, : N // 2]), 1) @ s.w),
    "permuted": Step(_signals, lambda s, _: s.x[s.rows].abs().amax(1)),
    "anyhow": Step(_signals, lambda s, _: s.x[:, s.any].amax(1)),
    "running": Step(lambda: {"x": draw(1 << 22)}, lambda s, _: s.x.cumsum(0)),
    "decoded": Step(_generator, _decoded),
    "trained": Step(_training, _trained),
    "powered": Step(_powers, _powered),
    "served": Step(_batches, _forward),
    "windows": Step(
        lambda: {"x": draw(1 << 15), "w": draw(64, 256)}, lambda s, _: s.x.unfold(0, 64, 4) @ s.w
    ),
}  # fmt: skip
