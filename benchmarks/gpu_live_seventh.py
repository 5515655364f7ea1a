"""A seventh set of functions as users write them: globes, transport plans, cells, echoes, players, molecules, chains.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`. Here are causes inside kernels and bytes and the steps in good health; time on the host and on the link is in
gpu_live_seventh_waits.py. Written without a look at the code or the description of the rules. Two layers are accepted
where both lead to the fix. In `circular` and `transported` the large product does well what it was asked for: what is
in vain is a structure that is written out.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from gpu_live_answers import COMPUTE, MEMORY, Live
from gpu_live_cases import DEVICE, size, tensor
from gpu_live_unseen_kernels import FASTEST

SINGLE = torch.float32

# --- in good health ---------------------------------------------------------------------------------------------------


class Lensless:
    """A camera without a lens: scenes through one dense matrix that says what each sensor gets from each point."""

    def setup(self) -> None:
        """Scenes, the matrix, and where the pictures go."""
        scenes, points, sensors = size(8192, 8), size(16_384, 32), size(16_384, 24)
        self.x, self.seen = tensor(scenes, points), tensor(points, sensors) / math.sqrt(points)
        self.y = self.x.new_empty(scenes, sensors)

    def __call__(self) -> None:
        """One large product."""
        torch.mm(self.x, self.seen, out=self.y)

    fixed = __call__


class Guided:
    """A film drawn after another one: each of its places looks at all places of the other, by the fastest kernel."""

    def setup(self) -> None:
        """Queries of one film, keys and values of the other."""
        films, heads, width = size(2, 1), size(32, 2), size(128, 16)
        self.q = tensor(films, heads, size(16_384, 32), width)
        self.k, self.v = (tensor(films, heads, size(8192, 24), width) for _ in range(2))

    def __call__(self) -> None:
        """One kernel."""
        with sdpa_kernel(FASTEST, set_priority=True):
            self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v)

    fixed = __call__


class Peaks:
    """The loudest moment of each of many recordings: all of them read once, next to nothing written."""

    def setup(self) -> None:
        """Recordings far beyond the caches."""
        self.x = torch.randn(size(65_536, 8), size(16_384, 32), device=DEVICE)

    def __call__(self) -> None:
        """One pass."""
        self.y = self.x.amax(1)

    fixed = __call__


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Delayed:
    """Echoes in many rooms: what was heard stands in a line, all of which moves up by one place for each sample."""

    def setup(self) -> None:
        """The line, what comes in, and how long the echoes take."""
        length, rooms, wide = size(1024, 8), size(2048, 4), size(512, 8)
        self.line, self.sounds = tensor(length, rooms, wide), tensor(4, rooms, wide)
        self.lags = 1, size(311, 2), size(997, 5), length
        self.at = 0

    def __call__(self) -> None:
        """The whole line, to forget one sample and to take in another."""
        heard = []
        for sound in self.sounds:
            echoes = torch.stack([self.line[-lag] for lag in self.lags])
            heard.append(torch.add(sound, echoes.mean(0), alpha=0.5))
            self.line = self.line.roll(-1, 0)
            self.line[-1] = heard[-1]
        self.y = torch.stack(heard)

    def fixed(self) -> None:
        """The newest takes the place of the oldest; the host knows where that is."""
        heard, length = [], len(self.line)
        for sound in self.sounds:
            echoes = torch.stack([self.line[(self.at - lag) % length] for lag in self.lags])
            heard.append(torch.add(sound, echoes.mean(0), alpha=0.5))
            self.line[self.at] = heard[-1]
            self.at = (self.at + 1) % length
        self.y = torch.stack(heard)


class Hebbian:
    """A memory of Hopfield's kind that learns its patterns one by one, each by a matrix of all pairs."""

    def setup(self) -> None:
        """Patterns of ones and minus ones."""
        torch.set_float32_matmul_precision("highest")
        self.patterns = torch.randn(size(64, 3), size(8192, 16), device=DEVICE).sign()

    def __call__(self) -> None:
        """All weights are read and written for each pattern, and its pairs as well."""
        width = self.patterns.shape[1]
        weights = torch.zeros(width, width, device=DEVICE)
        for pattern in self.patterns:
            weights += torch.outer(pattern, pattern)
        self.y = weights

    def fixed(self) -> None:
        """All patterns in one product."""
        self.y = self.patterns.T @ self.patterns


class Volatile:
    """How much prices swung in the moments before each: the windows overlap, and each is written out, less its mean."""

    width = 64

    def setup(self) -> None:
        """Returns of many papers over a long time."""
        self.x = torch.randn(size(512, 3), size(65_536, 200), device=DEVICE)

    def __call__(self) -> None:
        """Every return 64 times, and again for its square."""
        windows = self.x.unfold(1, self.width, 1)
        apart = windows - windows.mean(2, keepdim=True)
        self.y = apart.square().mean(2)

    def _means(self, x: Any) -> Any:
        sums = functional.pad(x.cumsum(1), (1, 0))
        return (sums[:, self.width :] - sums[:, : -self.width]).div_(self.width)

    def fixed(self) -> None:
        """Running sums of the returns and of their squares; a window is a difference of two."""
        self.y = self._means(self.x.square()).sub_(self._means(self.x).square_())


