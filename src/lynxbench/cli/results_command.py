"""`lynxbench results`: the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.errors import BadInput

if TYPE_CHECKING:
    from lynxbench.evidence.keyring import Keyring
    from lynxbench.evidence.keys import SigningKey
    from lynxbench.ledger.location import OpenLedger

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

LEDGER = typer.Option(None, "--ledger", help="Folder or URL of the ledger, in place of $LYNXBENCH_LEDGER.")
AS_JSON = typer.Option(False, "--json", help="Print one JSON document on standard output, nothing else.")


@app.command("list")
def list_(
    contract: str | None = typer.Option(None, help="Only results of this contract (id or its beginning)."),
    executor: str | None = typer.Option(None, help="Only results of this executor (id or its beginning)."),
    precision: str | None = typer.Option(None, help="Only results that measured this precision."),
    since: str | None = typer.Option(None, help="Only results started at or after this date (ISO 8601, UTC)."),
    valid: str | None = typer.Option(None, help="Only results that are `valid`, `doubtful` or `void`."),
    limit: int = typer.Option(20, min=1, max=1_000_000, help="At most this many, newest first."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """List results, newest first, with their intervals and standing."""
    import os

    from lynxbench.cli.showing import LIST_WIDTH, terminal_text
    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.names import find_id
    from lynxbench.ledger.queries import Wanted, list_results, open_runs, standings
    from lynxbench.record.listing import list_document
    from lynxbench.record.recalling import opened
    from lynxbench.report.documents.ledger_documents import compose_list

    with opened(ledger, os.environ) as open_:
        wanted = Wanted(
            contract=find_id(open_.log, contract, "contract") if contract else None,
            executor=find_id(open_.log, executor, "executor") if executor else None,
            precision=_precision(precision),
            since_s=_seconds(since),
            validity=_validity(valid),
            limit=limit,
        )
        listed = list_results(open_.log, wanted)
        standing = standings(open_.log, [one.result_id for one in listed], Keyring().trust)
        unfinished = open_runs(open_.log, wanted.contract)
        if as_json:
            _print_json(list_document(listed, standing, unfinished, open_.log.head()))
        else:
            print(terminal_text(compose_list(listed, standing, unfinished), LIST_WIDTH), end="")


@app.command()
def show(
    result: str = typer.Argument(help="A result: id, its unique beginning, or a path."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show a result, what it stands on, and everything that was said about it."""
    import os

    from lynxbench.cli.output import print_result
    from lynxbench.cli.showing import LIST_WIDTH, terminal_text
    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.queries import entries_about, standings, voice_of
    from lynxbench.record.listing import about_document
    from lynxbench.record.recalling import opened, result_document
    from lynxbench.report.documents.ledger_documents import compose_about

    trust = Keyring().trust
    with opened(ledger, os.environ) as open_:
        result_id = named_result(open_, result)
        document = result_document(open_, result_id)
        about = [(one, voice_of(one, trust)) for one in entries_about(open_.log, [result_id, document.run_id])]
        standing = standings(open_.log, [result_id], trust)[result_id]
    if as_json:
        _print_json({"result": document.document(), **about_document(about, standing)})
        return
    print_result(document, {}, False, recorded=True)
    print("\n" + terminal_text(compose_about(about, standing), LIST_WIDTH), end="")


