"""`lynxbench experiment show`: what an experiment says, as far as it came."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer, places_text
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.showing import terminal_text
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.experiment_outcome import read_experiment
from lynxbench.model.analyses import analysis_id
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.report.documents.experiment_document import compose_experiment
from lynxbench.report.render_html import render_html


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
