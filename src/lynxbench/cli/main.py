"""The command line: verbs that a person remembers, each imported when it is asked for."""

import sys

import typer
from typer.main import get_command

from lynxbench import __version__
from lynxbench.cli.lazy_commands import COMMANDS, command_group
from lynxbench.errors import ExitCode, LynxbenchError

app = command_group(
    "Measure AI performance under a contract, attribute the time to a layer and its owner, decide from evidence.",
    COMMANDS["lynxbench"],
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Parse, call, and turn every deliberate error into one line and its exit code."""
    command = get_command(app)
    try:
        with command.make_context("lynxbench", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except LynxbenchError as error:
        _fail(str(error), error.exit_code)
    except typer.TyperException as error:
        _fail_usage(error)
    except (KeyboardInterrupt, EOFError, typer.Abort):
        _fail("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe left early: nothing is wrong
        sys.exit(ExitCode.DONE)


def _fail_usage(error: typer.TyperException) -> None:
    """What the parser says of wrong usage, in the program's one line; a group without a command shows its help."""
    context, message = getattr(error, "ctx", None), error.format_message()
    if context is not None and message == context.get_help():
        print(message, file=sys.stderr)
        sys.exit(ExitCode.BAD_INPUT)
    line = " ".join(message.replace("Value error, ", "").split())
    _fail(line if context is None else f"{line.rstrip('.')}; see {context.command_path} --help", ExitCode.BAD_INPUT)


def _fail(line: str, code: ExitCode) -> None:
    print(f"lynxbench: {line}", file=sys.stderr)
    sys.exit(code)
