"""Five questions before hardware is bought, each answered from evidence, or the command that would answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import NamedTuple

from lynxbench.decide.usable_figures import is_usable, newest
from lynxbench.decide.whatif import gain_words
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.canonical import short
from lynxbench.model.decisions import (
    UNANSWERED_LIMIT,
    WITHOUT_DIAGNOSTIC,
    FollowUp,
    PurchaseAnswer,
    PurchaseDecision,
    WhatIf,
)
from lynxbench.model.evidence_gate import Shortfall, cause_falls_short, is_steady
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.layers import Layer
from lynxbench.model.plain_numbers import plain
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.workload import SaturatingArrival

SAME_CEILING = 0.10
"""Two ceilings are the same within this, and another beyond it: two pairs of 5 % each cannot show less."""
TITLES = ("saturation today", "where time goes", "swap against fix", "test instance", "re-measurement")
QUESTIONS = (
    "What does today's hardware sustain at the production saturation point?",
    "Where does the time go?",
    "If the problem is software-shaped: what would the swap gain, and what would the software fix?",
    "Does the same workload reach a higher saturation on a test instance of the proposed hardware, or the same?",
    "Who re-measures after the swap, and against which baseline?",
)


@dataclass(frozen=True, slots=True)
class PurchaseProposal:
    """What somebody wants to buy, and what is known about it."""

    device: str
    today: Sequence[Result]
    tested: Sequence[Result]
    """Results of the same contract on a test instance."""
    whatif: WhatIf | None
    why_no_whatif: str = ""
    unshown: str = ""
    """Why nothing but the person who named it says that a test instance is one of the proposed device."""
    remeasured_by: str | None = None
    due: str | None = None
    contract: str = ""
    """How the contract is called in commands."""


@dataclass(frozen=True, slots=True)
class SaturationPoint:
    """What one result held at its saturation."""

    result: Result
    figures: PrecisionResult
    low: float
    high: float
    words: str


class Attributed(NamedTuple):
    """A result, and where its time went at which precision."""

    result: Result
    figures: PrecisionResult
    attribution: Attribution


def decide_purchase(proposal: PurchaseProposal) -> PurchaseDecision:
    """The five answers, what they support, and who measures again."""
    saturated = [result for result in proposal.today if saturation_point(result) is not None]
    baseline = newest(saturated) or newest(proposal.today)
    if baseline is None:
        raise BadInput(f"no result on today's hardware; measure first: lynxbench run {proposal.contract or 'CONTRACT'}")
    today, tested = _newest_point(proposal.today), _newest_point(proposal.tested)
    attributed = _attribution(proposal.today)
    answers = (
        _saturation(today, proposal, baseline),
        _where(attributed, proposal),
        _swap_or_fix(attributed, proposal, baseline),
        _test_instance(today, tested, proposal),
        _remeasure(baseline, proposal),
    )
    open_ones = sum(not answer.answered for answer in answers)
    ratio = saturation_ratio(today, tested)
    supported, because = _supported(open_ones, attributed, proposal, ratio)
    if proposal.unshown and ratio is not None and supported != "undecided":
        supported, because = "undecided", f"{because}{_said_alone(proposal)}"
    cites = dict.fromkeys(name for answer in answers for name in answer.evidence)
    return PurchaseDecision(
        sentence=_sentence(open_ones, supported, because),
        proposed=proposal.device,
        contract_id=baseline.contract_id,
        contract_name=baseline.contract.name,
        question=baseline.contract.question,
        answers=answers,
        diagnosed=open_ones < UNANSWERED_LIMIT,
        supported=supported,  # type: ignore[arg-type]
        because=because,
        follow_up=_follow_up(baseline, proposal, ratio),
        cautions=_cautions(proposal, baseline),
        cites=tuple(cites) or (baseline.result_id,),
    )


def _answer(index: int, says: str, evidence: tuple[str, ...] = (), command: str = "") -> PurchaseAnswer:
    return PurchaseAnswer(
        number=index + 1,
        title=TITLES[index],
        question=QUESTIONS[index],
        answered=not command,
        says=says,
        evidence=evidence,
        command=command,
    )


def _open(index: int, says: str, command: str) -> PurchaseAnswer:
    """An unanswered question, with the command that would answer it."""
    return _answer(index, says, command=command)


def _saturation(today: SaturationPoint | None, proposal: PurchaseProposal, baseline: Result) -> PurchaseAnswer:
    if today is not None:
        return _answer(0, today.words, (today.result.result_id,))
    served = baseline.contract.engine.name in ("openai", "kserve")
    searching = isinstance(baseline.contract.workload.arrival, SaturatingArrival)
    if served and not searching:
        says = "the contract sets one load and searches no saturation"
        return _open(0, says, f"write `arrival: {{process: saturating}}`, then: lynxbench run {proposal.contract}")
    return _open(0, "no valid, steady result", f"lynxbench run {proposal.contract}")


def blameless(attribution: Attribution, shortfall: Shortfall) -> PurchaseAnswer:
    """Where time goes, as an answer that names nobody: its evidence falls short."""
    return _open(1, f"{_largest_shares(attribution)}; nobody is blamed: {shortfall.says}", shortfall.step)


def _largest_shares(attribution: Attribution) -> str:
    top = sorted(attribution.shares.items(), key=lambda item: -item[1])[:2]
    return ", ".join(f"{category.replace('_', ' ')} {share:.0%}" for category, share in top)


def _where(attributed: Attributed | None, proposal: PurchaseProposal) -> PurchaseAnswer:
    if attributed is None:
        return _open(1, "no attribution in any result", f"lynxbench run {proposal.contract}  (it profiles too)")
    result, figures, attribution = attributed
    shares = _largest_shares(attribution)
    if attribution.bound is Bound.UNDETERMINED:
        return _open(1, f"{shares}: undetermined", f"lynxbench trace TRACE --ceilings {short(result.result_id)}")
    short_of = cause_falls_short(result, figures, attribution)
    if short_of:
        return blameless(attribution, short_of[0])
    owner = f" → {attribution.owner}" if attribution.owner else ""
    return _answer(1, f"{shares}: {attribution.bound}-bound{owner}", (result.result_id,))


def _swap_or_fix(attributed: Attributed | None, proposal: PurchaseProposal, baseline: Result) -> PurchaseAnswer:
    name = short(baseline.result_id)
    command = f"lynxbench decide whatif {name} --hardware {quote(proposal.device)} --with-fix"
    if attributed is None:
        return _open(2, "nothing is known about where time goes", f"lynxbench run {proposal.contract}")
    whatif = proposal.whatif
    if whatif is None or whatif.swap is None:
        return _open(2, proposal.why_no_whatif or "no estimate was made", command)
    swap = f"{proposal.device} {gain_words(whatif.swap.gain)}"
    if attributed.attribution.bound is Bound.HARDWARE or whatif.fix is None or whatif.fix.gain.high < 1.02:
        return _answer(2, f"estimate: {swap}; not software-shaped, no fix is known", whatif.cites)
    measured = "".join(
        f"; measured by intervention {gain.estimate:.2f}×" for gain in list(whatif.fix.measured.values())[:1]
    )
    return _answer(2, f"estimate: {swap}; fix {gain_words(whatif.fix.gain)}{measured}", whatif.cites)


def _test_instance(
    today: SaturationPoint | None, tested: SaturationPoint | None, proposal: PurchaseProposal
) -> PurchaseAnswer:
    command = f"on the test instance: lynxbench run {proposal.contract}, then give it with --test RESULT"
    if tested is None:
        return _open(3, f"no result of this contract on {proposal.device}", command)
    if today is None:
        return _open(3, "nothing to hold it against: today's saturation is not measured", command)
    ratio = saturation_ratio(today, tested)
    assert ratio is not None
    told, words = _ceiling(ratio)
    evidence = today.result.result_id, tested.result.result_id
    return _answer(3, f"{tested.words}: {words}{_said_alone(proposal)}", evidence, "" if told else command)


def _remeasure(baseline: Result, proposal: PurchaseProposal) -> PurchaseAnswer:
    if proposal.remeasured_by is None:
        command = f"lynxbench decide purchase --proposed {quote(proposal.device)} --remeasured-by TEAM …"
        return _open(4, "nobody is named", command)
    due = f" by {proposal.due}" if proposal.due else ""
    says = f"{proposal.remeasured_by}, against {short(baseline.result_id)} under the same contract{due}"
    return _answer(4, says, (baseline.result_id,))


def saturation_point(result: Result) -> SaturationPoint | None:
    """The saturation point of a result, where one was shown."""
    for figures in result.per_precision:
        if not is_usable(result, figures):
            continue
        saturation = figures.load.saturation if figures.load is not None else None
        if saturation is not None and saturation.passed_per_s is not None:
            bounds = ", ".join(figures.load.budget) if figures.load is not None else ""
            upper = saturation.upper_per_s or saturation.ceiling_per_s
            lower = saturation.lower_per_s or saturation.passed_per_s
            held = f"{plain(lower)} req/s [{plain(lower)}, {plain(upper)}]"
            if not saturation.confirmed and saturation.at_least_per_s is not None:
                held = f"at least {plain(lower)} req/s, not shown beyond,"
            words = f"{held} within {bounds} ({figures.precision})"
            return SaturationPoint(result, figures, lower, upper, words)
        rate = figures.sustained
        closed = result.contract.engine.name not in ("openai", "kserve")
        if closed and rate is not None and rate.estimate and is_steady(figures):
            low, high = rate.low or rate.estimate, rate.high or rate.estimate
            held = f"{plain(rate.estimate)} {rate.unit} [{plain(low)}, {plain(high)}]"
            words = f"{held} sustained, always busy ({figures.precision})"
            return SaturationPoint(result, figures, low, high, words)
    return None


def _newest_point(results: Sequence[Result]) -> SaturationPoint | None:
    for result in sorted(results, key=lambda candidate: candidate.started_at, reverse=True):
        point = saturation_point(result)
        if point is not None:
            return point
    return None


def _said_alone(proposal: PurchaseProposal) -> str:
    """What is to be told of a test instance that nothing shows to be one."""
    return f"; that this is a {proposal.device} is said by --test alone: {proposal.unshown}" if proposal.unshown else ""


def saturation_ratio(today: SaturationPoint | None, tested: SaturationPoint | None) -> Interval | None:
    """Saturation there over here, at the same precision; the pairs' ends give the bounds."""
    if today is None or tested is None or today.figures.precision is not tested.figures.precision:
        return None if today is None or tested is None else UNKNOWN_INTERVAL
    middle = math.sqrt(tested.low * tested.high) / math.sqrt(today.low * today.high)
    return Interval(tested.low / today.high, middle, tested.high / today.low)


