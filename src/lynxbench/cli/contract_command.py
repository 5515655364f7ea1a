"""`lynxbench contract`: write, check, show and compare contracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from lynxbench.contract.diff import ContractComparison
    from lynxbench.workload.production import Fitted
    from lynxbench.workload.request_log import RequestLog

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)

_JSON = typer.Option(False, "--json", help="Print one JSON document on standard output, nothing else.")
_CONTRACT = typer.Argument(help="A contract file, a stored JSON document that holds one, or a bundled name.")


@app.command()
def new(
    file: Path = typer.Argument(Path("contract.yaml"), help="The file to write."),
    task: str = typer.Option("generate", help="generate, embed, classify, train-step or callable."),
    model: str = typer.Option("", help="package:NAME, preset:NAME, path:PATH, hub:OWNER/NAME or module:function."),
    engine: str = typer.Option("", help="torch, onnx, callable, plugin:NAME or openai (a server)."),
    url: str = typer.Option("", help="The server's address, with --engine openai."),
    from_log: Path = typer.Option(
        None, "--from-log", help="Fit lengths and arrivals to this request log (JSONL, CSV)."
    ),
    name: str = typer.Option("", help="Short name of the contract."),
    force: bool = typer.Option(False, "--force", help="Overwrite the file if it exists."),
    as_json: bool = _JSON,
) -> None:
    """Write a commented contract to start from; every key is explained beside it."""
    from lynxbench.contract.loader import parse_contract
    from lynxbench.contract.template import render_template

    fitted = _fit(from_log) if from_log is not None else None
    text = render_template(
        task=task,
        model=model,
        engine=engine or ("openai" if fitted else ""),
        name=name,
        file=file.name,
        url=url,
        workload=fitted[0].workload_keys() if fitted else None,
        remarks=fitted[0].remarks() if fitted else (),
    )
    contract = parse_contract(text, str(file))
    try:
        with file.open("w" if force else "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise BadInput(f"{file}: exists already; name another file, or add --force to overwrite it") from None
    except OSError as error:
        raise BadInput(f"{file}: cannot be written: {error.strerror}") from None
    likeness = None
    if fitted:
        from lynxbench.workload.representative import distance

        likeness = distance(contract.workload, fitted[1])
    if as_json:
        about = {"log": fitted[0].document(), "likeness": likeness.document()} if fitted and likeness else {}
        _print_json({"file": str(file), "name": contract.name, "contract_id": contract.contract_id, **about})
        return
    if likeness:
        typer.echo(likeness.render(), nl=False)
    typer.echo(f"{file}: written; next: edit it, then lynxbench contract check {file}")


@app.command()
def check(
    files: list[str] = typer.Argument(help="Contract files, or bundled names."),
    against_log: Path = typer.Option(None, "--against-log", help="Hold each against this production log (JSONL, CSV)."),
    as_json: bool = _JSON,
) -> None:
    """Check contracts: one line each, `ok` with the id or what is wrong. Exit code 2 if any is wrong.

    With --against-log it also says how far each is from production, and exits with 1 where one differs.
    """
    from lynxbench.contract.loader import read_contract
    from lynxbench.errors import BadFile

    log = None
    differs = False
    if against_log is not None:
        from lynxbench.workload.representative import Likeness, distance
        from lynxbench.workload.request_log import read_log

        log = read_log(against_log)
    rows: list[dict[str, object]] = []
    for file in files:
        try:
            contract = read_contract(file)
        except BadFile as error:
            said = {"problem": error.problem, "line": error.line, "key": error.key}
            rows.append({"file": file, "ok": False, **said})
            typer.echo(f"{error}", err=True)
        else:
            row: dict[str, object] = {"name": contract.name, "contract_id": contract.contract_id}
            rows.append({"file": file, "ok": True, **row})
            if not as_json:
                typer.echo(f"{file}: ok  {contract.name}  {contract.contract_id}")
            if log is not None:
                likeness = distance(contract.workload, log)
                differs = differs or likeness.verdict is Likeness.DIFFERS
                rows[-1]["likeness"] = likeness.document()
                if not as_json:
                    typer.echo(likeness.render(), nl=False)
    if as_json:
        _print_json({"ok": all(row["ok"] for row in rows), "contracts": rows})
    if not all(row["ok"] for row in rows):
        raise typer.Exit(ExitCode.BAD_INPUT)
    if differs:
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command()
def show(contract: str = _CONTRACT, as_json: bool = _JSON) -> None:
    """Show what a contract means: every key, the defaults filled in and marked, and its id."""
    from lynxbench.contract.loader import read_contract
    from lynxbench.contract.writer import Marked, render_contract

    agreed = read_contract(contract)
    if as_json:
        _print_json({"contract_id": agreed.contract_id, "contract": agreed.canonical()})
        return
    typer.echo(f"# {agreed.name} · contract {agreed.contract_id}\n\n{render_contract(agreed, Marked())}", nl=False)


@app.command()
def diff(
    a: str = typer.Argument(help="A contract file, stored document or bundled name."),
    b: str = typer.Argument(help="The contract to hold against it."),
    as_json: bool = _JSON,
) -> None:
    """Say which differences break comparability. Exit code 0: same meaning, 1: differences, 3: incomparable."""
    from lynxbench.contract.diff import compare_contracts
    from lynxbench.contract.loader import read_contract

    comparison = compare_contracts(read_contract(a), read_contract(b))
    if as_json:
        rows = [
            {"key": d.key, "a": d.before, "b": d.after, "effect": d.effect, "reason": d.reason}
            for d in comparison.differences
        ]
        ids = [comparison.before_id, comparison.after_id]
        _print_json({"comparability": comparison.verdict, "contract_ids": ids, "differences": rows})
    else:
        typer.echo(_render_comparison(comparison, a, b), nl=False)
    if comparison.verdict == "incomparable":
        raise typer.Exit(ExitCode.REFUSED)
    if comparison.differences:
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command()
def schema(as_json: bool = _JSON) -> None:
    """Print the JSON Schema of contracts, for editors (it is JSON with or without --json)."""
    from lynxbench.contract.schema import render_schema

    typer.echo(render_schema(), nl=False)


@app.command(name="list")
def list_bundled(as_json: bool = _JSON) -> None:
    """List the contracts that come with lynxbench."""
    from lynxbench.contract.loader import bundled_names, read_bundled

    contracts = {name: read_bundled(name) for name in bundled_names()}
    if as_json:
        rows = [{"name": n, "contract_id": c.contract_id, "question": c.question} for n, c in contracts.items()]
        _print_json({"contracts": rows})
        return
    width = max(map(len, contracts))
    for name, contract in contracts.items():
        typer.echo(f"{name:<{width}}  {contract.contract_id[:12]}  {contract.question}")


def _fit(file: Path) -> tuple[Fitted, RequestLog]:
    from lynxbench.workload.production import fit_log
    from lynxbench.workload.request_log import read_log

    log = read_log(file)
    return fit_log(log), log


def _render_comparison(comparison: ContractComparison, a: str, b: str) -> str:
    if not comparison.differences:
        return f"COMPARABLE: the same contract in meaning, {comparison.before_id}\n"
    lines = [f"{comparison.verdict.upper()}: {a} ({comparison.before_id[:12]}) and {b} ({comparison.after_id[:12]})"]
    for effect in ("breaks comparability", "does not"):
        rows = [d for d in comparison.differences if d.effect == effect]
        if rows:
            lines += ["", "breaks comparability" if effect == "breaks comparability" else "does not break it"]
        for row in rows:
            lines += [f"  {row.key}: {_brief(row.before)} -> {_brief(row.after)}", f"    {row.reason}"]
    return "\n".join(lines) + "\n"


def _brief(value: object, longest: int = 60) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _print_json(document: object) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
