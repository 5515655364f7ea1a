"""What a second execution of the same contract says about the first. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lynxbench.model.canonical import short
from lynxbench.model.entries import RerunVerdict
from lynxbench.model.executor import FieldChange, Tier, difference
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.stats.intervals import ratio_interval

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Rerun:
    """The verdict, the ratio of the rerun to the original by precision, and what differs between the executors."""

    verdict: RerunVerdict
    effects: Mapping[Precision, Interval]
    changes: tuple[FieldChange, ...]
    budget: float
    why: str

    @property
    def differing(self) -> tuple[str, ...]:
        """layer.field of every difference."""
        return tuple(f"{change.layer.value}.{change.name}" for change in self.changes)


def judge_rerun(original: Result, rerun: Result) -> Rerun:
    """Reproduced: at every precision the ratio's whole interval lies within the contract's budget of one.

    On another executor a difference would not be the result's fault, so that is the verdict there, and the ratios stand
    beside it. Doubt is a verdict: an interval that straddles the budget settles nothing.
    """
    budget = original.contract.policy.regression
    changes = difference(original.executor, rerun.executor, (Tier.CONFIGURATION,))
    effects = _effects(original, rerun)
    if ValidityVerdict.VOID in (original.validity.verdict, rerun.validity.verdict):
        which = "the original" if original.validity.verdict is ValidityVerdict.VOID else "the rerun"
        return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, budget, f"{which} is void")
    if changes:
        layers = ", ".join(dict.fromkeys(change.layer.value for change in changes))
        why = f"{len(changes)} fields differ in {layers}"
        return Rerun(RerunVerdict.EXECUTOR_DIFFERS, effects, changes, budget, why)
    judged = {precision: _judge(effect, budget) for precision, effect in effects.items()}
    if not judged:
        return Rerun(RerunVerdict.INCONCLUSIVE, effects, changes, budget, "no precision was measured in both")
    worst = min(judged, key=lambda precision: _WORST_FIRST.index(judged[precision]))
    return Rerun(judged[worst], effects, changes, budget, _words(worst, effects[worst], judged[worst], budget))


_WORST_FIRST = (RerunVerdict.NOT_REPRODUCED, RerunVerdict.INCONCLUSIVE, RerunVerdict.REPRODUCED)


def _effects(original: Result, rerun: Result) -> dict[Precision, Interval]:
    again = {one.precision: one for one in rerun.per_precision if one.skipped is None}
    confidence = original.contract.protocol.confidence
    found: dict[Precision, Interval] = {}
    for one in original.per_precision:
        two = again.get(one.precision)
        if one.skipped is not None or two is None:
            continue
        both = one.run_means and two.run_means
        found[one.precision] = ratio_interval(one.run_means, two.run_means, confidence) if both else UNKNOWN_INTERVAL
    return found


def _judge(effect: Interval, budget: float) -> RerunVerdict:
    if not effect.known:
        return RerunVerdict.INCONCLUSIVE
    low, high = 1 - budget, 1 / (1 - budget) if budget < 1 else float("inf")  # a loss and its undoing count alike
    if low <= effect.low and effect.high <= high:
        return RerunVerdict.REPRODUCED
    if effect.high < low or effect.low > high:
        return RerunVerdict.NOT_REPRODUCED
    return RerunVerdict.INCONCLUSIVE


def _words(precision: Precision, effect: Interval, verdict: RerunVerdict, budget: float) -> str:
    if not effect.known:
        return f"{precision.value}: too few restarts for an interval"
    change = f"{effect.estimate - 1:+.1%} [{effect.low - 1:+.1%}, {effect.high - 1:+.1%}]"
    if verdict is RerunVerdict.INCONCLUSIVE:
        return f"{precision.value} {change}: straddles the budget of {budget:.1%}; more restarts would settle it"
    return f"{precision.value} {change}, budget {budget:.1%}"


def render_rerun(original: Result, rerun: Result, judged: Rerun) -> str:
    """The verdict first, then by how much, then what differs in which layer and whose it is."""
    lines = [f"{judged.verdict.value.upper()}: {judged.why}"]
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
        "verdict": judged.verdict.value,
        "why": judged.why,
        "result_id": original.result_id,
        "rerun_id": rerun.result_id,
        "budget": judged.budget,
        "effects": {
            precision.value: {
                name: value if math.isfinite(value) else None
                for name, value in (("low", effect.low), ("estimate", effect.estimate), ("high", effect.high))
            }
            for precision, effect in judged.effects.items()
        },
        "differing": [change.model_dump(mode="json") for change in judged.changes],
        "entry": seq,
    }


def _brief(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
