"""What a piece of evidence may carry, asked before every verdict and decision.

Evidence that falls short shows its figures, and nothing rests on them: nobody is blamed, convicted, cleared or told to
buy, and the next step is named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lynxbench.model.attribution import Attribution, Bound
from lynxbench.model.canonical import short
from lynxbench.model.interval import UNKNOWN_INTERVAL
from lynxbench.model.precision import Native
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.serving import ServedEngine
from lynxbench.model.standing import Standing, agreement_shown
from lynxbench.model.verdicts import SteadyVerdict, ValidityVerdict

FOREIGN_LOAD = "foreign load"
"""How the reason begins that other programs used the machine while samples were counted."""


KERNELS_LINE = "kernels of the server"
OPEN_REQUESTS = " of the time with a request open"
"""How the line of evidence begins that says what a server's own profiler saw, and where its own verdict begins."""

FEW = 2
"""Reasons that a verdict names; the report lists all."""
_VOID_STEPS = (
    ("executor changed during the run", "leave the machine as it is while it runs"),
    ("the server was restarted", "keep the server up while it runs"),
    ("too few samples", "give it a higher protocol.limit"),
    ("the client was the limit", "give the clients CPUs of their own, or a machine of their own"),
)
"""By what a reason says: what would have kept a run from being void."""


class Lack(StrEnum):
    """Why evidence cannot carry a verdict, the gravest first."""

    VOID = "void"
    RETRACTED = "retracted"
    REFUTED = "does not verify"
    NOT_AGREED = "not agreed"
    UNTRUSTED = "untrusted"
    FOREIGN_LOADED = "foreign-loaded"
    UNSTEADY = "not steady"
    DOUBTFUL = "doubtful"
    EMULATED = "emulated"
    WEAK = "weak"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """One thing that evidence lacks, in words, and what would mend it."""

    lack: Lack
    says: str
    step: str

    @property
    def line(self) -> str:
        """Both, as a person reads it."""
        return f"{self.says}; next: {self.step}"


Shortfalls = tuple[Shortfall, ...]
"""Empty: the evidence carries what it says."""


def figures_fall_short(result: Result, figures: PrecisionResult) -> Shortfalls:
    """What the figures of one precision lack to be anybody's speed."""
    return _ordered(_of_figures(result, figures))


def is_disturbed_run(result: Result) -> bool:
    """Whether its figures lack a steady state and nothing else: measured again they may have one."""
    measured = [figures for figures in result.per_precision if figures.skipped is None]
    lacks = {shortfall.lack for figures in measured for shortfall in _of_figures(result, figures)}
    return lacks == {Lack.UNSTEADY}


def cause_falls_short(result: Result, figures: PrecisionResult | None, attribution: Attribution) -> Shortfalls:
    """What keeps an attribution from naming anybody: its figures, or that it is weak itself."""
    parts = [] if figures is None else list(_of_figures(result, figures))
    return _ordered([*parts, *weakness_of(attribution, result)])


def standing_falls_short(result: Result, standing: Standing | None) -> Shortfalls:
    """What a result lacks by what others know of it; None: no ledger that was asked holds it."""
    return _ordered(_of_standing(result, standing))


def weakness_of(attribution: Attribution, result: Result | None = None) -> Shortfalls:
    """A weak attribution names a suspicion; only removing its cause for real makes it more."""
    if not attribution.weak or attribution.bound is Bound.UNDETERMINED:
        return ()
    step = f"{attribution.next_step}, then trace it again: a measured gain confirms it, and nothing else does"
    if result is not None:
        served = isinstance(result.contract.engine, ServedEngine)
        step = "trace the server under this load (lynxbench trace FILE)" if served else _again(result, " --intervene")
    return (Shortfall(Lack.WEAK, "the attribution is weak: no category of time stands out for sure", step),)


