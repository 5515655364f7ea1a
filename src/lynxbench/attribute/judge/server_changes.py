"""What holds a server back, tested on the server itself: which launch arguments to change, and what the change says.

The table of changes is data (`model/server_arguments.toml`), by cause and by kind of server. A server is started with
its arguments changed and asked for the same work; the measured gain stands beside the one that the verdict predicts.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from lynxbench.attribute.judge.causes import NO_GAIN
from lynxbench.attribute.judge.intervention_tests import (
    better_step,
    conclude_interventions,
    describe_gain,
    hold_to_prediction,
    is_unstable,
    measured_gain,
)
from lynxbench.attribute.judge.server_figures import CAUSES, LimitCause
from lynxbench.model.attribution import Attribution, Bound, Category, Intervention
from lynxbench.model.fields import Scalar
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.interventions import ArgumentChange, InterventionChoice, InterventionScope
from lynxbench.model.launching import spell_arguments
from lynxbench.tables import read_table

TABLE = "model/server_arguments.toml"
ANSWERS_CHANGE = "what the model answers may change with it: check the accuracy before it is used"


@dataclass(frozen=True, slots=True)
class ServerChange:
    """One change of launch arguments, and the gain in work per second it should bring if the verdict is right."""

    arguments: Mapping[str, Scalar]
    causes: tuple[str, ...] = ()
    predicted: Interval = UNKNOWN_INTERVAL
    decides: bool = False
    """Whether it removes what the verdict names."""
    answers: bool = False
    inapplicable: str | None = None
    """Why it cannot be tried here."""

    @property
    def name(self) -> str:
        """`launch with --max-num-seqs 256, without --enforce-eager`."""
        given = spell_arguments(self.arguments)
        left_out = [f"--{name}" for name, value in sorted(self.arguments.items()) if value is False]
        parts = [f"with {' '.join(given)}"] if given else []
        return "launch " + ", ".join([*parts, *([f"without {' '.join(left_out)}"] if left_out else [])])

    def outcome(self, measured: Interval, note: str) -> Intervention:
        """What came of it."""
        said = f"{note}; {ANSWERS_CHANGE}" if self.answers and measured.known else note
        return Intervention(name=self.name, predicted=self.predicted, measured=measured, note=said)

    def not_measured(self, why: str) -> Intervention:
        """It was tried and gave no figure, or could not be tried."""
        return self.outcome(UNKNOWN_INTERVAL, why)


def causes_of(attribution: Attribution | None) -> tuple[str, ...]:
    """What a verdict suspects, in the table's words, the most direct first: the one place where the two meet."""
    if attribution is None:
        return ()
    named = {attribution.next_step.find(_step(cause)): name for name, cause in CAUSES.items()}
    if any(place >= 0 for place in named):
        return tuple(name for place, name in sorted(named.items()) if place >= 0)
    return tuple(read_table(TABLE)["bottleneck"].get(attribution.bottleneck.value, ()))


def _step(cause: LimitCause) -> str:
    """What a verdict says to do where it names this limit, up to the server's own option."""
    return cause.next_step.partition("{flag}")[0]


def propose_server_changes(
    attribution: Attribution | None,
    kind: str,
    arguments: Mapping[str, Scalar],
    choice: InterventionChoice,
    fixed: Set[str] = frozenset(),
) -> tuple[ServerChange, ...]:
    """What to try on a server of that kind: what tests the verdict, every change there is, or the one that is named.

    `fixed` are the arguments that the machine's own command sets; no contract changes them.
    """
    if isinstance(choice, ArgumentChange):
        return (_checked(ServerChange(choice.arguments), arguments, fixed),)
    suspected = causes_of(attribution)
    rows = read_table(TABLE).get(kind, {}).get("changes", ())
    proposed = [_read(row, arguments, fixed, attribution, suspected) for row in rows]
    testing = [change for cause in suspected for change in proposed if cause in change.causes]
    others = [] if choice is InterventionScope.VERDICT else [one for one in proposed if one not in testing]
    return (*testing, *others)


