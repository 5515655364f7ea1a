"""`lynxbench compare`: comparability first, then the effect with its interval, then the layers that differ."""

import os
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON, DECLARE, LEDGER, ONE_PRECISION, OUT
from lynxbench.cli.showing import terminal_text
from lynxbench.errors import BadInput, ExitCode
from lynxbench.model.precision import Precision
from lynxbench.record.comparing_results import compare_named
from lynxbench.report.documents.comparison_document import compose_comparison


def compare(
    a: str = typer.Argument(help="A result: path, id or its unique beginning. The one to hold against."),
    b: str = typer.Argument(help="The other result; the effect is B over A."),
    precision: Precision | None = ONE_PRECISION,
    run: bool = typer.Option(
        False, "--run", help="A and B are contracts: measure both now, restart by restart in pairs, and compare them."
    ),
    env_b: list[str] = typer.Option([], "--env-b", help="NAME=VALUE for B's processes alone; may be repeated."),
    lock_b: str | None = typer.Option(None, "--lock-b", help="Lock file of packages that B alone is measured with."),
    out: Path = OUT,
    declare: Path | None = DECLARE,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Compare two results: sound or refused, then the effect, the verdict, and whose layer changed.

    Exit code 1 when B regressed, 3 when the two are incomparable: then no ratio is given. 6 when a side is doubtful or
    not shown to be steady: the figures stand, no verdict rests on them, and what to measure again is said.
    """
    if run:
        from lynxbench.cli.paired_running import compare_in_pairs  # what measures, and only where it does

        comparison = compare_in_pairs(a, b, precision, env_b, lock_b, out, declare, ledger)
    elif env_b or lock_b:
        raise BadInput("--env-b and --lock-b say how B is measured: give --run with two contracts")
    else:
        comparison = compare_named(a, b, precision, ledger, os.environ)
    answer(as_json, comparison, lambda: terminal_text(compose_comparison(comparison)))
    if comparison.exit_code is not ExitCode.DONE:
        raise typer.Exit(comparison.exit_code)
