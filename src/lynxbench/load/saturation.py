"""The largest rate whose objective holds, and the smallest where it does not: found by few, self-ending probes.

Pure: a probe is anything that can be asked for more arrivals at a rate (probe_stream.py makes one of the load
driver). Short scouts place the capacity on a curve; long probes, just under it and just over it, decide; the rate that
is claimed has passed twice, in independent probes. The method stands in docs/methodology/saturation.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lynxbench.load.saturation_curve import CapacityEstimate, estimate_capacity, find_knee
from lynxbench.load.saturation_judge import (
    Confidence,
    LatencyBound,
    Look,
    ProbeOutcome,
    Share,
    fewest_requests,
    judge,
    memory_floor,
    would_pass,
)
from lynxbench.model.canonical import finite_or_none
from lynxbench.model.samples import Float64

AIM = 0.6
"""How far under the estimated capacity a pass is looked for, in tolerances: nearer, a probe takes several times as long
to decide."""
FIRST_AIM = 0.8
"""The same as long as only scouts were run: they start with an empty queue, and so place the capacity 1 to 3 % high."""
STEP_DOWN = 0.5
"""From a rate that did not pass to the next that may, in tolerances."""
UPPER_AIM = 0.8
"""Where the rate above the claim is asked, in tolerances: inside the widest pair allowed, able to move the claim up."""
UPPER_LENGTH = 3
"""The rate above the claim gets so many times the requests that the claim took, times what its queue remembers longer;
not passing by then is not holding."""
TELLING, TELLING_SIGMAS = 0.1, 1.645
"""The rate above the claim gets at least the requests that, were they independent, tell the allowed share from one
lower by this part (one-sided 95 %): a claim that passed early, because few were late, must not end the search."""
UNASKED = 0.5
"""A probe is doubled without question up to this part of its length; beyond, and up to the most requests a probe may
have, only where twice the requests with the same share of late ones would pass."""
HOPE = 0.985
"""A probe is given up when even the upper end of the estimated capacity, times this, lies under its rate."""
SCOUTED = 0.6
"""Relative spread (80 %) of the estimated capacity at which scouting ends, in tolerances."""
MOST_SCOUTS = 7
SCOUT_LOOKS = 5
"""A scout doubles at most so often, and only while it rests on fewer than SCOUT_EFFECTIVE effective requests."""
SCOUT_EFFECTIVE = 30.0
SHORTEST_SCOUT = 12
"""Requests of a scout at the least, whatever they cost."""
SCOUT_SHARE, PROBE_SHARE = 0.08, 0.5
"""Of the seconds left, a scout may be lengthened to this share and a probe to that; all are left to a confirmation."""


class Stream(Protocol):
    """A running open-loop probe at one rate. Requests cannot be taken back: each take adds to the ones before."""

    def take(self, requests: int) -> Float64:
        """Latencies of the next so many scheduled requests in order of arrival, seconds; infinite where one failed.

        One column a bound, or one dimension for a single bound. Errors, timeouts and unsent requests are infinite.
        """

    def end(self) -> float:
        """Stop and let the server come to rest, so that probes are independent; the seconds that this probe took."""


Start = Callable[[float], Stream]
"""Start a fresh, independent probe at a rate."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One probe, judged: a point of the throughput-latency curve."""

    rate_per_s: float
    outcome: ProbeOutcome
    why: str
    scout: bool
    """Short, to find the way: only a fail of it counts."""
    requests: int
    seconds: float
    shares: tuple[Share, ...]
    p50_s: float
    p99_s: float
    goodput_per_s: float
    """Requests a second that met every bound."""

    @property
    def holds(self) -> bool:
        """Whether the rate was shown to hold: a scout cannot show that."""
        return self.outcome is ProbeOutcome.PASS and not self.scout

    def document(self) -> dict[str, object]:
        """Plain values for a result."""
        return {
            "rate_per_s": self.rate_per_s,
            "outcome": self.outcome.value,
            "why": self.why,
            "scout": self.scout,
            "requests": self.requests,
            "seconds": self.seconds,
            "p50_s": finite_or_none(self.p50_s),
            "p99_s": finite_or_none(self.p99_s),
            "goodput_per_s": self.goodput_per_s,
            "violations": [
                {
                    "bound": share.bound.name,
                    "limit_s": share.bound.limit_s,
                    "allowed": share.bound.violations,
                    "low": share.interval.low,
                    "estimate": share.interval.estimate,
                    "high": share.interval.high,
                    "effective_requests": share.effective,
                }
                for share in self.shares
            ],
        }


