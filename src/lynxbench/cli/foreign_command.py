"""`lynxbench foreign`: a result of another tool, with what it fails to state."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.results_command import AS_JSON


def foreign(
    file: Path = typer.Argument(
        help="A result file of vLLM bench, GuideLLM, AIPerf, genai-perf, inference-perf, MLPerf."
    ),
    tool: str = typer.Option("auto", help="Which tool wrote it, where it cannot be told from the file."),
    as_json: bool = AS_JSON,
) -> None:
    """Read a result of another tool as foreign evidence: what it says, and what it fails to state."""
    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.record.formats.foreign_results import read_foreign
    from lynxbench.report.documents.foreign_document import compose_foreign

    found = read_foreign(file, tool)
    if as_json:
        print_document(found.model_dump(mode="json"))
    else:
        print(terminal_text(compose_foreign(found)), end="")
