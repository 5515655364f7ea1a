"""What all probes of a search say together about one rate, and how many requests a verdict there would take.

Lateness does not fall as the rate rises. So a rate whose probe met fewer late requests than one below it has not been
seen whole: both are pooled (isotonic regression by adjacent violators, Ayer et al. 1955), and no search ends on the
luck of one window while another of its windows says otherwise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from lynxbench.load.completion_ceiling import CEILING_ERROR
from lynxbench.load.saturation_curve import CapacityEstimate, estimate_capacity
from lynxbench.load.saturation_judge import (
    BUSIEST,
    FAR_TIMES,
    FEWEST_TIMES,
    NONE_LATE,
    START_UP,
    STILL_GROWING,
    Confidence,
    LatencyBound,
    ProbeOutcome,
    Share,
    bounded,
    far_times,
    far_worth,
    fewest_effective,
    memory_at_bound,
    memory_floor,
)
from lynxbench.load.saturation_result import Judged
from lynxbench.model.interval import Interval
from lynxbench.stats.tails import clopper_pearson

DISPERSED = 0.99
"""Probes of one pool that differ more than independent effective requests would with this probability hang together
over longer than one probe: their number is lowered by as much."""
MOST_EFFECTIVE = 2.0**24
"""A verdict that takes more independent requests is out of reach."""
TAIL_MARGIN = 2.5
"""Beyond a limit that a short probe saw far away, so many times the share is expected: a long one meets slower."""
TELLING, TELLING_SIGMAS = 0.1, 1.645
"""A claim rests at least on the requests that, were they independent, tell the allowed share of late ones from one
lower by this part (one-sided 95 %): one that passes early, because few were late, must not end the search."""
POOL_ERROR = 0.02
"""Of the upper bound on all requests of a rate that is claimed: the memory of late requests is itself an estimate."""


@dataclass
class SeenRates:
    """Every probe of a search, and what follows for a rate."""

    ceiling_per_s: float
    bounds: tuple[LatencyBound, ...]
    sure: Confidence
    probes: list[Judged] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    """Rates that were to be claimed and did not pass."""
    is_highest: bool = False
    """Whether no rate above the ceiling can be held."""
    _known: dict[int, CapacityEstimate] = field(default_factory=dict)

    @property
    def highest_per_s(self) -> float:
        """What no rate that is held lies above, where the ceiling is the highest."""
        return self.ceiling_per_s * (1 + CEILING_ERROR)

    @property
    def to_pass(self) -> float:
        """The confidence that a claim needs: each one that was lost was a chance to pass by luck."""
        return 1 - POOL_ERROR / (1 + len(self.lost))

    def at(self, rate_per_s: float) -> list[Judged]:
        """The probes of a rate; scouts show nothing by themselves."""
        return [probe for probe in self.probes if probe.rate_per_s == rate_per_s and not probe.scout]

    def asked(self, rate_per_s: float) -> int:
        """Requests of those probes."""
        return sum(probe.requests for probe in self.at(rate_per_s))

    def watched_s(self, rate_per_s: float) -> float:
        """Seconds of those probes."""
        return sum(probe.seconds for probe in self.at(rate_per_s))

    def beside_s(self) -> float:
        """Seconds that a probe takes beside its arrivals: clients start, and what is open is answered."""
        beside = sorted(probe.seconds - probe.requests / probe.rate_per_s for probe in self.probes)
        return max(beside[len(beside) // 2], 0.0) if beside else 0.0

    def any_late(self) -> bool:
        """Whether any request of any probe was late."""
        return any(share.late > 0 for probe in self.probes for share in probe.shares)

    def missed_s(self, above_per_s: float, rate_per_s: float) -> float:
        """Seconds of probes that missed a bound at a rate, or between a claim and it: more are late at the higher."""
        asked = (p for p in self.probes if not p.scout and above_per_s < p.rate_per_s <= rate_per_s)
        return sum(probe.seconds for probe in asked if not is_met(probe.shares))

    def has_passed(self, rate_per_s: float) -> bool:
        """Whether one of them passed."""
        return any(probe.outcome is ProbeOutcome.PASS for probe in self.at(rate_per_s))

    def undecided(self, above_per_s: float) -> list[float]:
        """Rates over a claim that came to no verdict when they were asked last."""
        last = {probe.rate_per_s: probe.outcome for probe in self.probes if not probe.scout}
        return [rate for rate, outcome in last.items() if outcome is ProbeOutcome.UNDECIDED and rate > above_per_s]

    def fails(self, above_per_s: float) -> list[float]:
        """Rates over a claim that fail by all probes together, the nearest first."""
        rates = sorted({probe.rate_per_s for probe in self.probes if probe.rate_per_s > above_per_s})
        return [rate for rate in rates if self._is_failing(rate)]

    def _is_failing(self, rate_per_s: float) -> bool:
        """By its requests with those that contradict, or as a queue that grows; asked again, more often than not."""
        outcomes = [probe.outcome is ProbeOutcome.FAIL for probe in self.at(rate_per_s)]
        if outcomes and 2 * sum(outcomes) <= len(outcomes):
            return False
        asked = [probe for probe in self.probes if probe.rate_per_s == rate_per_s]
        grows = any(share.grows for probe in asked for share in probe.shares)
        return grows or is_broken(self.pooled(rate_per_s))

    def estimate(self, rate_per_s: float = 0.0, running: Sequence[Share] = ()) -> CapacityEstimate:
        """Where the capacity lies, by all probes and one that is under way."""
        late = self.any_late() or any(share.late > 0 for share in running)
        passes = (p for p in self.probes if p.outcome is ProbeOutcome.PASS and (late or not p.scout))
        passed = max((probe.rate_per_s for probe in passes), default=0.0)
        evidence = [(p.rate_per_s, p.shares) for p in self.probes if not p.scout or p.rate_per_s > passed]
        if running:
            return estimate_capacity([*evidence, (rate_per_s, running)], self.ceiling_per_s)
        if len(self.probes) not in self._known:
            self._known[len(self.probes)] = estimate_capacity(evidence, self.ceiling_per_s)
        return self._known[len(self.probes)]

    def pooled(self, rate_per_s: float, running: Sequence[Share] = ()) -> tuple[Share, ...]:
        """The share of late requests of every bound at a rate: its own probes and those that contradict them."""
        asked = [probe for probe in self.probes if not probe.scout or probe.rate_per_s == rate_per_s]
        together = []
        for place in range(len(self.bounds)):
            probes = [(probe.rate_per_s, probe.shares[place]) for probe in asked]
            probes += [(rate_per_s, share) for share in running[place : place + 1]]
            own = [share for rate, share in probes if rate == rate_per_s]
            pool = next(shares for rates, shares in _pools(probes) if rate_per_s in rates)
            floor = memory_floor(rate_per_s / self.ceiling_per_s)
            together.append(bounded(_together(own, pool, floor), self.to_pass, self.sure))
        return tuple(together)

    def shown(self) -> float | None:
        """The highest rate that passed, is not undone, and whose own requests show every bound at `to_pass`.

        It is what can be said at any moment, before a follow-up. Counted requests alone speak: scouts and rates that
        came to no verdict do not, nor does the distance of a limit that no request has come near.
        """
        lowest_fail = min(self.fails(0.0), default=math.inf)
        rates = {probe.rate_per_s for probe in self.probes if not probe.scout} - set(self.lost)
        passed = [rate for rate in rates if rate < lowest_fail and self.has_passed(rate)]
        return max((rate for rate in passed if is_shown(self._counted(rate))), default=None)

    def _counted(self, rate_per_s: float) -> list[Share]:
        """What all probes say of a rate, without what is taken from the distance to the limit."""
        return [bounded(replace(share, tail=1.0), self.to_pass, self.sure) for share in self.pooled(rate_per_s)]

    def telling(self) -> float:
        """Independent requests that tell the allowed share from one a little under it."""
        return max((TELLING_SIGMAS / TELLING) ** 2 * (1 - b.violations) / b.violations for b in self.bounds)

    def cost_to_pass(self, rate_per_s: float, reach: float = 1.0) -> float:
        """Requests after which a rate is expected to pass; infinite where it is not.

        How far away a limit is at it, probes tell that were at this part of it at the least.
        """
        estimate, costs = self.estimate(), []
        for place, bound in enumerate(self.bounds):
            late = estimate.late_share(rate_per_s, bound.violations) if place == estimate.place else 0.0
            tails = [probe.shares[place].tail for probe in self.probes if probe.rate_per_s >= reach * rate_per_s]
            correlation = self._expected_correlation(rate_per_s, place)
            if (tail := min(tails, default=1.0)) < 1:
                effective = fewest_effective(bound, self.sure, min(TAIL_MARGIN * tail, 1.0))
                floor = effective * memory_floor(rate_per_s / self.ceiling_per_s)
                costs.append(max(far_times(effective) * correlation, floor))
                continue
            effective = effective_to_pass(late, bound, NONE_LATE)
            memory = self._expected_memory(rate_per_s, late, place)
            costs.append(max(effective * memory, FEWEST_TIMES * correlation))
        return max(costs) / (1 - START_UP)

    def cost_to_fail(self, rate_per_s: float) -> float:
        """Requests after which a rate is expected to fail; infinite where it is not."""
        estimate = self.estimate()
        bound = self.bounds[estimate.place]
        late = estimate.late_share(rate_per_s, bound.violations)
        effective = max(effective_to_fail(late, bound, self.sure.fail_error), FEWEST_TIMES)
        return effective * self._expected_memory(rate_per_s, late, estimate.place) / (1 - START_UP)

    def _expected_memory(self, rate_per_s: float, late: float, place: int) -> float:
        """The expected correlation as a pass is judged by it."""
        shown = self._expected_correlation(rate_per_s, place) * memory_at_bound(late, self.bounds[place].violations)
        return max(memory_floor(rate_per_s / self.ceiling_per_s), shown)

    def _expected_correlation(self, rate_per_s: float, place: int) -> float:
        """What the longest probe showed, carried to another rate as a queue's memory goes.

        Where the limit is far away there is no queue to speak of: what hangs together are the requests that run at
        once, and their number goes with ρ / (1 - ρ) in a batch that all share (Kleinrock, Queueing Systems II, 4.4).
        """
        if not self.probes:
            return 1.0
        longest = max(self.probes, key=lambda probe: probe.requests)
        here, there = (min(rate / self.ceiling_per_s, BUSIEST) for rate in (rate_per_s, longest.rate_per_s))
        carried = memory_floor(here) / memory_floor(there)
        if longest.shares[place].tail < 1:
            carried = here / (1 - here) / (there / (1 - there))
        return max(1.0, longest.shares[place].correlation_requests * carried)


def is_met(shares: Sequence[Share]) -> bool:
    """Whether no more requests were late than each bound allows."""
    return all(share.interval.estimate <= share.bound.violations for share in shares)


def is_shown(shares: Sequence[Share]) -> bool:
    """Whether every bound is shown to hold."""
    return is_met(shares) and all(share.settled and share.interval.high <= share.bound.violations for share in shares)


def is_broken(shares: Sequence[Share]) -> bool:
    """Whether a bound is shown to break."""
    return any(share.seen and share.interval.low > share.bound.violations for share in shares)


def _pools(probes: Sequence[tuple[float, Share]]) -> list[tuple[list[float], list[Share]]]:
    """Rates and their probes, so that the share of late requests rises from each pool to the next."""
    pools: list[tuple[list[float], list[Share]]] = []
    for rate in sorted({rate for rate, _ in probes}):
        pools.append(([rate], [share for other, share in probes if other == rate]))
        while len(pools) > 1 and _late_share(pools[-2][1]) > _late_share(pools[-1][1]):
            rates, shares = pools.pop()
            pools[-1] = pools[-1][0] + rates, pools[-1][1] + shares
    return pools


def _late_share(shares: Sequence[Share]) -> float:
    return sum(share.late for share in shares) / sum(share.counted for share in shares)


def _together(own: Sequence[Share], pool: Sequence[Share], floor: float) -> Share:
    """The share of late requests of a pool, each request alike, on what the rate's own requests are worth.

    They hang together as their late ones do on average, or those of the whole pool, whichever is longer; what differs
    from probe to probe by more than chance hangs together over longer than a probe.
    """
    counted, late = sum(share.counted for share in own), _late_share(pool)
    memory = max(_memory(own), _memory(pool))
    if len(pool) > 1 and 0 < late < 1:
        from scipy.special import chdtri

        freedom = len(pool) - 1
        scatter = sum((share.late - share.counted * late) ** 2 / share.counted for share in pool)
        squares = scatter / memory / (late * (1 - late))
        memory *= squares / freedom if squares > chdtri(freedom, 1 - DISPERSED) else 1.0
    effective = counted / memory
    settled = any(share.settled for share in own) or _agree(own)
    tail, longest = max(share.tail for share in pool), max(share.correlation_requests for share in own)
    if tail < 1:  # windows that are too short to believe their correlation time make up for it together
        effective = max(effective, min(far_worth(counted / longest), counted / floor))
        settled = counted >= FAR_TIMES * longest
    return replace(
        own[0],
        interval=Interval(late, late, late),
        effective=max(1.0, effective),
        correlation_requests=longest,
        counted=counted,
        settled=settled,
        seen=counted >= FEWEST_TIMES * longest,
        tail=tail,
        grows=False,
    )


def _agree(own: Sequence[Share]) -> bool:
    """Whether two windows saw a correlation time whole that each alone did not: half as long each as one would have to
    be, and the later did not find it longer by half."""
    longest = max(share.correlation_requests for share in own)
    windows = [share for share in own if share.counted >= FEWEST_TIMES / 2 * longest]
    return len(windows) > 1 and windows[-1].correlation_requests <= STILL_GROWING * windows[0].correlation_requests


def _memory(shares: Sequence[Share]) -> float:
    """Over how many requests lateness hangs together, on average over the late ones, or over all where none is."""
    weights = [share.late for share in shares] if _late_share(shares) > 0 else [share.counted for share in shares]
    return sum(w * share.counted / share.effective for w, share in zip(weights, shares, strict=True)) / sum(weights)


def effective_to_pass(share: float, bound: LatencyBound, error: float) -> float:
    """Independent requests after which a rate with that share of late ones passes; infinite where it never would."""
    if share >= bound.violations:
        return math.inf
    return _fewest(lambda count: clopper_pearson(share * count, count, 1 - error).high <= bound.violations)


def effective_to_fail(share: float, bound: LatencyBound, error: float) -> float:
    """Independent requests after which a rate with that share of late ones fails; infinite where it never would."""
    if share <= bound.violations:
        return math.inf
    return _fewest(lambda count: clopper_pearson(share * count, count, 1 - error).low > bound.violations)


def _fewest(decided: Callable[[float], bool]) -> float:
    """The smallest count that decides, to a tenth."""
    low = high = 8.0
    while not decided(high):
        low, high = high, 2 * high
        if high > MOST_EFFECTIVE:
            return math.inf
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high
