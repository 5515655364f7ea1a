"""What a tuning comes to: baseline and tuned side by side from the confirmation alone, and the winner's curse."""

import math
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import numpy as np

from lynxbench import __version__
from lynxbench.errors import BadResult
from lynxbench.evidence.documents import RESULT_FILE, read_document, read_result
from lynxbench.experiment.analysing import ratio_of
from lynxbench.experiment.cells import shown, space_of, tuned, untuned
from lynxbench.experiment.searching import Point, Space, TrialOutcome
from lynxbench.experiment.tuning_folder import OUTCOME_FILE, ConfirmationPair, TuningFolder, TuningState
from lynxbench.experiment.visiting import NO_SERVED_ACCURACY, hold_against, visit_response
from lynxbench.measure.responses import THROUGHPUT, response_unit
from lynxbench.model.analyses import analysis_id
from lynxbench.model.contract import Contract
from lynxbench.model.evidence_gate import Lack, figures_fall_short
from lynxbench.model.fields import Scalar
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.result import Accuracy, Result
from lynxbench.model.serving import ServedEngine
from lynxbench.model.tuning import Confirmed, Trial, TrialStatus, TuningDocument, TuningVerdict, WinnersCurse
from lynxbench.stats.intervals import log_mean_interval, mean_interval

CONFIRMATIONS = 5
"""Pairs of fresh processes, each on a seed of its own: the fewest that a verdict rests on (comparability rule R14)."""
SPARE_PAIRS = 3
"""Further pairs at most, where some turned out to be no sound evidence; how fast they were plays no part."""
LARGEST_SEED = 2**31 - 1
FAR = 2.0
"""Times the allowed loss. A loss that is a distance, as relative-error is, stays above the limit in a further setting
of the same format as long as that moves the answers by no more than the limit."""


class ProofRule(StrEnum):
    """What `improved` was said by: documents verify by the rule of their day."""

    NO_GATE = "no gate"
    """Neither pairs nor soundness were asked about."""
    EVERY_PAIR = "every pair"
    """Five pairs or more, and each of their processes sound."""
    FIVE_SOUND = "five sound"
    """Five sound pairs or more, that say by themselves what all of them say."""


class PrintedTuning(TuningDocument):
    """A tuning's document with its own name, as `tune --json` prints it."""

    analysis_id: str | None = None


def describe_tuning(
    folder: TuningFolder, space: Space, now: datetime | None, *, rule: ProofRule = ProofRule.FIVE_SOUND
) -> TuningDocument:
    """The document of a tuning as far as it came, by today's rule of proof or an earlier one."""
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
    lacks = [[] if rule is ProofRule.NO_GATE else pair_lacks(folder, pair) for pair in state.pairs]
    sound = [i for i, lines in enumerate(lacks) if not lines and _is_whole(state.pairs[i])]
    by_sound = _gain(
        [values["baseline"][i] for i in sound], [values["tuned"][i] for i in sound], confidence, higher=higher
    )
    short_of = [] if rule is ProofRule.NO_GATE else _shortfalls(state.pairs, lacks)
    if rule is ProofRule.FIVE_SOUND and len(sound) >= CONFIRMATIONS:
        same = gain is None or not any(lacks) or _side(gain) == _side(by_sound)
        short_of = [] if same else [f"the {len(sound)} pairs that are sound evidence do not say the same by themselves"]
    refused = best is not None and best.accuracy.startswith("no-go")
    verdict = _verdict(chosen, gain, refused=refused, proven=not short_of)
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
        sentence=_sentence(verdict, setting, gain, len(state.trials), space.settings)
        + (_not_proven(verdict, short_of) if short_of else _set_aside(verdict, state.pairs, lacks)),
        accuracy_missing=NO_SERVED_ACCURACY if isinstance(contract.engine, ServedEngine) else "",
        notes=state.notes,
    )


def read_tuning(path: Path) -> TuningDocument:
    """A tuning's document, as its folder keeps it or as a command printed it; of an unfinished one, as far as it is."""
    if path.is_dir() and not (path / OUTCOME_FILE).is_file():
        folder = TuningFolder.open(path)
        return describe_tuning(folder, space_of(folder.state.contract), None)
    file = path / OUTCOME_FILE if path.is_dir() else path
    printed = read_document(file, PrintedTuning, f"give a tuning's folder or its {OUTCOME_FILE}")
    document = TuningDocument.model_validate_json(printed.model_dump_json(exclude={"analysis_id"}, by_alias=True))
    if printed.analysis_id not in (None, analysis_id(document)):
        raise BadResult(f"{file}: its analysis_id does not match the content; it was changed after it was printed")
    return document


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


