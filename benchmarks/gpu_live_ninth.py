"""A ninth set of functions as users write them: weather, markets, retrieval, denoising, speech, robots, rollouts.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`, and both draw the same numbers in every process. Here are the steps in good health, arithmetic done again, and
causes in bytes; time on the host and on the link is in gpu_live_ninth_waits.py. Written without a look at the code or
the description of the rules. Two answers are accepted where the cause is honestly mixed, or where both lead to the fix.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_cases import DEVICE, size, tensor
from gpu_live_unseen_kernels import FASTEST

SEED, SINGLE = 9, torch.float32


def weights(*widths: int, gain: float = 1.0) -> Any:
    """A layer from the first width to the last, which keeps the size of numbers, or makes them so much larger."""
    return tensor(*widths) * (gain / math.sqrt(widths[-2]))


# --- in good health ---------------------------------------------------------------------------------------------------


class Blended:
    """Patches of pictures mixed with one another, channel by channel: one matrix for all pictures of a batch."""

    def setup(self) -> None:
        """Pictures, the matrix, and where the mixtures go."""
        torch.manual_seed(SEED)
        pictures, patches, channels = size(32, 2), size(4096, 8), size(2048, 16)
        self.x = tensor(pictures, patches, channels)
        self.w = weights(patches, patches).expand(pictures, -1, -1)
        self.y = torch.empty_like(self.x)

    def __call__(self) -> None:
        """The matrix is not repeated, only read by each."""
        torch.bmm(self.w, self.x, out=self.y)

    fixed = __call__


class Dissected:
    """What a language model thinks taken apart into very many features, and put together again."""

    def setup(self) -> None:
        """Hidden states, and layers into the features and out of them."""
        torch.manual_seed(SEED)
        places, width, features = size(16_384, 8), size(4096, 16), size(32_768, 64)
        self.x = tensor(places, width)
        self.into, self.out = weights(width, features), weights(features, width)
        self.shift, self.centre = tensor(features), tensor(width)

    def __call__(self) -> None:
        """Two large products, and what lies between in place."""
        self.y = torch.addmm(self.centre, torch.relu_(torch.addmm(self.shift, self.x, self.into)), self.out)

    fixed = __call__


class Filmed:
    """All patches of short films look at one another, each film by itself."""

    def setup(self) -> None:
        """Queries, keys and values."""
        torch.manual_seed(SEED)
        self.q, self.k, self.v = (tensor(size(12, 1), size(24, 2), size(6144, 24), size(128, 16)) for _ in range(3))

    def __call__(self) -> None:
        """By the fastest fused kernel that is there."""
        with sdpa_kernel(FASTEST, set_priority=True):
            self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v)

    fixed = __call__


class Exposed:
    """What a bank would lose in each of many scenarios, contract by contract."""

    def setup(self) -> None:
        """How factors move, how contracts follow them, and where losses go; TF32 is allowed."""
        torch.manual_seed(SEED)
        torch.set_float32_matmul_precision("high")
        scenarios, factors, contracts = size(32_768, 8), size(4096, 16), size(16_384, 24)
        self.moves, self.follows = (tensor(*two, dtype=SINGLE) for two in ((scenarios, factors), (factors, contracts)))
        self.y = torch.empty(scenarios, contracts, device=DEVICE)

    def __call__(self) -> None:
        """One product."""
        torch.mm(self.moves, self.follows, out=self.y)

    fixed = __call__


class Coasts:
    """Temperatures at the ground: those of the soil over land, those of the water elsewhere."""

    def setup(self) -> None:
        """Where land is, both temperatures, and where the ground's go, far beyond the caches."""
        torch.manual_seed(SEED)
        count = size(1 << 29, 64)
        self.soil, self.water = (torch.rand(count, device=DEVICE) for _ in range(2))
        self.land = self.soil < 0.3
        self.y = torch.empty_like(self.soil)

    def __call__(self) -> None:
        """One pass."""
        torch.where(self.land, self.soil, self.water, out=self.y)

    fixed = __call__


class Shares:
    """Scores of a thousand stocks turned into shares of very many portfolios."""

    def setup(self) -> None:
        """Scores, and where the shares go."""
        torch.manual_seed(SEED)
        self.x = tensor(size(1 << 21, 8), size(1024, 16))
        self.y = torch.empty_like(self.x)

    def __call__(self) -> None:
        """A row fits in registers: read once, written once."""
        torch.softmax(self.x, -1, out=self.y)

    fixed = __call__


class Ensemble:
    """What forecasts that began a little differently say on average, for each point of the earth."""

    def setup(self) -> None:
        """Forecasts."""
        torch.manual_seed(SEED)
        self.x = torch.randn(size(1 << 21, 32), size(1024, 3), device=DEVICE)

    def __call__(self) -> None:
        """All of them read once."""
        self.y = self.x.mean(1)

    fixed = __call__


# --- arithmetic that was done before ----------------------------------------------------------------------------------


