"""`lynxbench experiment show`: what an experiment or a tuning says, as far as it came."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, places_text
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import BadResult, LynxbenchError
from lynxbench.evidence.documents import MAX_RESULT_BYTES
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.experiment_outcome import read_experiment
from lynxbench.experiment.tuning_folder import TUNING_FILE
from lynxbench.experiment.tuning_outcome import read_tuning
from lynxbench.model.analyses import analysis_id
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.tuning import TuningDocument
from lynxbench.plain_files import read_plain
from lynxbench.report.documents.experiment_document import compose_experiment
from lynxbench.report.documents.tuning_document import compose_tuning
from lynxbench.report.render_html import render_html


def show(
    experiment: Path = typer.Argument(help="The folder of an experiment or a tuning, or its document."),
    html: Path | None = typer.Option(None, "--html", help="Also write the page to this file."),
    as_json: bool = AS_JSON,
) -> None:
    """Show what an experiment or a tuning found; an unfinished one as far as it came."""
    try:
        _show(experiment, html, as_json)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:  # a stranger's record
        if isinstance(error, LynxbenchError):
            raise
        raise BadResult(f"{experiment}: damaged: {type(error).__name__}: {str(error)[:200]}") from None


def _show(experiment: Path, html: Path | None, as_json: bool) -> None:
    folder = experiment if experiment.is_dir() else experiment.parent
    if _is_tuning(experiment):
        tuning = read_tuning(experiment)
        if html is not None:
            write_text(html, render_html(compose_tuning(tuning)))
        show_tuning(tuning, as_json, {"report": str(html) if html is not None else ""})
    else:
        show_experiment(read_experiment(experiment), folder, as_json, html)


def _is_tuning(path: Path) -> bool:
    if path.is_dir():
        return (path / TUNING_FILE).is_file()
    with suppress(OSError, ValueError):
        document = json.loads(read_plain(path, MAX_RESULT_BYTES))
        return isinstance(document, dict) and "tuning_id" in document
    return False  # whoever reads it says what is wrong


def show_tuning(document: TuningDocument, as_json: bool, places: Mapping[str, str]) -> None:
    """Print it, and where its page and evidence are."""
    answer(
        as_json,
        lambda: {"analysis_id": analysis_id(document), **document.model_dump(mode="json")},
        lambda: terminal_text(compose_tuning(document)) + places_text(places),
    )


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
