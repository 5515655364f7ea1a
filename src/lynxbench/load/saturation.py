"""The largest rate whose objective holds, and the smallest where it does not: found by few, self-ending probes.

Pure: a probe is anything that can be asked for more arrivals at a rate (probe_stream.py makes one of the load
driver). Short scouts place the capacity on a curve; a claim just under it, and a rate above it that fails, are each
decided by what all probes say together. The method stands in docs/methodology/saturation.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lynxbench.load.saturation_curve import LOWEST
from lynxbench.load.saturation_judge import (
    LOOK_GROWTH,
    PROSPECT,
    LatencyBound,
    Look,
    ProbeOutcome,
    fewest_requests,
    judge,
    prospect,
)
from lynxbench.load.saturation_pool import SeenRates, is_broken, is_met
from lynxbench.load.saturation_result import Saturation, describe, met_for_a_while
from lynxbench.load.saturation_stream import SoFar, Start
from lynxbench.load.search_rule import Purpose, SearchRule

AIM = 0.6
"""How far under the estimated capacity a pass is looked for, in tolerances: nearer, a probe takes several times as long
to decide."""
FIRST_AIM = 0.8
"""The same as long as only scouts were run: they start with an empty queue, and so place the capacity 1 to 3 % high."""
CLOSE = 0.95
"""A first claim lies so many tolerances under a ceiling that is the highest, where none was late: a pair with it."""
REACH = 0.9
"""A limit that was far away at this part of that rate is taken to be far away at it, until it was asked."""
STEP_DOWN, STEP_GROWTH = 0.5, 1.5
"""From a rate that did not pass to the next that may, in tolerances; and by how much each further step is longer."""
GRID = 0.25
"""Rates are looked through in steps of so many tolerances for one that can be decided with the requests at hand."""
BETTER = 0.5
"""A higher claim is tried for where it would be higher by so many tolerances."""
MOST_APART = 0.1
"""A pair wider than this, and than the tolerance, is halved where no rate is foreseen to tell."""
MARGIN = 2.0
"""A rate is asked where it is expected to be decided with the requests at hand, by this margin: the curve is rough."""
MOST_NARROWING = 4.0
"""Probes that narrow the pair may take so many times the claim's seconds; then it is left as wide as it is."""
WATCH_S, WATCH_SHARE, NONE_LATE_SHARE = 120.0, 0.25, 1 / 3
"""A claim is watched for so many seconds, or this share of the search's: disturbances keep to the clock. For the larger
share where none was late yet at any rate: a pass by distance is quick."""
AGAIN = 0.25
"""A probe of a claim has at least this share of what the claim rests on, and the follow-up this share of the first; a
rate that failed is asked again unless bounds were missed, at it or under it, for this share of the claim's time."""
UNASKED, FEW = 0.125, 0.25
"""A probe is doubled without question up to the one part of the most requests that it may have; beyond, only where it
would be decided with PROSPECT times the requests and the same share of late ones, or with the most that it may have
where only the other part of the allowed share is late."""
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
SCOUT_SHARE, SCOUTS_SHARE = 0.06, 0.25
"""Of the seconds left, a scout may be lengthened to this share; all scouts together may take that one."""
PROBE_SHARE, FOLLOW_UP_SHARE = 0.4, 0.95
"""The same for a claim or the rate above it, and for the follow-up of a claim."""


def find_saturation(
    start: Start,
    ceiling_per_s: float,
    bounds: LatencyBound | Sequence[LatencyBound],
    rule: SearchRule | None = None,
    so_far: SoFar | None = None,
    *,
    is_highest: bool = False,
) -> Saturation:
    """Search below a completion-rate ceiling for the largest rate at which every bound holds.

    `is_highest`: more requests in flight were seen to complete no faster, so that the ceiling is itself an upper end.
    """
    if not (math.isfinite(ceiling_per_s) and ceiling_per_s > 0):
        raise ValueError(f"completion-rate ceiling {ceiling_per_s} /s must be positive")
    several = (bounds,) if isinstance(bounds, LatencyBound) else tuple(bounds)
    if not several:
        raise ValueError("a saturation search needs at least one bound")
    rule = rule or SearchRule()
    return _Search(start, rule, SeenRates(ceiling_per_s, several, rule.confidence, is_highest=is_highest), so_far).run()


