"""`lynxbench compare`: comparability first, then the effect with its interval, then the layers that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import ExitCode

if TYPE_CHECKING:
    from lynxbench.model.comparison import Comparison
    from lynxbench.model.precision import Precision


def compare(
    a: str = typer.Argument(help="A result: path, id or its unique beginning. The one to hold against."),
    b: str = typer.Argument(help="The other result; the effect is B over A."),
    precision: str | None = typer.Option(None, help="Compare at this precision alone."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Compare two results: sound or refused, then the effect, the verdict, and whose layer changed.

    Exit code 1 when B regressed, 3 when the two are incomparable: then no ratio is given.
    """
    from lynxbench.cli.naming import parse_precision, print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.model.comparison import EffectVerdict
    from lynxbench.report.documents.comparison_document import compose_comparison

    found = compare_named(a, b, parse_precision(precision), ledger)
    if as_json:
        print_document(found.model_dump(mode="json"))
    else:
        print(terminal_text(compose_comparison(found)), end="")
    if found.refused:
        raise typer.Exit(ExitCode.REFUSED)
    if found.verdict is EffectVerdict.REGRESSED:
        raise typer.Exit(ExitCode.VERDICT_NO)


def compare_named(a: str, b: str, precision: Precision | None, ledger: str | None) -> Comparison:
    """Two results that a person named; a foreign one is refused with what it lacks."""
    from contextlib import ExitStack

    from lynxbench.cli.naming import foreign_or_none, resolve_result
    from lynxbench.compare.comparing import compare_foreign
    from lynxbench.record.comparing_results import compare_sides, side_of

    foreign = foreign_or_none(a), foreign_or_none(b)
    with ExitStack() as stack:
        recalled = [
            None if strange else stack.enter_context(resolve_result(name, ledger))
            for name, strange in zip((a, b), foreign, strict=True)
        ]
        if recalled[0] is None or recalled[1] is None:
            both = [one.result if one else strange for one, strange in zip(recalled, foreign, strict=True)]
            assert both[0] is not None
            assert both[1] is not None
            return compare_foreign(both[0], both[1], (a, b))
        sides = [side_of(one.result, folder=one.folder, standing=one.standing) for one in (recalled[0], recalled[1])]
    return compare_sides(sides[0], sides[1], precision)
