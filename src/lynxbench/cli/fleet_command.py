"""`lynxbench fleet`: one contract on many machines, on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.cli.fleet_options import ENV, NODES, RAY, SHIP, TOGETHER, WAIT_FOR, WAIT_S, asked_nodes, joined
from lynxbench.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from lynxbench.executor.declaration import Declaration
    from lynxbench.model.fleet import FleetReport
    from lynxbench.run.run_outcome import Recorders

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

LEDGER = typer.Option(None, "--ledger", help="Folder or URL of the ledger; none: record nowhere.")
AS_JSON = typer.Option(False, "--json", help="Print one JSON document on standard output, nothing else.")
OUT = typer.Option(Path("results"), help="Folder that receives one folder a fleet run.")


@app.command()
def run(
    contract: str = typer.Argument(help="A contract file, or the name of a bundled one."),
    ray: str | None = RAY,
    nodes: str | None = NODES,
    per: str = typer.Option("node", "--per", help="`node` runs once a node, `gpu` once a GPU."),
    together: bool = TOGETHER,
    ranks: bool = typer.Option(
        False, "--ranks", help="One run over all nodes: each node is a rank, as torchrun's are."
    ),
    server: str | None = typer.Option(
        None, "--server", help="With --ranks: a command that serves, started as every rank before the contract asks it."
    ),
    wait: int = WAIT_FOR,
    out: Path = OUT,
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished fleet run of this contract."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    ship: Path | None = SHIP,
    env: list[str] | None = ENV,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Run a contract on every node, each alone; record each result; say who stands apart and why.

    Exit code 1 when a unit has no valid result; it is named with what happened to it.
    """
    from lynxbench.cli.fleet_progress import FleetTerminal
    from lynxbench.contract.loader import read_contract
    from lynxbench.fleet.cluster import wait_for
    from lynxbench.fleet.fleet_run import FleetOptions, environment_of, run_fleet

    if per not in ("node", "gpu"):
        raise BadInput(f"--per {per!r}: write node or gpu")
    if server is not None and not ranks:
        raise BadInput("--server starts a command as every rank; give --ranks with it")
    if ranks and (resume or per == "gpu"):
        raise BadInput("--ranks is one run over all nodes, one rank a GPU: leave out --resume and --per")
    agreed = read_contract(contract)
    options = FleetOptions(
        per_gpu=per == "gpu",
        together=together,
        declaration=_declared(declare),
        environment=environment_of(env or ()),
        cwd=Path.cwd() if ship is None else None,
    )
    recorders = _recorders(ledger)
    with joined(ray, nodes, ship) as fleet, FleetTerminal() as progress:
        wait_for(fleet, wait, WAIT_S)
        if ranks:
            from lynxbench.fleet.rank_run import run_ranks

            state, folder = run_ranks(
                fleet, agreed, out, nodes=asked_nodes(ray, nodes), options=options, progress=progress,
                recorders=recorders, server=server,
            )  # fmt: skip
        else:
            state, folder = run_fleet(
                fleet, agreed, out, nodes=asked_nodes(ray, nodes), options=options, progress=progress,
                recorders=recorders, resume=resume,
            )  # fmt: skip
    from lynxbench.fleet.fleet_report import report_fleet

    _finish(report_fleet(state, folder), folder, as_json, ledger)


