"""`lynxbench fleet`: one contract on many machines, on Ray."""

import os
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, write_page
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.cli.options import AS_JSON, RECORDING_LEDGER
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import ExitCode
from lynxbench.fleet.fleet_book import FLEET_FILE
from lynxbench.fleet.fleet_report import read_fleet, report_results
from lynxbench.model.fleet import FleetReport
from lynxbench.model.result import Result
from lynxbench.record.recalling import recalled
from lynxbench.report.documents.fleet_document import compose_fleet
from lynxbench.report.render_html import render_html

app = command_group("One contract on many machines, on Ray.", COMMANDS["fleet"])


def show(
    named: list[str] = typer.Argument(help="The folder of a fleet run; or results (paths, ids) of one contract."),
    html: Path | None = typer.Option(None, help="Write the page here."),
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Show a fleet run again, or hold results of one contract against each other as a fleet."""
    only = Path(named[0])
    if len(named) == 1 and (only.name == FLEET_FILE or (only / FLEET_FILE).is_file()):
        report = read_fleet(only)
    else:
        report = _of_results(named, ledger)
    write_page(html, lambda: render_html(compose_fleet(report)))
    answer(as_json, report, lambda: terminal_text(compose_fleet(report)))
    if not report.complete:
        raise typer.Exit(ExitCode.VERDICT_NO)


def _of_results(named: list[str], ledger: str | None) -> FleetReport:
    results: dict[str, Result] = {}
    for name in named:
        with recalled(name, ledger, os.environ) as result:
            key = Path(name).parent.name if Path(name).is_file() else Path(name).name
            results[key if key not in results else name] = result.result
    return report_results(results)
