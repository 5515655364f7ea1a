"""`verify` of an experiment, a tuning or a fleet run: its analysis made again from the results that it cites.

What is planned (cells, order, seeds) follows from the definition; what is concluded follows from the results, and these
from their own samples: an analysis of figures that nobody can compute again cannot be verified either.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from lynxbench import __version__
from lynxbench.compare.instances import naming_one_layer
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.documents import RESULT_FILE, read_result
from lynxbench.evidence.statement import parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.experiment.cells import changed, plan_cells, seeded, space_of, tuned, untuned
from lynxbench.experiment.experiment_folder import RUNS, ExperimentFolder
from lynxbench.experiment.experiment_outcome import blocks_of_lane, describe, kept_values
from lynxbench.experiment.searching import search_of
from lynxbench.experiment.tuning_folder import TuningFolder
from lynxbench.experiment.tuning_outcome import (
    SPARE_PAIRS,
    ProofRule,
    confirmation_seeds,
    describe_tuning,
    further_seed,
    gate,
    outcomes_of,
)
from lynxbench.experiment.visiting import visit_response
from lynxbench.fleet.fleet_book import FleetState, read_state
from lynxbench.fleet.fleet_report import report_units
from lynxbench.ledger.analysis_entries import parse_analysis
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Logged
from lynxbench.ledger.queries import find_result
from lynxbench.ledger.result_standings import standings
from lynxbench.model.analyses import AnalysisDocument, analysis_id
from lynxbench.model.canonical import short
from lynxbench.model.comparison import CauseKind
from lynxbench.model.entries import Concluded
from lynxbench.model.experiment import CellShown, CellStatus, ExperimentDocument
from lynxbench.model.fleet import FleetReport, UnitState
from lynxbench.model.result import Result
from lynxbench.model.serving import ServedEngine
from lynxbench.model.tuning import TrialStatus, TuningDocument
from lynxbench.model.verification import FIGURES_LINE, Check, CheckOutcome, VerificationReport, cannot, fails, holds
from lynxbench.record.recalling import check_entry
from lynxbench.record.recalling_analyses import body_of, lay_out_analysis
from lynxbench.record.recording_analyses import (
    analysis_folder,
    experiment_runs,
    read_analysis,
    read_stated,
    tuning_runs,
)
from lynxbench.record.tuning_plan import given_variables, is_of, plan_problems
from lynxbench.record.value_check import compare
from lynxbench.record.verifying import guarded, verify_folder
from lynxbench.stats.designs import blocked_order

BY_EARLIER = "as stated by an earlier rule"

NOT_COMPARED = frozenset({"schema_version", "lynxbench_version"})


def verify_analysis_folder(path: Path) -> VerificationReport:
    """Make an analysis again from the folder that it was made in, and say what differs."""
    folder, kind = analysis_folder(path)
    stated = read_stated(folder, kind)
    checks = guarded("record", lambda: _checks(folder, stated))
    checks += guarded("results", lambda: _results_again(_run_folders(folder, stated), {}))
    return VerificationReport(analysis_id(stated), (*checks, *_program(stated)), kind.value)


def _run_folders(folder: Path, stated: AnalysisDocument) -> list[Path]:
    """Where the results of an analysis lie."""
    if isinstance(stated, FleetReport) and not (folder / RUNS).is_dir():
        done = (unit for unit in read_state(folder).units if unit.state is UnitState.DONE)
        return [folder / unit.folder for unit in done if unit.folder]
    return sorted(path.parent for path in (folder / RUNS).glob(f"*/{RESULT_FILE}"))


def _results_again(folders: Sequence[Path], left_out: Mapping[Path, Mapping[str, str]]) -> list[Check]:
    """Every result computed again; a line on each that does not hold, else one on all of them."""
    reports = [verify_folder(folder, left_out=left_out.get(folder, {})) for folder in folders]
    wrong = [
        fails(f"result {short(report.result_id)}", check.line)
        for report in reports
        for check in report.checks
        if check.outcome is CheckOutcome.DOES_NOT_HOLD
    ]
    wrong += [
        cannot(f"result {short(report.result_id)} attribution", "its traces were left out of a bundle")
        for report in reports
        if report.without_traces
    ]
    bare = [short(report.result_id) for report in reports if not report.recomputed]
    if bare or not reports:
        why = f"{len(bare)} of {len(reports)} results cannot be verified: {bare[0]}" if bare else "it has no result"
        return [*wrong, cannot(FIGURES_LINE, why)]
    return [*wrong, holds(FIGURES_LINE, f"of {len(reports)} results, computed again from their samples")]


def _checks(folder: Path, stated: AnalysisDocument) -> list[Check]:
    if isinstance(stated, ExperimentDocument):
        return check_experiment(ExperimentFolder.open(folder), stated)
    if isinstance(stated, TuningDocument):
        return check_tuning(TuningFolder.open(folder), stated)
    state = read_state(folder)
    done = [unit for unit in state.units if unit.state is UnitState.DONE and unit.folder]
    return check_fleet(state, {unit.name: read_result(folder / str(unit.folder)) for unit in done}, stated)


def verify_logged(ledger: OpenLedger, logged: Logged, folder: Path, trust: TrustList) -> VerificationReport:
    """The same out of the ledger, laid out in `folder`; signatures, inclusion and standings come from the log."""
    body = body_of(logged)
    checks = list(ledger_lines(ledger, logged, trust))
    try:
        stated = parse_analysis(ledger.blobs.get(body.analysis_id), body, "analysis")
        left_out = lay_out_analysis(ledger, logged, folder)
    except LynxbenchError as error:
        return VerificationReport(body.analysis_id, (fails("analysis", str(error)), *checks), body.kind.value)
    checks.append(holds("analysis", "says what its entry says"))
    if isinstance(stated, FleetReport):
        checks += guarded("record", lambda: _logged_fleet(folder, stated))
    else:
        checks += guarded("record", lambda: [*_checks(folder, stated), _same_results(folder, body)])
    checks += guarded("results", lambda: _results_again(_run_folders(folder, stated), left_out))
    return VerificationReport(body.analysis_id, (*checks, *_program(stated)), body.kind.value)


def ledger_lines(ledger: OpenLedger, logged: Logged, trust: TrustList) -> tuple[Check, ...]:
    """What the ledger adds: who signed, that the entry is in the log, and how the results that it rests on stand today.

    What is taken back carries nothing.
    """
    checks, body = check_entry(ledger, logged, trust), body_of(logged)
    gone = [name for name in body.cites if find_result(ledger.log, name) is None]
    checks += [fails(f"result {short(name)}", "is not in this ledger") for name in gone]
    known = standings(ledger.log, [name for name in body.cites if name not in gone], trust)
    for name, standing in known.items():
        line = f"result {short(name)}"
        checks += [cannot(line, f"contested by {voice.by}: {voice.text}") for voice in standing.contested]
        checks += [fails(line, f"retracted by {voice.by}: {voice.text}") for voice in standing.retracted]
    if not gone:
        checks.append(holds("results", f"{len(body.cites)} in this ledger; each is computed again from its own files"))
    return tuple(checks)


def _logged_fleet(folder: Path, stated: FleetReport) -> list[Check]:
    """Units of a fleet by the ids of their results: where their folders were is another machine's business."""
    state = read_state(folder)
    by_id = {result.result_id: result for result in map(read_result, sorted((folder / RUNS).glob("*")))}
    missing = [unit.name for unit in state.units if unit.result_id and unit.result_id not in by_id]
    if missing:
        return [fails("results cited", f"the result of {missing[0]} is not among them")]
    return check_fleet(state, {unit.name: by_id[unit.result_id] for unit in state.units if unit.result_id}, stated)