@dataclass(frozen=True, slots=True)
class Saturation:
    """The pair, and every probe that led to it. A missing end says why in `note`."""

    passed_per_s: float | None
    failed_per_s: float | None
    """The smallest rate that was not shown to hold; `failed_outcome` says whether it was shown to fail."""
    failed_outcome: ProbeOutcome | None
    confirmed: bool
    probes: tuple[Judged, ...]
    note: str

    @property
    def seconds(self) -> float:
        """All probe seconds together."""
        return sum(probe.seconds for probe in self.probes)

    def curve(self) -> tuple[Judged, ...]:
        """The throughput-latency curve: the longest probe at each rate, by rate."""
        longest: dict[float, Judged] = {}
        for probe in self.probes:
            known = longest.get(probe.rate_per_s)
            if known is None or probe.requests > known.requests:
                longest[probe.rate_per_s] = probe
        return tuple(longest[rate] for rate in sorted(longest))

    def knee(self) -> Judged | None:
        """Where the p99 latency starts to rise faster than the rate; None where the curve does not bend."""
        curve = self.curve()
        place = find_knee([probe.rate_per_s for probe in curve], [probe.p99_s for probe in curve])
        return None if place is None else curve[place]

    def goodput_per_s(self) -> float | None:
        """Requests a second within every bound at the claimed rate."""
        return next((p.goodput_per_s for p in self.curve() if p.rate_per_s == self.passed_per_s), None)

    def document(self) -> dict[str, object]:
        """Plain values for a result."""
        knee = self.knee()
        return {
            "passed_per_s": self.passed_per_s,
            "failed_per_s": self.failed_per_s,
            "failed_outcome": self.failed_outcome.value if self.failed_outcome else None,
            "confirmed": self.confirmed,
            "goodput_per_s": self.goodput_per_s(),
            "knee_per_s": knee.rate_per_s if knee else None,
            "seconds": self.seconds,
            "note": self.note,
            "curve": [probe.document() for probe in self.curve()],
            "probes": [probe.document() for probe in self.probes],
        }


@dataclass(frozen=True, slots=True)
class SearchRule:
    """How exact, how sure, how long."""

    tolerance: float = 0.05
    confidence: Confidence = field(default_factory=Confidence)
    first_requests: int | None = None
    """Requests at the first look; None: a few more than could pass the bounds if none were late."""
    max_requests: int = 400 * 2**10
    min_seconds: float = 0.0
    """Each probe lasts at least so long."""
    max_probes: int = 30
    max_seconds: float = math.inf
    """No probe is begun, and none lengthened, beyond this."""

    def __post_init__(self) -> None:
        if not 0 < self.tolerance <= 1:
            raise ValueError(f"tolerance {self.tolerance} must lie between 0 and 1, such as 0.05")


def find_saturation(
    start: Start, ceiling_per_s: float, bounds: LatencyBound | Sequence[LatencyBound], rule: SearchRule | None = None
) -> Saturation:
    """Search below a completion-rate ceiling for the largest rate at which every bound holds."""
    if not (math.isfinite(ceiling_per_s) and ceiling_per_s > 0):
        raise ValueError(f"completion-rate ceiling {ceiling_per_s} /s must be positive")
    several = (bounds,) if isinstance(bounds, LatencyBound) else tuple(bounds)
    if not several:
        raise ValueError("a saturation search needs at least one bound")
    return _Search(start, ceiling_per_s, several, rule or SearchRule()).run()


