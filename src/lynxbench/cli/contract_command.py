"""`lynxbench contract`: write, check, show and compare contracts; signing them is in `contract_signing`."""

import json
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, print_document
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.cli.options import AS_JSON, LOG_COLUMN
from lynxbench.cli.terminal import as_lines, say, say_json, tell
from lynxbench.contract.diff import ContractComparison, compare_contracts
from lynxbench.contract.loader import bundled_names, parse_contract, read_bundled, read_contract
from lynxbench.contract.schema import render_schema
from lynxbench.contract.template import render_template
from lynxbench.contract.writer import Marked, render_contract
from lynxbench.errors import BadFile, BadInput, ExitCode
from lynxbench.model.mlperf_forms import MlperfForm
from lynxbench.model.workload import Task

app = command_group("Write, check, show, compare and sign contracts.", COMMANDS["contract"])


@app.command()
def new(
    file: Path = typer.Argument(Path("contract.yaml"), help="The file to write."),
    task: Task = typer.Option(Task.GENERATE, help="What one iteration does."),
    model: str = typer.Option("", help="package:NAME, preset:NAME, path:PATH, hub:OWNER/NAME or module:function."),
    engine: str = typer.Option("", help="torch, onnx, callable, plugin:NAME or openai (a server)."),
    url: str = typer.Option("", help="The server's address, with --engine openai."),
    from_log: Path | None = typer.Option(
        None, "--from-log", help="Fit lengths and arrivals to this request log (JSON, CSV, spans; also gzip)."
    ),
    mlperf: MlperfForm | None = typer.Option(
        None, "--mlperf", help="Arrivals, bounds and figures of this MLPerf scenario, for a server."
    ),
    columns: list[str] = LOG_COLUMN,
    name: str = typer.Option("", help="Short name of the contract."),
    force: bool = typer.Option(False, "--force", help="Overwrite the file if it exists."),
    as_json: bool = AS_JSON,
) -> None:
    """Write a commented contract to start from; every key is explained beside it."""
    log = fitted = likeness = None
    if from_log is not None:
        # numpy is loaded for a log alone: contracts are checked and shown in many hooks, and should be at once
        from lynxbench.workload.production import fit_log
        from lynxbench.workload.representative import hold_against
        from lynxbench.workload.request_log import parse_columns, read_log

        log = read_log(from_log, parse_columns(columns))
        fitted = fit_log(log)
    text = render_template(
        task=task,
        model=model,
        engine=engine or ("openai" if fitted or mlperf else ""),
        name=name,
        file=file.name,
        url=url,
        workload=fitted.workload_keys() if fitted else None,
        remarks=fitted.remarks() if fitted else (),
        mlperf=mlperf,
    )
    contract = parse_contract(text, str(file))
    write_new(file, text, force)
    document: dict[str, object] = {"file": str(file), "name": contract.name, "contract_id": contract.contract_id}
    if log is not None and fitted is not None:
        likeness = hold_against(contract, log)
        document |= {"log": fitted.document(), "likeness": likeness.document()}
    written = f"{file}: written; next: edit it, then lynxbench contract check {file}\n"
    answer(as_json, lambda: document, lambda: (likeness.render() if likeness else "") + written)


@app.command()
def check(
    files: list[str] = typer.Argument(help="Contract files, or bundled names."),
    against_log: Path | None = typer.Option(
        None, "--against-log", help="Hold each against this production log (JSON, CSV, spans; also gzip)."
    ),
    columns: list[str] = LOG_COLUMN,
    as_json: bool = AS_JSON,
) -> None:
    """Check contracts: one line each, `ok` with the id or what is wrong. Exit code 2 if any is wrong.

    With --against-log it also says how far each is from production, and exits with 1 where one differs.
    """
    log, differs = None, False
    if against_log is not None:  # numpy for a log alone, as in `new`
        from lynxbench.workload.representative import Likeness, hold_against
        from lynxbench.workload.request_log import parse_columns, read_log

        log = read_log(against_log, parse_columns(columns))
    rows: list[dict[str, object]] = []
    for file in files:
        try:
            contract = read_contract(file)
        except BadFile as error:
            rows.append({"file": file, "ok": False, "problem": error.problem, "line": error.line, "key": error.key})
            tell(str(error))
            continue
        row: dict[str, object] = {"file": file, "ok": True, "name": contract.name, "contract_id": contract.contract_id}
        text = f"{file}: ok  {contract.name}  {contract.contract_id}\n"
        if log is not None:
            likeness = hold_against(contract, log)
            differs = differs or likeness.verdict is Likeness.DIFFERS
            row["likeness"] = likeness.document()
            text += likeness.render()
        rows.append(row)
        if not as_json:
            say(text, end="")
    all_right = all(row["ok"] for row in rows)
    if as_json:
        print_document({"ok": all_right, "contracts": rows})
    if not all_right:
        raise typer.Exit(ExitCode.BAD_INPUT)
    if differs:
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command()
def show(
    contract: str = typer.Argument(help="A contract file, a stored JSON document that holds one, or a bundled name."),
    as_json: bool = AS_JSON,
) -> None:
    """Show what a contract means: every key, the defaults filled in and marked, and its id."""
    agreed = read_contract(contract)
    answer(
        as_json,
        lambda: {"contract_id": agreed.contract_id, "contract": agreed.canonical()},
        lambda: f"# {agreed.name} · contract {agreed.contract_id}\n\n{render_contract(agreed, Marked())}",
    )


