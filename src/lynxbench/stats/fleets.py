"""Fleets of queues, simulated: nodes of k slots, first come first served, fed by one Poisson stream and a balancer.

Many independent queues advance together, one request each a step (Kiefer and Wolfowitz, 1955: the next request takes
the slot that is free first). A node's shape is fitted to its measured latency curve by the two-moment approximation of
M/G/k waiting (Allen and Cunneen; Whitt, Queueing Systems 15, 1993), and then checked by simulation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

from lynxbench.stats.arrays import Floats
from lynxbench.stats.queues import erlang_c

SLOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
VARIATIONS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5)
STRATA = 512
WARM_SHARE = 0.2
"""Of a simulated probe, left out: a queue starts empty."""
MODEL_ERROR = 0.04
"""|log ratio| that no queue with a fitted shape comes nearer than: shapes are taken from a grid."""
MOST_POINTS = 7
"""Points of a curve that are simulated: those with the most requests behind them."""
CANDIDATES = 3
"""Shapes that the approximation puts first and the simulation decides between."""
FEWEST_STEPS = 100
"""Requests of a simulated queue, however short the period: of fewer no share says anything."""
_STEADY = 0.98
"""Load of a node, over its ceiling, up to which a steady state is reached within a probe."""


class Balancing(StrEnum):
    """How requests are spread over nodes."""

    RANDOM = "random"
    """Nothing is assumed of the balancer: every node gets a Poisson stream of its own."""
    ROUND_ROBIN = "round-robin"
    SHARED_QUEUE = "shared-queue"
    """One queue for all, or always the node with the least work left: the two are the same queue."""


class ServiceForm(StrEnum):
    """Form of the service times."""

    GAMMA = "gamma"
    LOGNORMAL = "lognormal"
    HYPEREXPONENTIAL = "hyperexponential"


@dataclass(frozen=True, slots=True)
class QueueNode:
    """A node as a queue: so many slots, service times of one form, and what a request takes beside its slot."""

    slots: int
    family: ServiceForm
    variation: float
    service_s: float
    first_s: tuple[float, float] | None = None
    """Median and p99 of the bounded latency at rest, where it is not the service time itself (a first token)."""

    @property
    def ceiling_per_s(self) -> float:
        """Completions a second with every slot busy."""
        return self.slots / self.service_s

    def services(self, uniform: Floats) -> Floats:
        """Service times for uniform numbers, by inverting the distribution."""
        return self.service_s * _inverted(self.family, self.variation, uniform)

    def rests(self, normal: Floats, services: Floats) -> Floats:
        """What the bounded latency is without waiting."""
        if self.first_s is None:
            return services
        middle, tail = self.first_s
        spread = math.log(max(tail / middle, 1.0)) / 2.326
        return np.asarray(middle * np.exp(spread * normal))


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a latency curve; so many requests stand behind it."""

    rate_per_s: float
    p50_s: float
    p99_s: float
    requests: int = 10**6

    def deviations(self, ceiling_per_s: float) -> tuple[float, float]:
        """Standard deviations of the logarithms of p50 and p99, for service times near exponential ones.

        Latencies of one queue resemble their neighbours; the relaxation time of M/M/1, in requests, says for how long.
        """
        load = min(self.rate_per_s / ceiling_per_s, _STEADY)
        effective = self.requests / (1 + 2 * load / (1 - load) ** 2)
        return 1.44 / math.sqrt(effective), 2.16 / math.sqrt(effective)


@dataclass(frozen=True, slots=True)
class NodeFit:
    """A node, and the curve that it gives at the measured rates."""

    node: QueueNode
    simulated: tuple[Point, ...]
    error: float
    """Largest |log ratio| of a simulated to a measured percentile, beyond what the measured one is uncertain by."""


def simulate_latencies(
    node: QueueNode,
    rate_per_s: float,
    queues: int,
    requests: int,
    rng: np.random.Generator,
    *,
    shared: int = 1,
    gaps: int = 1,
) -> Floats:
    """Latencies [requests, queues] of independent queues at a rate each, begun near their steady state.

    `shared` nodes pool their slots in one queue; `gaps` > 1 is every n-th arrival of a Poisson stream.
    """
    free = _warm_slots(node, rate_per_s, queues, rng, shared, gaps)
    rows = np.arange(queues)
    now = np.zeros(queues)
    spent = np.empty((requests, queues))
    for start in range(0, requests, 1024):
        size = min(1024, requests - start)
        gap = rng.gamma(gaps, 1 / (rate_per_s * gaps), (size, queues))
        services = node.services(rng.random((size, queues)))
        rests = node.rests(rng.standard_normal((size, queues)) if node.first_s else services, services)
        for i in range(size):
            now += gap[i]
            slot = free.argmin(axis=1)
            begin = np.maximum(now, free[rows, slot])
            free[rows, slot] = begin + services[i]
            spent[start + i] = begin - now + rests[i]
    return spent