@dataclass
class _Search:
    start: Start
    rule: SearchRule
    seen: SeenRates
    so_far: SoFar | None = None
    held: list[float] = field(default_factory=list)
    """Rates whose follow-up held."""

    def run(self) -> Saturation:
        self._scout()
        while self._may_go_on() and (step := self._next_step()) is not None and self._is_affordable(*step):
            self._ask(*step)
        return self._result()

    # --- what has been seen ------------------------------------------------------------------------------------------

    @property
    def _is_timed(self) -> bool:
        return math.isfinite(self.rule.max_seconds)

    @property
    def _spent_s(self) -> float:
        return sum(probe.seconds for probe in self.seen.probes)

    @property
    def _left_s(self) -> float:
        return max(self.rule.max_seconds - self._spent_s, 0.0)

    def _claims(self) -> list[float]:
        """Rates that passed, or would with what is left; not lost, nor overruled by all probes together."""
        rates = {probe.rate_per_s for probe in self.seen.probes if not probe.scout} - set(self.seen.lost)
        return sorted(
            rate
            for rate in rates
            if (self.seen.has_passed(rate) or self._is_promising(rate)) and is_met(self.seen.pooled(rate))
        )

    def _is_promising(self, rate_per_s: float) -> bool:
        """Whether a claim that ran out of its seconds would pass with as many as are left for its follow-up."""
        if not self._is_timed:
            return False
        growth = 1 + self._affordable(rate_per_s, Purpose.FOLLOW_UP) / self.seen.asked(rate_per_s)
        ahead = prospect(self.seen.pooled(rate_per_s), self.seen.to_pass, self.rule.confidence, growth)
        return ahead is ProbeOutcome.PASS

    def _fails_surely(self, rate_per_s: float, claim_per_s: float) -> bool:
        """Whether it was asked twice, or bounds were missed for long at it and at rates between the claim and it."""
        missed_s = self.seen.missed_s(claim_per_s, rate_per_s)
        return len(self.seen.at(rate_per_s)) > 1 or missed_s >= AGAIN * self.seen.watched_s(claim_per_s)

    # --- what to ask next --------------------------------------------------------------------------------------------

    def _scout(self) -> None:
        for _ in range(MOST_SCOUTS):
            estimate = self.seen.estimate()
            spent_s = self._spent_s + self.seen.beside_s()
            if not self._may_go_on() or (self._is_timed and spent_s >= SCOUTS_SHARE * self.rule.max_seconds):
                return
            if self.seen.probes and estimate.spread <= SCOUTED * self.rule.tolerance:
                return
            self._ask(min(estimate.rate_per_s, self.seen.ceiling_per_s), Purpose.SCOUT)

    def _next_step(self) -> tuple[float, Purpose] | None:
        """A rate and what to ask it for, or None when a confirmed pair is close enough, or nothing more is decided."""
        claims = self._claims()
        if not claims:
            rate = self._claim_rate()
            return None if rate is None else (rate, Purpose.CLAIM)
        claim = claims[-1]
        fails, is_held = self.seen.fails(claim), claim in self.held
        narrower = self._narrower(claims, fails) if is_held or not self._is_timed else None
        if narrower is not None:
            return narrower
        if not is_held:
            return claim, Purpose.FOLLOW_UP
        if fails and not self._fails_surely(fails[0], claim):
            return fails[0], Purpose.UPPER
        return None

    def _narrower(self, claims: Sequence[float], fails: Sequence[float]) -> tuple[float, Purpose] | None:
        """What would bring the two ends of the pair nearer to each other, where they are not near enough."""
        claim_per_s, tolerance = claims[-1], self.rule.tolerance
        uppers = [*fails[:1], *([self.seen.highest_per_s] if self.seen.is_highest else [])]
        if claim_per_s >= self.seen.ceiling_per_s or any(u / claim_per_s - 1 <= tolerance * 1.0001 for u in uppers):
            return None
        elsewhere_s = sum(p.seconds for p in self.seen.probes if not p.scout and p.rate_per_s > claim_per_s)
        if fails and elsewhere_s > MOST_NARROWING * self.seen.watched_s(claim_per_s):
            return None
        step = tolerance * 2 ** max(0, len(claims) - 2)  # one that passes time and again was placed far too low
        better = self._claim_rate()
        if len(claims) <= 2 and better is not None and better > claim_per_s * (1 + BETTER * tolerance):
            return better, Purpose.CLAIM
        nearest = min([*fails, *self.seen.undecided(claim_per_s)], default=self.seen.ceiling_per_s)
        upper = self._upper_rate(claim_per_s, fails, step)
        if upper is None and nearest > claim_per_s * (1 + max(MOST_APART, tolerance)):
            upper = math.sqrt(claim_per_s * nearest)  # nothing is foreseen to tell: the middle may
        return None if upper is None else (upper, Purpose.UPPER)

    def _near_ceiling(self) -> float:
        """The rate that is a pair with the highest ceiling, as long as nothing else bounds it; 0 otherwise."""
        if not self.seen.is_highest or self.seen.any_late():
            return 0.0
        return self.seen.highest_per_s / (1 + CLOSE * self.rule.tolerance)

    def _claim_rate(self) -> float | None:
        """The highest rate under the estimate and under what was lost that would pass with the requests at hand.

        Where none was late yet a far lower one is worth little: then the rate counts, times the part that is at hand.
        """
        estimate, tolerance = self.seen.estimate(), self.rule.tolerance
        under = (AIM if any(not probe.scout for probe in self.seen.probes) else FIRST_AIM) * tolerance
        near = self._near_ceiling()
        if near and not self.seen.lost and MARGIN * self.seen.cost_to_pass(near, REACH) <= self._at_hand(near):
            return near
        rate = min(estimate.rate_per_s * (1 - under), self.seen.ceiling_per_s)
        step = STEP_DOWN * tolerance * STEP_GROWTH ** max(0, len(self.seen.lost) - 1)
        blocked = [*self.seen.lost, *(rate for rate in self.seen.fails(0.0) if self.seen.at(rate))]
        rate = min([rate, *(other * (1 - min(step, 0.5)) for other in blocked)])
        lowest = LOWEST * self.seen.ceiling_per_s
        surprises = len(self.seen.lost) if self._is_timed and not self.held else 0  # what was foreseen cost more
        choice, best, any_late = None, 0.0, self.seen.any_late()
        while rate >= lowest:
            part = MARGIN ** (1 + surprises) * self.seen.cost_to_pass(rate) / max(self._at_hand(rate), 1.0)
            worth = (1.0 if any_late else rate) / max(part, 1.0)
            if worth > best:
                choice, best = rate, worth
            if part <= 1:
                break
            rate *= 1 - GRID * tolerance
        return choice

    def _upper_rate(self, claim_per_s: float, fails: Sequence[float], step: float) -> float | None:
        """The lowest rate over a claim that would tell: fail, or pass and become the claim."""
        tolerance = self.rule.tolerance
        undecided = [other * (1 + 2 * GRID * tolerance) for other in self.seen.undecided(claim_per_s)]
        rate = max([claim_per_s * (1 + step), *undecided])
        highest = fails[0] * (1 - GRID * tolerance) if fails else self.seen.ceiling_per_s
        most = max(self.seen.asked(claim_per_s), self.seen.telling())
        while rate < highest:
            cost = min(self.seen.cost_to_fail(rate), self.seen.cost_to_pass(rate))
            if MARGIN * cost <= min(self._affordable(rate, Purpose.UPPER), most):
                return rate
            rate *= 1 + GRID * tolerance
        return highest if not fails and highest > max([claim_per_s, *undecided]) else None

    def _may_go_on(self) -> bool:
        return len(self.seen.probes) < self.rule.max_probes and self._left_s > 0

    # --- one probe ---------------------------------------------------------------------------------------------------

    def _affordable(self, rate_per_s: float, purpose: Purpose) -> float:
        """Requests that a probe may have: of those allowed, and of the seconds that are left."""
        share = {Purpose.SCOUT: SCOUT_SHARE, Purpose.FOLLOW_UP: FOLLOW_UP_SHARE}.get(purpose, PROBE_SHARE)
        return min(self.rule.max_requests, self._left_s * share * rate_per_s)

    def _at_hand(self, rate_per_s: float) -> float:
        """Requests that a claim may have, less those of the time in which its clients start and its answers end."""
        return self._affordable(rate_per_s, Purpose.CLAIM) - self.seen.beside_s() * rate_per_s

    def _is_affordable(self, rate_per_s: float, purpose: Purpose) -> bool:
        """Whether it could come to a verdict in the seconds that are left."""
        return self._affordable(rate_per_s, purpose) >= max(self._to_watch(rate_per_s, purpose), SHORTEST_SCOUT)

    def _to_watch(self, rate_per_s: float, purpose: Purpose) -> float:
        """Requests without which a probe comes to no verdict: none ends on the luck of one window."""
        if purpose is Purpose.SCOUT:
            return 0.0
        # a window shorter than those that undid earlier claims would have passed them too
        whole = max([self.seen.telling(), WATCH_S * rate_per_s, *map(self.seen.asked, self.seen.lost)])
        share = WATCH_SHARE if self.seen.any_late() else NONE_LATE_SHARE
        whole = min(whole, share * self.rule.max_seconds * rate_per_s, self.rule.max_requests / 2)
        if purpose is not Purpose.FOLLOW_UP:
            return AGAIN * whole
        asked = self.seen.asked(rate_per_s)
        return min(max(whole - asked, AGAIN * whole, AGAIN * asked), 0.95 * self._affordable(rate_per_s, purpose))

    def _first_look(self, rate_per_s: float, purpose: Purpose, most: float) -> int:
        """Where the first look comes: at half of what a verdict needs, to see whether the memory settles."""
        shortest = math.ceil(self.rule.min_seconds * rate_per_s)
        first = max(fewest_requests(self.seen.bounds, self.rule.confidence), shortest)
        if purpose is Purpose.SCOUT:  # it need not be able to pass; a slow server must not lose its budget to it
            return max(int(min(first, most)), SHORTEST_SCOUT)
        goal = min(max(self._to_watch(rate_per_s, purpose), first), most)
        if self._is_timed:  # doubling ends where the seconds do
            goal = most / 2 ** math.floor(math.log2(most / goal))
        return max(math.ceil(goal / 2), shortest, SHORTEST_SCOUT)

    def _ask(self, rate_per_s: float, purpose: Purpose) -> None:
        scout, most = purpose is Purpose.SCOUT, self._affordable(rate_per_s, purpose)
        wanted, to_watch = self._first_look(rate_per_s, purpose, most), self._to_watch(rate_per_s, purpose)
        if scout:
            most = min(most, wanted * 2 ** (SCOUT_LOOKS - 1))
        stream = self.start(rate_per_s)
        latencies = np.empty((0, len(self.seen.bounds)))
        looks: list[Look] = []
        while True:
            part = np.asarray(stream.take(wanted - len(latencies)), dtype=np.float64)
            latencies = np.concatenate((latencies, part.reshape(len(part), -1)))
            look = judge(
                latencies,
                self.seen.bounds,
                utilisation=rate_per_s / self.seen.ceiling_per_s,
                rate_per_s=rate_per_s,
                before=looks[-2] if len(looks) > 1 else None,
                confidence=self.rule.confidence,
            )
            looks.append(look)
            is_watched = wanted >= 0.99 * to_watch
            outcome = self._outcome(rate_per_s, purpose, look) if is_watched else ProbeOutcome.UNDECIDED
            if outcome is ProbeOutcome.PASS and len(looks) % 2 == 0:  # each more look is one more chance of luck
                outcome = ProbeOutcome.UNDECIDED
            if outcome is not ProbeOutcome.UNDECIDED or LOOK_GROWTH * wanted > 1.01 * most:
                break
            if is_watched and not self._is_worth_more(rate_per_s, purpose, look, wanted):
                break
            wanted = math.ceil(LOOK_GROWTH * wanted)
        look = replace(look, outcome=outcome)
        self.seen.probes.append(describe(rate_per_s, latencies, look, stream.end(), scout, self.seen.bounds))
        if outcome is ProbeOutcome.PASS and purpose is Purpose.FOLLOW_UP:
            self.held.append(rate_per_s)
        elif outcome is not ProbeOutcome.PASS and (
            purpose is Purpose.FOLLOW_UP or (purpose is Purpose.CLAIM and not self._is_promising(rate_per_s))
        ):
            self.seen.lost.append(rate_per_s)
        if self.so_far is not None:
            self.so_far(self._result())

    def _outcome(self, rate_per_s: float, purpose: Purpose, look: Look) -> ProbeOutcome:
        """The look's own, or where it has none that of all probes together; a follow-up is judged by all together."""
        own = look.outcome is not ProbeOutcome.UNDECIDED and purpose is not Purpose.FOLLOW_UP
        if own or purpose is Purpose.SCOUT:
            return look.outcome
        shares = self.seen.pooled(rate_per_s, look.shares)
        if is_broken(shares) and not is_met(look.shares):
            return ProbeOutcome.FAIL
        holds = all(share.settled and share.interval.high <= share.bound.violations for share in shares)
        holds = holds and purpose is Purpose.FOLLOW_UP and is_met(look.shares)
        return ProbeOutcome.PASS if holds else ProbeOutcome.UNDECIDED

    def _is_worth_more(self, rate_per_s: float, purpose: Purpose, look: Look, asked: int) -> bool:
        """Whether a probe without a verdict after so many requests should go on."""
        if purpose is Purpose.SCOUT:
            return min(share.effective for share in look.shares) < SCOUT_EFFECTIVE
        if purpose is not Purpose.UPPER and self._is_hopeless(rate_per_s, look):
            return False
        if 2 * asked <= UNASKED * self.rule.max_requests:
            return True
        shares = self.seen.pooled(rate_per_s, look.shares) if purpose is Purpose.FOLLOW_UP else look.shares
        # with few late ones their memory holds a verdict up, and a lower rate would hardly have a shorter one
        few = all(share.interval.estimate <= FEW * share.bound.violations for share in shares)
        growth = self.rule.max_requests / asked if few else PROSPECT
        ahead = prospect(shares, self.rule.confidence.to_pass(look.number + 2), self.rule.confidence, growth)
        return ahead is ProbeOutcome.PASS or (purpose is Purpose.UPPER and ahead is ProbeOutcome.FAIL)

    def _is_hopeless(self, rate_per_s: float, look: Look) -> bool:
        """Whether all probes with this one say that the capacity is lower, so that more requests would not pass it."""
        return self.seen.estimate(rate_per_s, look.shares).high_per_s * HOPE < rate_per_s

    # --- what it comes to --------------------------------------------------------------------------------------------

    def _result(self) -> Saturation:
        claims = self._claims()
        confirmed = [rate for rate in claims if rate in self.held]
        passed = max(confirmed or [rate for rate in claims if self.seen.has_passed(rate)], default=None)
        fails = self.seen.fails(passed or 0.0)
        sure = [rate for rate in fails if passed is not None and self._fails_surely(rate, passed)]
        failed = next(iter(sure or fails), None)
        undecided = [rate for rate in self.seen.undecided(passed or 0.0) if failed is None or rate < failed]
        at_least = passed if confirmed else self.seen.shown()
        note = self._note(passed, failed, bool(confirmed), at_least)
        probes, between = tuple(self.seen.probes), min(undecided, default=None)
        return Saturation(passed, failed, bool(confirmed), probes, note, between, at_least)

    def _note(self, passed: float | None, failed: float | None, confirmed: bool, at_least: float | None) -> str:
        if passed is None:
            seen = met_for_a_while(self.seen.probes)
            return f"no rate passed within the budget: nothing is claimed{seen}{self._needed(self._claim_rate())}"
        if not confirmed:
            shown = "" if at_least is None else f"holds at least {at_least:.4g} /s, not shown beyond: "
            return f"{shown}the claim was not confirmed by a follow-up within the budget{self._needed(passed)}"
        if failed is None and self.seen.is_highest:
            above = self.seen.highest_per_s / passed - 1
            return f"no rate was shown to fail: the upper end is what the server completes at most, {above:.0%} above"
        if failed is None:
            return "no rate was shown to fail up to the completion-rate ceiling"
        wide = failed / passed - 1 > self.rule.tolerance * 1.001
        return f"the pair is {failed / passed - 1:.0%} apart: what lies between was not decided" if wide else ""

    def _needed(self, rate_per_s: float | None) -> str:
        """How much more time a confirmed claim would take, where time is what was missing."""
        if rate_per_s is None or not self._is_timed:
            return ""
        cost = self.seen.cost_to_pass(rate_per_s)
        whole_s = self._spent_s + max(2 * cost - self.seen.asked(rate_per_s), 0.0) / rate_per_s
        one_s = cost / rate_per_s + self.seen.beside_s()  # one window must be that long, and gets its share alone
        # what was not enough is not said to be
        whole_s = max(whole_s, one_s / PROBE_SHARE / (1 - SCOUTS_SHARE), LOOK_GROWTH * self.rule.max_seconds)
        return f"; a budget of about {float(f'{whole_s:.2g}'):.9g} s would decide it" if math.isfinite(whole_s) else ""
