"""What a second execution of the same contract says about the first. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from lynxbench.compare.effects import THROUGHPUT
from lynxbench.compare.pair import BetweenSittings
from lynxbench.compare.sittings import describe_noise
from lynxbench.model.canonical import short
from lynxbench.model.document import bounds_document
from lynxbench.model.entries import RerunVerdict
from lynxbench.model.executor import FieldChange, Tier, difference
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.stats.intervals import ratio_interval
from lynxbench.stats.sessions import ratio_assumed, ratio_between

NEGLIGIBLE = 0.02
"""A difference from one that reproducing tolerates: a convention of lynxbench (docs/methodology/ledger.md), not derived
from measurements. A contract's regression budget is about changes that somebody made, and is tighter."""
TOO_WIDE = 0.10
"""An interval that reaches further than this from its estimate is said to be too wide."""
UNDETERMINED = "undetermined"
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Rerun:
    """The verdict, the ratio of the rerun to the original by precision, and what differs between the executors."""

    verdict: RerunVerdict
    effects: Mapping[Precision, Interval]
    changes: tuple[FieldChange, ...]
    why: str
    left_out: tuple[str, ...] = ()
    """What of the original's surroundings the rerun did not have, by name."""

    @property
    def differing(self) -> tuple[str, ...]:
        """layer.field of every difference; what was left out of the surroundings, likewise."""
        fields = (f"{change.layer.value}.{change.name}" for change in self.changes)
        return (*fields, *(f"surroundings.{name}" for name in self.left_out))

    @property
    def outcome(self) -> str:
        """The answer in one of three words; what settles nothing is undetermined, whatever the reason."""
        return self.verdict.value if self.verdict in _SETTLED else UNDETERMINED


def judge_rerun(
    original: Result,
    rerun: Result,
    left_out: tuple[str, ...] = (),
    *,
    recomputed: bool = True,
    between: BetweenSittings | None = None,
) -> Rerun:
    """Reproduced: at every precision the ratio's whole interval lies within what is negligible.

    On another executor, or without what was `left_out` of its surroundings, a difference would not be the result's
    fault, so that is the verdict there, and the ratios stand beside it. Doubt is a verdict: an interval across the edge
    settles nothing, and neither does a doubtful run. Figures that were not `recomputed` cannot be reproduced: what was
    measured again is held against the run means that stand in the document, and the rest of it is only stated. Of two
    sittings (`between`) the interval holds what sittings differ by; where nobody knows that, nothing is convicted.
    """
    changes = difference(original.executor, rerun.executor, (Tier.CONFIGURATION,))
    effects = _effects(original, rerun, between)
    if ValidityVerdict.VOID in (original.validity.verdict, rerun.validity.verdict):
        which = "the original" if original.validity.verdict is ValidityVerdict.VOID else "the rerun"
        return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, f"{which} is void", left_out)
    if changes or left_out:
        why = "; ".join(filter(None, (_fields(changes), _surroundings(left_out))))
        return Rerun(RerunVerdict.EXECUTOR_DIFFERS, effects, changes, why, left_out)
    judged = {precision: judge_ratio(effect) for precision, effect in effects.items()}
    if not judged:
        return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, "no precision was measured in both")
    for name, side in (("the original", original), ("the rerun", rerun)):
        if side.validity.verdict is ValidityVerdict.DOUBTFUL:
            why = f"{name} is doubtful ({'; '.join(side.validity.reasons)}): measure it again without that"
            return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, why)
    worst = min(judged, key=lambda precision: _WORST_FIRST.index(judged[precision]))
    words = _words(worst, effects[worst], judged[worst])
    if between is not None and not _sittings_known(original, worst, between):
        noise = describe_noise(THROUGHPUT, worst, between.learned.get((worst, THROUGHPUT)))
        words = f"{words}; of two sittings; {noise.said}"
        if judged[worst] is RerunVerdict.NOT_REPRODUCED:
            return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, words)
    if judged[worst] is RerunVerdict.REPRODUCED and not recomputed:
        why = f"{words}, of figures that were not computed again from samples: verify the original first"
        return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, why)
    return Rerun(judged[worst], effects, changes, words)


def _fields(changes: tuple[FieldChange, ...]) -> str:
    if not changes:
        return ""
    layers = ", ".join(dict.fromkeys(change.layer.value for change in changes))
    one = len(changes) == 1
    return f"{len(changes)} field{'' if one else 's'} differ{'s' if one else ''} in {layers}"


def _surroundings(left_out: tuple[str, ...]) -> str:
    return f"the surroundings differ: without {', '.join(left_out)}" if left_out else ""


