"""`lynxbench experiment`: factorial experiments over layers."""

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.cli.options import AS_JSON
from lynxbench.errors import BadInput
from lynxbench.experiment.defining import bundled_experiments, read_bundled_experiment, read_definition

app = command_group("Factorial experiments over layers.", COMMANDS["experiment"])


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


def template(name: str = typer.Argument(help="A bundled experiment to start from."), as_json: bool = AS_JSON) -> None:
    """Print a bundled experiment as it is written, to start from."""
    if name not in bundled_experiments():
        raise BadInput(f"{name}: no bundled experiment of this name; there are {', '.join(bundled_experiments())}")
    text = read_bundled_experiment(name)
    answer(as_json, lambda: {"name": name, "text": text}, lambda: text)
