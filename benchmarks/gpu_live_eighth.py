"""An eighth set of functions as users write them: graphs, segmentation, experts, recommenders, speech, scans, training.

As in gpu_live_cases.py, an instance is the step and `fixed` the step with its cause taken away; both leave their result
in `y`, and both draw the same numbers in every process. Here are causes in bytes and the steps in good health; time on
the host and on the link, and arithmetic that need not be, is in gpu_live_eighth_waits.py. Written without a look at the
code or the description of the rules. Two answers are accepted where the cause is honestly mixed, or where both lead to
the fix. In `merged` and `ragged` the large products do well what they were asked for: what is in vain is their order,
or what they are given.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention import sdpa_kernel

from gpu_live_answers import COMPUTE, KERNELS, MEMORY, Live
from gpu_live_cases import BF16, DEVICE, size, tensor
from gpu_live_unseen_kernels import FASTEST

SEED, SINGLE = 8, torch.float32

# --- in good health ---------------------------------------------------------------------------------------------------


class Worded:
    """The scores of all words for each place of many texts: one product, wider than any other in the model."""

    def setup(self) -> None:
        """Hidden states, the words, and where the scores go."""
        torch.manual_seed(SEED)
        places, width, words = size(12_288, 8), size(5120, 16), size(131_072, 40)
        self.x, self.head = tensor(places, width), tensor(width, words) / math.sqrt(width)
        self.y = self.x.new_empty(places, words)

    def __call__(self) -> None:
        """All of them are wanted."""
        torch.mm(self.x, self.head, out=self.y)

    fixed = __call__


class Prompted:
    """A whole book read by one layer before the first answer: each place looks at those before it."""

    def setup(self) -> None:
        """Queries, keys and values."""
        torch.manual_seed(SEED)
        self.q, self.k, self.v = (tensor(1, size(24, 2), size(32_768, 24), size(128, 16)) for _ in range(3))

    def __call__(self) -> None:
        """By the fastest fused kernel that is there."""
        with sdpa_kernel(FASTEST, set_priority=True):
            self.y = functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)

    fixed = __call__


class Staffed:
    """Experts that have their tokens beside them, as many each: two products for all of them at once."""

    def setup(self) -> None:
        """Tokens by expert, and two layers for each."""
        torch.manual_seed(SEED)
        experts, tokens, width, inner = size(8, 2), size(4096, 8), size(4096, 16), size(8192, 32)
        self.x = tensor(experts, tokens, width)
        self.up = tensor(experts, width, inner) / math.sqrt(width)
        self.down = tensor(experts, inner, width) / math.sqrt(inner)

    def __call__(self) -> None:
        """What lies between is done in place."""
        self.y = torch.bmm(torch.relu_(torch.bmm(self.x, self.up)), self.down)

    fixed = __call__


class Correlated:
    """Activity in one half of a brain against activity in the other, every point with every point."""

    def setup(self) -> None:
        """What each point did over time; TF32 is allowed."""
        torch.manual_seed(SEED)
        torch.set_float32_matmul_precision("high")
        points, moments = size(12_288, 8), size(16_384, 32)
        halves = (tensor(points, moments, dtype=SINGLE) for _ in range(2))
        self.left, self.right = (functional.normalize(half, dim=1) for half in halves)

    def __call__(self) -> None:
        """One product."""
        self.y = self.left @ self.right.T

    fixed = __call__


class Intersected:
    """Which documents hold two words: lists of them as bits, sixty-four in a number, laid over one another."""

    def setup(self) -> None:
        """Two lists and where their common part goes, far beyond the caches."""
        torch.manual_seed(SEED)
        count, top = size(1 << 28, 64), (1 << 63) - 1
        self.one, self.other = (torch.randint(-top, top, (count,), device=DEVICE) for _ in range(2))
        self.y = torch.empty_like(self.one)

    def __call__(self) -> None:
        """One pass."""
        torch.bitwise_and(self.one, self.other, out=self.y)

    fixed = __call__


class Dotted:
    """One number from two long vectors, as a solver wants it in each of its turns."""

    def setup(self) -> None:
        """Far beyond the caches."""
        torch.manual_seed(SEED)
        self.one, self.other = (torch.randn(size(1 << 30, 64), device=DEVICE) for _ in range(2))

    def __call__(self) -> None:
        """Each read once."""
        self.y = torch.dot(self.one, self.other)

    fixed = __call__


class Summed:
    """Gradients of one more part of a batch added to those so far, a few kernels for all weights."""

    def setup(self) -> None:
        """Two gradients of each weight."""
        torch.manual_seed(SEED)
        side = size(5120, 16)
        self.y, self.more = ([tensor(side, side, dtype=SINGLE) for _ in range(size(24, 3))] for _ in range(2))

    def __call__(self) -> None:
        """In place."""
        torch._foreach_add_(self.y, self.more)

    fixed = __call__


# --- bytes that need not move -----------------------------------------------------------------------------------------


class Paired:
    """A graph network's score of each edge: what is known of both ends is written side by side before the layer."""

    def setup(self) -> None:
        """Nodes, edges, and a layer over pairs."""
        torch.manual_seed(SEED)
        nodes, edges, self.width = size(65_536, 16), size(1 << 22, 64), size(256, 8)
        self.x = tensor(nodes, self.width)
        self.start, self.end = (torch.randint(0, nodes, (edges,), device=DEVICE) for _ in range(2))
        self.w = tensor(2 * self.width, size(64, 4)) / math.sqrt(2 * self.width)

    def __call__(self) -> None:
        """There are many more edges than nodes."""
        pairs = torch.cat([self.x[self.start], self.x[self.end]], 1)
        self.y = functional.leaky_relu(pairs @ self.w, 0.2)

    def fixed(self) -> None:
        """The layer goes over the nodes, half for either end; what comes out is much narrower."""
        starts, ends = self.x @ self.w[: self.width], self.x @ self.w[self.width :]
        self.y = functional.leaky_relu_(starts[self.start].add_(ends[self.end]), 0.2)