def _same_results(folder: Path, body: Concluded) -> Check:
    """The entry must cite what was measured, not a part of it."""
    record = read_analysis(folder).body
    if (record.cites, record.without_result) == (body.cites, body.without_result):
        return holds("results cited", f"all {len(record.cites)}")
    return fails("results cited", f"the entry cites {len(body.cites)}, its record has {len(record.cites)}")


# --- an experiment ---------------------------------------------------------------------------------------------------


def check_experiment(folder: ExperimentFolder, stated: ExperimentDocument) -> list[Check]:
    """Plan, cells and analysis of an experiment, from its definition and its results."""
    plan, definition = folder.plan, folder.plan.definition
    experiment_runs(folder.state)  # refuses names that lead elsewhere
    cells = plan_cells(definition)
    checks = [
        compare("definition id", stated.definition_id, definition.definition_id),
        compare("order of visits", plan.order, blocked_order(len(cells), definition.restarts, definition.seed)),
    ]
    served = isinstance(definition.contract.engine, ServedEngine)
    wrong = _twice((name, name) for cell in cells for name in folder.cell(cell.number).runs.values())
    early: list[str] = []
    taken: list[tuple[str, str]] = []
    for cell in cells:
        for key, name in folder.cell(cell.number).runs.items():
            if not (folder.runs / name / RESULT_FILE).is_file():
                if not folder.cell(cell.number).infeasible:
                    wrong.append(f"{cell.words}: its run {name} has no result here")
                continue
            result = read_result(folder.runs / name)
            taken.append((result.result_id, f"{cell.words}: result {short(result.result_id)}"))
            alone = served or folder.state.dispatched  # a run of its own for every visit
            mine = 1 if alone else max(len(blocks_of_lane(folder, int(key))), 1)
            expected = None if cell.contract is None else changed(cell.contract, {}, restarts=mine)
            if expected is None or result.contract_id != expected.contract_id:
                wrong.append(f"{cell.words}: result {short(result.result_id)} is of another contract")
            elif problem := _surroundings_differ(folder.runs / name, cell.environment, served=served):
                wrong.append(f"{cell.words}: {problem}")
            if parse_time(result.started_at) < parse_time(plan.registered_at):
                early.append(f"result {short(result.result_id)} is older than the plan")
    checks.append(_first([*wrong, *_twice(taken)], "cells", "each result is of its own cell"))
    checks.append(_first(early, "registration", "the plan is older than every result"))
    named = _with_void_named(stated)
    if named != stated:
        checks.append(cannot("state of cells", "as stated by an earlier rule that calls void cells infeasible"))
    stated = named
    values = kept_values(folder, cells)
    ended = None if stated.finished_at is None else datetime.fromisoformat(stated.finished_at)
    why = f"{BY_EARLIER} that leaves out the spread between blocks; today's has it in"
    return checks + _compare_by_either(
        stated,
        describe(folder, cells, values, ended),
        (lambda: describe(folder, cells, values, ended, within_blocks=True), cannot("intervals of cells", why)),
    )