@dataclass
class _Search:
    start: Start
    ceiling_per_s: float
    bounds: tuple[LatencyBound, ...]
    rule: SearchRule
    probes: list[Judged] = field(default_factory=list)

    def run(self) -> Saturation:
        self._scout()
        while self._may_go_on():
            rate = self._next_rate()
            if rate is None:
                break
            self._ask(rate)
        passed, failed = self._passed(), self._failed()
        confirmed = passed is not None and self._passes(passed) >= 2
        note = self._note(passed, failed, confirmed)
        return Saturation(
            passed,
            failed.rate_per_s if failed else None,
            failed.outcome if failed else None,
            confirmed,
            tuple(self.probes),
            note,
        )

    # --- what has been seen ------------------------------------------------------------------------------------------

    def _estimate(self) -> CapacityEstimate:
        return estimate_capacity([(p.rate_per_s, p.shares) for p in self.probes], self.ceiling_per_s)

    def _failed(self) -> Judged | None:
        """The smallest rate that did not pass: a rate that passed once and did not later, did not."""
        decided = [p for p in self.probes if p.outcome is ProbeOutcome.FAIL or not (p.scout or p.holds)]
        return min(decided, key=lambda p: (p.rate_per_s, p.outcome is not ProbeOutcome.FAIL), default=None)

    def _passed(self) -> float | None:
        """The largest rate that passed below every rate that did not."""
        failed = self._failed()
        rates = [p.rate_per_s for p in self.probes if p.holds]
        return max((rate for rate in rates if failed is None or rate < failed.rate_per_s), default=None)

    def _passes(self, rate_per_s: float) -> int:
        return sum(p.rate_per_s == rate_per_s and p.holds for p in self.probes)

    def _left_s(self) -> float:
        return self.rule.max_seconds - sum(probe.seconds for probe in self.probes)

    # --- what to ask next --------------------------------------------------------------------------------------------

    def _scout(self) -> None:
        for _ in range(MOST_SCOUTS):
            if not self._may_go_on():
                return
            estimate = self._estimate()
            if self.probes and estimate.spread <= SCOUTED * self.rule.tolerance:
                return
            self._ask(min(estimate.rate_per_s, self.ceiling_per_s), scout=True)

    def _next_rate(self) -> float | None:
        """A rate to decide, or None when a confirmed pair is close enough."""
        passed, failed = self._passed(), self._failed()
        decided = any(not probe.scout for probe in self.probes)
        under = (AIM if decided else FIRST_AIM) * self.rule.tolerance
        aim = min(self._estimate().rate_per_s * (1 - under), self.ceiling_per_s)
        if passed is None:
            return min(aim, failed.rate_per_s * (1 - STEP_DOWN * self.rule.tolerance)) if failed else aim
        if failed is None and passed >= self.ceiling_per_s:
            return None if self._passes(passed) >= 2 else passed
        if failed is None or failed.rate_per_s / passed - 1 > self.rule.tolerance * 1.0001:
            upper = passed * (1 + UPPER_AIM * self.rule.tolerance)
            if aim > upper:  # the curve says that the capacity is well above what has passed
                return aim if failed is None else min(aim, math.sqrt(passed * failed.rate_per_s))
            return min(upper, self.ceiling_per_s)
        return None if self._passes(passed) >= 2 else passed

    def _may_go_on(self) -> bool:
        return len(self.probes) < self.rule.max_probes and self._left_s() > 0

    # --- one probe ---------------------------------------------------------------------------------------------------

    def _ask(self, rate_per_s: float, *, scout: bool = False) -> None:
        rule = self.rule
        fewest = rule.first_requests or fewest_requests(self.bounds, rule.confidence)
        first = max(fewest, math.ceil(rule.min_seconds * rate_per_s))
        affordable = self._affordable_s(rate_per_s, scout) * rate_per_s
        if scout:  # it need not be able to pass, and a slow server must not lose its budget to the first look
            first = max(int(min(first, affordable)), SHORTEST_SCOUT)
        longest = min(self._longest(rate_per_s, first, scout), affordable)
        unasked, most = (longest, longest) if scout else (UNASKED * longest, min(rule.max_requests, affordable))
        stream = self.start(rate_per_s)
        parts: list[Float64] = []
        taken, target = 0, first
        look: Look | None = None
        while True:
            part = np.asarray(stream.take(target - taken), dtype=np.float64)
            parts.append(part.reshape(len(part), -1))
            taken = target
            look = judge(
                np.concatenate(parts),
                self.bounds,
                utilisation=rate_per_s / self.ceiling_per_s,
                before=look,
                confidence=rule.confidence,
            )
            enough = scout and min(share.effective for share in look.shares) >= SCOUT_EFFECTIVE
            if (
                look.outcome is not ProbeOutcome.UNDECIDED
                or enough
                or taken * 2 > (most if would_pass(look, rule.confidence) else unasked)
                or self._hopeless(rate_per_s, look)
            ):
                break
            target = taken * 2
        self.probes.append(_describe(rate_per_s, np.concatenate(parts), look, stream.end(), scout, self.bounds))

    def _longest(self, rate_per_s: float, first: int, scout: bool) -> float:
        if scout:
            return float(first * 2 ** (SCOUT_LOOKS - 1))
        most = self.rule.max_requests
        if self._passes(rate_per_s):
            return most / 2
        claimed = [p for p in self.probes if p.holds and p.rate_per_s < rate_per_s]
        if not claimed:
            return most / 4  # where that does not pass, a rate a little lower decides sooner
        memory = memory_floor(rate_per_s / self.ceiling_per_s)
        longer = max(p.requests * memory / memory_floor(p.rate_per_s / self.ceiling_per_s) for p in claimed)
        return min(most / 2, max(UPPER_LENGTH * longer, self._telling_requests()))

    def _affordable_s(self, rate_per_s: float, scout: bool) -> float:
        """What one probe may take of the seconds that are left: the ones after it need theirs."""
        if scout:
            return self._left_s() * SCOUT_SHARE
        return self._left_s() * (1 if self._passes(rate_per_s) else PROBE_SHARE)

    def _telling_requests(self) -> float:
        """Independent requests that tell the allowed share from one a little under it."""
        return max((TELLING_SIGMAS / TELLING) ** 2 * (1 - b.violations) / b.violations for b in self.bounds)

    def _hopeless(self, rate_per_s: float, look: Look) -> bool:
        """Whether all probes with this one say that the capacity is lower, so that more requests would not pass it."""
        probes = [*((p.rate_per_s, p.shares) for p in self.probes), (rate_per_s, look.shares)]
        return estimate_capacity(probes, self.ceiling_per_s).high_per_s * HOPE < rate_per_s

    def _note(self, passed: float | None, failed: Judged | None, confirmed: bool) -> str:
        if passed is None:
            return "no rate passed within the budget: nothing is claimed"
        if not confirmed:
            return "the claim was not confirmed by a second probe within the budget"
        if failed is None:
            return "no rate failed up to the completion-rate ceiling"
        if failed.rate_per_s / passed - 1 > self.rule.tolerance * 1.001:
            return f"the pair is {failed.rate_per_s / passed - 1:.0%} apart: the budget ended before it was closer"
        if failed.outcome is not ProbeOutcome.FAIL:
            return "the upper rate was not shown to hold, nor to fail"
        return ""


def _describe(
    rate_per_s: float, latencies_s: Float64, look: Look, seconds: float, scout: bool, bounds: Sequence[LatencyBound]
) -> Judged:
    limits = np.array([bound.limit_s for bound in bounds])
    met = float((latencies_s <= limits).all(axis=1).mean())
    first = latencies_s[:, 0]
    return Judged(
        rate_per_s=rate_per_s,
        outcome=look.outcome,
        why=look.why,
        scout=scout,
        requests=len(latencies_s),
        seconds=seconds,
        shares=look.shares,
        p50_s=float(np.quantile(first, 0.5, method="higher")),
        p99_s=float(np.quantile(first, 0.99, method="higher")),
        goodput_per_s=rate_per_s * met,
    )
