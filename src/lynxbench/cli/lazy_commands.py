"""Commands that are known by their name and line of help; the module of one is imported when it is asked for."""

import gc
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lynxbench.errors import BadInput
from lynxbench.tables import read_table

COMMANDS: dict[str, dict[str, str]] = read_table("cli/commands.toml")
"""By group: where each command's function is, and the first sentence of its help."""
EXTRAS = dict.fromkeys(("anyio", "fastapi", "httptools", "starlette", "uvicorn"), "server")
"""Packages that only some installations have, and which extra brings each."""


class LazyCommand(TyperCommand):
    """Stands for a command in the help of its group."""

    def __init__(self, key: str, sentence: str) -> None:
        name, _, self._module = key.partition("=")
        super().__init__(name, help=sentence, rich_markup_mode=None)

    def load(self) -> TyperCommand | TyperGroup:
        """The command itself."""
        module = _imported(f"lynxbench.cli.{self._module or f'{self.name}_command'}")
        app = None if self._module else getattr(module, "app", None)
        if app is None:
            word = str(self.name).replace("-", "_")
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command(self.name)(getattr(module, word, None) or getattr(module, f"{word}_"))
        command = cast("TyperCommand | TyperGroup", get_command(app))
        command.name = self.name
        if isinstance(command, TyperCommand) and not gc.isenabled():  # the program came here without it, and only once
            gc.freeze()  # what is loaded by now stays until the end: neither on the way nor then is it looked through
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context in which the command itself is invoked."""
        context = self.load().make_context(info_name, args, parent, **extra)
        if not isinstance(context.command, TyperGroup) or context.command.invoke_without_command:
            gc.enable()  # the program came here without it
        return context


def command_group(sentence: str, table: dict[str, str] | None = None, *, no_args_is_help: bool = True) -> typer.Typer:
    """A group of commands: of those in the table, and of those that its module adds."""

    class TabledGroup(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            for key, line in (table or {}).items():
                self.add_command(LazyCommand(key, line))

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """A command of the group; one that is loaded with it is about to begin."""
            command = super().get_command(ctx, cmd_name)
            if not isinstance(command, LazyCommand):
                gc.enable()
            return command

    return typer.Typer(
        help=sentence,
        cls=TabledGroup,
        callback=_begin,
        no_args_is_help=no_args_is_help,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def _imported(name: str) -> ModuleType:
    """A module, without looking for garbage among what is just being made: that is a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise BadInput(f"this command needs {error.name}; pip install 'lynxbench[{extra}]'") from None
    finally:
        if enabled:
            gc.enable()


def _begin() -> None:
    """Makes a Typer a group, however few commands its module adds."""
