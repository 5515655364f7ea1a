"""What the requests of one probe say about its rate: pass, fail, or not decided.

Requests of one busy period miss together, and counting them as independent passes the capacity itself most of the time.
So the bound on the share of misses rests on the *effective* number of requests. The story, with the simulations that
hold it, is docs/methodology/saturation.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from lynxbench.model.interval import Interval
from lynxbench.model.samples import Float64
from lynxbench.stats.autocorrelation import integrated_time
from lynxbench.stats.tails import clopper_pearson

START_UP, LONGEST_START_UP = 0.2, 0.5
"""Share of a probe left out at its start, because a queue that starts empty flatters the first requests: at least the
one, and one p99 of latency (the time until as many answers leave as requests arrive) up to the other."""
CLIP = 2.0
"""Latencies count at most so many limits when their correlation is estimated: one stuck request must not hide it."""
SHORTEST = 30
"""Requests of the shortest probe: less its start, they are just enough for a correlation time of one to be seen."""
FIRST_LOOK = 1.15
"""A first look comes at so many times the requests that could pass."""
ENOUGH_SLOW = 30
"""Slow requests that can show how they cluster."""
FEWEST_TIMES = 20.0
"""A correlation time is only believed when the probe is this many times longer (Sokal 1997 asks for a multiple)."""
FAR_TIMES = 5.0
"""Where the limit is far away a probe so many times longer may speak: what a shorter one does not know of its
correlation is made up for by distance (`far_worth`). A queue that builds up shows less: its latencies are one rise."""
LOOK_GROWTH = math.sqrt(2)
"""A probe is looked at whenever it is so many times as long; it is held against the look at half of its requests.
Every second look, at doublings, may pass it; those between may only fail it."""
STILL_GROWING = 1.5
"""A correlation time that grew by this factor when the probe doubled has not been seen whole."""
BUSIEST = 0.98
"""Where utilisation stops raising the floor of the correlation time: the ceiling itself is known to about 2 %."""
BLOCKS = 1024
"""A probe is cut into at most so many blocks before its correlation is estimated: the scatter of service times, which
hides how waits hang together, averages out in a block; and the cost does not grow with the probe."""
FEWEST_MISSES = 0.2
"""Of the allowed share: with fewer misses than this, a probe is taken to have had so many in `memory_at_bound`."""
MEMORY = 0.3
"""The floor of the correlation time is this over (1 - utilisation)²; see docs/methodology/saturation.md."""
NONE_LATE = 0.05
"""No look passes on fewer requests than would show the bound at 95 % without a late one (the rule of three, Hanley and
Lippman-Hand 1983): short probes are where luck passes, and the requests cost little beside those of the long ones."""
FAR, CALM = 1.0, 0.9
"""A limit so many times as far beyond the slowest request as that is from the median is far away; not near the ceiling,
above this utilisation: a queue may yet build up of which nothing was seen."""
TAIL_SHAPE = 0.5
"""Shape of the tail assumed over the median where the limit is far away (generalised Pareto; servers' latencies are
lighter: at 0.5 not even their variance exists)."""
SMALLEST_SPREAD = 0.05
"""The least spread of latencies, of the slowest: a server of constant answers is not infinitely far from its limit."""
LEAST_TAIL = 1e-6
"""However far the limit is, so much may lie beyond it."""
PROSPECT = 4
"""How many times the requests a probe is asked to look ahead by `prospect`: two doublings."""
BATCHES = 8
"""Stretches a probe is divided into when asking whether its queue only grows."""
GROWTH = 3.0
"""A queue that grows: the last stretch's mean latency over the first's, with every third of it above the one before."""
DROWNED = 0.95
"""Share of late requests in the last stretch of a queue that grows: a passing swell seldom reaches it."""


class ProbeOutcome(StrEnum):
    """What a probe showed at its rate. Undecided is not a pass."""

    PASS = "pass"
    FAIL = "fail"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class LatencyBound:
    """At most this share of requests may take longer than the limit, in one of the probe's latencies."""

    limit_s: float
    violations: float
    name: str = "latency"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.limit_s) and self.limit_s > 0):
            raise ValueError(f"limit {self.limit_s} s must be positive")
        if not 0 < self.violations < 1:
            raise ValueError(f"share {self.violations} of violations must lie between 0 and 1, such as 0.01 for p99")


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a look must be; a claim needs two independent passes besides.

    A probe is looked at whenever it has doubled, and each look is a chance to pass by luck: the first that could pass
    may err by `pass_error`, the j-th by that over j. Simulated at the capacity itself, where no probe should
    pass, up to a third do (docs/methodology/saturation.md): hence two in a row.
    """

    pass_error: float = 0.12
    fail_error: float = 0.025

    def to_pass(self, look: int) -> float:
        """The confidence of the upper bound at the look of this number, counted from the first that could pass."""
        return 1 - self.pass_error / max(look, 1)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of late requests against one bound, and how many independent requests it rests on."""

    bound: LatencyBound
    interval: Interval
    effective: float
    correlation_requests: float
    seen: bool
    """Whether the probe is a multiple of its correlation time: without that, no fail."""
    settled: bool
    """Whether that time has stopped growing besides: without that, no pass."""
    counted: int
    """Requests after the start-up."""
    tail: float = 1.0
    """Where none was late: the share of what was not seen that may lie beyond the limit; below 1 if it is far away."""
    grows: bool = False
    """Whether the queue only grows, so that the share of late requests has no end."""

    @property
    def late(self) -> float:
        """Late requests after the start-up."""
        return self.interval.estimate * self.counted

    def grown(self, growth: float) -> "Share":
        """With so many times the requests, if all that is to come were like what has come."""
        more = growth
        if self.tail < 1:
            times = self.counted / self.correlation_requests
            more = far_worth(growth * times) / far_worth(times)
        return replace(self, effective=more * self.effective, counted=int(growth * self.counted))