def _warm_slots(
    node: QueueNode, rate_per_s: float, queues: int, rng: np.random.Generator, shared: int, gaps: int
) -> Floats:
    """When each slot will be free, drawn from the steady state: exact for M/M/k, by two moments for other queues.

    From empty, a queue of k slots takes k/(1 − √load)² requests to forget its start: more than a simulation holds where
    slots are many and busy. A share of queues as large as Erlang C waits, for an exponential time; then every slot but
    the next one is in the middle of its work. In the others so many are busy as a Poisson number below k says. Queues
    are drawn in strata, so that a few of them stand for all.
    """
    slots = node.slots * shared
    offered = rate_per_s * node.service_s
    if not 0 < offered < slots:
        return np.zeros((queues, slots))  # no steady state: it fills up from empty
    share, wait = (((rng.permutation(queues) + rng.random(queues)) / queues) for _ in range(2))
    waiting = erlang_c(slots, offered)
    places = np.arange(slots)
    logs = places * math.log(offered) - np.concatenate(([0.0], np.cumsum(np.log(places[1:]))))
    below = np.cumsum(np.exp(logs - logs.max()))
    quiet = np.maximum(share - waiting, 0.0) / max(1 - waiting, 1e-12)
    busy = np.searchsorted(below / below[-1], quiet)
    times = np.sort(node.services((np.arange(STRATA) + 0.5) / STRATA))
    longer = np.cumsum(times) / times.sum()  # work that is under way is long work: drawn by its length
    drawn = times[np.minimum(np.searchsorted(longer, rng.random((queues, slots))), STRATA - 1)]
    left = drawn * rng.random((queues, slots))
    free = np.where(places < busy[:, None], left, 0.0)
    waits = share < waiting
    spread = (1 / gaps + node.variation**2) / 2
    left[:, 0] = 0.0
    delay = -np.log1p(-wait) * spread * node.service_s / (slots - offered)
    free[waits] = (left + delay[:, None])[waits]
    return free


def late_shares(
    node: QueueNode,
    rate_per_s: float,
    nodes: int,
    balancing: Balancing,
    limit_s: float,
    *,
    runs: int,
    period_s: float,
    most_steps: int,
    rng: np.random.Generator,
) -> Floats:
    """The share of requests beyond the limit in each of so many periods of a fleet that is already warm."""
    if rate_per_s >= nodes * node.ceiling_per_s:
        return np.ones(runs)
    counted = counted_requests(rate_per_s, nodes, balancing, period_s=period_s, most_steps=most_steps)
    if balancing is Balancing.SHARED_QUEUE:
        late = _late(node, rate_per_s, runs, counted, limit_s, rng, shared=nodes)
        return np.asarray(late.mean(axis=0))
    each = rate_per_s / nodes
    gaps = nodes if balancing is Balancing.ROUND_ROBIN else 1
    queues = min(runs * nodes, max(600, 4 * nodes))
    shares = _late(node, each, queues, counted, limit_s, rng, gaps=gaps).mean(axis=0)
    # A period of the fleet is one period of each node; nodes are alike, so a pool of simulated ones serves for all.
    drawn = shares if queues == runs * nodes else shares[rng.integers(0, queues, runs * nodes)]
    return np.asarray(drawn.reshape(runs, nodes).mean(axis=1))


def counted_requests(rate_per_s: float, nodes: int, balancing: Balancing, *, period_s: float, most_steps: int) -> int:
    """How many requests of one queue are simulated for a period: all of them, or as many as there is time for."""
    queues = 1 if balancing is Balancing.SHARED_QUEUE else nodes
    return max(FEWEST_STEPS, min(most_steps, math.ceil(rate_per_s / queues * period_s)))


def node_capacity(node: QueueNode, limit_s: float, violations: float, rng: np.random.Generator) -> float:
    """The largest rate at which a simulated node keeps the share beyond the limit; 0 where one at rest does not."""
    low, high = 0.0, node.ceiling_per_s
    seed = int(rng.integers(1 << 31))
    for _ in range(10):  # to 0.1 % of the ceiling; the same random numbers at every rate, so that noise cancels
        middle = (low + high) / 2
        late = _late(node, middle, 256, 1000, limit_s, np.random.default_rng(seed))
        if late.mean() <= violations:
            low = middle
        else:
            high = middle
    return (low + high) / 2 if low > 0 else 0.0


