"""Variance by level: between restarts of one sitting, between sittings of one executor, between nodes.

A result's restarts share its sitting: the day, the boot, the room's temperature, the neighbours. Their spread says
nothing of how the next sitting differs. That is learned from repeated results of one executor, as the variance of
sitting means about their own executor's level, with as many degrees of freedom as there are sittings less one for each
level. The interval of a ratio between two sittings is Student's on those degrees (Satterthwaite 1946 where numbers of
restarts differ), a tenth wider: the tails of sittings are heavier than a normal law's, and few of them do not show it.
No prior and no shrinking stand behind it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.stats.arrays import Floats, Numbers
from lynxbench.stats.intervals import check_confidence, student_quantile

FEWEST_SITTINGS = 8
"""Known beside the two that are compared: ten together. With fewer the variance is known to a factor of two at best."""
FEWEST_NODES = 5
TAILS = 1.1
"""Wider than Student's by so much: 93 % and more instead of 91 under Laplace's law and Student's with three degrees,
96.6 % under a normal one (benchmarks/sittings_truth.py)."""

Sittings = Sequence[Numbers]
"""Positive figures of the restarts of each sitting of one executor at one place."""


@dataclass(frozen=True, slots=True)
class LevelVariance:
    """Variances of log figures, level by level, each with what it was learned from."""

    restart: float
    restart_degrees: int
    sitting_means: float
    """Of means of sittings: what differs between sittings, and what restarts leave in a mean."""
    sitting_degrees: int
    share: float
    """Mean of one over the restarts of a sitting: how much of the restarts' variance is in that of the means."""
    sittings: int
    node_means: float = math.nan
    """Of means of nodes; NaN where fewer nodes are known than may speak."""
    node_degrees: int = 0
    of_sittings: float = 1.0
    """Mean of one over the sittings of a node."""

    @property
    def known(self) -> bool:
        """Whether sittings may speak."""
        return self.sittings >= FEWEST_SITTINGS and self.sitting_degrees > 0

    @property
    def nodes_known(self) -> bool:
        """Whether nodes may speak."""
        return math.isfinite(self.node_means)

    @property
    def sitting(self) -> float:
        """Between sittings alone; 0 where restarts explain all of it."""
        return max(0.0, self.sitting_means - self.restart * self.share)

    @property
    def node(self) -> float:
        """Between nodes alone; 0 where sittings explain all of it."""
        return max(0.0, self.node_means - self.sitting_means * self.of_sittings)


def learn_variance(executors: Sequence[Sittings], nodes: Sequence[Sittings] = ()) -> LevelVariance:
    """From sittings of each executor at one place; `nodes`: of one executor at several places."""
    means, within, within_degrees, shares, degrees, scatter = 0, 0.0, 0, 0.0, 0, 0.0
    for sittings in executors:
        logs = [_logs(values) for values in sittings]
        if not logs:
            continue
        levels = np.array([float(np.mean(values)) for values in logs])
        scatter += float(np.sum((levels - levels.mean()) ** 2))
        degrees += levels.size - 1
        means += levels.size
        shares += math.fsum(1 / values.size for values in logs)
        within += math.fsum(float(np.sum((values - values.mean()) ** 2)) for values in logs)
        within_degrees += sum(values.size - 1 for values in logs)
    learned = LevelVariance(
        restart=within / within_degrees if within_degrees else 0.0,
        restart_degrees=within_degrees,
        sitting_means=scatter / degrees if degrees else math.nan,
        sitting_degrees=degrees,
        share=shares / means if means else 1.0,
        sittings=means,
    )
    return learned if len(nodes) < FEWEST_NODES else _with_nodes(learned, nodes)


def _with_nodes(learned: LevelVariance, nodes: Sequence[Sittings]) -> LevelVariance:
    levels = np.array([float(np.mean([np.mean(_logs(values)) for values in sittings])) for sittings in nodes])
    return replace(
        learned,
        node_means=float(np.var(levels, ddof=1)),
        node_degrees=levels.size - 1,
        of_sittings=math.fsum(1 / len(sittings) for sittings in nodes) / len(nodes),
    )


def ratio_between(
    a: Numbers, b: Numbers, learned: LevelVariance, confidence: float = 0.95, *, nodes: bool = False
) -> Interval:
    """B over A, two sittings of one place, or of two `nodes`; unknown where too little was learned."""
    check_confidence(confidence)
    if not learned.known or (nodes and not learned.nodes_known):
        return UNKNOWN_INTERVAL
    first, second = _logs(a), _logs(b)
    # linear in the mean squares: of sittings, of restarts, of nodes; the last two correct for what the first ones hold
    parts = [(2.0, learned.sitting_means, learned.sitting_degrees)]
    restarts = 1 / first.size + 1 / second.size - 2 * learned.share if learned.restart_degrees else 0.0
    if restarts:
        parts.append((restarts, learned.restart, learned.restart_degrees))
    if nodes:
        parts[0] = (2 * (1 - learned.of_sittings), learned.sitting_means, learned.sitting_degrees)
        parts.append((2.0, learned.node_means, learned.node_degrees))
    variance = math.fsum(factor * square for factor, square, _ in parts)
    # the more of what the sittings' fewer restarts left in them is taken off, the more of the pair's own part must stay
    taken_off = max(0.0, -restarts) / (2 * learned.share)
    variance = max(variance, taken_off * learned.restart * (1 / first.size + 1 / second.size), 0.0)
    change, reach = float(np.mean(second) - np.mean(first)), 0.0
    if variance > 0:
        degrees = 1 / math.fsum((factor * square / variance) ** 2 / many for factor, square, many in parts)
        fewest = min(many for _, _, many in parts)
        reach = TAILS * student_quantile((1 + confidence) / 2, max(degrees, fewest)) * math.sqrt(variance)
    return Interval(math.exp(change - reach), math.exp(change), math.exp(change + reach))


def ratio_assumed(a: Numbers, b: Numbers, sitting: float, confidence: float = 0.95) -> Interval:
    """B over A where sittings are said to differ by so much (a standard deviation, as a share); Welch's t beside it."""
    check_confidence(confidence)
    first, second = _logs(a), _logs(b)
    change = float(np.mean(second) - np.mean(first))
    if min(first.size, second.size) < 2:
        return Interval(math.nan, math.exp(change), math.nan)
    errors = [float(np.var(side, ddof=1)) / side.size for side in (first, second)]
    variance = math.fsum(errors) + 2 * math.log1p(sitting) ** 2
    if variance == 0:
        return Interval(math.exp(change), math.exp(change), math.exp(change))
    spent = math.fsum(
        (error / variance) ** 2 / (side.size - 1) for error, side in zip(errors, (first, second), strict=True)
    )
    quantile = student_quantile((1 + confidence) / 2, min(1 / spent, 1e9) if spent else 1e9)
    reach = quantile * math.sqrt(variance)
    return Interval(math.exp(change - reach), math.exp(change), math.exp(change + reach))


def _logs(values: Numbers) -> Floats:
    return np.log(np.asarray(values, dtype=np.float64))
