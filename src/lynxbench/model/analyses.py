"""Experiments, tunings and fleet runs as signed entries: what an entry must say of the analysis that it brings."""

import hashlib
from collections.abc import Collection

from rfc8785 import CanonicalizationError

from lynxbench.errors import BadResult
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.document import Document
from lynxbench.model.entries import EntryKind, ExperimentConcluded, FleetConcluded, TuningConcluded
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.fleet import FleetReport, InstanceStanding
from lynxbench.model.tuning import TuningDocument

AnalysisDocument = ExperimentDocument | TuningDocument | FleetReport
AnalysisBody = ExperimentConcluded | TuningConcluded | FleetConcluded

FILES: dict[EntryKind, tuple[str, ...]] = {
    EntryKind.EXPERIMENT: ("analysis.json", "experiment.json", "state.json"),
    EntryKind.TUNING: ("outcome.json", "tuning.json"),
    EntryKind.FLEET: ("report.json", "fleet.json"),
}
"""Documents that an entry brings: the analysis first, then what it was made by."""
FORMS: dict[EntryKind, type[Document]] = {
    EntryKind.EXPERIMENT: ExperimentDocument,
    EntryKind.TUNING: TuningDocument,
    EntryKind.FLEET: FleetReport,
}
LONGEST_SENTENCE = 4000


def analysis_bytes(document: AnalysisDocument) -> bytes:
    """The one form that an analysis has as evidence."""
    try:
        return canonical_bytes(document.model_dump(mode="json", by_alias=True))
    except CanonicalizationError as error:  # a number that readers do not agree on
        raise BadResult(f"an analysis without a canonical form: {error}") from None


def analysis_id(document: AnalysisDocument) -> str:
    """SHA-256 of it, in hex."""
    return hashlib.sha256(analysis_bytes(document)).hexdigest()


def conclude(document: AnalysisDocument, results: Collection[str], without: Collection[str] = ()) -> AnalysisBody:
    """The body of the entry; `results` are all that the analysis is made from, `without` runs that have none."""
    form: type[AnalysisBody]
    if isinstance(document, ExperimentDocument):
        form, name, contract_name = ExperimentConcluded, document.experiment_id, document.contract_name
        analysis = document.analysis
        word = "no analysis" if analysis is None else analysis.word.value
        sentence = document.analysis_missing if analysis is None else analysis.sentence
        named = {result for cell in document.cells for result in cell.result_ids}
    elif isinstance(document, TuningDocument):
        form, name, contract_name = TuningConcluded, document.tuning_id, document.contract_name
        word, sentence = document.verdict.value, document.sentence
        named = {trial.result_id for trial in document.trials if trial.result_id}
        named |= {result for side in (document.baseline, document.tuned) if side for result in side.result_ids}
    else:
        form, name, contract_name = FleetConcluded, document.fleet_id, document.contract
        word, sentence = fleet_word(document), document.verdict
        named = {unit.result_id for unit in document.units if unit.result_id}
    return form(
        analysis_id=analysis_id(document),
        name=name,
        contract_name=contract_name,
        base_contract_id=document.contract_id,
        question=document.question,
        word=word,
        sentence=sentence[:LONGEST_SENTENCE] or "nothing is said",
        cites=tuple(sorted(named.union(results))),
        without_result=tuple(sorted(set(without))),
    )


def fleet_word(document: FleetReport) -> str:
    """`incomplete`, `2 stand apart`, `alike`."""
    rows = (row for comparison in document.per_precision for row in comparison.instances)
    apart = {row.unit for row in rows if row.standing is InstanceStanding.OUTLIER}
    parts = [] if document.complete else ["incomplete"]
    if apart:
        parts.append(f"{len(apart)} {'stands' if len(apart) == 1 else 'stand'} apart")
    return ", ".join(parts) or ("alike" if document.per_precision else "nothing to compare")