def _ceiling(ratio: Interval) -> tuple[bool, str]:
    """Whether the pairs tell the two ceilings apart or level, and the words for it."""
    if not ratio.known:
        return False, "another precision than today's: not held against it"
    bounds = f"{ratio.estimate:.2f}× [{ratio.low:.2f}, {ratio.high:.2f}]"
    if ratio.inside(1 - SAME_CEILING, 1 + SAME_CEILING):
        return True, f"the same ceiling within {SAME_CEILING:.0%} ({bounds})"
    if ratio.low > 1 + SAME_CEILING or ratio.high < 1 - SAME_CEILING:
        return True, f"{'higher' if ratio.low > 1 else 'lower'}, {bounds} today's"
    return False, f"undetermined: {bounds} today's is neither within {SAME_CEILING:.0%} nor beyond it"


def _attribution(results: Sequence[Result]) -> Attributed | None:
    for result in sorted(results, key=lambda candidate: candidate.started_at, reverse=True):
        attributed = attribution_of(result)
        if attributed is not None:
            return attributed
    return None


def attribution_of(result: Result) -> Attributed | None:
    """Where the time of a result went, and at which precision; None where no usable figures say so."""
    usable = [figures for figures in result.per_precision if is_usable(result, figures)]
    for figures in usable:
        if figures.attribution is not None:
            return Attributed(result, figures, figures.attribution)
    if not usable or result.attribution is None:
        return None
    return Attributed(result, usable[0], result.attribution)