@app.command()
def show(
    named: list[str] = typer.Argument(help="The folder of a fleet run; or results (paths, ids) of one contract."),
    html: Path | None = typer.Option(None, help="Write the page here."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show a fleet run again, or hold results of one contract against each other as a fleet."""
    from lynxbench.evidence.documents import write_text
    from lynxbench.fleet.fleet_book import FLEET_FILE
    from lynxbench.fleet.fleet_report import read_fleet
    from lynxbench.report.documents.fleet_document import compose_fleet
    from lynxbench.report.render_html import render_html

    only = Path(named[0])
    if len(named) == 1 and (only.name == FLEET_FILE or (only / FLEET_FILE).is_file()):
        found = read_fleet(only)
    else:
        found = _of_results(named, ledger)
    if html is not None:
        write_text(html, render_html(compose_fleet(found)))
        typer.echo(f"written: {html}", err=True)
    _print(found, as_json)
    if not found.complete:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _finish(found: FleetReport, folder: Path, as_json: bool, ledger: str | None) -> None:
    from lynxbench.cli.experiment_command import Records
    from lynxbench.evidence.documents import write_text
    from lynxbench.report.documents.fleet_document import compose_fleet
    from lynxbench.report.render_html import render_html

    write_text(folder / "report.json", found.model_dump_json(indent=2))
    write_text(folder / "report.html", render_html(compose_fleet(found)))
    records = Records(ledger)
    evidence = records.conclude(folder) if found.measured else ""
    records.tell()
    _print(found, as_json)
    typer.echo(f"report    {folder / 'report.html'}", err=True)
    if evidence:
        typer.echo(f"evidence  {evidence}", err=True)
    if not found.complete or found.left_out:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _print(found: FleetReport, as_json: bool) -> None:
    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.report.documents.fleet_document import compose_fleet

    if as_json:
        print_document(found.model_dump(mode="json"))
    else:
        print(terminal_text(compose_fleet(found)), end="")


def _of_results(named: list[str], ledger: str | None) -> FleetReport:
    from lynxbench.cli.naming import resolve_result
    from lynxbench.fleet.fleet_report import report_results

    results = {}
    for name in named:
        with resolve_result(name, ledger) as found:
            key = Path(name).parent.name if Path(name).is_file() else Path(name).name
            results[key if key not in results else name] = found.result
    return report_results(results)


def _recorders(ledger: str | None) -> Recorders | None:
    from lynxbench.cli.output import recorder_for

    return None if recorder_for(ledger) is None else lambda: recorder_for(ledger)


def _declared(path: Path | None) -> Declaration | None:
    from lynxbench.executor.declaration import read_declaration

    return None if path is None else read_declaration(path)


@app.command()
def load(
    contract: str = typer.Argument(help="A contract with a served engine and a fixed arrival process."),
    ray: str | None = RAY,
    nodes: str | None = NODES,
    clients: int | None = typer.Option(None, min=1, help="Client processes in all; one a node if left out."),
    out: Path = typer.Option(Path("results"), help="Folder that receives one folder a run."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished run of this contract."),
    declare: Path | None = typer.Option(None, help="Declaration of what no probe can read: price, cooling, demand."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Ask a server from clients on many hosts: one schedule, split; clocks measured; every sample merged.

    Exit code 1 when the result is void: each client is held to the instrument's bounds by itself.
    """
    from lynxbench.cli.output import print_result, recorder_for, tell_record, write_reports
    from lynxbench.cli.progress import TerminalProgress
    from lynxbench.contract.loader import read_contract
    from lynxbench.fleet.fleet_load import run_load
    from lynxbench.model.result import ValidityVerdict

    agreed, recorder = read_contract(contract), recorder_for(ledger)
    with joined(ray, nodes) as fleet, TerminalProgress(agreed) as progress:
        finished = run_load(
            fleet,
            fleet.address,
            agreed,
            out,
            nodes=asked_nodes(ray, nodes),
            clients=clients,
            declaration=_declared(declare),
            progress=progress,
            recorder=recorder,
            resume=resume,
        )
        progress.note("writing the report")
        paths = write_reports(finished)
    tell_record(recorder, finished.folder)
    print_result(finished.result, paths, as_json, recorder is not None and recorder.recorded is not None)
    if finished.result.validity.verdict is ValidityVerdict.VOID:
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command()
def trace(
    named: list[str] = typer.Argument(help="Folders of rank traces, files, or prefixes such as s3://bucket/run."),
    ray: str | None = RAY,
    nodes: str | None = NODES,
    workers: int | None = typer.Option(None, min=1, help="At most so many at a time; the cluster's CPUs if left out."),
    device: str | None = typer.Option(None, "--device", help="Declared ceilings of a known device: h200."),
    owners: str | None = typer.Option(None, "--owners", help="A contract that names the owners."),
    html: Path | None = typer.Option(None, help="Write a page with plots."),
    as_json: bool = AS_JSON,
) -> None:
    """Analyse the traces of many ranks in parallel: stragglers, exposed communication, how ranks differ."""
    from lynxbench.attribute.attributing import TraceSettings
    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.cli.trace_command import ceilings_for, document_of, owners_of, view_of
    from lynxbench.evidence.documents import write_text
    from lynxbench.fleet.fleet_traces import analyse_fleet, list_traces, refuse_none
    from lynxbench.report.documents.trace_document import compose_trace
    from lynxbench.report.render_html import render_html

    settings = TraceSettings(ceilings=ceilings_for(None, device), owners=owners_of(owners))
    traces = list_traces(named)
    refuse_none(traces)
    with joined(ray, nodes) as fleet:
        found = analyse_fleet(fleet, traces, settings, workers=workers)
    view = view_of(found.report, settings)
    if html is not None:
        write_text(html, render_html(compose_trace(view)))
        typer.echo(f"written: {html}", err=True)
    peak_mib = found.peak_rss_bytes / (1 << 20)
    typer.echo(f"{len(traces)} traces, {found.workers} workers, at most {peak_mib:.0f} MiB each", err=True)
    if as_json:
        taken = {"workers": found.workers, "peak_rss_bytes": found.peak_rss_bytes}
        print_document({**document_of(found.report, view), "fleet": taken})
    else:
        print(terminal_text(compose_trace(view)), end="")