def _read(
    row: Mapping[str, Any],
    arguments: Mapping[str, Scalar],
    fixed: Set[str],
    attribution: Attribution | None,
    suspected: Sequence[str],
) -> ServerChange:
    sets: dict[str, Scalar] = {}
    unknown = ""
    for name, change in row["sets"].items():
        now = arguments.get(name, change.get("usual"))
        if "to" in change:
            sets[name] = change["to"]
        elif isinstance(now, int | float) and not isinstance(now, bool):
            sets[name] = max(1, round(now * change["times"]))
        else:
            unknown = unknown or f"the contract does not say what --{name} is now"
            sets[name] = f"×{change['times']:g}"
    named = tuple(row["causes"])
    decides = attribution is not None and attribution.bound is not Bound.UNDETERMINED and suspected[:1] == named[:1]
    change = ServerChange(
        sets,
        named,
        predicted=attribution.gain_if_removed if attribution is not None and decides else UNKNOWN_INTERVAL,
        decides=decides,
        answers=bool(row.get("answers")),
        inapplicable=unknown or None,
    )
    return change if unknown else _checked(change, arguments, fixed)


def _checked(change: ServerChange, arguments: Mapping[str, Scalar], fixed: Set[str]) -> ServerChange:
    """The change, with the reason why it is none here."""
    held = sorted(change.arguments.keys() & fixed)
    why = None
    if held:
        why = f"the machine's own command sets --{held[0]}; leave it to the contract"
    elif all(arguments.get(name, False) == value for name, value in change.arguments.items()):
        why = "the server is launched so already"
    return ServerChange(change.arguments, change.causes, change.predicted, change.decides, change.answers, why)


def judge_server_change(
    change: ServerChange, baseline_per_s: Sequence[float], changed_per_s: Sequence[float], confidence: float
) -> Intervention:
    """The measured gain with its interval beside the predicted one."""
    if change.inapplicable is not None:
        return change.not_measured(f"does not apply: {change.inapplicable}")
    measured = measured_gain(baseline_per_s, changed_per_s, confidence)
    if not measured.known:
        return change.not_measured("not measured: it did not run")
    note = hold_to_prediction(change.predicted, measured) if change.predicted.known else "no gain was predicted"
    return change.outcome(measured, note)


def with_server_changes(
    attribution: Attribution | None, done: Sequence[tuple[ServerChange, Intervention]], baseline_per_s: Sequence[float]
) -> Attribution | None:
    """The attribution with its changes; one that removes what it names confirms or corrects it.

    A verdict that names nobody, or none at all, is told what surely gained most.
    """
    if not done:
        return attribution
    interventions = [intervention for _, intervention in done]
    deciding = next((one for change, one in done if change.decides and one.measured.known), None)
    judged = conclude_interventions(attribution or _unsaid(), interventions, deciding, baseline_per_s)
    gained = [one for one in interventions if one.measured.known]
    if judged.bound is not Bound.UNDETERMINED or is_unstable(baseline_per_s) or not gained:
        return judged
    step = better_step(gained)
    if not step:
        return judged.model_copy(update={"sentence": f"{judged.sentence}; by intervention: no launch argument gained"})
    best = max(gained, key=lambda one: one.measured.low)
    said = f"{judged.sentence}; by intervention: {best.name} gained {describe_gain(best.measured)}"
    return judged.model_copy(update={**step, "gain_if_removed": best.measured, "sentence": said})


def _unsaid() -> Attribution:
    """Of a server that does not tell where its time goes: what interventions say is all that is known."""
    return Attribution(
        bottleneck=Category.UNATTRIBUTED,
        bound=Bound.UNDETERMINED,
        layer=None,
        owner=None,
        shares={},
        gain_if_removed=NO_GAIN,
        evidence=(),
        sentence="undetermined: the server does not tell where its requests spend their time",
        next_step="",
        wall_ms_per_step=0.0,
        steps=0,
    )