def _with_void_named(stated: ExperimentDocument) -> ExperimentDocument:
    """A cell whose every run was void had the word of one that cannot be run."""

    def named(cell: CellShown) -> CellShown:
        void = cell.status is CellStatus.INFEASIBLE and bool(cell.result_ids) and cell.reason.startswith("void: ")
        return cell.model_copy(update={"status": CellStatus.VOID}) if void else cell

    return stated.model_copy(update={"cells": tuple(map(named, stated.cells))})


def _surroundings_differ(path: Path, environment: dict[str, str], *, served: bool) -> str:
    given = None if served else given_variables(path)
    if given is None:
        return ""
    apart = [name for name, value in environment.items() if given.get(name) != value]
    return f"its processes were given {apart[0]}={given.get(apart[0])!r}" if apart else ""


# --- a tuning --------------------------------------------------------------------------------------------------------


def check_tuning(folder: TuningFolder, stated: TuningDocument) -> list[Check]:
    """Trials, choice, seeds and outcome of a tuning, from its contract and its results."""
    state, space = folder.state, space_of(folder.state.contract)
    missing = [name for name in tuning_runs(state) if not (folder.runs / name / RESULT_FILE).is_file()]
    if missing:
        return [fails("runs", f"{missing[0]} has no result here")]
    checks = [_first(list(plan_problems(folder, space)), "plan", "each run in its place, of its setting and its time")]
    checks += [_check_trials(folder), *_check_choice(folder)]
    wrong: list[str] = []
    chosen = {} if state.chosen is None else space.at(state.chosen)
    sides = (("baseline_run", untuned(state.contract)), ("tuned_run", tuned(state.contract, chosen)))
    seeds = confirmation_seeds(state, spare=SPARE_PAIRS)
    for number, (pair, seed) in enumerate(zip(state.pairs, seeds, strict=False)):
        if number >= state.confirmations and further_seed(folder, state.pairs[:number]) is None:
            wrong.append(f"pair {number + 1} of {state.confirmations} planned was not called for by those before it")
        if pair.seed != seed:
            wrong.append(f"seed {pair.seed} stands where {seed} was drawn")
        for which, contract in sides:
            name = getattr(pair, which)
            if name and not is_of(folder.runs / name, seeded(contract, seed)):
                wrong.append(f"{name} is of another contract")
    if len(state.pairs) > len(seeds):
        wrong.append(f"{len(state.pairs)} pairs where {state.confirmations} were planned")
    checks.append(_first(wrong, "confirmation", "on the seeds that were drawn"))
    ended = None if stated.finished_at is None else datetime.fromisoformat(stated.finished_at)
    earlier = {
        ProofRule.EVERY_PAIR: "which asked whether every process is sound, not whether five pairs are",
        ProofRule.NO_GATE: "which asked neither for five pairs nor whether each process is sound",
    }
    return checks + _compare_by_either(
        stated,
        describe_tuning(folder, space, ended),
        *(
            (partial(describe_tuning, folder, space, ended, rule=rule), cannot("verdict", f"{BY_EARLIER}, {why}"))
            for rule, why in earlier.items()
        ),
    )