class Enlarged:
    """What each point of a picture shows: features are enlarged first, and their many channels then made few."""

    def setup(self) -> None:
        """Features at a quarter of the picture's sides, and a layer that makes classes of them."""
        torch.manual_seed(SEED)
        wide, side, last = size(512, 16), size(128, 4), torch.channels_last
        self.x = tensor(size(8, 2), wide, side, side).to(memory_format=last)
        self.kernel = (tensor(size(32, 4), wide, 1, 1) / math.sqrt(wide)).to(memory_format=last)

    @staticmethod
    def _larger(x: Any) -> Any:
        return functional.interpolate(x, scale_factor=4, mode="bilinear", align_corners=False)

    def __call__(self) -> None:
        """Sixteen times the features."""
        self.y = functional.conv2d(self._larger(self.x), self.kernel)

    def fixed(self) -> None:
        """The layer looks at one point at a time: it may as well come first."""
        self.y = self._larger(functional.conv2d(self.x, self.kernel))


class Fetched:
    """A layer of experts while words are made: each token is given a copy of its expert's weights."""

    def setup(self) -> None:
        """A few tokens, the expert of each, all equally liked, and their weights."""
        torch.manual_seed(SEED)
        tokens, self.experts, width = size(128, 8), size(16, 4), size(3072, 16)
        self.x, self.w = tensor(tokens, width), tensor(self.experts, width, width) / math.sqrt(width)
        self.route = torch.randperm(tokens, device=DEVICE) % self.experts

    def __call__(self) -> None:
        """As many matrices as tokens."""
        self.y = torch.bmm(self.x.unsqueeze(1), self.w[self.route]).squeeze(1)

    def fixed(self) -> None:
        """Tokens go to the weights."""
        order = self.route.argsort()
        groups = torch.bmm(self.x[order].unflatten(0, (self.experts, -1)), self.w)
        self.y = torch.empty_like(self.x).index_copy_(0, order, groups.flatten(0, 1))