@app.command()
def export(
    results: list[str] = typer.Argument(
        help="Results: ids, their unique beginnings, or paths; an experiment, tuning or fleet run means all of its own."
    ),
    output: str = typer.Option(..., "--output", "-o", help="The file to write; for mlflow, a tracking URI."),
    format_: str = typer.Option(
        "bundle", "--format", help="`bundle` for another ledger; `openmetrics`, `csv`, `parquet`, `mlflow` for others."
    ),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Write results with everything about them into one file that another ledger can import and verify."""
    import os

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.record.exporting import ExportFormat, export_rows, parse_format
    from lynxbench.record.recalling import opened

    chosen = parse_format(format_)
    if chosen is not ExportFormat.MLFLOW and Path(output).is_dir():
        raise BadInput(f"{output}: cannot be written: it is a folder; name a file")
    with opened(ledger, os.environ) as open_:
        names = list(dict.fromkeys(name for one in results for name in named_results(open_, one)))
        if chosen is ExportFormat.BUNDLE:
            _export_bundle(open_, names, Path(output), as_json)
            return
        rows = export_rows(open_, names, output, chosen, Keyring().trust)
    if as_json:
        _print_json({"output": output, "format": chosen.value, "results": names, "rows": rows})
    else:
        print(f"{output}: {rows} rows of {len(set(names))} results as {chosen.value}")


def _export_bundle(ledger: OpenLedger, names: list[str], output: Path, as_json: bool) -> None:
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.bundle import export_bundle

    keyring, now = Keyring(), datetime.now(UTC)
    done = export_bundle(ledger, names, output, keyring.signing_key(now).key, keyring.trust, now)
    if as_json:
        _print_json(
            {
                "file": str(output),
                "results": list(done.results),
                "entries": done.entries,
                "blobs": done.blobs,
                "checkpoint": done.checkpoint.model_dump(mode="json"),
            }
        )
        return
    size = output.stat().st_size / 1e6
    print(f"{output}: {len(done.results)} results, {done.entries} entries, {done.blobs} documents, {size:.1f} MB")


@app.command("import")
def import_(
    file: Path = typer.Argument(
        help="A bundle of `results export`, a folder that is not recorded yet (of a run, experiment, tuning or fleet "
        "run), or a result of another tool."
    ),
    tool: str = typer.Option("auto", help="Which other tool wrote the file, where it cannot be told from it."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Verify a bundle against your own trust list and take it in, or record a run's folder or a foreign result."""
    import os
    from datetime import UTC, datetime

    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.archive import looks_like_archive
    from lynxbench.record.recalling import opened
    from lynxbench.record.recording import is_run, record_folder, record_foreign
    from lynxbench.record.recording_analyses import analysis_kind

    keyring = Keyring()
    with opened(ledger, os.environ, create=True) as open_:
        if tool == "auto" and not is_run(file) and looks_like_archive(file):
            _import_bundle(open_, file, keyring, as_json)
            return
        key = keyring.signing_key(datetime.now(UTC)).key
        if tool == "auto" and analysis_kind(file) is not None:
            _import_analysis(open_, file, key, as_json)
            return
        if tool == "auto" and is_run(file):
            one, missing = record_folder(open_, file, key), None
        else:
            one, foreign = record_foreign(open_, file, tool, key)
            missing = foreign.missing
        open_.seen.check(open_.log)
    if as_json:
        said: dict[str, object] = {"entries": 1, "new": int(one.new), "seq": one.seq}
        named = {"results": [one.result_id]} if missing is None else {"file_sha256": one.result_id}
        _print_json({**named, **said} if missing is None else {**named, **said, "not_stated": list(missing)})
        return
    kind = "" if missing is None else "foreign result, "
    print(f"{_short(one.result_id)}: {kind}{'recorded' if one.new else 'was recorded already'} as entry {one.seq}")
    if missing:
        print(f"  not stated: {', '.join(missing)}")


def _import_analysis(ledger: OpenLedger, folder: Path, key: SigningKey, as_json: bool) -> None:
    from lynxbench.record.recording_analyses import record_analysis_folder

    one, runs = record_analysis_folder(ledger, folder, key)
    ledger.seen.check(ledger.log)
    if as_json:
        _print_json({"analysis_id": one.result_id, "new": int(one.new), "seq": one.seq, "new_results": runs})
        return
    said = "recorded" if one.new else "was recorded already"
    print(f"{_short(one.result_id)}: {said} as entry {one.seq}, with {runs} results that were not recorded yet")


def _import_bundle(ledger: OpenLedger, file: Path, keyring: Keyring, as_json: bool) -> None:
    from lynxbench.ledger.bundle import import_bundle

    done = import_bundle(ledger, file, keyring.trust)
    if as_json:
        _print_json(
            {
                "results": list(done.results),
                "entries": done.entries,
                "new": done.new,
                "blobs": done.blobs,
                "origin": done.origin,
                "teams": list(done.teams),
            }
        )
        return
    names = ", ".join(_short(one) for one in done.results)
    print(f"{names}: verified, signed by {', '.join(done.teams)}; {done.new} of {done.entries} entries are new here")


@app.command()
def foreign(
    limit: int = typer.Option(20, min=1, max=1_000_000, help="At most this many, newest first."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """List results of other tools that were imported, with what each fails to state."""
    import os

    from lynxbench.cli.showing import LIST_WIDTH, terminal_text
    from lynxbench.evidence.keyring import Keyring
    from lynxbench.ledger.queries import list_foreign, voice_of
    from lynxbench.record.listing import foreign_document
    from lynxbench.record.recalling import opened
    from lynxbench.report.documents.ledger_documents import compose_foreign_list

    trust = Keyring().trust
    with opened(ledger, os.environ) as open_:
        found = [(one, voice_of(one, trust)) for one in list_foreign(open_.log, limit)]
    if as_json:
        _print_json(foreign_document(found))
    else:
        print(terminal_text(compose_foreign_list(found), LIST_WIDTH), end="")


@app.command()
def log(
    verify: bool = typer.Option(False, "--verify", help="Recompute the whole tree from the entries' bytes."),
    checkpoint: Path | None = typer.Option(None, help="Sign the ledger's state and write it to this file."),
    cosign: Path | None = typer.Option(None, help="Prove this ledger against a checkpoint file and sign it as well."),
    against: Path | None = typer.Option(None, help="Prove this ledger against a checkpoint file."),
    accept: bool = typer.Option(False, "--accept", help="Trust the ledger as it is now, whatever was seen before."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """State, checkpoints and proofs of the log. Exit code 5 when entries were changed, taken away or forked."""
    import os

    from lynxbench.cli.ledger_log import LogRequest, log_document, work_on_log
    from lynxbench.cli.showing import terminal_text
    from lynxbench.report.documents.ledger_documents import compose_log

    request = LogRequest(verify, checkpoint, cosign, against, accept)
    found = work_on_log(ledger, os.environ, request)
    if as_json:
        _print_json(log_document(found))
        return
    report = compose_log(found.name, found.origin, found.head, found.checkpoints, found.verified)
    print(terminal_text(report), end="")


def named_result(ledger: OpenLedger, text: str) -> str:
    """The id of a result that a person named by path, id or beginning of an id."""
    from lynxbench.evidence.documents import read_result
    from lynxbench.ledger.names import find_id

    path = Path(text)
    if path.exists():
        return read_result(path).result_id
    return find_id(ledger.log, text, "result")


def named_results(ledger: OpenLedger, text: str) -> list[str]:
    """One result; or all that an experiment, a tuning or a fleet run is made from, which then travels with them."""
    from lynxbench.record.recalling_analyses import results_named
    from lynxbench.record.recording_analyses import analysis_kind, read_analysis

    path = Path(text)
    if path.exists() and analysis_kind(path) is not None:
        return list(read_analysis(path).body.cites)
    return [named_result(ledger, text)] if path.exists() else results_named(ledger, text)


def _precision(text: str | None) -> str | None:
    from lynxbench.model.precision import Precision

    if text is not None and text not in set(Precision):
        raise BadInput(f"--precision {text!r}: one of {', '.join(Precision)}")
    return text


def _validity(text: str | None) -> str | None:
    from lynxbench.model.result import ValidityVerdict

    if text is not None and text not in set(ValidityVerdict):
        raise BadInput(f"--valid {text!r}: one of {', '.join(ValidityVerdict)}")
    return text


def _seconds(text: str | None) -> int | None:
    from datetime import UTC, datetime

    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInput(f"--since {text!r}: not a date; write 2026-11-15 or 2026-11-15T09:00:00+00:00") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _short(identifier: str) -> str:
    from lynxbench.model.canonical import short

    return short(identifier)


def _print_json(document: dict[str, object]) -> None:
    import json

    print(json.dumps(document, indent=1, ensure_ascii=False))
