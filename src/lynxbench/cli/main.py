"""The command line: verbs that a person remembers. Heavy things are imported by the command that needs them."""

from __future__ import annotations

import sys

import typer

from lynxbench import __version__
from lynxbench.cli import change_command as change_commands
from lynxbench.cli import contract_command as contract_commands
from lynxbench.cli import decide_command as decide_commands
from lynxbench.cli import demo_command as demo_commands
from lynxbench.cli import executor_command as executor_commands
from lynxbench.cli import experiment_command as experiment_commands
from lynxbench.cli import fleet_command as fleet_commands
from lynxbench.cli import key_command as key_commands
from lynxbench.cli import results_command as results_commands
from lynxbench.cli import schedule_command as schedule_commands
from lynxbench.cli import serve_command as serve_commands
from lynxbench.cli.claim_command import claim
from lynxbench.cli.compare_command import compare
from lynxbench.cli.contest_command import contest, retract
from lynxbench.cli.foreign_command import foreign
from lynxbench.cli.history_command import history
from lynxbench.cli.push_command import pull, push
from lynxbench.cli.report_command import report
from lynxbench.cli.rerun_command import rerun
from lynxbench.cli.run_command import RunCommand, run
from lynxbench.cli.selfcheck_command import demo_server, selfcheck
from lynxbench.cli.series_command import changepoints, steady
from lynxbench.cli.signals_command import signals
from lynxbench.cli.trace_command import trace
from lynxbench.cli.tune_command import tune
from lynxbench.cli.verify_command import verify
from lynxbench.errors import ExitCode, LynxbenchError

app = typer.Typer(
    name="lynxbench",
    help="Measure AI performance under a contract, attribute the time to a layer and its owner, decide from evidence.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(cls=RunCommand)(run)
app.command()(report)
app.add_typer(contract_commands.app, name="contract", help="Write, check, show and compare contracts.")
app.add_typer(executor_commands.app, name="executor", help="The nine layers of this machine, or a difference of two.")
app.command()(selfcheck)
app.command("demo-server")(demo_server)
app.command()(trace)
app.command()(steady)
app.command()(changepoints)
app.command()(verify)
app.command()(rerun)
app.command()(contest)
app.command()(retract)
app.command()(compare)
app.command()(history)
app.command()(signals)
app.command()(foreign)
app.command()(claim)
app.add_typer(decide_commands.app, name="decide", help="From evidence to a decision that cites it.")
app.add_typer(demo_commands.app, name="demo", help="Worked examples that need no machine but this one.")
app.add_typer(change_commands.app, name="change", help="One intervention in one layer, expected against measured.")
app.add_typer(experiment_commands.app, name="experiment", help="Factorial experiments over layers.")
app.command()(tune)
app.add_typer(fleet_commands.app, name="fleet", help="One contract on many machines, on Ray.")
app.add_typer(results_commands.app, name="results", help="The ledger: list, show, export, import, prove.")
app.command()(push)
app.command()(pull)
app.add_typer(serve_commands.app, name="serve", help="The shared page and its API, and who may come in.")
app.add_typer(schedule_commands.app, name="schedule", help="Contracts on a timetable, and the agents that run them.")
app.add_typer(key_commands.app, name="key", help="A team's signing keys, and whose signatures count here.")


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
    try:
        app()
    except LynxbenchError as error:
        print(f"lynxbench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("lynxbench: interrupted", file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe left early: nothing is wrong
        sys.exit(ExitCode.DONE)
