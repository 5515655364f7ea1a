"""What a tuning comes to: baseline and tuned side by side from the confirmation alone, and the winner's curse."""

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from lynxbench import __version__
from lynxbench.evidence.documents import RESULT_FILE, read_result
from lynxbench.experiment.analysing import ratio_of
from lynxbench.experiment.cells import shown, tuned, untuned
from lynxbench.experiment.searching import Point, Space, TrialOutcome
from lynxbench.experiment.tuning_folder import TuningFolder, TuningState
from lynxbench.experiment.visiting import NO_SERVED_ACCURACY, hold_against, visit_response
from lynxbench.measure.responses import THROUGHPUT, response_unit
from lynxbench.model.contract import Contract
from lynxbench.model.fields import Scalar
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.result import Accuracy, Result
from lynxbench.model.serving import ServedEngine
from lynxbench.model.tuning import Confirmed, TrialStatus, TuningDocument, TuningVerdict, WinnersCurse
from lynxbench.stats.intervals import log_mean_interval, mean_interval

CONFIRMATIONS = 5
"""Pairs of fresh processes, each on a seed of its own: the fewest that a verdict rests on (comparability rule R14)."""
LARGEST_SEED = 2**31 - 1


def describe_tuning(folder: TuningFolder, space: Space, now: datetime | None) -> TuningDocument:
    """The document of a tuning as far as it came."""
    state = folder.state
    contract, chosen = state.contract, state.chosen
    higher = state.response == THROUGHPUT
    setting = space.at(chosen) if chosen is not None else {}
    confidence = contract.protocol.confidence
    values = {which: _values(folder, which) for which in ("baseline", "tuned")}
    baseline = _confirmed(folder, untuned(contract), {}, "baseline", values["baseline"]) if state.pairs else None
    best = (
        _confirmed(folder, tuned(contract, setting), setting, "tuned", values["tuned"])
        if state.pairs and chosen is not None
        else None
    )
    gain = _gain(values["baseline"], values["tuned"], confidence, higher=higher) if best is not None else None
    verdict = _verdict(chosen, gain, refused=best is not None and best.accuracy.startswith("no-go"))
    allowed = contract.optimisation
    return TuningDocument(
        lynxbench_version=__version__,
        tuning_id=state.tuning_id,
        contract_name=contract.name,
        contract_id=contract.contract_id,
        question=contract.question,
        division=allowed.division.value,
        knobs=dict(zip(space.names, space.values, strict=True)),
        settings=space.settings,
        search=state.method.value,
        seed=state.seed,
        trials_allowed=allowed.trials,
        time_allowed_s=allowed.time_s,
        ended_by=state.ended_by,
        response=state.response,
        unit=response_unit(state.response, _unit(folder)),
        higher_is_better=higher,
        started_at=state.registered_at,
        finished_at=None if now is None else now.isoformat(timespec="seconds"),
        measuring_s=round(state.spent_s, 1),
        trials=state.trials,
        baseline=baseline,
        tuned=best,
        gain=gain,
        winners_curse=_curse(folder, chosen, values["tuned"], confidence),
        verdict=verdict,
        sentence=_sentence(verdict, setting, gain, len(state.trials), space.settings),
        accuracy_missing=NO_SERVED_ACCURACY if isinstance(contract.engine, ServedEngine) else "",
        notes=state.notes,
    )


def outcomes_of(state: TuningState) -> list[TrialOutcome]:
    """What the search knows so far: only what was measured and passed the gate has a value."""
    outcomes = []
    for point, trial in zip(state.points, state.trials, strict=True):
        value = None
        if trial.response is not None and trial.status is TrialStatus.MEASURED:
            value = math.log(trial.response) if state.response == THROUGHPUT else -math.log(trial.response)
        outcomes.append(TrialOutcome(point, value))
    return outcomes


def gate(folder: TuningFolder, candidate: str) -> tuple[bool, str]:
    """Accuracy before speed: whether a trial's answers may be used, against the baseline's, and how that is said."""
    contract = folder.state.contract
    accuracy = hold_against(folder.runs / folder.state.baseline_run, folder.runs / candidate, contract)
    if isinstance(accuracy, str):
        return contract.policy.accuracy is None, accuracy
    metrics = [f"{name} {value:.4g}" for name, value in accuracy.metrics.items() if value is not None]
    loss = "" if accuracy.loss is None else f"loss {accuracy.loss:.2%}, "
    words = f"{accuracy.verdict} ({loss}{', '.join(metrics[:2])})"
    return accuracy.verdict in ("go", "reference", "no policy"), words


def confirmation_seeds(state: TuningState) -> list[int]:
    """Seeds of the confirmation: drawn from the tuning's own seed, never the one that trials ran on."""
    searched = state.contract.workload.seed
    drawn = np.random.default_rng(state.seed ^ 0x5EED).integers(1, LARGEST_SEED, 8 * CONFIRMATIONS + 100)
    fresh = [int(seed) for seed in dict.fromkeys(drawn.tolist()) if int(seed) != searched]
    return fresh[: state.confirmations]