@dataclass(frozen=True, slots=True)
class Look:
    """A judgement on the requests so far."""

    outcome: ProbeOutcome
    why: str
    shares: tuple[Share, ...]
    number: int = 0
    """How many looks of this probe could have passed, this one among them."""


def judge(
    latencies_s: Float64,
    bounds: Sequence[LatencyBound],
    *,
    utilisation: float = 0.0,
    rate_per_s: float = 0.0,
    before: Look | None = None,
    confidence: Confidence | None = None,
) -> Look:
    """Judge one probe: rows are requests by arrival, columns bounds. All bounds must pass; one that fails, fails it.

    `utilisation` is the rate over the completion-rate ceiling; `before` the look at half as many requests.
    """
    sure = confidence or Confidence()
    counted = latencies_s[_start_up(latencies_s, bounds, rate_per_s) :]
    earlier = before.shares if before else (None,) * len(bounds)
    shares = [_share(counted[:, place], bound, utilisation, earlier[place]) for place, bound in enumerate(bounds)]
    could_pass = all(_could_pass(share, sure) for share in shares)
    number = (before.number if before else 0) + could_pass
    return _verdict(tuple(bounded(share, sure.to_pass(number), sure) for share in shares), number, could_pass)


def _start_up(latencies_s: Float64, bounds: Sequence[LatencyBound], rate_per_s: float) -> int:
    """Requests of the fill-up: not before a p99 of latency has passed do as many answers leave as requests arrive."""
    count = len(latencies_s)
    if count == 0:
        return 0
    clipped = np.minimum(latencies_s, [CLIP * bound.limit_s for bound in bounds])
    longest_s = float(np.quantile(clipped, 0.99, axis=0).max())
    return int(max(START_UP * count, min(rate_per_s * longest_s, LONGEST_START_UP * count)))


def _verdict(shares: tuple[Share, ...], number: int, could_pass: bool) -> Look:
    for share in shares:
        if share.grows:
            return Look(ProbeOutcome.FAIL, f"{share.bound.name}: the queue only grows", shares, number)
    for share in shares:
        if share.interval.low > share.bound.violations and share.seen:
            why = f"{share.bound.name}: at least {share.interval.low:.2%} late"
            return Look(ProbeOutcome.FAIL, why, shares, number)
    worst = max(shares, key=lambda share: share.interval.high / share.bound.violations)
    if could_pass and all(share.settled and share.interval.high <= share.bound.violations for share in shares):
        return Look(ProbeOutcome.PASS, f"{worst.bound.name}: at most {worst.interval.high:.2%} late", shares, number)
    why = f"{worst.bound.name}: {worst.interval.estimate:.2%} late on {worst.effective:.0f} effective requests"
    return Look(ProbeOutcome.UNDECIDED, why, shares, number)


