"""`lynxbench claim`: what a performance claim fails to state."""

import sys
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.showing import terminal_text
from lynxbench.decide.claiming import lint_claim, read_claim
from lynxbench.decide.deciding import read_folder
from lynxbench.errors import BadInput, ExitCode
from lynxbench.report.documents.decision_document import compose_decision


def claim(
    file: str | None = typer.Argument(
        None, help="A claim: text, YAML, a peer's result file, an MLPerf row; - reads stdin."
    ),
    text: str | None = typer.Option(None, "--text", help="The claim itself, instead of a file."),
    folders: list[Path] = typer.Option([], "--from", help="Folder with own results that it could be held against."),
    as_json: bool = AS_JSON,
) -> None:
    """Find the contexts that a performance claim lacks, grade it, and write the questions to send back.

    Exit code 1 when a context is missing.
    """
    if (file is None) == (text is None):
        raise BadInput("give a file with the claim, or the claim with --text")
    if text is not None:
        source, body = "--text", text
    elif file == "-":
        source, body = "standard input", sys.stdin.read()
    else:
        assert file is not None
        source, body = Path(file).name, read_claim(Path(file))
    results = [result for folder in folders for result in read_folder(folder)]
    report = lint_claim(body, source, results)
    answer(as_json, report, lambda: terminal_text(compose_decision(report)))
    if report.missing:
        raise typer.Exit(ExitCode.VERDICT_NO)
