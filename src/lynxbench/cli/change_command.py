"""`lynxbench change`: one intervention in one layer, expected against measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lynxbench.cli.history_command import CONTRACT, FROM
from lynxbench.cli.results_command import AS_JSON, LEDGER
from lynxbench.errors import BadInput, ExitCode

if TYPE_CHECKING:
    from lynxbench.model.contract import Contract
    from lynxbench.model.entries import ChangeDeclared

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.command()
def declare(
    contract: str = CONTRACT,
    layer: str = typer.Option(help="The layer that is changed, such as runtime."),
    what: str = typer.Option(help="What is changed, in a sentence."),
    expect: str = typer.Option(help="Throughput after over before, as a range: 1.2..1.5."),
    owner: str | None = typer.Option(None, help="Who changes it; the layer's owner in the contract if left out."),
    folders: list[Path] | None = FROM,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say what will be changed and what it should do, before it is measured."""
    from lynxbench.cli.naming import parse_layer, print_document, record_entry
    from lynxbench.compare.change_outcomes import parse_expectation
    from lynxbench.contract.loader import read_contract
    from lynxbench.model.entries import ChangeDeclared

    chosen, expected = parse_layer(layer), parse_expectation(expect)
    if not what.strip() or len(what) > 4000:
        raise BadInput("--what: give 1 to 4000 characters that say what is changed")
    agreed = read_contract(contract) if Path(contract).is_file() else _named_contract(contract, folders, ledger)
    declared = ChangeDeclared(
        contract_id=agreed.contract_id,
        layer=chosen,
        owner=owner or agreed.owner(chosen),
        what=what.strip(),
        expected=expected,
    )
    seq, team = record_entry(declared, ledger)
    if as_json:
        entry = declared.model_dump(mode="json")
        print_document({"change_id": declared.change_id, "seq": seq, "team": team, "entry": entry})
        return
    print(f"change {declared.change_id[:12]} declared by {team} as entry {seq}")
    print(
        f"next: run the contract before and after, then lynxbench change measure {declared.change_id[:12]} BEFORE AFTER"
    )


@app.command()
def measure(
    change: str = typer.Argument(help="The declared change: its id or the unique beginning of it."),
    before: str = typer.Argument(help="The result from before: path, id or its unique beginning."),
    after: str = typer.Argument(help="The result from after."),
    precision: str | None = typer.Option(None, help="Compare at this precision alone."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Hold a declared change's effect against what was expected. Exit code 1 when it did less, 3 when unsound."""
    from lynxbench.cli.compare_command import compare_named
    from lynxbench.cli.naming import parse_precision, print_document, record_entry
    from lynxbench.compare.change_outcomes import caution_of, measure_change
    from lynxbench.model.entries import ChangeVerdict
    from lynxbench.report.words import factor_text

    declared = _declared(change, ledger)
    comparison = compare_named(before, after, parse_precision(precision), ledger)
    found = measure_change(declared, comparison)
    seq, team = record_entry(found, ledger)
    caution = caution_of(declared.layer, found.layers_differing)
    if as_json:
        print_document({"seq": seq, "team": team, "caution": caution, **found.model_dump(mode="json")})
    else:
        expected, got = factor_text(declared.expected), factor_text(found.effect)
        print(f"{found.verdict.upper()}: expected {expected}, measured {got} at {found.precision} (entry {seq})")
        if caution:
            print(f"! {caution}")
    if found.verdict in (ChangeVerdict.LESS, ChangeVerdict.NO_EFFECT):
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command("list")
def list_(
    contract: str = CONTRACT,
    folders: list[Path] | None = FROM,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """List the changes of a contract, what came of each, and how often each owner and layer was right."""
    import os

    from lynxbench.cli.naming import print_document
    from lynxbench.cli.showing import terminal_text
    from lynxbench.compare.change_outcomes import keep_book
    from lynxbench.record.histories import Past
    from lynxbench.report.documents.history_document import compose_changes

    with Past(folders or (), ledger, os.environ) as past:
        agreed = past.contract(contract)
        book = keep_book(*past.changes(agreed.contract_id))
    if as_json:
        print_document(book.model_dump(mode="json"))
    else:
        print(terminal_text(compose_changes(book)), end="")


def _named_contract(contract: str, folders: list[Path] | None, ledger: str | None) -> Contract:
    import os

    from lynxbench.record.histories import Past

    with Past(folders or (), ledger, os.environ) as past:
        return past.contract(contract)


def _declared(change: str, ledger: str | None) -> ChangeDeclared:
    import os

    from lynxbench.ledger.names import find_id
    from lynxbench.ledger.queries import entries_about
    from lynxbench.model.entries import ChangeDeclared
    from lynxbench.record.recalling import opened

    with opened(ledger, os.environ) as open_:
        change_id = find_id(open_.log, change, "change")
        for one in entries_about(open_.log, [change_id]):
            if isinstance(one.entry.body, ChangeDeclared) and one.entry.body.change_id == change_id:
                return one.entry.body
    raise BadInput(f"{change}: measured somewhere, but never declared in this ledger")