def _could_pass(share: Share, sure: Confidence) -> bool:
    """Whether a probe without a single miss would pass by now; a look that could not is no chance to err."""
    return share.settled and share.effective >= fewest_effective(share.bound, sure, share.tail)


def fewest_effective(bound: LatencyBound, sure: Confidence, tail: float = 1.0) -> float:
    """Effective requests, none of them late, without which nothing passes."""
    if bound.violations >= tail:
        return 1.0
    return max(math.log(1 / min(sure.pass_error, NONE_LATE)) / -math.log1p(-bound.violations / tail), 1.0)


def fewest_requests(bounds: Sequence[LatencyBound], sure: Confidence) -> int:
    """Where a first look is worth its while: independent requests, none of them late, would pass there."""
    needed = max(fewest_effective(bound, sure) for bound in bounds)
    return max(SHORTEST, math.ceil(FIRST_LOOK * needed / (1 - START_UP)))


def _share(latencies_s: Float64, bound: LatencyBound, utilisation: float, before: Share | None) -> Share:
    count = len(latencies_s)
    late = latencies_s > bound.limit_s
    correlation = correlation_requests(latencies_s, bound)
    tail = unseen_tail(latencies_s, bound.limit_s) if utilisation <= CALM and not late.any() else 1.0
    if tail < 1:  # what was not seen is told from all latencies, so it is their own time that counts
        correlation = max(correlation, _blocked_time(latencies_s))
    share = float(late.mean()) if count else 1.0
    floor = memory_floor(utilisation)
    if tail < 1:
        seen = settled = count >= FAR_TIMES * correlation
        effective = min(far_worth(count / correlation), count / floor)
    else:
        seen = count >= FEWEST_TIMES * correlation
        settled = seen and before is not None and correlation <= STILL_GROWING * before.correlation_requests
        effective = count / max(correlation * memory_at_bound(share, bound.violations), floor)
    grows = _queue_grows(np.minimum(latencies_s, 10 * bound.limit_s), bound.limit_s)
    effective = max(1.0, effective)
    return Share(bound, Interval(share, share, share), effective, correlation, seen, settled, count, tail, grows)


def far_worth(times: float) -> float:
    """Effective requests of a probe that is so many correlation times long, none of them near a limit far away.

    A correlation time that was not seen FEWEST_TIMES over may be longer by as much as is lacking.
    """
    return times * min(1.0, times / FEWEST_TIMES)


def far_times(effective: float) -> float:
    """The inverse: correlation times that are worth so many effective requests, and enough to speak."""
    return max(effective, math.sqrt(min(effective, FEWEST_TIMES) * FEWEST_TIMES), FAR_TIMES)


def unseen_tail(latencies_s: Float64, limit_s: float) -> float:
    """Of requests slower than any that was seen, the share that may be late: 1 unless the limit is far away.

    Over the median a generalised Pareto law of shape TAIL_SHAPE whose mean is that of the slower half.
    """
    slowest = float(latencies_s.max(initial=0.0))
    least = SMALLEST_SPREAD * slowest
    if least <= 0:
        return 1.0
    median = float(np.median(latencies_s))
    if limit_s - slowest < FAR * max(slowest - median, least):
        return 1.0
    scale = (1 - TAIL_SHAPE) * float(latencies_s[latencies_s >= median].mean() - median)
    at_slowest = max(scale, least) + TAIL_SHAPE * (slowest - median)
    return max(float((1 + TAIL_SHAPE * (limit_s - slowest) / at_slowest) ** (-1 / TAIL_SHAPE)), LEAST_TAIL)


