"""`lynxbench foreign`: a result of another tool, with what it fails to state."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.showing import terminal_text
from lynxbench.record.formats.foreign_results import ForeignTool, read_foreign
from lynxbench.report.documents.foreign_document import compose_foreign


def foreign(
    file: Path = typer.Argument(
        help="A result file of vLLM bench, GuideLLM, AIPerf, genai-perf, inference-perf, MLPerf, pytest-benchmark."
    ),
    tool: ForeignTool = typer.Option(
        ForeignTool.AUTO, help="Which tool wrote it, where it cannot be told from the file."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Read a result of another tool as foreign evidence: what it says, and what it fails to state."""
    evidence = read_foreign(file, tool)
    answer(as_json, evidence, lambda: terminal_text(compose_foreign(evidence)))
