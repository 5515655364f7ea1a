"""`lynxbench demo`: worked examples that need no machine but this one."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import command_group
from lynxbench.cli.options import AS_JSON, PDF
from lynxbench.cli.showing import terminal_text
from lynxbench.decide.demonstrating import INVENTED, make_demo
from lynxbench.errors import BadInput
from lynxbench.report.documents.decision_document import compose_decision

app = command_group("Worked examples that need no machine but this one.")


@app.command()
def decisions(
    output: Path = typer.Option(Path("lynxbench-demo"), "--output", "-o", help="Folder to write the pack into."),
    pdf: bool = PDF,
    as_json: bool = AS_JSON,
) -> None:
    """Decide about a software-bound service, a proposed swap and two precisions, and write the procurement pack."""
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--output {output}: {error.strerror or error}") from None
    pack, decided = make_demo(output, pdf)

    def text() -> str:
        parts = [
            f"=== decide {decision.kind} ===\n\n{terminal_text(compose_decision(decision))}" for decision in decided
        ]
        return "\n".join([f"{INVENTED}\n", *parts, *pack.lines()]) + "\n"

    answer(
        as_json,
        lambda: {**pack.document(), "decisions": [decision.model_dump(mode="json") for decision in decided]},
        text,
    )