def _check_trials(folder: TuningFolder) -> Check:
    state = folder.state
    for trial in (trial for trial in state.trials if trial.run):
        result = read_result(folder.runs / trial.run)
        label = f"trial {trial.number + 1}"
        if result.result_id != trial.result_id:
            return fails("trials", f"{label}: result {short(result.result_id)} is another than the one stated")
        if not is_of(folder.runs / trial.run, tuned(state.contract, trial.setting)):
            return fails("trials", f"{label}: its result is of another setting")
        value = visit_response(folder.runs / trial.run, state.response)
        if value is None:
            if trial.status is not TrialStatus.VOID:
                return fails("trials", f"{label}: stated {trial.status.value}, recomputed void")
            continue
        compared = compare("trials", trial.response, value)
        if compared.why:
            return fails("trials", f"{label}: {compared.why}")
        passes, words = gate(folder, trial.run)
        status = TrialStatus.MEASURED if passes else TrialStatus.REFUSED
        if (trial.status, trial.accuracy) != (status, words):
            return fails("trials", f"{label}: stated {trial.status.value} ({trial.accuracy}), recomputed {words}")
    return holds("trials", f"{len(state.trials)}, each with its response and the accuracy gate")


def _check_choice(folder: TuningFolder) -> list[Check]:
    state = folder.state
    try:
        search = search_of(state.method, space_of(state.contract), state.seed)
    except LynxbenchError as error:
        return [cannot("choice", str(error))]
    return [compare("choice", state.chosen, search.choose(outcomes_of(state)))]


# --- a fleet ---------------------------------------------------------------------------------------------------------