_SETTLED = (RerunVerdict.REPRODUCED, RerunVerdict.NOT_REPRODUCED)
_WORST_FIRST = (RerunVerdict.NOT_REPRODUCED, RerunVerdict.INCONCLUSIVE, RerunVerdict.REPRODUCED)


def _sittings_known(original: Result, precision: Precision, between: BetweenSittings) -> bool:
    declared = original.contract.protocol.session_noise is not None
    return declared or between.of(precision, THROUGHPUT) is not None


def _effects(original: Result, rerun: Result, between: BetweenSittings | None) -> dict[Precision, Interval]:
    again = {part.precision: part for part in rerun.per_precision if part.skipped is None}
    confidence = original.contract.protocol.confidence
    effects: dict[Precision, Interval] = {}
    for part in original.per_precision:
        other = again.get(part.precision)
        if part.skipped is not None or other is None:
            continue
        both = part.run_means and other.run_means
        ratio = ratio_interval(part.run_means, other.run_means, confidence) if both else UNKNOWN_INTERVAL
        if both and between is not None and min(*part.run_means, *other.run_means) > 0:
            learned, declared = between.of(part.precision, THROUGHPUT), original.contract.protocol.session_noise
            if learned is not None:
                ratio = ratio_between(part.run_means, other.run_means, learned, confidence)
            elif declared is not None:
                ratio = ratio_assumed(part.run_means, other.run_means, declared, confidence)
        effects[part.precision] = ratio
    return effects


def judge_ratio(effect: Interval) -> RerunVerdict:
    """What the interval of rerun over original says; a loss and its undoing count alike."""
    if not effect.known:
        return RerunVerdict.INCONCLUSIVE
    low, high = 1 - NEGLIGIBLE, 1 / (1 - NEGLIGIBLE)
    if effect.inside(low, high):
        return RerunVerdict.REPRODUCED
    return RerunVerdict.NOT_REPRODUCED if effect.high < low or effect.low > high else RerunVerdict.INCONCLUSIVE


def _too_wide(effect: Interval) -> bool:
    return effect.low < effect.estimate * (1 - TOO_WIDE) or effect.high > effect.estimate / (1 - TOO_WIDE)


def _words(precision: Precision, effect: Interval, verdict: RerunVerdict) -> str:
    if not effect.known:
        return f"{precision.value}: too few restarts for an interval"
    change = f"{precision.value} {effect.estimate - 1:+.1%} [{effect.low - 1:+.1%}, {effect.high - 1:+.1%}]"
    if verdict is RerunVerdict.REPRODUCED:
        return f"{change}: within ±{NEGLIGIBLE:.0%}"
    if verdict is RerunVerdict.NOT_REPRODUCED:
        return f"{change}: a change beyond ±{NEGLIGIBLE:.0%}"
    if _too_wide(effect):
        return f"{change}: wider than ±{TOO_WIDE:.0%}; more restarts would settle it"
    return f"{change}: reaches across the edge of ±{NEGLIGIBLE:.0%}; more restarts would settle it"


def render_rerun(original: Result, rerun: Result, judged: Rerun) -> str:
    """The verdict first, then by how much, then what differs in which layer and whose it is."""
    word = judged.verdict.value.upper()
    headline = word if judged.verdict in _SETTLED else f"{UNDETERMINED.upper()} ({word})"
    lines = [f"{headline}: {judged.why}"]
    lines.append(f"  original {short(original.result_id)} of {original.started_at}, rerun {short(rerun.result_id)}")
    for precision, effect in judged.effects.items():
        if effect.known:
            lines.append(
                f"  {precision.value:<18} rerun / original {effect.estimate:.4f} [{effect.low:.4f}, {effect.high:.4f}]"
            )
        else:
            lines.append(f"  {precision.value:<18} no interval: too few restarts")
    for change in judged.changes:
        owner = original.contract.owners[change.layer]
        lines.append(
            f"  {change.layer.value}.{change.name}: {_brief(change.before)} → {_brief(change.after)}  ({owner})"
        )
    return "\n".join(lines) + "\n"


def rerun_document(original: Result, rerun: Result, judged: Rerun, seq: int | None) -> dict[str, object]:
    """For programs."""
    return {
        "outcome": judged.outcome,
        "verdict": judged.verdict.value,
        "why": judged.why,
        "result_id": original.result_id,
        "rerun_id": rerun.result_id,
        "negligible": NEGLIGIBLE,
        "too_wide": TOO_WIDE,
        "effects": {precision.value: bounds_document(effect) for precision, effect in judged.effects.items()},
        "differing": [change.model_dump(mode="json") for change in judged.changes],
        "left_out": list(judged.left_out),
        "entry": seq,
    }


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
