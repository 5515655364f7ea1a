"""What a saturation search comes to: every probe with its verdict, the pair, and which disturbances it could miss."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lynxbench.load.saturation_curve import find_knee
from lynxbench.load.saturation_judge import LatencyBound, Look, ProbeOutcome, Share
from lynxbench.model.samples import Float64

UNSEEN = 3.0
"""The rule of three: what comes less often than this many times in the time watched stays unseen in 5 % of searches."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One probe, judged: a point of the throughput-latency curve."""

    rate_per_s: float
    outcome: ProbeOutcome
    why: str
    scout: bool
    """Short, to find the way: it shows nothing by itself."""
    requests: int
    seconds: float
    shares: tuple[Share, ...]
    p50_s: float
    p99_s: float
    goodput_per_s: float
    """Requests a second that met every bound."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """The pair, and every probe that led to it. A missing end says why in `note`."""

    passed_per_s: float | None
    failed_per_s: float | None
    """The smallest rate over the claim that was shown to fail. One that was not decided bounds nothing."""
    confirmed: bool
    """Whether a follow-up run at the claimed rate met every bound, and all probes together show that it holds."""
    probes: tuple[Judged, ...]
    note: str
    undecided_per_s: float | None = None
    """The smallest rate over the claim that came to no verdict."""
    at_least_per_s: float | None = None
    """The highest rate that is shown to hold by its own probes, confirmed or not; None where none is."""

    @property
    def failed_outcome(self) -> ProbeOutcome | None:
        """That of the upper end: it failed, or there is none."""
        return None if self.failed_per_s is None else ProbeOutcome.FAIL

    @property
    def watched_s(self) -> float:
        """Seconds for which the claimed rate was asked."""
        return sum(probe.seconds for probe in self.probes if probe.rate_per_s == self.passed_per_s and not probe.scout)

    @property
    def rarest_s(self) -> float | None:
        """What happens less often than once in so many seconds may not have been seen; None without a claim."""
        return None if self.passed_per_s is None else self.watched_s / UNSEEN

    @property
    def seconds(self) -> float:
        """All probe seconds together."""
        return sum(probe.seconds for probe in self.probes)

    def curve(self) -> tuple[Judged, ...]:
        """The throughput-latency curve: the longest probe at each rate, by rate, with the last verdict on that rate."""
        at_rate: dict[float, list[Judged]] = {}
        for probe in self.probes:
            at_rate.setdefault(probe.rate_per_s, []).append(probe)
        longest = {rate: max(probes, key=lambda probe: probe.requests) for rate, probes in at_rate.items()}
        return tuple(replace(longest[rate], outcome=at_rate[rate][-1].outcome) for rate in sorted(longest))

    def knee(self) -> Judged | None:
        """Where the p99 latency starts to rise faster than the rate; None where the curve does not bend."""
        curve = self.curve()
        place = find_knee([probe.rate_per_s for probe in curve], [probe.p99_s for probe in curve])
        return None if place is None else curve[place]

    def goodput_per_s(self) -> float | None:
        """Requests a second within every bound at the claimed rate."""
        return next((p.goodput_per_s for p in self.curve() if p.rate_per_s == self.passed_per_s), None)


def met_for_a_while(probes: Sequence[Judged]) -> str:
    """Of a search that shows nothing: the highest rate that met its bounds as long as it was asked, and why that is
    no claim; nothing where a rate missed one, at it or under it."""
    asked: dict[float, list[Judged]] = {}
    for probe in probes:
        if not probe.scout:
            asked.setdefault(probe.rate_per_s, []).append(probe)
    met: list[Judged] = []
    for rate in sorted(asked):
        columns = zip(*(probe.shares for probe in asked[rate]), strict=True)
        if any(sum(one.late for one in own) > own[0].bound.violations * sum(o.counted for o in own) for own in columns):
            break
        met = asked[rate]
    if not met:
        return ""
    late = max(round(sum(share.late for share in own)) for own in zip(*(p.shares for p in met), strict=True))
    counted, rate = sum(probe.shares[0].counted for probe in met), met[0].rate_per_s
    together_s = max(share.correlation_requests for probe in met for share in probe.shares) / rate
    return (
        f"; at {rate:.4g} /s {late or 'none'} of {counted} requests {'were' if late > 1 else 'was'} late in "
        f"{counted / rate:.0f} s, which is no claim: slow ones come together, here for about {together_s:.2g} s"
    )


def describe(
    rate_per_s: float,
    latencies_s: Float64,
    look: Look,
    seconds: float,
    scout: bool,
    bounds: Sequence[LatencyBound],
) -> Judged:
    """A probe that has ended, with its outcome."""
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
