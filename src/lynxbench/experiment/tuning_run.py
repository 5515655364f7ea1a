"""The order of a tuning: baseline, trials under the budget, one choice, then confirmation on what was never seen."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Protocol

from lynxbench.errors import BadInput, CannotRun, Interrupted
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.folders import newest_unfinished
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.declaration import Declaration
from lynxbench.experiment.cells import changed, seeded, shown, space_of, tuned, untuned, variables
from lynxbench.experiment.searching import Method, Point, TrialOutcome, search_of
from lynxbench.experiment.tuning_folder import OUTCOME_FILE, TUNING_FILE, ConfirmationPair, TuningFolder
from lynxbench.experiment.tuning_outcome import (
    CONFIRMATIONS,
    confirmation_seeds,
    describe_tuning,
    further_seed,
    gate,
    outcomes_of,
    refused_far,
)
from lynxbench.experiment.visiting import NO_SERVED_ACCURACY, Setting, Visits, take, visit_response
from lynxbench.measure.responses import THROUGHPUT
from lynxbench.model.contract import Contract, Regime
from lynxbench.model.fields import Scalar
from lynxbench.model.serving import ServedEngine
from lynxbench.model.tuning import Trial, TrialStatus, TuningDocument
from lynxbench.run.run_outcome import Progress, Recorders

MOST_TRIALS = 10_000


class TuningProgress(Progress, Protocol):
    """Who is told how far the tuning is."""

    def trial(self, words: str) -> None:
        """What comes next."""


@dataclass(frozen=True, slots=True)
class TuningFinished:
    """A tuning's document, the contract to use from now on, and where everything lies."""

    document: TuningDocument
    contract: Contract | None
    folder: Path


def run_tuning(
    contract: Contract,
    out: Path,
    declaration: Declaration | None,
    progress: TuningProgress,
    recorders: Recorders,
    *,
    method: Method = Method.MODEL,
    seed: int = 20260101,
    confirmations: int = CONFIRMATIONS,
    resume: bool = False,
) -> TuningFinished:
    """Tune within what the contract allows, or go on with the newest unfinished tuning of it."""
    space_of(contract)  # refused before anything is written
    if isinstance(contract.engine, ServedEngine) and contract.policy.accuracy is not None:
        raise BadInput(
            f"{contract.name}: policy.accuracy: {NO_SERVED_ACCURACY}, so no setting could pass it; "
            "tune in-process, or leave the policy out and check the answers by other means"
        )
    if resume:
        unfinished = newest_unfinished(
            out,
            TUNING_FILE,
            OUTCOME_FILE,
            TuningFolder.open,
            lambda folder: folder.state.contract.contract_id == contract.contract_id,
        )
        if unfinished is None:
            raise BadInput(f"{out}: no unfinished tuning of {contract.name}; start one without --resume")
        folder = unfinished
    else:
        search_of(method, space_of(contract), seed)  # refused before anything is written
        response = response_of(contract)
        folder = TuningFolder.create(out, contract, method, response, seed, confirmations, datetime.now(UTC))
    visits = Visits(runs=folder.runs, environments=out, base=Path(), declaration=declaration, recorders=recorders)
    return _Tuning(folder, visits, progress).carry_out()


def response_of(contract: Contract) -> str:
    """What good means: the latency regime's first bound, or the median latency; else throughput."""
    if contract.regime is not Regime.LATENCY:
        return THROUGHPUT
    slo = contract.objective.slo[0] if contract.objective.slo else None
    if slo is None:
        return "latency-p50"
    near = min((50, 90, 95, 99), key=lambda p: abs(p - slo.percentile))
    return f"{slo.metric.value}-p{near}"


