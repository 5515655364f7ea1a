"""The whole command line as one plain value: every command, parameter, default and line of help."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

from lynxbench.cli.lazy_commands import LazyCommand
from lynxbench.cli.main import app

Described = dict[str, Any]


def described_commands() -> dict[str, Described]:
    """Every command by its whole name, in the order of the help, with its parameters in theirs."""
    return dict(_walk("lynxbench", typer.main.get_command(app)))


def find_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words begin with, and the words that are left for it."""
    command: Any = typer.main.get_command(app)
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = _loaded(command.commands[rest.pop(0)])
    return command, rest


def render_commands(commands: dict[str, Described]) -> str:
    """The same as JSON with a line a parameter, so that a difference can be read."""
    blocks = []
    for name, command in commands.items():
        rows = [f"  {_json(parameter)}" for parameter in command["parameters"]]
        facts = [f" {_json(key)}: {_json(value)}" for key, value in command.items() if key != "parameters"]
        listed = ' "parameters": []' if not rows else ' "parameters": [\n' + ",\n".join(rows) + "\n ]"
        blocks.append(f"{_json(name)}: {{\n" + ",\n".join([*facts, listed]) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _walk(path: str, command: Any) -> list[tuple[str, Described]]:
    """A command, and of a group all that stand below it."""
    described = {
        "help": command.help,
        "line": command.get_short_help_str(60),
        "hidden": command.hidden,
        "no_args_is_help": command.no_args_is_help,
        "invoke_without_command": getattr(command, "invoke_without_command", False),
    }
    rows = [(path, {**_telling(described), "parameters": [_parameter(parameter) for parameter in command.params]})]
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            rows += _walk(f"{path} {name}", _loaded(command.get_command(context, name)))
    return rows


def _loaded(command: Any) -> Any:
    return command.load() if isinstance(command, LazyCommand) else command


def _parameter(parameter: Any) -> Described:
    descriptor = parameter.type_descriptor
    described = {
        "name": parameter.name,
        "kind": parameter.param_type_name,
        "words": [*parameter.opts, *parameter.secondary_opts],
        "type": parameter.bare_type(),
        "choices": [_plain(choice) for choice in descriptor.choices or ()],
        "metavar": parameter.metavar,
        "default": _plain(parameter.default),
        "required": parameter.required,
        "flag": getattr(parameter, "is_flag", False),
        "many": parameter.nargs != 1 or parameter.multiple,
        "min": descriptor.parameter_info.min,
        "max": descriptor.parameter_info.max,
        "environment": parameter.envvar,
        "eager": parameter.is_eager,
        "hidden": getattr(parameter, "hidden", False),
        "default_unsaid": parameter.show_default is False,
        "help": parameter.help,
    }
    return _telling(described)


def _telling(described: Described) -> Described:
    """Without what says nothing: absent, off, or empty."""
    return {key: value for key, value in described.items() if value not in (None, False, [], "")}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