def fit_node(
    points: Sequence[Point], ceiling_per_s: float, *, is_whole_latency: bool, rng: np.random.Generator
) -> NodeFit | None:
    """The node whose curve is nearest to the measured one; None where fewer than two stable points are known."""
    stable = [p for p in points if 0 < p.rate_per_s < _STEADY * ceiling_per_s and 0 < p.p50_s <= p.p99_s]
    if len(stable) < 2:
        return None
    rest = min(stable, key=lambda p: p.rate_per_s)
    sure = sorted(stable, key=lambda p: sum(p.deviations(ceiling_per_s)))[:MOST_POINTS]
    shapes = [
        QueueNode(
            slots, family, variation, slots / ceiling_per_s, None if is_whole_latency else (rest.p50_s, rest.p99_s)
        )
        for slots in SLOTS
        for family in ServiceForm
        for variation in VARIATIONS
        if _allowed(family, variation)
    ]
    uniform = (np.arange(STRATA) + 0.5) / STRATA
    order = np.random.default_rng(0).permutation(STRATA)
    ranked = sorted(shapes, key=lambda shape: _approximate_error(shape, sure, uniform, uniform[order]))
    fits = [_simulate_curve(shape, sure, rng) for shape in ranked[:CANDIDATES]]
    return min(fits, key=lambda fit: fit[1])[0]


def _late(
    node: QueueNode,
    rate: float,
    queues: int,
    counted: int,
    limit_s: float,
    rng: np.random.Generator,
    *,
    shared: int = 1,
    gaps: int = 1,
) -> NDArray[np.bool_]:
    warm = max(50, math.ceil(counted * WARM_SHARE))
    spent = simulate_latencies(node, rate, queues, warm + counted, rng, shared=shared, gaps=gaps)
    return np.asarray(spent[warm:] > limit_s)


def _simulate_curve(node: QueueNode, points: Sequence[Point], rng: np.random.Generator) -> tuple[NodeFit, float]:
    """The node's own curve, and how far it is from the measured one in standard deviations (sum of squares)."""
    simulated, worst, total = [], 0.0, 0.0
    for point in points:
        spent = simulate_latencies(node, point.rate_per_s, 64, 1500, rng)[300:]
        p50, p99 = (float(part) for part in np.quantile(spent, (0.5, 0.99)))
        simulated.append(Point(point.rate_per_s, p50, p99))
        for mine, theirs, doubt in zip(
            (p50, p99), (point.p50_s, point.p99_s), point.deviations(node.ceiling_per_s), strict=True
        ):
            off = abs(math.log(mine / theirs))
            total += off**2 / (doubt**2 + MODEL_ERROR**2)
            worst = max(worst, off - 2 * doubt)
    return NodeFit(node, tuple(simulated), worst), total


def _approximate_error(node: QueueNode, points: Sequence[Point], uniform: Floats, shuffled: Floats) -> float:
    services = node.services(uniform)
    rests = node.rests(_normal(uniform), services)
    total = 0.0
    for point in points:
        waits = _waits(node, point.rate_per_s, shuffled)
        p50, p99 = np.quantile(rests + waits, (0.5, 0.99))
        first, second = point.deviations(node.ceiling_per_s)
        total += math.log(p50 / point.p50_s) ** 2 / (first**2 + MODEL_ERROR**2)
        total += math.log(p99 / point.p99_s) ** 2 / (second**2 + MODEL_ERROR**2)
    return total


def _normal(uniform: Floats) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(uniform))


def _waits(node: QueueNode, rate_per_s: float, uniform: Floats) -> Floats:
    """Waiting times: none with probability 1 − Erlang C, exponential beyond, stretched by the second moment."""
    spare = node.ceiling_per_s - rate_per_s
    waiting = erlang_c(node.slots, rate_per_s * node.service_s)
    decay = spare * 2 / (1 + node.variation**2)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(0.0, np.log(waiting / (1 - uniform)) / decay)) if waiting > 0 else uniform * 0


def _allowed(family: ServiceForm, variation: float) -> bool:
    if family is ServiceForm.HYPEREXPONENTIAL:
        return variation > 1
    return family is ServiceForm.GAMMA or variation > 0


def _inverted(family: ServiceForm, variation: float, uniform: Floats) -> Floats:
    """Times of mean 1 with that coefficient of variation."""
    if variation == 0:
        return np.ones_like(uniform)
    if family is ServiceForm.GAMMA:
        if variation == 1:
            return np.asarray(-np.log1p(-uniform))
        return np.interp(uniform, *_gamma_table(variation))
    if family is ServiceForm.LOGNORMAL:
        spread = math.log1p(variation**2)
        return np.asarray(np.exp(math.sqrt(spread) * _normal(uniform) - spread / 2))
    # Two phases with balanced means; the uniform number is split into the choice and the time.
    fast = 0.5 * (1 + math.sqrt((variation**2 - 1) / (variation**2 + 1)))
    chosen = uniform < fast
    within = np.where(chosen, uniform / fast, (uniform - fast) / (1 - fast))
    mean = np.where(chosen, 1 / (2 * fast), 1 / (2 * (1 - fast)))
    return np.asarray(-mean * np.log1p(-np.minimum(within, 1 - 1e-12)))


@cache
def _gamma_table(variation: float) -> tuple[Floats, Floats]:
    from scipy.special import gammaincinv

    shape = 1 / variation**2
    tail = np.geomspace(1e-9, 0.5, 2000)
    at = np.concatenate([tail, 1 - tail[::-1][1:]])
    return at, np.asarray(gammaincinv(shape, at) / shape)