class _Tuning:
    """One tuning at work."""

    def __init__(self, folder: TuningFolder, visits: Visits, progress: TuningProgress) -> None:
        self.folder, self.visits, self.progress = folder, visits, progress
        self.contract = folder.state.contract
        self.space = space_of(self.contract)
        self.served = isinstance(self.contract.engine, ServedEngine)
        self.far: list[bool] = []
        """Of each trial, whether the accuracy gate refused it by far."""

    def carry_out(self) -> TuningFinished:
        began = perf_counter()
        before_s = self.folder.state.spent_s
        try:
            self._baseline()
            if not self.folder.state.ended_by:
                self._search(began, before_s)
            self._confirm()
        except KeyboardInterrupt:
            raise Interrupted.while_kept_in(self.folder.path) from None
        finally:
            self.folder.set(spent_s=before_s + perf_counter() - began)
        document = describe_tuning(self.folder, self.space, datetime.now(UTC))
        write_text(self.folder.path / OUTCOME_FILE, document.model_dump_json(indent=1))
        chosen = self.folder.state.chosen
        best = tuned(self.contract, self.space.at(chosen)) if chosen is not None else None
        return TuningFinished(document, best, self.folder.path)

    # --- searching ---

    def _baseline(self) -> None:
        if self.folder.state.baseline_run:
            return
        self.progress.trial("baseline, as the contract has it")
        ran = self._run(untuned(self.contract), {})
        if isinstance(ran, str):
            raise CannotRun(f"{self.contract.name}: the baseline cannot be measured: {ran}")
        name, value = ran
        self.folder.set(baseline_run=name, baseline_value=value)

    def _search(self, began: float, before_s: float) -> None:
        state, allowed = self.folder.state, self.contract.optimisation
        search = search_of(state.method, self.space, state.seed)
        most = min(allowed.trials or MOST_TRIALS, MOST_TRIALS)
        if allowed.trials is None:
            most = min(most, self.space.settings)
        while True:
            done = self.folder.state.trials
            spent_s = before_s + perf_counter() - began
            if len(done) >= most:
                self.folder.set(ended_by=f"{most} trials")
                break
            if allowed.time_s is not None and spent_s >= allowed.time_s:
                self.folder.set(ended_by=f"{allowed.time_s:g} s of search")
                break
            left = most - len(done)
            if allowed.time_s is not None and done:
                left = max(1, min(left, int((allowed.time_s - spent_s) / (spent_s / len(done))) + 1))
            point = search.ask(self._told(), left)
            self._try(len(done), point, most)
        chosen = search.choose(outcomes_of(self.folder.state))
        self.folder.set(chosen=chosen)

    def _told(self) -> list[TrialOutcome]:
        """What the search is told before it asks; how far the gate's refusals went is looked up once a trial."""
        for trial in self.folder.state.trials[len(self.far) :]:
            self.far.append(refused_far(self.folder, trial))
        outcomes = outcomes_of(self.folder.state)
        return [replace(one, far=far) for one, far in zip(outcomes, self.far, strict=True)]

    def _try(self, number: int, point: Point, most: int) -> None:
        setting = self.space.at(point)
        self.progress.trial(f"trial {number + 1}/{most}: {shown(setting)}")
        trial = self._measured(number, setting)
        if trial.status is not TrialStatus.MEASURED:
            self.progress.trial(f"  {trial.status.value}: {trial.reason or trial.accuracy}")
        state = self.folder.state
        self.folder.set(trials=(*state.trials, trial), points=(*state.points, point))

    def _measured(self, number: int, setting: Mapping[str, Scalar]) -> Trial:
        base = Trial(number=number, setting=dict(setting), status=TrialStatus.FAILED)
        try:
            contract = tuned(self.contract, setting)
        except BadInput as error:
            return base.model_copy(update={"reason": str(error)})
        ran = self._run(contract, variables(setting))
        if isinstance(ran, str):
            return base.model_copy(update={"reason": ran, "contract_id": contract.contract_id})
        name, value = ran
        result = read_result(self.folder.runs / name)
        known = {"run": name, "contract_id": result.contract_id, "result_id": result.result_id}
        if value is None:
            reason = "; ".join(result.validity.reasons)
            return base.model_copy(update={**known, "status": TrialStatus.VOID, "reason": reason})
        # Accuracy before speed: a setting that the gate refuses has no response in this search.
        passes, words = gate(self.folder, name)
        status = TrialStatus.MEASURED if passes else TrialStatus.REFUSED
        return base.model_copy(update={**known, "status": status, "response": value, "accuracy": words})

    def _run(self, contract: Contract, environment: Mapping[str, str]) -> tuple[str, float | None] | str:
        """One fresh process as a run of its own: its folder and its response, or why there is none."""
        setting = Setting(contract=changed(contract, {}, restarts=1), environment=environment)
        try:
            if self.served:
                finished = self.visits.ask(setting, self.progress, self.folder.path / "server.txt")
            else:
                run = self.visits.begin(setting)
                why = take(run, 0, self.progress)
                if why:
                    self.visits.abandon(run, why)
                    return why
                finished = self.visits.end(run, self.progress)
        except CannotRun as error:
            return str(error)
        return finished.folder.name, visit_response(finished.folder, self.folder.state.response)

    # --- confirming ---

    def _confirm(self) -> None:
        chosen = self.folder.state.chosen
        if chosen is None:
            return
        for index, seed in enumerate(confirmation_seeds(self.folder.state)):
            self._confirm_pair(chosen, index, seed)
        while (further := further_seed(self.folder, self.folder.state.pairs)) is not None:
            self.progress.trial("a pair was no sound evidence: one more is taken")
            self._confirm_pair(chosen, len(self.folder.state.pairs), further)

    def _confirm_pair(self, chosen: Point, index: int, seed: int) -> None:
        """Baseline and tuned on one seed, in fresh processes; what is there already stays."""
        setting = self.space.at(chosen)
        pairs = self.folder.state.pairs
        pair = pairs[index] if index < len(pairs) else ConfirmationPair(seed=seed)
        planned = max(self.folder.state.confirmations, index + 1)
        # The order turns with every pair, so that a drift of the machine favours neither.
        for which in ("baseline", "tuned") if index % 2 == 0 else ("tuned", "baseline"):
            if getattr(pair, f"{which}_run") is not None:
                continue
            self.progress.trial(f"confirmation {index + 1}/{planned}: {which}, seed {seed}")
            is_tuned = which == "tuned"
            base = tuned(self.contract, setting) if is_tuned else untuned(self.contract)
            ran = self._run(seeded(base, seed), variables(setting) if is_tuned else {})
            name = "" if isinstance(ran, str) else ran[0]
            if isinstance(ran, str):
                self.folder.set(notes=(*self.folder.state.notes, f"confirmation, {which}, seed {seed}: {ran}"))
            pair = pair.model_copy(update={f"{which}_run": name})
            self.folder.set(pairs=(*self.folder.state.pairs[:index], pair))
