"""The command line: verbs that a person remembers, each imported when it is asked for."""

import sys

import typer
from typer.main import get_command

from lynxbench import __version__
from lynxbench.cli.lazy_commands import Table, command_group
from lynxbench.errors import ExitCode, LynxbenchError

COMMANDS: Table = {
    "run": "Capture, measure, attribute, record, report.",
    "report": "Render a result document; its ids and the hash of its samples are checked first.",
    "selfcheck": "Measure the load instrument itself: its ceiling and the error of its stamps on this machine.",
    "demo-server=selfcheck_command": (
        "Serve the OpenAI language on a known schedule, without a model: for trying lynxbench and for testing clients."
    ),
    "trace": "Say where the time of a step goes, which layer and owner it points to, and what removing it would gain.",
    "steady=series_command": (
        "Say whether a series has reached steady state, and how its sustained level compares with its burst."
    ),
    "changepoints=series_command": "Find the places where the level of a history changed.",
    "verify": (
        "Recompute ids, hashes, figures and verdicts from the raw samples; of an experiment, a tuning or a fleet run, "
        "the whole analysis from the results that it cites."
    ),
    "rerun": "Execute a result's contract here and say whether it is reproduced.",
    "contest": "Say, signed, that you do not accept a result, and why; it follows the result from now on.",
    "retract=contest_command": "Take back a result of your own team, with the reason; it stays in the record, marked.",
    "compare": "Compare two results: sound or refused, then the effect, the verdict, and whose layer changed.",
    "history": "Show how a contract's figure moved, and tie each change to what changed in the record.",
    "signals=history_command": "Look for the five signs that a problem belongs to the whole stack.",
    "foreign": "Read a result of another tool as foreign evidence: what it says, and what it fails to state.",
    "claim": "Find the contexts that a performance claim lacks, grade it, and write the questions to send back.",
    "tune": "Turn the contract's knobs within its budget; report what fresh processes and unseen seeds confirm.",
    "push": "Send results to a server, with everything that was said about them; again sends only what is new.",
    "pull=push_command": (
        "Fetch a result with everything about it, or an analysis with all its results; verify and take in."
    ),
    "contract": "Write, check, show and compare contracts.",
    "executor": "The nine layers of this machine, or a difference of two.",
    "decide": "From evidence to a decision that cites it.",
    "demo": "Worked examples that need no machine but this one.",
    "change": "One intervention in one layer, expected against measured.",
    "experiment": "Factorial experiments over layers.",
    "fleet": "One contract on many machines, on Ray.",
    "results": "The ledger: list, show, export, import, prove.",
    "serve": "The shared page and its API, and who may come in.",
    "schedule": "Contracts on a timetable, and the agents that run them.",
    "key": "A team's signing keys, and whose signatures count here.",
}

app = command_group(
    "Measure AI performance under a contract, attribute the time to a layer and its owner, decide from evidence.",
    COMMANDS,
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
