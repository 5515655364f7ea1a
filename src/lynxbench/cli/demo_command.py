"""`lynxbench demo`: worked examples that need no machine but this one."""

from __future__ import annotations

from pathlib import Path

import typer

from lynxbench.cli.results_command import AS_JSON

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def _demo() -> None:
    """Worked examples; their figures are invented, and say so."""


@app.command()
def decisions(
    output: Path = typer.Option(Path("lynxbench-demo"), "--output", "-o", help="Folder to write the pack into."),
    pdf: bool = typer.Option(True, "--pdf/--no-pdf", help="Also a PDF, where the extra `pdf` is installed."),
    as_json: bool = AS_JSON,
) -> None:
    """Decide about a software-bound service, a proposed swap and two precisions, and write the procurement pack."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.decide.demonstrating import INVENTED, make_demo
    from lynxbench.errors import BadInput
    from lynxbench.report.documents.decision_document import compose_decision

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--output {output}: {error.strerror or error}") from None
    made, decided = make_demo(output, os.environ, pdf)
    if as_json:
        print_document({**made.document(), "decisions": [one.model_dump(mode="json") for one in decided]})
        return
    print(INVENTED)
    for one in decided:
        print(f"\n=== decide {one.kind} ===\n")
        print(terminal_text(compose_decision(one)), end="")
    print()
    for line in made.lines():
        print(line)