def bounded(share: Share, to_pass: float, sure: Confidence) -> Share:
    """The share between its lower bound, sure enough to fail, and its upper one at the confidence of a pass."""
    hits = share.interval.estimate * share.effective
    # errors come whatever the latencies are: as many requests must be there as show the bound if each came alone
    tail = share.tail if share.counted >= math.log(1 / sure.pass_error) / share.bound.violations else 1.0
    high = clopper_pearson(hits, share.effective, to_pass).high * tail
    low = clopper_pearson(hits, share.effective, 1 - sure.fail_error).low
    return replace(share, interval=Interval(low, share.interval.estimate, high))


def prospect(shares: Sequence[Share], to_pass: float, sure: Confidence, growth: float) -> ProbeOutcome:
    """What so many times the requests would come to, if all that is to come were like what has come."""
    grown = [bounded(share.grown(growth), to_pass, sure) for share in shares]
    if all(share.interval.high <= share.bound.violations for share in grown):
        return ProbeOutcome.PASS
    fails = any(share.interval.low > share.bound.violations for share in grown)
    return ProbeOutcome.FAIL if fails else ProbeOutcome.UNDECIDED


def memory_floor(utilisation: float) -> float:
    """Over how many requests misses hang together at the least, whatever a probe has seen of it.

    In heavy traffic a queue at utilisation ρ forgets over about (1 - ρ)^-2 requests (Asmussen, Applied Probability and
    Queues, 2003, X.7); a probe too short to have met its own long waits would otherwise believe itself.
    """
    return MEMORY / (1 - min(max(utilisation, 0.0), BUSIEST)) ** 2


def memory_at_bound(share: float, allowed: float) -> float:
    """By how much longer misses would hang together if as many were late as the bound allows; 1 where as many are.

    The question a pass answers is whether so few misses could come from a rate that breaks the bound, so its error is
    that of such a rate. Waits have a tail exp(-θt), and a queue forgets over a time that goes with θ^-2; a share p at
    the limit says θ ~ ln(1/p). A lucky probe, which met few of its own long waits, would otherwise also believe that
    they are short.
    """
    if share >= allowed:
        return 1.0
    return (math.log(max(share, FEWEST_MISSES * allowed)) / math.log(allowed)) ** 2


def correlation_requests(latencies_s: Float64, bound: LatencyBound) -> float:
    """Over how many requests misses hang together: the correlation time of being slow.

    Taken at the limit, and at the lower level that four times as many requests as allowed exceed: there are more of
    those, and they cluster no less. The latencies' own time stands in while even those are few.
    """
    if len(latencies_s) < 8:
        return float(max(len(latencies_s), 1))
    clipped = np.minimum(latencies_s, CLIP * bound.limit_s)
    level = float(np.quantile(clipped, 1 - min(0.2, 4 * bound.violations)))
    slow = [clipped > threshold for threshold in {level, bound.limit_s}]
    times = [_blocked_time(each.astype(np.float64)) for each in slow if each.sum() >= ENOUGH_SLOW]
    return max(times) if times else _blocked_time(clipped)


def _blocked_time(values: Float64) -> float:
    """The integrated time by way of block means: what they vary more than independent values would, times their own."""
    size = len(values) // BLOCKS
    spread = float(values.var())
    if size < 2 or spread == 0:
        return integrated_time(values)
    means = values[: len(values) // size * size].reshape(-1, size).mean(axis=1)
    return max(1.0, size * float(means.var()) / spread * integrated_time(means))


def _queue_grows(latencies_s: Float64, limit_s: float) -> bool:
    """Whether a probe is plainly overloaded: each third slower than the one before, in the end hardly any in time."""
    if len(latencies_s) < 10 * BATCHES:
        return False
    means = np.array([part.mean() for part in np.array_split(latencies_s, BATCHES)])
    thirds = [part.mean() for part in np.array_split(means, 3)]
    rising = bool(np.all(np.diff(thirds) > 0)) and bool(np.mean(np.diff(means) > 0) > 0.7)
    drowned = float((latencies_s[-(len(latencies_s) // BATCHES) :] > limit_s).mean()) >= DROWNED
    return rising and drowned and bool(means[-1] > GROWTH * means[0])