def carried_attribution(result: Result, also: Sequence[Shortfall] = ()) -> Attribution | None:
    """Where the time of a run went, with blame where its evidence carries it alone; `also`: what its standing lacks."""
    if result.attribution is None:
        return None
    short_of = cause_falls_short(result, attributed_figures(result), result.attribution)
    return without_blame(result.attribution, (*also, *short_of))


def without_blame(attribution: Attribution, short_of: Sequence[Shortfall]) -> Attribution:
    """The same shares and evidence with nobody named, where it falls short; as it is otherwise."""
    if not short_of:
        return attribution
    attribution = attribution.model_copy(update={"evidence": tuple(map(_blameless, attribution.evidence))})
    first, share = short_of[0], attribution.shares.get(attribution.bottleneck)
    if attribution.bound is Bound.UNDETERMINED:  # it blames nobody; whom it suspects goes as well
        nobody = {"candidates": (), "symptom_layer": None, "gain_if_removed": UNKNOWN_INTERVAL}
        return attribution.model_copy(update={**nobody, "next_step": first.step})
    weak, seen = first.lack is Lack.WEAK, attribution.bottleneck.value.replace("_", " ")
    took = f"the largest share is {seen}" + ("" if share is None else f", {share:.0%} of a step")
    return attribution.model_copy(
        update={
            "bound": Bound.UNDETERMINED,
            "layer": None,
            "owner": None,
            "symptom_layer": None,
            "candidates": attribution.candidates if weak else (),  # level ones are named together
            "gain_if_removed": attribution.gain_if_removed if weak else UNKNOWN_INTERVAL,
            "sentence": f"undetermined: nobody is blamed, because {first.says}; {took}",
            "next_step": first.step,
        }
    )


def _blameless(line: str) -> str:
    """A line of evidence without the verdict that the trace of a server's kernels has of its own."""
    said, busy, _ = line.partition(OPEN_REQUESTS)
    return f"{said}{busy}" if line.startswith(KERNELS_LINE) and busy else line


def attributed_figures(result: Result) -> PrecisionResult | None:
    """The precision whose steps the run's attribution looked at; the first measured one where none says so."""
    measured = [figures for figures in result.per_precision if figures.skipped is None]
    looked_at = (figures for figures in measured if figures.attribution and figures.attribution == result.attribution)
    return next(looked_at, measured[0] if measured else None)


def step_after_void(result: Result) -> str:
    """What to do about a run whose figures may not be used."""
    reasons = [*result.validity.reasons, *(r for figures in result.per_precision for r in figures.validity.reasons)]
    known = (step for begin, step in _VOID_STEPS for reason in reasons if begin in reason)
    return f"{next(known, 'remove that')}, then {_again(result)}"


def is_steady(figures: PrecisionResult) -> bool:
    """Whether the figures are of a steady state; a load run without an own verdict is judged by its probes."""
    if figures.steady is None:
        return figures.load is not None and figures.load.saturation is not None
    return figures.steady.verdict is SteadyVerdict.STEADY


def whole_reasons(result: Result) -> tuple[str, ...]:
    """Reasons of a run's doubt that concern every precision; the others are said there."""
    names = tuple(f"{figures.precision.value}: " for figures in result.per_precision)
    return tuple(reason for reason in result.validity.reasons if not reason.startswith(names))


def _said_of(figures: PrecisionResult, result: Result) -> tuple[str, ...]:
    """Reasons that the whole run gives for doubting one precision, whatever that says of itself."""
    name = f"{figures.precision.value}: "
    return tuple(reason.removeprefix(name) for reason in result.validity.reasons if reason.startswith(name))


def _is_client_void(figures: PrecisionResult) -> bool:
    """Whether the client was the limit: then the figures are the client's, whatever is said of their validity."""
    return figures.load is not None and figures.load.instrument.verdict == "void"


