"""Experiments, tunings and fleet runs out of the ledger again, with every result that they are made from."""

import re
from collections.abc import Iterable
from pathlib import Path

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.run_folder import REGISTRATION_FILE
from lynxbench.experiment.experiment_folder import RUNS
from lynxbench.ledger.analysis_entries import parse_analysis
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Logged
from lynxbench.ledger.names import find_analysis, find_id, is_beginning
from lynxbench.ledger.queries import find_run
from lynxbench.model.analyses import FILES, AnalysisDocument
from lynxbench.model.canonical import short
from lynxbench.model.entries import Concluded, EntryKind
from lynxbench.record.recalling import lay_out, result_document

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def plain_names(names: Iterable[str]) -> list[str]:
    """Names of runs, each once; one that would lead elsewhere is refused: the record may be a stranger's."""
    runs = list(dict.fromkeys(names))
    for name in runs:
        if _NAME.fullmatch(name) is None:
            raise EvidenceInvalid(f"{name[:80]!r} is no name of a run")
    return runs


def named_analysis(ledger: OpenLedger, text: str) -> Logged | None:
    """The analysis that a person named by id, its beginning or its name; BadInput where a result begins so, too."""
    logged = find_analysis(ledger.log, text)
    if logged is not None and is_beginning(ledger.log, text, "result"):
        raise BadInput(f"{text}: a result and an analysis begin so; give more digits")
    return logged


def results_named(ledger: OpenLedger, text: str) -> list[str]:
    """The result of that id; or, of an experiment, tuning or fleet run, every result that it is made from."""
    logged = named_analysis(ledger, text)
    return [find_id(ledger.log, text, "result")] if logged is None else list(body_of(logged).cites)


def body_of(logged: Logged) -> Concluded:
    """The body of an analysis's entry."""
    body = logged.entry.body
    assert isinstance(body, Concluded)
    return body


def analysis_document(ledger: OpenLedger, logged: Logged) -> AnalysisDocument:
    """The analysis of an entry, read strictly and held against it."""
    body = body_of(logged)
    data = ledger.blobs.get(body.analysis_id)
    return parse_analysis(data, body, f"{body.kind.value} {short(body.analysis_id)}")


def lay_out_analysis(ledger: OpenLedger, logged: Logged, folder: Path) -> dict[Path, dict[str, str]]:
    """Write an analysis with the runs of all its results into a new folder, as it was when it was made.

    Returns, by the folder of a run, the traces that a bundle came without.
    """
    body, left_out = body_of(logged), dict[Path, dict[str, str]]()
    folder.mkdir(parents=True)
    names = FILES[body.kind]
    for blob in logged.entry.blobs:
        if blob.name in names:  # names of ours alone: a stranger's could lead anywhere
            (folder / blob.name).write_bytes(ledger.blobs.get(blob.sha256))
    for result_id in body.cites:
        run_id = result_document(ledger, result_id).run_id
        plain_names([run_id])
        if not (folder / RUNS / run_id).exists():
            left_out[folder / RUNS / run_id] = lay_out(ledger, result_id, folder / RUNS / run_id)
    for run_id in plain_names(body.without_result):
        for announced in find_run(ledger.log, run_id, EntryKind.REGISTRATION):
            data = next((blob.sha256 for blob in announced.entry.blobs if blob.name == REGISTRATION_FILE), None)
            if data is not None and not (folder / RUNS / run_id).exists():
                (folder / RUNS / run_id).mkdir(parents=True)
                (folder / RUNS / run_id / REGISTRATION_FILE).write_bytes(ledger.blobs.get(data))
    return left_out