class Cellular:
    """Cells that live or die by the number of their neighbours, kept in the 64 bits that whole numbers come in."""

    def setup(self) -> None:
        """Cells, and the same in eight bits."""
        side = size(8192, 16)
        self.cells = (torch.rand(side, side, device=DEVICE) < 0.4).long()
        self.narrow = self.cells.to(torch.uint8)

    @staticmethod
    def _next(cells: Any) -> Any:
        moves = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]
        near = sum(torch.roll(cells, move, (0, 1)) for move in moves)
        return ((near == 3) | ((near == 2) & (cells == 1))).to(cells.dtype)

    def __call__(self) -> None:
        """Eight bytes for one or nought."""
        self.y = self._next(self.cells)

    def fixed(self) -> None:
        """One byte: no cell has more than eight neighbours."""
        self.y = self._next(self.narrow)


# --- arithmetic that need not be --------------------------------------------------------------------------------------


class Circular:
    """A learned filter around the circles of a globe: its shifts are written out as a matrix in every step."""

    def setup(self) -> None:
        """What is known along many circles, the filter, and which of its numbers stands where."""
        torch.set_float32_matmul_precision("highest")
        circles, self.places = size(4096, 4), size(8192, 16)
        self.x, self.taps = (tensor(*shape, dtype=SINGLE) for shape in ((circles, self.places), (self.places,)))
        place = torch.arange(self.places, device=DEVICE)
        self.shifts = (place - place[:, None]) % self.places

    def __call__(self) -> None:
        """Every place with every other."""
        self.y = self.x @ self.taps[self.shifts]

    def fixed(self) -> None:
        """By transforms of the filter and of the circles."""
        waves = torch.fft.rfft(self.x).mul_(torch.fft.rfft(self.taps))
        self.y = torch.fft.irfft(waves, self.places)


class Transported:
    """A plan of transport between two clouds of points: a kernel scaled from both sides by diagonal matrices."""

    def setup(self) -> None:
        """The kernel, and a weight for each point."""
        torch.set_float32_matmul_precision("highest")
        sources, goals = size(6144, 12), size(6144, 16)
        self.kernel = torch.rand(sources, goals, device=DEVICE)
        self.left, self.right = (torch.rand(count, device=DEVICE) for count in (sources, goals))

    def __call__(self) -> None:
        """Two products of large matrices, as the formula has it."""
        self.y = torch.diag(self.left) @ self.kernel @ torch.diag(self.right)

    def fixed(self) -> None:
        """Each number times its two weights."""
        self.y = (self.left[:, None] * self.kernel).mul_(self.right)


class Twinned:
    """A player whose move and whose hopes come from the same layers, which are asked anew for each of the two."""

    def setup(self) -> None:
        """What players see, three layers, and what reads from the last."""
        width = size(4096, 16)
        self.x = tensor(size(16_384, 8), width)
        self.layers = [tensor(width, width) / math.sqrt(width) for _ in range(3)]
        self.moves, self.hopes = (tensor(width, count) / math.sqrt(width) for count in (size(256, 8), 8))

    def _seen(self) -> Any:
        x = self.x
        for layer in self.layers:
            x = torch.relu_(x @ layer)
        return x

    def __call__(self) -> None:
        """All layers twice, with the same result."""
        self.y = [self._seen() @ self.moves, self._seen() @ self.hopes]

    def fixed(self) -> None:
        """Once."""
        seen = self._seen()
        self.y = [seen @ self.moves, seen @ self.hopes]


def _kernels(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_seventh", bottlenecks, layers, bound, precision)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return _kernels(bottlenecks, "accelerator", bound="hardware", precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",), precision: str = "bf16") -> Live:
    return Live("gpu_live_seventh_waits", bottlenecks, layers, precision=precision)


EITHER = ("application", "runtime")
SEVENTH: dict[str, Live] = {
    "delayed": _kernels(MEMORY, *EITHER),
    "accepted": _waits("synchronization", "launch", layers=EITHER, precision="fp32"),
    "twinned": _kernels(COMPUTE, "application"),
    "guided": _healthy(COMPUTE),
    "grounded": _waits("transfer", precision="fp32"),
    "circular": _kernels(COMPUTE, "application", precision="fp32"),
    "volatile": _kernels(MEMORY, *EITHER, precision="fp32"),
    "crossed": _waits("launch", layers=EITHER),
    "peaks": _healthy(MEMORY, "fp32"),
    "transported": _kernels(COMPUTE, "application", precision="fp32"),
    "bonded": _waits("input", "idle", precision="fp32"),
    "cellular": _kernels(MEMORY, *EITHER, "framework", precision="fp32"),
    "hebbian": _kernels(MEMORY, *EITHER, precision="fp32"),
    "lensless": _healthy(COMPUTE),
}

lensless, guided, peaks = Lensless(), Guided(), Peaks()
delayed, hebbian, volatile, cellular = Delayed(), Hebbian(), Volatile(), Cellular()
circular, transported, twinned = Circular(), Transported(), Twinned()
