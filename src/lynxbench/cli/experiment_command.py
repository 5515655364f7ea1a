"""`lynxbench experiment`: factorial experiments over layers."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.answers import answer, places_text
from lynxbench.cli.lazy_commands import command_group
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import BadInput
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.defining import bundled_experiments, read_bundled_experiment, read_definition
from lynxbench.experiment.experiment_outcome import read_experiment
from lynxbench.model.analyses import analysis_id
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.report.documents.experiment_document import compose_experiment
from lynxbench.report.render_html import render_html

app = command_group(
    "Factorial experiments over layers.",
    {
        "run=experiment_running": (
            "Run every cell in fresh processes, in random order, block by block; then say what the cells say together."
        ),
        "show=experiment_command": "Show what an experiment found; an unfinished one as far as it came.",
        "list=experiment_command": "List the bundled experiments.",
        "template=experiment_command": "Print a bundled experiment as it is written, to start from.",
    },
)


def show(
    experiment: Path = typer.Argument(help="The folder of an experiment, or its analysis.json."),
    html: Path | None = typer.Option(None, "--html", help="Also write the page to this file."),
    as_json: bool = AS_JSON,
) -> None:
    """Show what an experiment found; an unfinished one as far as it came."""
    folder = experiment if experiment.is_dir() else experiment.parent
    show_experiment(read_experiment(experiment), folder, as_json, html)


def show_experiment(
    document: ExperimentDocument, folder: Path, as_json: bool, html: Path | None = None, evidence: str = ""
) -> None:
    """Write the page where there is something to show, and print."""
    page = html or folder / "report.html"
    if document.finished_at is not None or html is not None:
        write_text(page, render_html(compose_experiment(document)))
    places = {"report": str(page) if page.exists() else "", "evidence": evidence}
    answer(
        as_json,
        lambda: {"analysis_id": analysis_id(document), **document.model_dump(mode="json")},
        lambda: terminal_text(compose_experiment(document)) + places_text(places),
    )


def list_(as_json: bool = AS_JSON) -> None:
    """List the bundled experiments."""
    definitions = [read_definition(name).definition for name in bundled_experiments()]
    answer(
        as_json,
        lambda: [
            {"name": definition.name, "question": definition.question, "definition_id": definition.definition_id}
            for definition in definitions
        ],
        lambda: "".join(f"{definition.name:<24} {definition.question}\n" for definition in definitions),
    )


def template(name: str = typer.Argument(help="A bundled experiment to start from.")) -> None:
    """Print a bundled experiment as it is written, to start from."""
    if name not in bundled_experiments():
        raise BadInput(f"{name}: no bundled experiment of this name; there are {', '.join(bundled_experiments())}")
    print(read_bundled_experiment(name), end="")
