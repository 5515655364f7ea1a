"""That a tuning's record is one plan carried out: each run is its own, of its setting, its time and one machine."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from lynxbench.evidence.documents import read_result
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.evidence.statement import parse_time
from lynxbench.experiment.cells import changed, untuned, variables
from lynxbench.experiment.searching import Space
from lynxbench.experiment.tuning_folder import ConfirmationPair, TuningFolder, TuningState
from lynxbench.experiment.tuning_outcome import confirmation_seeds
from lynxbench.experiment.tuning_run import response_of
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Tier
from lynxbench.model.fields import Scalar
from lynxbench.model.layers import Layer
from lynxbench.model.serving import ServedEngine
from lynxbench.model.tuning import Trial, TrialStatus


def plan_problems(folder: TuningFolder, space: Space) -> Iterator[str]:
    """What in a tuning's record is not as `tune` would have left it, a line each."""
    state = folder.state
    allowed = state.contract.optimisation.trials
    if state.response != response_of(state.contract):
        yield f"judged by {state.response}, where its contract asks for {response_of(state.contract)}"
    if allowed is not None and len(state.trials) > allowed:
        yield f"{len(state.trials)} trials where {allowed} are allowed"
    pairs = [(pair.baseline_run, pair.tuned_run) for pair in state.pairs]
    named = [state.baseline_run, *(trial.run for trial in state.trials), *(name for pair in pairs for name in pair)]
    yield from (f"{name} stands in two places" for name, times in Counter(filter(None, named)).items() if times > 1)
    if not state.baseline_run:
        yield "it has no baseline that answers were held against"
    elif not is_of(folder.runs / state.baseline_run, untuned(state.contract)):
        yield f"the baseline {state.baseline_run} is of another contract"
    yield from _surroundings(folder, state.baseline_run, {})
    if len(state.points) != len(state.trials):
        yield f"{len(state.trials)} trials of {len(state.points)} settings asked for"
    for number, (trial, point) in enumerate(zip(state.trials, state.points, strict=False)):
        if trial.number != number or trial.setting != space.at(point):
            yield f"trial {number + 1} is not of the setting that was asked for"
        yield from _stated_of(folder, trial)
        yield from _surroundings(folder, trial.run, trial.setting)
    if state.chosen is not None:
        planned = len(confirmation_seeds(state))
        if len(pairs) < planned:
            yield f"{len(pairs)} pairs where {planned} were planned"
        for pair in state.pairs:
            yield from _surroundings(folder, pair.baseline_run, {})
            yield from _surroundings(folder, pair.tuned_run, space.at(state.chosen))
            yield from _apart(folder, pair, by_devices=not variables(space.at(state.chosen)))
    yield from _out_of_time(folder, state)


def is_of(path: Path, contract: Contract) -> bool:
    """Whether a run is one process of a contract."""
    return read_result(path).contract_id == changed(contract, {}, restarts=1).contract_id


def given_variables(path: Path) -> dict[str, str] | None:
    """What a run's processes were given, which is no part of its contract; None where it left no registration."""
    if not (path / REGISTRATION_FILE).is_file():
        return None
    around = RunFolder.open(path).registration.surroundings
    return {} if around is None else dict(around.environment)


def _stated_of(folder: TuningFolder, trial: Trial) -> Iterator[str]:
    """What gave no figure states none."""
    label = f"trial {trial.number + 1}"
    if not trial.run:
        if trial.status is not TrialStatus.FAILED or trial.result_id is not None:
            yield f"{label}: stated {trial.status.value}, and no run of it is named"
    elif trial.contract_id != read_result(folder.runs / trial.run).contract_id:
        yield f"{label}: its run is of another contract than the one stated"
    if trial.status in (TrialStatus.FAILED, TrialStatus.VOID) and (trial.response is not None or trial.accuracy):
        yield f"{label}: {trial.status.value}, and states a figure"


def _surroundings(folder: TuningFolder, name: str | None, setting: Mapping[str, Scalar]) -> Iterator[str]:
    """A server is given its setting's variables, the client that asks it none."""
    if not name or isinstance(folder.state.contract.engine, ServedEngine):
        return
    given = given_variables(folder.runs / name)
    if given is not None and given != variables(setting):
        yield f"{name}: its processes were given {given}, its setting has {variables(setting)}"


def _apart(folder: TuningFolder, pair: ConfirmationPair, *, by_devices: bool) -> Iterator[str]:
    """A pair is of one machine; of one device, too, where no variable of the setting may choose it."""
    if pair.baseline_run and pair.tuned_run:
        sides = [_machine(folder.runs / name, by_devices) for name in (pair.baseline_run, pair.tuned_run)]
        if sides[0] != sides[1]:
            yield f"{pair.baseline_run} and {pair.tuned_run} are of two machines"


def _machine(path: Path, by_devices: bool) -> list[tuple[str, str, object]]:
    layers = read_result(path).executor.layers
    return [
        (layer.value, name, field.value)
        for layer, fields in sorted(layers.items())
        for name, field in sorted(fields.items())
        if field.tier is Tier.INSTANCE and (by_devices or layer is Layer.SYSTEM)
    ]


def _out_of_time(folder: TuningFolder, state: TuningState) -> Iterator[str]:
    """Registered, then searched, then confirmed: nothing that was measured before is picked for it."""

    def begun(names: list[str]) -> dict[str, float]:
        return {name: parse_time(read_result(folder.runs / name).started_at).timestamp() for name in names}

    searched = begun([name for name in (state.baseline_run, *(trial.run for trial in state.trials)) if name])
    confirmed = begun([name for pair in state.pairs for name in (pair.baseline_run, pair.tuned_run) if name])
    registered = parse_time(state.registered_at).timestamp()
    yield from (f"{name} is older than the tuning" for name, at in searched.items() if at < registered)
    last = max(searched.values(), default=registered)
    yield from (f"{name} is older than the choice that it confirms" for name, at in confirmed.items() if at < last)