def _values(folder: TuningFolder, which: str) -> tuple[float | None, ...]:
    runs = [getattr(pair, f"{which}_run") for pair in folder.state.pairs]
    return tuple(visit_response(folder.runs / run, folder.state.response) if run else None for run in runs)


def _confirmed(
    folder: TuningFolder, contract: Contract, setting: dict[str, Scalar], which: str, values: Sequence[float | None]
) -> Confirmed:
    known = [value for value in values if value is not None]
    pairs = folder.state.pairs
    runs = [folder.runs / name for pair in pairs if (name := getattr(pair, f"{which}_run"))]
    accuracy = "reference" if which == "baseline" else _confirmed_accuracy(folder)
    return Confirmed(
        setting=setting,
        contract_id=contract.contract_id,
        division=contract.optimisation.division.value,
        response=log_mean_interval(known, contract.protocol.confidence) if known else UNKNOWN_INTERVAL,
        values=tuple(values),
        seeds=tuple(pair.seed for pair in pairs),
        result_ids=tuple(read_result(run).result_id for run in runs if (run / RESULT_FILE).exists()),
        accuracy=NO_SERVED_ACCURACY if isinstance(contract.engine, ServedEngine) else accuracy,
    )


def _confirmed_accuracy(folder: TuningFolder) -> str:
    """The gate once more, on inputs that the choice never saw; the worst pair is the one that is told."""
    compared: list[Accuracy] = []
    for pair in folder.state.pairs:
        if pair.baseline_run and pair.tuned_run:
            runs = folder.runs / pair.baseline_run, folder.runs / pair.tuned_run
            accuracy = hold_against(*runs, folder.state.contract)
            if isinstance(accuracy, str):
                return accuracy
            compared.append(accuracy)
    if not compared:
        return "not measured"
    worst = max(compared, key=lambda accuracy: (accuracy.verdict == "no-go", accuracy.loss or 0.0))
    loss = "" if worst.loss is None else f", largest loss {worst.loss:.2%}"
    return f"{worst.verdict}{loss} over {len(compared)} unseen seeds"


def _gain(
    baseline: Sequence[float | None], best: Sequence[float | None], confidence: float, *, higher: bool
) -> Interval:
    logs = [math.log(b / a) for a, b in zip(baseline, best, strict=True) if a is not None and b is not None]
    if not logs:
        return UNKNOWN_INTERVAL
    return ratio_of(mean_interval(np.array(logs if higher else [-x for x in logs]), confidence))


def _curse(
    folder: TuningFolder, chosen: Point | None, values: Sequence[float | None], confidence: float
) -> WinnersCurse | None:
    """The chosen setting's figure in the search against its confirmation: what selection flattered."""
    state = folder.state
    if chosen is None:
        return None
    searched = [
        math.log(trial.response)
        for point, trial in zip(state.points, state.trials, strict=True)
        if point == chosen and trial.response is not None and trial.status is TrialStatus.MEASURED
    ]
    known = [value for value in values if value is not None]
    if not searched or not known:
        return None
    selected = math.exp(sum(searched) / len(searched))
    confirmed = log_mean_interval(known, confidence)
    loss = Interval(*(bound / selected - 1 for bound in (confirmed.low, confirmed.estimate, confirmed.high)))
    return WinnersCurse(in_search=selected, trials=len(searched), confirmed=confirmed, loss=loss)


def _verdict(chosen: Point | None, gain: Interval | None, *, refused: bool) -> TuningVerdict:
    if chosen is None:
        return TuningVerdict.NOTHING_PASSED
    if refused:
        return TuningVerdict.REFUSED
    if gain is not None and gain.known and gain.low > 1:
        return TuningVerdict.IMPROVED
    if gain is not None and gain.known and gain.high < 1:
        return TuningVerdict.WORSE
    return TuningVerdict.NO_GAIN


def _sentence(
    verdict: TuningVerdict, setting: dict[str, Scalar], gain: Interval | None, trials: int, settings: int
) -> str:
    tried = f"{trials} trials of {settings} settings"
    if verdict is TuningVerdict.NOTHING_PASSED:
        return f"none of {tried} could be measured and passed the accuracy gate"
    figure = "" if gain is None or not gain.known else f": {gain.estimate:.3f}× [{gain.low:.3f}, {gain.high:.3f}]"
    what = {
        TuningVerdict.IMPROVED: "beats the baseline on processes and seeds that the search never saw",
        TuningVerdict.WORSE: "is worse than the baseline on processes and seeds that the search never saw",
        TuningVerdict.REFUSED: "loses more accuracy than the contract allows on inputs that the search never saw",
        TuningVerdict.NO_GAIN: "shows no sure gain over the baseline on processes and seeds that the search never saw",
    }[verdict]
    return f"{shown(setting)} {what}{figure} ({tried})"


def _unit(folder: TuningFolder) -> str:
    if not folder.state.baseline_run:
        return ""
    result: Result = read_result(folder.runs / folder.state.baseline_run)
    figure = result.per_precision[0].throughput
    return figure.unit if figure is not None else ""