@app.command()
def diff(
    a: str = typer.Argument(help="A contract file, stored document or bundled name."),
    b: str = typer.Argument(help="The contract to hold against it."),
    as_json: bool = AS_JSON,
) -> None:
    """Say which differences break comparability. Exit code 0: same meaning, 1: differences, 3: incomparable."""
    comparison = compare_contracts(read_contract(a), read_contract(b))
    answer(
        as_json,
        lambda: {
            "comparability": comparison.verdict,
            "contract_ids": [comparison.before_id, comparison.after_id],
            "differences": [
                {"key": d.key, "a": d.before, "b": d.after, "effect": d.effect, "reason": d.reason}
                for d in comparison.differences
            ],
        },
        lambda: _render_comparison(comparison, a, b),
    )
    if comparison.verdict == "incomparable":
        raise typer.Exit(ExitCode.REFUSED)
    if comparison.differences:
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command()
def sessions(
    spans: Path = typer.Argument(
        help="Spans of the GenAI conventions: OTLP in JSON, or the console exporter's; also gzip."
    ),
    output: Path = typer.Option(Path("sessions.jsonl"), "--output", "-o", help="The file to write."),
    force: bool = typer.Option(False, "--force", help="Overwrite the file if it exists."),
    as_json: bool = AS_JSON,
) -> None:
    """Capture agentic sessions from spans, without any text: lengths, gaps, the graph of calls, equal beginnings.

    A contract replays them with `prompts: {file: sessions.jsonl, form: sessions}`.
    """
    from lynxbench.workload.span_sessions import capture_sessions

    captured = capture_sessions(spans)
    write_new(output, captured.render(), force)
    document = {
        "file": str(output),
        "sessions": captured.sessions,
        "calls": len(captured.rows),
        "spans": captured.spans,
    }
    counted = f"{captured.sessions} sessions with {len(captured.rows)} calls, from {captured.spans} spans"
    using = f"prompts: {{file: {output}, form: sessions}}"
    answer(as_json, lambda: document, lambda: f"{output}: {counted}; no text was kept\nin a contract: {using}\n")


@app.command()
def schema(as_json: bool = AS_JSON) -> None:
    """Print the JSON Schema of contracts, for editors (it is JSON with or without --json)."""
    say_json(render_schema())


@app.command(name="list")
def list_bundled(as_json: bool = AS_JSON) -> None:
    """List the contracts that come with lynxbench."""
    contracts = {name: read_bundled(name) for name in bundled_names()}
    width = max(map(len, contracts))
    answer(
        as_json,
        lambda: {
            "contracts": [
                {"name": name, "contract_id": contract.contract_id, "question": contract.question}
                for name, contract in contracts.items()
            ]
        },
        lambda: "".join(
            f"{name:<{width}}  {contract.contract_id[:12]}  {contract.question}\n"
            for name, contract in contracts.items()
        ),
    )


def write_new(file: Path, text: str, force: bool) -> None:
    """Write a file that is not there yet, or that may be overwritten."""
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise BadInput(f"{file}: exists already; name another file, or add --force to overwrite it") from None
    except OSError as error:
        raise BadInput(f"{file}: cannot be written: {error.strerror}") from None


def _render_comparison(comparison: ContractComparison, a: str, b: str) -> str:
    if not comparison.differences:
        return f"COMPARABLE: the same contract in meaning, {comparison.before_id}\n"
    lines = [f"{comparison.verdict.upper()}: {a} ({comparison.before_id[:12]}) and {b} ({comparison.after_id[:12]})"]
    for effect, heading in (("breaks comparability", "breaks comparability"), ("does not", "does not break it")):
        rows = [d for d in comparison.differences if d.effect == effect]
        lines += ["", heading] if rows else []
        for row in rows:
            lines += [f"  {row.key}: {_brief(row.before)} -> {_brief(row.after)}", f"    {row.reason}"]
    return as_lines(lines)


def _brief(value: object, longest: int = 60) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 1] + "…"