def _supported(
    open_ones: int, attributed: Attributed | None, proposal: PurchaseProposal, ratio: Interval | None
) -> tuple[str, str]:
    if open_ones >= UNANSWERED_LIMIT:
        return "undecided", f"{open_ones} of 5 questions have no evidence"
    software = attributed is not None and attributed.attribution.bound is Bound.SOFTWARE
    measured = ratio is not None and ratio.known
    if measured and ratio is not None and ratio.high <= 1 + SAME_CEILING:
        reason = f"the test instance reaches at most {ratio.high:.2f}× of today's saturation"
        return ("software first", f"{reason}, and software bounds it") if software else ("neither", reason)
    fix = None if proposal.whatif is None else proposal.whatif.fix
    swap = _swap_gain(proposal, ratio)
    if software and fix is not None and swap is not None:
        best = max(fix.measured.values(), key=lambda gain: gain.low, default=fix.gain)
        gains = f"the software fix gains {gain_words(best)}, the swap {gain_words(swap)}"
        if best.low >= swap.high:
            return "software first", f"{gains}, before any money"
        if best.high > swap.low:
            return "undecided", f"{gains}: which of them gains more is undetermined; run the fix, or a test instance"
    if swap is not None and swap.low > 1 + SAME_CEILING:
        gained = f"the swap gains at least {swap.low:.2f}×"
        if software:  # what software wastes here it would waste on faster hardware, too
            return "undecided", f"{gained}, and software bounds it: run the fix, then hold the swap against the rest"
        if not measured:
            return "undecided", f"{gained} by an estimate, which supports no purchase: question 4 would measure it"
        return "purchase", f"{gained}, measured on a test instance; what it costs is asked by lynxbench decide cost"
    return "undecided", "neither the swap nor a fix is shown to gain"


