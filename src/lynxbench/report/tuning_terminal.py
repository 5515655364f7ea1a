"""A tuning in a terminal: the verdict, baseline and tuned side by side, the winner's curse, every trial."""

from __future__ import annotations

import textwrap

from lynxbench.model.fields import Scalar
from lynxbench.model.interval import Interval
from lynxbench.model.tuning import Trial, TrialStatus, TuningDocument
from lynxbench.report import words
from lynxbench.report.words import clean

SHOWN_TRIALS = 12


def render_tuning(document: TuningDocument, *, width: int) -> str:
    """The whole tuning as text of at most that width."""
    lines = _wrapped(f"{document.verdict.value.upper()}: ", clean(document.sentence), width)
    lines += ["", *_sides(document), *_curse(document, width), "", *_allowed(document, width), "", *_trials(document)]
    if document.accuracy_missing:
        lines += _wrapped("note    ", clean(document.accuracy_missing), width)
    lines += [line for note in document.notes for line in _wrapped("note    ", clean(note), width)]
    return "\n".join(line.rstrip() for line in lines).replace(words.NBSP, " ") + "\n"


def setting_words(setting: dict[str, Scalar]) -> str:
    """`engine.threads 2, engine.graph compile`."""
    return clean(", ".join(f"{name} {_value(value)}" for name, value in setting.items())) or "as the contract has it"


def _value(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def curse_words(document: TuningDocument) -> str:
    """What the selection flattered, in a sentence."""
    curse = document.winners_curse
    if curse is None:
        return "the chosen setting has no figure in the search to hold against its confirmation"
    loss = words.percent_interval(curse.loss)
    trials = words.count(curse.trials, "trial")
    return (
        f"in the search the chosen setting showed {words.digits(curse.in_search, 4)} {clean(document.unit)} "
        f"over {trials}; confirmed it is {loss} from that. The search's figure is no result"
    )


def best_trials(document: TuningDocument) -> list[Trial]:
    """Measured trials, best first."""
    known = [trial for trial in document.trials if trial.status is TrialStatus.MEASURED]
    return sorted(known, key=lambda one: one.response or 0.0, reverse=document.higher_is_better)


def _sides(document: TuningDocument) -> list[str]:
    lines = [f"confirmed on fresh processes and unseen seeds ({document.response}, {clean(document.unit)})"]
    for name, one in (("baseline", document.baseline), ("tuned", document.tuned)):
        if one is None:
            lines.append(f"  {name:<9} not confirmed")
            continue
        figure = words.interval_text(one.response)
        lines.append(f"  {name:<9} {figure:<24} division {one.division:<8} {setting_words(one.setting)}")
        lines.append(f"  {'':<9} accuracy: {clean(one.accuracy)}")
    if document.gain is not None:
        lines.append(f"  gain      {gain_text(document.gain)} (by pairs)")
    return lines


def gain_text(gain: Interval) -> str:
    """`1.53× [1.49, 1.57]`."""
    if not gain.known:
        return "unknown"
    return f"{gain.estimate:.3f}× [{gain.low:.3f}, {gain.high:.3f}]"


def _curse(document: TuningDocument, width: int) -> list[str]:
    return _wrapped("  winner's curse: ", curse_words(document), width) if document.tuned is not None else []


def _allowed(document: TuningDocument, width: int) -> list[str]:
    lines = [f"allowed by contract {clean(document.contract_name)} {words.abbreviated(document.contract_id)}"]
    for name, values in document.knobs.items():
        lines += _wrapped(f"  {name:<24} ", ", ".join(_value(value) for value in values), width)
    share = len(document.trials) / max(document.settings, 1)
    lines.append(
        f"  {document.settings} settings; {len(document.trials)} trials ({words.percent(share)} of the grid), ended by "
        f"{document.ended_by}; search {document.search}, {words.seconds_text(document.measuring_s)} in all"
    )
    return lines


def _trials(document: TuningDocument) -> list[str]:
    lines = ["trials of the search (one fresh process each; not results)"]
    ordered = best_trials(document)
    for trial in ordered[:SHOWN_TRIALS]:
        lines.append(
            f"  {words.digits(trial.response, 4):>10}  {setting_words(trial.setting)}  {clean(trial.accuracy)}"
        )
    if len(ordered) > SHOWN_TRIALS:
        lines.append(f"  and {len(ordered) - SHOWN_TRIALS} more")
    for trial in document.trials:
        if trial.status is not TrialStatus.MEASURED:
            why = clean(trial.reason or trial.accuracy)
            lines.append(f"  {trial.status.value}: {setting_words(trial.setting)}: {why}")
    return lines


def _wrapped(label: str, text: str, width: int) -> list[str]:
    hang = " " * min(len(label), 30)
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=label,
        subsequent_indent=hang,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [label]
