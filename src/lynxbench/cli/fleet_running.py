"""`lynxbench fleet run`, `load` and `trace`: what is carried out on a cluster's nodes."""

from enum import StrEnum
from functools import partial
from pathlib import Path

import typer

from lynxbench.attribute.attributing import TraceSettings
from lynxbench.cli import fleet_options as on_fleet
from lynxbench.cli.analysis_records import AnalysisRecords
from lynxbench.cli.answers import answer, write_page
from lynxbench.cli.fleet_progress import FleetTerminal
from lynxbench.cli.options import AS_JSON, CONTRACT_FILE, DECLARE, DEVICE, OUT, OWNERS, RECORDING_LEDGER, RESUME
from lynxbench.cli.output import recorder_for
from lynxbench.cli.running import carry_out, show_run
from lynxbench.cli.showing import terminal_text
from lynxbench.cli.terminal import tell
from lynxbench.cli.trace_command import ceilings_for, owners_of
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput, ExitCode
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.declaration import read_declaration
from lynxbench.fleet.fleet_load import run_load
from lynxbench.fleet.fleet_report import report_fleet
from lynxbench.fleet.fleet_run import FleetOptions, run_fleet
from lynxbench.fleet.fleet_traces import analyse_fleet, list_traces
from lynxbench.fleet.rank_run import run_ranks
from lynxbench.model.fleet import FleetReport
from lynxbench.report.documents.fleet_document import compose_fleet
from lynxbench.report.documents.trace_document import compose_trace
from lynxbench.report.documents.trace_view import document_of, view_of
from lynxbench.report.render_html import render_html


class RunPer(StrEnum):
    """What a contract is run once on."""

    NODE = "node"
    GPU = "gpu"


def run(
    contract: str = CONTRACT_FILE,
    ray: str | None = on_fleet.RAY,
    nodes: str | None = on_fleet.NODES,
    per: RunPer = typer.Option(RunPer.NODE, "--per", help="`node` runs once a node, `gpu` once a GPU."),
    together: bool = on_fleet.TOGETHER,
    ranks: bool = typer.Option(
        False, "--ranks", help="One run over all nodes: each node is a rank, as torchrun's are."
    ),
    server: str | None = typer.Option(
        None, "--server", help="With --ranks: a command that serves, started as every rank before the contract asks it."
    ),
    wait: int = on_fleet.WAIT_FOR,
    out: Path = typer.Option(Path("results"), help="Folder that receives one folder a fleet run."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the newest unfinished fleet run of this contract."),
    declare: Path | None = DECLARE,
    ship: Path | None = on_fleet.SHIP,
    env: list[str] | None = on_fleet.ENV,
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Run a contract on every node, each alone; record each result; say who stands apart and why.

    Exit code 1 when a unit has no valid result; it is named with what happened to it.
    """
    per_gpu = per is RunPer.GPU
    if server is not None and not ranks:
        raise BadInput("--server starts a command as every rank; give --ranks with it")
    if ranks and (resume or per_gpu):
        raise BadInput("--ranks is one run over all nodes, one rank a GPU: leave out --resume and --per")
    agreed = read_contract(contract)
    declaration = read_declaration(declare) if declare else None
    job = on_fleet.job_options(together, ship, env)
    options = FleetOptions(job.together, job.cwd, job.environment, per_gpu=per_gpu, declaration=declaration)
    records = AnalysisRecords(ledger)
    carry_out_on = partial(run_ranks, server=server) if ranks else partial(run_fleet, resume=resume)
    with on_fleet.joined(ray, nodes, ship, wait=wait) as fleet, FleetTerminal() as progress:
        state, folder = carry_out_on(
            fleet, agreed, out, nodes=on_fleet.asked_nodes(ray, nodes), options=options, progress=progress,
            recorders=records if records.wanted else None,
        )  # fmt: skip
    _finish(report_fleet(state, folder), folder, as_json, records)


def _finish(report: FleetReport, folder: Path, as_json: bool, records: AnalysisRecords) -> None:
    page = folder / "report.html"
    write_text(folder / "report.json", report.model_dump_json(indent=2))
    write_text(page, render_html(compose_fleet(report)))
    evidence = records.conclude(folder) if report.measured else ""
    answer(as_json, report, lambda: terminal_text(compose_fleet(report)))
    tell(f"report    {page}")
    if evidence:
        tell(f"evidence  {evidence}")
    if not report.complete or report.left_out:
        raise typer.Exit(ExitCode.VERDICT_NO)


def load(
    contract: str = typer.Argument(help="A contract with a served engine and a fixed arrival process."),
    ray: str | None = on_fleet.RAY,
    nodes: str | None = on_fleet.NODES,
    clients: int | None = typer.Option(None, min=1, help="Client processes in all; one a node if left out."),
    out: Path = OUT,
    resume: bool = RESUME,
    declare: Path | None = DECLARE,
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Ask a server from clients on many hosts: one schedule, split; clocks measured; every sample merged.

    Exit code 1 when the result is void: each client is held to the instrument's bounds by itself.
    """
    agreed, recorder = read_contract(contract), recorder_for(ledger)
    declaration = read_declaration(declare) if declare else None
    with on_fleet.joined(ray, nodes) as fleet:
        finished, paths = carry_out(
            agreed,
            lambda progress: run_load(
                fleet,
                fleet.address,
                agreed,
                out,
                nodes=on_fleet.asked_nodes(ray, nodes),
                clients=clients,
                declaration=declaration,
                progress=progress,
                recorder=recorder,
                resume=resume,
            ),
            recorder,
        )
    show_run(finished, paths, recorder, as_json)


def trace(
    named: list[str] = typer.Argument(help="Folders of rank traces, files, or prefixes such as s3://bucket/run."),
    ray: str | None = on_fleet.RAY,
    nodes: str | None = on_fleet.NODES,
    workers: int | None = typer.Option(None, min=1, help="At most so many at a time; the cluster's CPUs if left out."),
    device: str | None = DEVICE,
    owners: str | None = OWNERS,
    html: Path | None = typer.Option(None, help="Write a page with plots."),
    as_json: bool = AS_JSON,
) -> None:
    """Analyse the traces of many ranks in parallel: stragglers, exposed communication, how ranks differ."""
    settings = TraceSettings(ceilings=ceilings_for(None, device), owners=owners_of(owners))
    traces = list_traces(named)
    with on_fleet.joined(ray, nodes) as fleet:
        analysed = analyse_fleet(fleet, traces, settings, workers=workers)
    view = view_of(analysed.report)
    write_page(html, lambda: render_html(compose_trace(view)))
    peak_mib = analysed.peak_rss_bytes / (1 << 20)
    tell(f"{len(traces)} traces, {analysed.workers} workers, at most {peak_mib:.0f} MiB each")
    effort = {"workers": analysed.workers, "peak_rss_bytes": analysed.peak_rss_bytes}
    answer(
        as_json,
        lambda: {**document_of(analysed.report, view), "fleet": effort},
        lambda: terminal_text(compose_trace(view)),
    )