def _swap_gain(proposal: PurchaseProposal, ratio: Interval | None) -> Interval | None:
    """What the swap gains: measured on a test instance, or estimated."""
    if ratio is not None and ratio.known:
        return ratio
    return None if proposal.whatif is None or proposal.whatif.swap is None else proposal.whatif.swap.gain


def _follow_up(baseline: Result, proposal: PurchaseProposal, ratio: Interval | None) -> FollowUp | None:
    expected = _swap_gain(proposal, ratio)
    if proposal.remeasured_by is None or expected is None:
        return None
    return FollowUp(
        remeasured_by=proposal.remeasured_by,
        baseline=baseline.result_id,
        contract_id=baseline.contract_id,
        layer=Layer.ACCELERATOR,
        what=f"swap to {proposal.device}, re-measured by {proposal.remeasured_by} against {short(baseline.result_id)}",
        expected=expected,
        due=proposal.due,
    )


def _sentence(open_ones: int, supported: str, because: str) -> str:
    answered = f"{len(QUESTIONS) - open_ones} of {len(QUESTIONS)} answered"
    if open_ones >= UNANSWERED_LIMIT:
        return f"{answered}: {WITHOUT_DIAGNOSTIC}."
    words = {
        "purchase": "the evidence supports the purchase",
        "software first": "the evidence says software first",
        "neither": "the evidence supports neither the purchase nor a known fix",
        "undecided": "the evidence does not decide it",
    }
    return f"{answered}: {words[supported]}: {because}."


def _cautions(proposal: PurchaseProposal, baseline: Result) -> tuple[str, ...]:
    cautions = []
    if baseline.validity.verdict != "valid":
        cautions.append(f"today's result is {baseline.validity.verdict}: {'; '.join(baseline.validity.reasons)}")
    if proposal.remeasured_by is not None and _follow_up(baseline, proposal, None) is None and not proposal.tested:
        cautions.append("no follow-up is recorded: without an estimate or a test nothing is expected of the swap")
    return tuple(cautions)