class Autocast:
    """A model served as it was trained: weights in 32 bits, which autocast makes narrow whenever they are used."""

    def setup(self) -> None:
        """Large layers in both formats, and a few rows."""
        torch.manual_seed(SEED)
        width, count = size(8192, 16), size(16, 3)
        wide = [tensor(width, width, dtype=SINGLE) * math.sqrt(2 / width) for _ in range(count)]
        self.x, self.wide = tensor(size(8, 2), width, dtype=SINGLE), [torch.nn.Parameter(weight) for weight in wide]
        self.narrow = [weight.to(BF16) for weight in wide]

    @staticmethod
    def _layers(x: Any, weights: list[Any]) -> Any:
        for weight in weights:
            x = torch.relu(functional.linear(x, weight))
        return x

    def __call__(self) -> None:
        """All weights are read wide, written narrow, and read again."""
        with torch.no_grad(), torch.autocast(DEVICE, BF16):
            self.y = self._layers(self.x, self.wide)

    def fixed(self) -> None:
        """Made narrow once."""
        self.y = self._layers(self.x.to(BF16), self.narrow)


class Hubs:
    """Messages along the edges of a graph, summed where they arrive by an indexed write; a few nodes get very many."""

    def setup(self) -> None:
        """Nodes, edges with weights, and ends of which some are far more frequent than others."""
        torch.manual_seed(SEED)
        nodes, edges = size(32_768, 16), size(1 << 20, 128)
        self.x = tensor(nodes, size(64, 4), dtype=SINGLE)
        self.start = torch.randint(0, nodes, (edges,), device=DEVICE)
        self.end = (torch.rand(edges, device=DEVICE).square() * nodes).long()
        self.weight = torch.rand(edges, 1, device=DEVICE)

    def __call__(self) -> None:
        """Ends are sorted, and what goes to one node is added up one after the other."""
        messages = self.x[self.start] * self.weight
        self.y = torch.zeros_like(self.x).index_put_((self.end,), messages, accumulate=True)

    def fixed(self) -> None:
        """Added where they are, in whatever order."""
        messages = self.x[self.start] * self.weight
        self.y = torch.zeros_like(self.x).index_add_(0, self.end, messages)


def _kernels(bottlenecks: tuple[str, ...], *layers: str, bound: str = "software", precision: str = "bf16") -> Live:
    return Live("gpu_live_eighth", bottlenecks, layers, bound, precision)


def _healthy(bottlenecks: tuple[str, ...], precision: str = "bf16") -> Live:
    return _kernels(bottlenecks, "accelerator", bound="hardware", precision=precision)


def _waits(*bottlenecks: str, layers: tuple[str, ...] = ("application",), precision: str = "bf16") -> Live:
    return Live("gpu_live_eighth_waits", bottlenecks, layers, precision=precision)


EITHER = ("application", "runtime")
EIGHTH: dict[str, Live] = {
    "paired": _kernels(MEMORY, *EITHER),
    "scanned": _waits("launch", layers=EITHER, precision="fp32"),
    "worded": _healthy(COMPUTE),
    "spilled": _waits("transfer"),
    "merged": _waits(*COMPUTE),
    "misheard": _waits("idle", "input"),
    "intersected": _healthy(MEMORY, "fp32"),
    "autocast": _kernels(MEMORY, *EITHER, "framework"),
    "farthest": _waits("synchronization", "launch", layers=EITHER, precision="fp32"),
    "blurred": _waits(*COMPUTE, layers=EITHER, precision="fp32"),
    "prompted": _healthy(COMPUTE),
    "tabular": _waits("input", "idle"),
    "fetched": _kernels(MEMORY, *EITHER),
    "orthogonal": _waits("launch", layers=EITHER),
    "dotted": _healthy(MEMORY, "fp32"),
    "ragged": _waits(*COMPUTE, layers=EITHER),
    "lodged": _waits("transfer", "input", "idle"),
    "enlarged": _kernels(KERNELS, *EITHER),
    "staffed": _healthy(COMPUTE),
    "collapsed": _waits("synchronization", "launch", layers=EITHER),
    "hubs": _kernels(KERNELS, *EITHER, "framework", precision="fp32"),
    "summed": _healthy(MEMORY, "fp32"),
    "windowed": _waits(*KERNELS, layers=EITHER),
    "correlated": _healthy(COMPUTE, "tf32"),
}

worded, prompted, staffed, correlated = Worded(), Prompted(), Staffed(), Correlated()
intersected, dotted, summed = Intersected(), Dotted(), Summed()
paired, enlarged, fetched, autocast, hubs = Paired(), Enlarged(), Fetched(), Autocast(), Hubs()
