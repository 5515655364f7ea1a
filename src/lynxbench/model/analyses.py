"""Experiments, tunings and fleet runs as signed entries: what an entry must say of the analysis that it brings."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.document import Document
from lynxbench.model.entries import EntryKind, ExperimentConcluded, FleetConcluded, TuningConcluded
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.fleet import FleetReport, InstanceStanding
from lynxbench.model.tuning import TuningDocument

AnalysisDocument = ExperimentDocument | TuningDocument | FleetReport
AnalysisBody = ExperimentConcluded | TuningConcluded | FleetConcluded

EXPERIMENT_FILES = ("analysis.json", "experiment.json", "state.json")
TUNING_FILES = ("outcome.json", "tuning.json")
FLEET_FILES = ("report.json", "fleet.json")
FILES = {EntryKind.EXPERIMENT: EXPERIMENT_FILES, EntryKind.TUNING: TUNING_FILES, EntryKind.FLEET: FLEET_FILES}
"""Documents that an entry brings: the analysis first, then what it was made by."""
FORMS: dict[EntryKind, type[Document]] = {
    EntryKind.EXPERIMENT: ExperimentDocument,
    EntryKind.TUNING: TuningDocument,
    EntryKind.FLEET: FleetReport,
}
LONGEST_SENTENCE = 4000


@dataclass(frozen=True, slots=True)
class AnalysisHead:
    """An analysis in one line."""

    kind: EntryKind
    name: str
    contract_name: str
    contract_id: str
    question: str
    word: str
    sentence: str
    results: tuple[str, ...]
    """Results that the document itself names."""


def analysis_bytes(document: AnalysisDocument) -> bytes:
    """The one form that an analysis has as evidence."""
    return canonical_bytes(document.model_dump(mode="json", by_alias=True))


def analysis_id(document: AnalysisDocument) -> str:
    """SHA-256 of it, in hex."""
    return hashlib.sha256(analysis_bytes(document)).hexdigest()


def head_of(document: AnalysisDocument) -> AnalysisHead:
    """What the entry says, from what the analysis says."""
    if isinstance(document, ExperimentDocument):
        found = document.analysis
        return AnalysisHead(
            EntryKind.EXPERIMENT,
            document.experiment_id,
            document.contract_name,
            document.contract_id,
            document.question,
            "no analysis" if found is None else found.word.value,
            _bounded(document.analysis_missing if found is None else found.sentence),
            tuple(one for cell in document.cells for one in cell.result_ids),
        )
    if isinstance(document, TuningDocument):
        confirmed = [one for side in (document.baseline, document.tuned) if side for one in side.result_ids]
        tried = [trial.result_id for trial in document.trials if trial.result_id]
        return AnalysisHead(
            EntryKind.TUNING,
            document.tuning_id,
            document.contract_name,
            document.contract_id,
            document.question,
            document.verdict.value,
            _bounded(document.sentence),
            (*tried, *confirmed),
        )
    return AnalysisHead(
        EntryKind.FLEET,
        document.fleet_id,
        document.contract,
        document.contract_id,
        document.question,
        fleet_word(document),
        _bounded(document.verdict),
        tuple(unit.result_id for unit in document.units if unit.result_id),
    )


def fleet_word(document: FleetReport) -> str:
    """`incomplete`, `2 stand apart`, `alike`."""
    apart = {
        row.unit for one in document.per_precision for row in one.instances if row.standing is InstanceStanding.OUTLIER
    }
    parts = [] if document.complete else ["incomplete"]
    if apart:
        parts.append(f"{len(apart)} {'stands' if len(apart) == 1 else 'stand'} apart")
    return ", ".join(parts) or ("alike" if document.per_precision else "nothing to compare")


def conclude(document: AnalysisDocument, results: Collection[str], without: Collection[str] = ()) -> AnalysisBody:
    """The body of the entry; `results` are all that the analysis is made from, `without` runs that have none."""
    head = head_of(document)
    forms: dict[EntryKind, type[AnalysisBody]] = {
        EntryKind.EXPERIMENT: ExperimentConcluded,
        EntryKind.TUNING: TuningConcluded,
        EntryKind.FLEET: FleetConcluded,
    }
    return forms[head.kind](
        analysis_id=analysis_id(document),
        name=head.name,
        contract_name=head.contract_name,
        base_contract_id=head.contract_id,
        question=head.question,
        word=head.word,
        sentence=head.sentence,
        cites=tuple(sorted({*head.results, *results})),
        without_result=tuple(sorted(set(without))),
    )


def _bounded(text: str) -> str:
    return text[:LONGEST_SENTENCE] or "nothing is said"