def refused_far(folder: TuningFolder, trial: Trial) -> bool:
    """Whether the gate refused a trial with a loss far above what the contract allows."""
    contract = folder.state.contract
    policy = contract.policy.accuracy
    if trial.status is not TrialStatus.REFUSED or policy is None:
        return False
    accuracy = hold_against(folder.runs / folder.state.baseline_run, folder.runs / trial.run, contract)
    loss = None if isinstance(accuracy, str) else accuracy.loss
    return loss is not None and loss > FAR * policy.largest_loss > 0


def confirmation_seeds(state: TuningState, spare: int = 0) -> list[int]:
    """Seeds of the confirmation and of spare pairs: drawn from the tuning's own seed, never what trials ran on."""
    searched = state.contract.workload.seed
    drawn = np.random.default_rng(state.seed ^ 0x5EED).integers(1, LARGEST_SEED, 8 * CONFIRMATIONS + 100)
    fresh = [int(seed) for seed in dict.fromkeys(drawn.tolist()) if int(seed) != searched]
    return fresh[: state.confirmations + spare]


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


def pair_lacks(folder: TuningFolder, pair: ConfirmationPair) -> list[str]:
    """Why processes of a pair are no sound evidence, a line each; empty where both are."""
    lines = []
    for name in (pair.baseline_run, pair.tuned_run):
        if name and (folder.runs / name / RESULT_FILE).exists():
            result = read_result(folder.runs / name)
            short_of = figures_fall_short(result, result.per_precision[0])
            lines += [part.says for part in short_of if part.lack is not Lack.EMULATED][:1]
    return lines


def _is_whole(pair: ConfirmationPair) -> bool:
    return bool(pair.baseline_run and pair.tuned_run)


def further_seed(folder: TuningFolder, pairs: Sequence[ConfirmationPair]) -> int | None:
    """The seed of a further pair where too few are sound and spare ones can still make up for it; None elsewhere."""
    state = folder.state
    if state.confirmations < CONFIRMATIONS:
        return None  # no verdict could rest on them anyway
    seeds = confirmation_seeds(state, spare=SPARE_PAIRS)
    sound = sum(_is_whole(pair) and not pair_lacks(folder, pair) for pair in pairs)
    missing = state.confirmations - sound
    left = len(seeds) - len(pairs)
    return seeds[len(pairs)] if 0 < missing <= left else None


def _shortfalls(pairs: Sequence[ConfirmationPair], lacks: Sequence[list[str]]) -> list[str]:
    """What the confirmation lacks: pairs, and processes that are sound evidence each."""
    whole = sum(_is_whole(pair) for pair in pairs)
    lines = [] if whole >= CONFIRMATIONS else [f"{whole} pairs, where a verdict rests on {CONFIRMATIONS}"]
    return lines + [line for of_pair in lacks for line in of_pair]


def _side(gain: Interval) -> int:
    """1 where a gain is shown, −1 where a loss is, 0 where neither."""
    return 0 if not gain.known else (gain.low > 1) - (gain.high < 1)


def _set_aside(verdict: TuningVerdict, pairs: Sequence[ConfirmationPair], lacks: Sequence[list[str]]) -> str:
    """What stands beside a verdict that rests on enough sound pairs, where there are others too."""
    halves = [[] if _is_whole(pair) else ["a process of it gave nothing"] for pair in pairs]
    unsound = [lines or half for lines, half in zip(lacks, halves, strict=True) if lines or half]
    if not unsound or verdict in (TuningVerdict.REFUSED, TuningVerdict.NOTHING_PASSED):
        return ""
    return f"; {len(unsound)} of {len(lacks)} pairs are no sound evidence ({unsound[0][0]}), the others say the same"


def _not_proven(verdict: TuningVerdict, short_of: Sequence[str]) -> str:
    """Why a difference is not proven, where evidence alone keeps it from that."""
    if verdict not in (TuningVerdict.INDICATED, TuningVerdict.NO_GAIN) or not short_of:
        return ""
    more = f", and {len(short_of) - 1} more" if len(short_of) > 1 else ""
    return f"; nothing is proven by it: {short_of[0]}{more}"


def _verdict(chosen: Point | None, gain: Interval | None, *, refused: bool, proven: bool) -> TuningVerdict:
    if chosen is None:
        return TuningVerdict.NOTHING_PASSED
    if refused:
        return TuningVerdict.REFUSED
    if gain is not None and gain.known and gain.low > 1:
        return TuningVerdict.IMPROVED if proven else TuningVerdict.INDICATED
    if gain is not None and gain.known and gain.high < 1 and proven:
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
        TuningVerdict.INDICATED: "did better than the baseline on processes and seeds that the search never saw",
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
