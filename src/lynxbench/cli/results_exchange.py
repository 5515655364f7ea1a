"""`lynxbench results export` and `import`: results out of a ledger and into it, with everything about them."""

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.naming import named_result
from lynxbench.cli.options import AS_JSON, LEDGER
from lynxbench.cli.push_command import imported_line, left_out_line, tell_copies
from lynxbench.errors import BadInput
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.archive import looks_like_archive
from lynxbench.ledger.bundle import export_bundle, import_bundle
from lynxbench.ledger.location import OpenLedger, opened
from lynxbench.model.canonical import short
from lynxbench.model.entries import ForeignImported
from lynxbench.record.exporting import ADDRESSED, ExportFormat, export_rows
from lynxbench.record.formats.foreign_results import ForeignTool
from lynxbench.record.owning import is_own, record_stranger, refuse_strangers
from lynxbench.record.recalling_analyses import results_named
from lynxbench.record.recording import Recorded, is_run, record_folder, record_foreign
from lynxbench.record.recording_analyses import analysis_kind, read_analysis, record_analysis_folder


def export(
    results: list[str] = typer.Argument(
        help="Results: ids, their unique beginnings, or paths; an experiment, tuning or fleet run means all of its own."
    ),
    output: str = typer.Option(..., "--output", "-o", help="The file to write; for mlflow and otlp, an address."),
    form: ExportFormat = typer.Option(
        ExportFormat.BUNDLE, "--format", help="`bundle` is for another ledger, the rest for other tools."
    ),
    without_traces: bool = typer.Option(
        False,
        "--without-traces",
        help="Leave profiler traces out of a bundle, signed: figures can be verified from it, attributions cannot.",
    ),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Write results with everything about them into one file that another ledger can import and verify."""
    if form not in ADDRESSED and Path(output).is_dir():
        raise BadInput(f"{output}: cannot be written: it is a folder; name a file")
    if without_traces and form is not ExportFormat.BUNDLE:
        raise BadInput(f"--without-traces: {form.value} never holds traces; it is for --format bundle")
    with opened(ledger, os.environ) as open_:
        names = list(dict.fromkeys(name for text in results for name in _named_results(open_, text)))
        if form is ExportFormat.BUNDLE:
            _export_bundle(open_, names, Path(output), without_traces, as_json)
            return
        rows = export_rows(open_, names, output, form, Keyring().trust)
    answer(
        as_json,
        lambda: {"output": output, "format": form.value, "results": names, "rows": rows},
        lambda: f"{output}: {rows} rows of {len(names)} results as {form.value}\n",
    )


def import_(
    file: Path = typer.Argument(
        help="A bundle of `results export`, a folder that is not recorded yet (of a run, experiment, tuning or fleet "
        "run), or a result of another tool."
    ),
    tool: ForeignTool = typer.Option(
        ForeignTool.AUTO, help="Which other tool wrote the file, where it cannot be told from it."
    ),
    own: bool = typer.Option(
        False, "--own", help="You measured it yourself: sign it, although no key of yours announced the run."
    ),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Verify a bundle against your own trust list and take it in, or record a run's folder or a foreign result.

    A run that no key of yours announced is computed again and recorded as a foreign result, unless --own is given.
    """
    keyring = Keyring()
    with opened(ledger, os.environ, create=True) as open_:
        by_itself = tool is ForeignTool.AUTO
        if by_itself and not is_run(file) and looks_like_archive(file):
            imported = import_bundle(open_, file, keyring.trust)
            answer(as_json, lambda: asdict(imported), lambda: imported_line(imported))
            tell_copies(open_, imported.results)
            return
        key = keyring.signing_key(datetime.now(UTC)).key
        if by_itself and analysis_kind(file) is not None:
            if not own:
                refuse_strangers(open_, read_analysis(file).folders, keyring)
            document, line = _record_analysis(open_, file, key)
        elif by_itself and is_run(file) and (own or is_own(open_, file, keyring)):
            document, line = _record_run(open_, file, key)
        elif by_itself and is_run(file):
            document, line = _foreign_document(*record_stranger(open_, file, key))
            line += "  no key of yours announced this run; give --own if you measured it yourself\n"
        else:
            document, line = _record_foreign(open_, file, tool, key)
        open_.seen.check(open_.log)
    answer(as_json, lambda: document, lambda: line)


def _export_bundle(ledger: OpenLedger, names: list[str], output: Path, without_traces: bool, as_json: bool) -> None:
    keyring, now = Keyring(), datetime.now(UTC)
    key = keyring.signing_key(now).key
    bundle = export_bundle(ledger, names, output, key, keyring.trust, now, without_traces=without_traces)
    size_mb = output.stat().st_size / 1e6
    answer(
        as_json,
        lambda: {
            "file": str(output),
            "results": list(bundle.results),
            "entries": bundle.entries,
            "blobs": bundle.blobs,
            "left_out": bundle.left_out,
            "checkpoint": bundle.checkpoint.model_dump(mode="json"),
        },
        lambda: (
            f"{output}: {len(bundle.results)} results, {bundle.entries} entries, {bundle.blobs} documents, "
            f"{size_mb:.1f} MB\n{left_out_line(bundle.left_out)}"
        ),
    )


def _record_run(ledger: OpenLedger, folder: Path, key: SigningKey) -> tuple[dict[str, object], str]:
    """A run that was not recorded when it ended: what is to be said for programs and for people."""
    recorded = record_folder(ledger, folder, key)
    tell_copies(ledger, [recorded.result_id])
    document = {"results": [recorded.result_id], "entries": 1, "new": int(recorded.new), "seq": recorded.seq}
    return document, f"{short(recorded.result_id)}: {_taken(recorded)}\n"


def _record_foreign(
    ledger: OpenLedger, file: Path, tool: ForeignTool, key: SigningKey
) -> tuple[dict[str, object], str]:
    """A result of another tool, likewise."""
    return _foreign_document(*record_foreign(ledger, file, tool, key))


def _foreign_document(recorded: Recorded, evidence: ForeignImported) -> tuple[dict[str, object], str]:
    entry = {"file_sha256": recorded.result_id, "entries": 1, "new": int(recorded.new), "seq": recorded.seq}
    missing = f"  not stated: {', '.join(evidence.missing)}\n" if evidence.missing else ""
    line = f"{short(recorded.result_id)}: foreign result, {_taken(recorded)}\n{missing}"
    return {**entry, "not_stated": list(evidence.missing)}, line


def _record_analysis(ledger: OpenLedger, folder: Path, key: SigningKey) -> tuple[dict[str, object], str]:
    """An experiment, a tuning or a fleet run, likewise."""
    recorded, runs = record_analysis_folder(ledger, folder, key)
    entry = {"analysis_id": recorded.result_id, "new": int(recorded.new), "seq": recorded.seq, "new_results": runs}
    line = f"{short(recorded.result_id)}: {_taken(recorded)}, with {runs} results that were not recorded yet\n"
    return entry, line


def _taken(recorded: Recorded) -> str:
    return f"{'recorded' if recorded.new else 'was recorded already'} as entry {recorded.seq}"


def _named_results(ledger: OpenLedger, text: str) -> list[str]:
    """One result; or all that an experiment, a tuning or a fleet run is made from, which then travels with them."""
    path = Path(text)
    if path.exists() and analysis_kind(path) is not None:
        return list(read_analysis(path).body.cites)
    return [named_result(ledger, text)] if path.exists() else results_named(ledger, text)
