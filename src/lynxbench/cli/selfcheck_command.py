"""`lynxbench selfcheck` and `lynxbench demo-server`."""

from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.terminal import tell
from lynxbench.engines.openai import OpenAiLanguage, build_probe
from lynxbench.errors import ExitCode
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.selfcheck import check_instrument, render_selfcheck
from lynxbench.load.truth_process import serve


def selfcheck(
    as_json: bool = AS_JSON,
    quick: bool = typer.Option(False, "--quick", help="Shorter probes: about 10 seconds instead of 30."),
) -> None:
    """Measure the load instrument itself: its ceiling and the error of its stamps on this machine."""
    tell("measuring the instrument against the bundled server …")
    check = check_instrument(OpenAiLanguage(), build_probe, quick)
    answer(as_json, check.document, lambda: render_selfcheck(check) + "\n")
    if not check.good:
        raise typer.Exit(ExitCode.VERDICT_NO)


def demo_server(
    port: int = typer.Option(8000, min=0, max=65535, help="Where to listen; 0 takes a free port."),
    host: str = typer.Option("127.0.0.1", help="The address to listen on."),
    ttft: float = typer.Option(50.0, min=0, help="Milliseconds to the first token."),
    itl: float = typer.Option(10.0, min=0, help="Milliseconds between tokens."),
    tokens: int = typer.Option(0, min=0, help="Tokens of every answer; 0 does what the request asks."),
    tokens_per_event: int = typer.Option(1, min=1, help="Tokens carried by one event."),
    drop: float = typer.Option(0.0, min=0, max=1, help="Share of streams cut half-way."),
    http500: float = typer.Option(0.0, min=0, max=1, help="Share of requests answered with an error."),
    stall: float = typer.Option(0.0, min=0, max=1, help="Share of streams that never send anything."),
    role_at_start: bool = typer.Option(False, "--role-at-start", help="Send an empty role delta at arrival."),
    split_writes: bool = typer.Option(False, "--split-writes", help="Cut every event into two writes."),
    close_after: int = typer.Option(0, min=0, help="Answers after which a kept-alive connection closes; 0 never."),
    slots: int = typer.Option(0, min=0, help="Requests served at the same time, others wait; 0 serves all at once."),
    exponential: bool = typer.Option(
        False, "--exponential", help="Draw service times, so that slots make an M/M/k queue."
    ),
    prefix_cache: bool = typer.Option(
        False, "--prefix-cache", help="Answer repeated prompts with cached input tokens."
    ),
    log: Path | None = typer.Option(None, help="Write what happened to this file (numpy columns) at the end."),
) -> None:
    """Serve the OpenAI language on a known schedule, without a model: for trying lynxbench and for testing clients."""
    behaviour = Behaviour(
        ttft_ms=ttft,
        itl_ms=itl,
        tokens=tokens or None,
        tokens_per_event=tokens_per_event,
        drop=drop,
        http500=http500,
        stall=stall,
        role_at_start=role_at_start,
        split_writes=split_writes,
        close_after=close_after or None,
        slots=slots or None,
        service="exponential" if exponential else "fixed",
        prefix_cache=prefix_cache,
    )
    serve(behaviour, host, port, log, announce="serving {url}  (model: ground-truth; stop with Ctrl-C)")