def attended(q: Any, k: Any, v: Any, heads: int, *, causal: bool = False) -> Any:
    """Attention over the last but one dimension, by heads."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


class Denoised:
    """Pictures freed of noise turn by turn while looking at a long description, which is the same in every turn."""

    def setup(self) -> None:
        """Noise, the description, and a few layers."""
        torch.manual_seed(SEED)
        rows, width, wide, self.heads, self.turns = size(4, 2), size(2048, 16), size(4096, 32), size(16, 2), size(6, 3)
        self.x, self.told = tensor(rows, size(1024, 6), width), tensor(rows, size(4096, 10), wide)
        shapes = (wide, 2 * width), (width, width), (width, width), (width, 4 * width), (4 * width, width)
        self.layers = [[weights(*shape) for shape in shapes] for _ in range(3)]

    def _freed(self, pairs: Any) -> None:
        x = self.x
        for _ in range(self.turns):
            noise = x
            for place, (_, into, out, up, down) in enumerate(self.layers):
                noise = noise + attended(noise @ into, *pairs(place), self.heads) @ out
                noise = noise + torch.relu_(noise @ up) @ down
            x = x - 0.05 * noise
        self.y = x

    def _pairs(self, place: int) -> Any:
        return (self.told @ self.layers[place][0]).chunk(2, -1)

    def __call__(self) -> None:
        """Its keys and values are worked out in every turn."""
        self._freed(self._pairs)

    def fixed(self) -> None:
        """Once."""
        self._freed([self._pairs(place) for place in range(len(self.layers))].__getitem__)


class Beamed:
    """A search that follows a few continuations of each prompt: prompts are repeated before anyone reads them."""

    def setup(self) -> None:
        """Prompts, the first word of each continuation, layers and a head."""
        torch.manual_seed(SEED)
        prompts, self.beams, width, self.heads = size(4, 2), 4, size(4096, 16), size(32, 2)
        self.x, self.first = tensor(prompts, size(1024, 6), width), tensor(prompts * self.beams, width)
        shapes = (width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)
        self.layers = [[weights(*shape) for shape in shapes] for _ in range(2)]
        self.head = weights(width, size(32_000, 40))

    def _read(self, x: Any) -> Any:
        for pairs, out, up, down in self.layers:
            x = x + attended(*(x @ pairs).chunk(3, -1), self.heads, causal=True) @ out
            x = x + torch.relu_(x @ up) @ down
        return x

    def __call__(self) -> None:
        """Every continuation reads its prompt for itself."""
        read = self._read(self.x.repeat_interleave(self.beams, 0))[:, -1]
        self.y = (read + self.first) @ self.head

    def fixed(self) -> None:
        """What was read is repeated."""
        read = self._read(self.x)[:, -1].repeat_interleave(self.beams, 0)
        self.y = (read + self.first) @ self.head


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Reweighted:
    """A speech decoder whose layers keep directions and lengths of their weights apart, as they were trained."""

    def setup(self) -> None:
        """A few streams of speech, directions and lengths, and the weights that they make."""
        torch.manual_seed(SEED)
        width, count = size(8192, 16), size(8, 3)
        self.x = tensor(size(16, 2), width)
        self.parts = [(tensor(width, width), tensor(width, 1) * 0.1 + math.sqrt(2)) for _ in range(count)]
        self.whole = [self._weight(*part) for part in self.parts]

    @staticmethod
    def _weight(way: Any, length: Any) -> Any:
        return length * way / way.norm(dim=1, keepdim=True)

    def __call__(self) -> None:
        """Put together whenever they are used."""
        self.y = self.x
        for part in self.parts:
            self.y = torch.relu(functional.linear(self.y, self._weight(*part)))

    def fixed(self) -> None:
        """Put together once: nothing is trained any more."""
        self.y = self.x
        for weight in self.whole:
            self.y = torch.relu(functional.linear(self.y, weight))


class Columnar:
    """Features of visitors fetched from a store that keeps each feature by itself, visitor after visitor."""

    def setup(self) -> None:
        """The store, the same by visitors, who came, and a layer."""
        torch.manual_seed(SEED)
        visitors, width = size(1 << 25, 64), size(32, 8)
        self.store, self.w = torch.randn(width, visitors, device=DEVICE), weights(width, size(16, 4)).float()
        self.rows = self.store.T.contiguous()
        self.came = torch.randint(0, visitors, (size(1 << 22, 16),), device=DEVICE)

    def __call__(self) -> None:
        """Of each sector of memory that is read, one number is wanted."""
        self.y = self.store[:, self.came].T @ self.w

    def fixed(self) -> None:
        """A visitor's features lie side by side."""
        self.y = self.rows[self.came] @ self.w


