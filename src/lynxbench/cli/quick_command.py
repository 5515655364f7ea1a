"""`quick`: point at something, and have an answer in two minutes that says how far it goes."""

from pathlib import Path

import typer

from lynxbench.cli.options import AS_JSON, OUT, RECORDING_LEDGER
from lynxbench.cli.output import recorder_for
from lynxbench.cli.progress import duration_text
from lynxbench.cli.run_plan import plan_run
from lynxbench.cli.running import carry_out, show_run
from lynxbench.cli.terminal import tell
from lynxbench.cli.trace_command import trace
from lynxbench.contract.writer import Explained, render_contract
from lynxbench.errors import BadInput
from lynxbench.model.contract import Contract
from lynxbench.model.quantities import format_duration, format_ratio
from lynxbench.model.workload import Task
from lynxbench.run.greeting import greet
from lynxbench.run.pipeline import run_contract
from lynxbench.run.quick_target import QuickTarget, find_target, is_trace, long_contract, quick_contract, quick_limits

_AGAIN = """\
# The quick look at {found}, as it was measured: the same again with lynxbench run {file}
"""
_HEADER = """\
# Written by a quick look at {found}. Before it is run: replace what was guessed, have the teams agree to it
# (agreed: [{{team: …}}], or teams: and lynxbench contract sign), and name an objective that good means something.
# Check it: lynxbench contract check {file}      run it: lynxbench run {file}
"""


def quick(
    target: str = typer.Argument(
        help="A server (http:…), a model folder, a .gguf or .onnx file, OWNER/MODEL of the hub, module:function, a "
        "trace."
    ),
    task: Task | None = typer.Option(None, help="What it is to do, where that cannot be seen."),
    model: str = typer.Option("", help="Which of a server's models; its first if left out."),
    api_key_env: str | None = typer.Option(None, "--api-key-env", help="Variable that holds a server's key."),
    out: Path = OUT,
    ledger: str | None = RECORDING_LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Look at a server, a model, a function or a trace for two minutes, and write the contract for a longer look.

    Exit code 1 when the result is void.
    """
    if is_trace(target):
        trace([Path(target)], None, None, None, None, None, None, [], None, None, as_json)
        return
    found = find_target(target, task=task, model=model, key_variable=api_key_env)
    short, whole = quick_contract(found), long_contract(found)
    tell(f"lynxbench: {found.found}: task {found.task}, {found.precision}")
    for guess in found.guesses:
        tell(f"lynxbench: guessed: {guess}")
    greeting, recorder = greet(short, lambda line: tell(f"lynxbench: {line}")), recorder_for(ledger)
    finished, paths = carry_out(
        short,
        lambda progress: run_contract(short, out, None, progress, None, recorder, greeting),
        recorder,
    )
    _written(found, short, _AGAIN)
    _tell_more(short, whole, _written(found, whole, _HEADER))
    show_run(finished, paths, recorder, as_json)


def _written(target: QuickTarget, contract: Contract, heading: str) -> str:
    """Writes a contract, in words that say where; one that is there already is kept."""
    file = Path(f"{contract.name}.yaml")
    hidden = frozenset({"input_tokens"} if target.task is Task.CALLABLE else ())
    header = heading.format(found=target.found, file=file.name)
    text = f"{header}\n{render_contract(contract, Explained(hidden))}"
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return f"{file}, which was there and is kept"
    except OSError as error:
        raise BadInput(f"{file}: cannot be written: {error.strerror}") from None
    return str(file)


def _tell_more(short: Contract, whole: Contract, where: str) -> None:
    """What a quick look cannot show, and the way to what can."""
    tell(f"lynxbench: {quick_limits(short)}; again: lynxbench run {short.name}.yaml")
    longer, plan = whole.protocol, plan_run(whole)
    least = format_duration(longer.min_duration_s)
    tell(
        f"lynxbench: next: edit {where}, then lynxbench run {whole.name}.yaml: {longer.restarts} processes of at least "
        f"{least} with drift below {format_ratio(longer.steady.drift)}, about {duration_text(plan.about_s)}"
    )
