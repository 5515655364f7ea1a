"""Experiments, tunings and fleet runs into the ledger, from the folders that they left.

The entry brings the analysis itself, what was planned and how far it came; its cells are results of their own.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lynxbench.errors import BadInput, EvidenceInvalid, Refused
from lynxbench.evidence.documents import RESULT_FILE, read_document, read_result
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.run_folder import REGISTRATION_FILE
from lynxbench.experiment.experiment_folder import RUNS, ExperimentFolder, ExperimentState
from lynxbench.experiment.tuning_folder import TuningFolder, TuningState
from lynxbench.fleet.fleet_book import read_state
from lynxbench.fleet.fleet_report import report_fleet
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.names import find_analysis
from lynxbench.ledger.queries import find_result
from lynxbench.model.analyses import FILES, FORMS, AnalysisBody, AnalysisDocument, analysis_bytes, conclude
from lynxbench.model.canonical import JsonValue, short
from lynxbench.model.entries import EntryKind
from lynxbench.model.fleet import UnitState
from lynxbench.model.secrets import find_literal, find_secret, secret_values
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.record.recalling_analyses import plain_names
from lynxbench.record.recording import Recorded, blob_of, record_folder, seal


@dataclass(frozen=True, slots=True)
class Analysed:
    """An analysis on its way into a ledger: the entry's body, its documents, and where its results lie."""

    body: AnalysisBody
    files: Mapping[str, bytes]
    folders: tuple[Path, ...]
    """Of its results."""


def analysis_kind(path: Path) -> EntryKind | None:
    """What a folder, or the analysis in it, is of; None where it is of none."""
    folder = path if path.is_dir() else path.parent
    for kind, names in FILES.items():
        if (path.is_dir() or path.name in names) and (folder / names[1]).is_file():
            return kind
    return None


def read_analysis(path: Path) -> Analysed:
    """A finished experiment, tuning or fleet run, as its folder has it."""
    folder, kind = analysis_folder(path)
    main, *others = FILES[kind]
    runs = _run_folders(folder, kind)
    folders = tuple(run for run in runs if (run / RESULT_FILE).is_file())
    without = [run.name for run in runs if run not in folders and (run / REGISTRATION_FILE).is_file()]
    document = report_fleet(read_state(folder), folder) if kind is EntryKind.FLEET else read_stated(folder, kind)
    body = conclude(document, [read_result(run).result_id for run in folders], without)
    files = {main: analysis_bytes(document)} | {name: (folder / name).read_bytes() for name in others}
    return Analysed(body, files, folders)


def analysis_folder(path: Path) -> tuple[Path, EntryKind]:
    """The folder of an analysis, and what it is of; BadInput where it is of none."""
    kind = analysis_kind(path)
    if kind is None:
        raise BadInput(f"{path}: not the folder of an experiment, a tuning or a fleet run")
    return path if path.is_dir() else path.parent, kind


def read_stated(folder: Path, kind: EntryKind) -> AnalysisDocument:
    """The analysis as its folder states it."""
    hint = f"it is written when the {kind.value} ends, go on with --resume"
    document = read_document(folder / FILES[kind][0], FORMS[kind], hint)
    assert isinstance(document, AnalysisDocument)
    return document


def _run_folders(folder: Path, kind: EntryKind) -> list[Path]:
    if kind is EntryKind.EXPERIMENT:
        return [folder / RUNS / name for name in experiment_runs(ExperimentFolder.open(folder).state)]
    if kind is EntryKind.TUNING:
        return [folder / RUNS / name for name in tuning_runs(TuningFolder.open(folder).state)]
    units = read_state(folder).units
    return [folder / unit.folder for unit in units if unit.state is UnitState.DONE and unit.folder]


def experiment_runs(state: ExperimentState) -> list[str]:
    """Every run of an experiment, also those that gave nothing."""
    return plain_names(name for cell in state.cells.values() for name in cell.runs.values())


def tuning_runs(state: TuningState) -> list[str]:
    """Every run of a tuning: its baseline, its trials, and the pairs of its confirmation."""
    named = [state.baseline_run, *(trial.run for trial in state.trials)]
    named += [name for pair in state.pairs for name in (pair.baseline_run, pair.tuned_run) if name]
    return plain_names(name for name in named if name)


def record_analysis(ledger: OpenLedger, analysed: Analysed, key: SigningKey) -> Recorded:
    """Append an analysis whose results are in the ledger, its documents first. Again changes nothing."""
    body = analysed.body
    known = find_analysis(ledger.log, body.analysis_id)
    if known is not None:
        return Recorded(body.analysis_id, known.seq, new=False)
    for name in body.cites:
        if find_result(ledger.log, name) is None:
            raise Refused(f"{body.name}: its result {short(name)} is not in the ledger; an analysis rests on evidence")
    _refuse_secrets(analysed)
    for data in analysed.files.values():
        ledger.blobs.put(data)
    blobs = tuple(blob_of(name, data) for name, data in analysed.files.items())
    return Recorded(body.analysis_id, ledger.log.append(seal(body, key, blobs)), new=True)


def record_analysis_folder(ledger: OpenLedger, folder: Path, key: SigningKey) -> tuple[Recorded, int]:
    """Record a folder's runs that are not recorded yet, then the analysis; and how many runs were new."""
    analysed = read_analysis(folder)
    runs = [record_folder(ledger, run, key) for run in analysed.folders]
    return record_analysis(ledger, analysed, key), sum(run.new for run in runs)


def _refuse_secrets(analysed: Analysed) -> None:
    """A server's command or a variable may hold one; nothing is ever deleted from a ledger."""
    hidden = secret_values(os.environ)
    for name, data in analysed.files.items():
        try:
            document: JsonValue = parse_strict_json(data.decode("utf-8"))
        except (UnicodeDecodeError, NotStrictJson) as error:
            raise EvidenceInvalid(f"{analysed.body.name}: {name}: {error}") from None
        where = find_secret(document) or find_literal(document, hidden)
        if where is not None:
            raise BadInput(
                f"{analysed.body.name}: {name}: {where} holds a secret, and a ledger is shown to everybody; "
                "give it in a variable of the environment instead"
            )