class Triplets:
    """Faces told apart by triplets: for each, every one of the same person against every one of others."""

    def setup(self) -> None:
        """Pictures as numbers, who is on them, and layers."""
        torch.manual_seed(SEED)
        rows, width = size(768, 12), size(4096, 16)
        self.x, who = tensor(rows, width), torch.randint(0, size(48, 3), (rows, 1), device=DEVICE)
        self.same, self.margin = who == who.T, 0.5
        self.layers = [weights(width, width, gain=math.sqrt(2)) for _ in range(2)]
        self.last = weights(width, size(256, 8))

    def _apart(self) -> Any:
        x = self.x
        for weight in self.layers:
            x = torch.relu(x @ weight)
        x = functional.normalize((x @ self.last).float(), dim=1)
        return 2 - 2 * (x @ x.T)

    def __call__(self) -> None:
        """A cube of them, most of which do not count."""
        apart = self._apart()
        worse = apart[:, :, None] - apart[:, None, :] + self.margin
        counts = self.same[:, :, None] & ~self.same[:, None, :]
        self.y = (torch.relu(worse) * counts).sum() / counts.sum()

    def fixed(self) -> None:
        """The others in order of how far they are, and running sums of that."""
        apart = self._apart()
        others = apart.masked_fill(self.same, math.inf).sort(1).values
        limits = apart + self.margin
        nearer = torch.searchsorted(others, limits)
        sums = functional.pad(others.cumsum(1), (1, 0)).gather(1, nearer)
        self.y = ((nearer * limits - sums) * self.same).sum() / (self.same.sum(1) * (~self.same).sum(1)).sum()


class Terminal:
    """Options priced by very many courses of a stock, of which only the last day counts."""

    def setup(self) -> None:
        """What moves the stock on each day, and strikes."""
        torch.manual_seed(SEED)
        self.moves, days = torch.randn(size(1 << 22, 16), size(256, 8), device=DEVICE), size(256, 8)
        self.drift, self.swing, self.days = 0.02 / days, 0.2 / math.sqrt(days), days
        self.strikes = torch.linspace(80, 120, 8, device=DEVICE)

    def _worth(self, last: Any) -> None:
        self.y = torch.relu(last[:, None] - self.strikes).mean(0)

    def __call__(self) -> None:
        """The whole course of each, in passes."""
        courses = 100 * torch.exp(torch.cumsum(self.drift + self.swing * self.moves, 1))
        self._worth(courses[:, -1])

    def fixed(self) -> None:
        """Where each ends."""
        self._worth(100 * torch.exp(self.days * self.drift + self.swing * self.moves.sum(1)))


class Coalesced:
    """Heat that flows through a large network: its matrix is put together from triples for every step."""

    def setup(self) -> None:
        """Triples in no order, some of one place; the matrix, and temperatures."""
        torch.manual_seed(SEED)
        nodes, entries = size(1 << 20, 16), size(1 << 24, 64)
        self.places, self.shape = torch.randint(0, nodes, (2, entries), device=DEVICE), (nodes, nodes)
        self.flows, self.x = torch.rand(entries, device=DEVICE), torch.randn(nodes, 4, device=DEVICE)
        self.matrix = self._matrix()

    def _matrix(self) -> Any:
        return torch.sparse_coo_tensor(self.places, self.flows, self.shape, check_invariants=False).coalesce()

    def __call__(self) -> None:
        """Sorted anew, though nothing about it changes."""
        self.y = torch.sparse.mm(self._matrix(), self.x)

    def fixed(self) -> None:
        """Sorted once."""
        self.y = torch.sparse.mm(self.matrix, self.x)


def _kernels(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_ninth", bottlenecks, layers, bound, precision)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return _kernels(bottlenecks, "accelerator", bound="hardware", precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",), precision: str = "bf16") -> Live:
    return Live("gpu_live_ninth_waits", bottlenecks, layers, precision=precision)


EITHER = ("application", "runtime")
NINTH: dict[str, Live] = {
    "denoised": _kernels(COMPUTE, "application"),
    "stencilled": _waits("launch", layers=EITHER, precision="fp32"),
    "blended": _healthy(COMPUTE),
    "paged": _waits("synchronization", "launch", layers=EITHER),
    "terminal": _kernels(MEMORY, *EITHER, precision="fp32"),
    "handed": _waits("transfer"),
    "coasts": _healthy(MEMORY, "fp32"),
    "shards": _waits("idle", "input"),
    "triplets": _kernels(MEMORY, *EITHER),
    "critics": _waits("launch", layers=EITHER),
    "dissected": _healthy(COMPUTE),
    "parsed": _waits("input", "idle"),
    "columnar": _kernels(MEMORY, *EITHER, precision="fp32"),
    "waypoints": _waits("synchronization", "launch", layers=EITHER, precision="fp32"),
    "shares": _healthy(MEMORY),
    "beamed": _kernels(COMPUTE, *EITHER),
    "tiled": _waits("transfer", "input", "idle"),
    "exposed": _healthy(COMPUTE, "tf32"),
    "coalesced": _kernels(KERNELS, *EITHER, "framework", precision="fp32"),
    "overlapped": _waits("launch", layers=EITHER),
    "ensemble": _healthy(MEMORY, "fp32"),
    "reweighted": _kernels(MEMORY, *EITHER),
    "advantages": _waits("idle", "input"),
    "filmed": _healthy(COMPUTE),
}

blended, dissected, filmed, exposed = Blended(), Dissected(), Filmed(), Exposed()
coasts, shares, ensemble = Coasts(), Shares(), Ensemble()
denoised, beamed, reweighted, columnar = Denoised(), Beamed(), Reweighted(), Columnar()
triplets, terminal, coalesced = Triplets(), Terminal(), Coalesced()