def _of_figures(result: Result, figures: PrecisionResult) -> Iterator[Shortfall]:
    at = f"{figures.precision} of {short(result.result_id)}"
    verdicts = result.validity.verdict, figures.validity.verdict
    own = () if figures.validity.verdict is ValidityVerdict.VALID else figures.validity.reasons  # else they are remarks
    told = (*_said_of(figures, result), *whole_reasons(result))
    whole = () if result.validity.verdict is ValidityVerdict.VALID else told
    client = figures.load.instrument.reasons if figures.load is not None else ()
    reasons = list(dict.fromkeys((*own, *whole, *client)))
    if figures.skipped is not None or ValidityVerdict.VOID in verdicts or _is_client_void(figures):
        why = figures.skipped.reason if figures.skipped is not None else _few(reasons)
        yield Shortfall(Lack.VOID, f"{at} has no figure that may be used ({why})", step_after_void(result))
        return
    loaded = [reason for reason in reasons if reason.startswith(f"{FOREIGN_LOAD}:")]
    if loaded:
        step = f"{_again(result)} while nothing else runs on the machine"
        yield Shortfall(Lack.FOREIGN_LOADED, f"{at} was measured under {loaded[0]}", step)
    unsteady: list[str] = []
    if not is_steady(figures):
        word = "nothing is known about its steady state"
        if figures.steady is not None:
            word = f"{figures.steady.verdict}: {figures.steady.reason or 'no reason was recorded'}"
            unsteady = [reason for reason in reasons if reason.startswith(f"{figures.steady.verdict.value} (")]
        step = f"{_again(result)} with a higher protocol.limit, or remove what moves it"
        yield Shortfall(Lack.UNSTEADY, f"{at} has no steady state shown ({word})", step)
    rest = [reason for reason in reasons if reason not in loaded and reason not in unsteady]
    untold = any(
        validity.verdict is ValidityVerdict.DOUBTFUL and not validity.reasons
        for validity in (result.validity, figures.validity)
    )
    if rest or untold:
        yield Shortfall(Lack.DOUBTFUL, f"{at} is doubtful ({_few(rest)})", f"{_again(result)} without that")
    if figures.native is Native.EMULATED:
        words = f"{at} was emulated: its speed is not that of hardware that has it"
        yield Shortfall(Lack.EMULATED, words, f"{_again(result)} on a device that has {figures.precision}")


def _of_standing(result: Result, standing: Standing | None) -> Iterator[Shortfall]:
    name = short(result.result_id)
    agreement = agreement_shown(result.contract.teams, standing)
    if agreement is not None and not agreement.full:
        step = f"lynxbench contract agreement {short(result.contract_id)} says who must sign it; then measure again"
        yield Shortfall(Lack.NOT_AGREED, f"the contract of {name} is {agreement.words}", step)
    if standing is None:
        step = "record its folder with your team's key: lynxbench results import FOLDER"
        yield Shortfall(Lack.UNTRUSTED, f"{name} is in no ledger that was asked: nobody whom you trust signed it", step)
        return
    if standing.retracted:
        words = f"{name} was retracted: {standing.retracted[-1].text}"
        yield Shortfall(Lack.RETRACTED, words, _again(result))
    if standing.refuted:
        by = ", ".join(dict.fromkeys(remark.by for remark in standing.refuted))
        step = f"lynxbench verify {name} says what does not hold; then measure again"
        yield Shortfall(Lack.REFUTED, f"{name} does not verify, says {by}", step)
    if not standing.signed_by:
        step = f"lynxbench key trust FILE once you know whose key signed it, or {_again(result)} yourself"
        yield Shortfall(Lack.UNTRUSTED, f"{name} is signed by nobody you trust", step)


def _few(reasons: Sequence[str]) -> str:
    more = f" and {len(reasons) - FEW} more" if len(reasons) > FEW else ""
    return "; ".join(reasons[:FEW]) + more or "no reason was recorded"


def _again(result: Result, options: str = "") -> str:
    return f"lynxbench run {result.contract.name}{options}"


def _ordered(short_of: Iterator[Shortfall] | Sequence[Shortfall]) -> Shortfalls:
    order = list(Lack)
    return tuple(sorted(short_of, key=lambda shortfall: order.index(shortfall.lack)))