def check_fleet(state: FleetState, results: dict[str, Result], stated: FleetReport) -> list[Check]:
    """Units and comparison of a fleet run, from its results."""
    wrong = [
        f"{name}: {short(result.result_id)} is of another contract"
        for name, result in results.items()
        if result.contract_id != state.contract.contract_id
    ]
    units = {unit.name: unit for unit in state.units}
    wrong += [name for name, result in results.items() if units[name].result_id != result.result_id]
    wrong += _twice((unit.name, unit.name) for unit in state.units)
    wrong += _twice((result.result_id, f"{name}: {short(result.result_id)}") for name, result in results.items())
    wrong += [
        f"{unit.name}: {unit.state.value}, and {'a' if unit.name in results else 'no'} result of it is here"
        for unit in state.units
        if (unit.state is UnitState.DONE) != (unit.name in results)
    ]
    checks = [_first(wrong, "units", f"{len(results)} results, each of this contract")]
    begun = parse_time(state.started_at)
    older = [name for name, result in results.items() if parse_time(result.started_at) < begun]
    if older:  # by two clocks: the node's, and that of whoever asked it
        checks.append(cannot("times of units", f"{older[0]}: by its node's clock it began before the fleet run"))
    return checks + compare_documents(stated, _as_written(stated, report_units(state, results)))


def _as_written(stated: FleetReport, made: FleetReport) -> FleetReport:
    """The report made again in the form that the stated one has: earlier versions named one of several layers."""
    causes = [row.cause for part in stated.per_precision for row in part.instances if row.cause is not None]
    if not any(cause.kind is CauseKind.NOT_SEPARABLE and cause.layer is not None for cause in causes):
        return made
    parts = [
        part.model_copy(update={"instances": tuple(map(naming_one_layer, part.instances))})
        for part in made.per_precision
    ]
    return made.model_copy(update={"per_precision": tuple(parts)})


# --- all of them -----------------------------------------------------------------------------------------------------


def _twice(places: Iterable[tuple[str, str]]) -> list[str]:
    """Of what is taken by its id, the words of each place that takes one again: one measurement is not two."""
    seen, again = set[str](), list[str]()
    for identifier, words in places:
        again += [f"{words} stands in two places"] if identifier in seen else []
        seen.add(identifier)
    return again


def _first(problems: Sequence[str], name: str, otherwise: str) -> Check:
    return fails(name, problems[0]) if problems else holds(name, otherwise)


def compare_documents(stated: AnalysisDocument, again: AnalysisDocument) -> list[Check]:
    """One line for every part of an analysis, stated against made again."""
    names: Sequence[str] = [name for name in type(stated).model_fields if name not in NOT_COMPARED]
    parts = [compare(name.replace("_", " "), getattr(stated, name), getattr(again, name)) for name in names]
    if all(not part.why for part in parts) and analysis_id(stated) == analysis_id(again):
        parts.append(holds("analysis id", "the same, digit by digit"))
    return parts


def _compare_by_either(
    stated: AnalysisDocument, again: AnalysisDocument, *earlier: tuple[Callable[[], AnalysisDocument], Check]
) -> list[Check]:
    """By today's rule; what only an earlier one gives holds by that, and it is told. The newest of them first."""
    parts = compare_documents(stated, again)
    if all(part.outcome is not CheckOutcome.DOES_NOT_HOLD for part in parts):
        return parts
    for describe_earlier, told in earlier:
        older = compare_documents(stated, describe_earlier())
        if all(part.outcome is not CheckOutcome.DOES_NOT_HOLD for part in older):
            return [*older, told]
    return parts


def _program(stated: AnalysisDocument) -> Iterable[Check]:
    made_by = getattr(stated, "lynxbench_version", __version__)
    if made_by != __version__:
        yield cannot("program", f"made by lynxbench {made_by}, it says; recomputed by {__version__}")
