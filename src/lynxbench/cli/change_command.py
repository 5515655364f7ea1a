"""`lynxbench change`: one intervention in one layer, expected against measured."""

import os
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.lazy_commands import command_group
from lynxbench.cli.naming import append_signed
from lynxbench.cli.options import AS_JSON, CONTRACT, FOLDERS, LEDGER, ONE_PRECISION
from lynxbench.cli.showing import terminal_text
from lynxbench.compare.change_outcomes import caution_of, keep_book, measure_change, parse_expectation
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput, ExitCode
from lynxbench.ledger.location import opened
from lynxbench.ledger.names import find_id
from lynxbench.ledger.queries import entries_about
from lynxbench.model.contract import Contract
from lynxbench.model.entries import ChangeDeclared, ChangeVerdict, EntryBody
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.record.comparing_results import compare_named
from lynxbench.record.histories import opened_past
from lynxbench.report.documents.history_document import compose_changes
from lynxbench.report.words import factor_text

app = command_group("One intervention in one layer, expected against measured.")


@app.command()
def declare(
    contract: str = CONTRACT,
    layer: Layer = typer.Option(help="The layer that is changed, such as runtime."),
    what: str = typer.Option(help="What is changed, in a sentence."),
    expect: str = typer.Option(help="Throughput after over before, as a range: 1.2..1.5."),
    owner: str | None = typer.Option(None, help="Who changes it; the layer's owner in the contract if left out."),
    folders: list[Path] = FOLDERS,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say what will be changed and what it should do, before it is measured."""
    expected = parse_expectation(expect)
    if not what.strip() or len(what) > 4000:
        raise BadInput("--what: give 1 to 4000 characters that say what is changed")
    agreed = read_contract(contract) if Path(contract).is_file() else _named_contract(contract, folders, ledger)
    declared = ChangeDeclared(
        contract_id=agreed.contract_id,
        layer=layer,
        owner=owner or agreed.owner(layer),
        what=what.strip(),
        expected=expected,
    )
    seq, team = _record(declared, ledger)
    change_id = declared.change_id
    answer(
        as_json,
        lambda: {"change_id": change_id, "seq": seq, "team": team, "entry": declared.model_dump(mode="json")},
        lambda: (
            f"change {change_id[:12]} declared by {team} as entry {seq}\n"
            f"next: run the contract before and after, then lynxbench change measure {change_id[:12]} BEFORE AFTER\n"
        ),
    )


@app.command()
def measure(
    change: str = typer.Argument(help="The declared change: its id or the unique beginning of it."),
    before: str = typer.Argument(help="The result from before: path, id or its unique beginning."),
    after: str = typer.Argument(help="The result from after."),
    precision: Precision | None = ONE_PRECISION,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Hold a declared change's effect against what was expected. Exit code 1 when it did less, 3 when unsound."""
    declared = _declared(change, ledger)
    outcome = measure_change(declared, compare_named(before, after, precision, ledger, os.environ))
    seq, team = _record(outcome, ledger)
    caution = caution_of(declared.layer, outcome.layers_differing)
    expected, effect = factor_text(declared.expected), factor_text(outcome.effect)
    answer(
        as_json,
        lambda: {"seq": seq, "team": team, "caution": caution, **outcome.model_dump(mode="json")},
        lambda: (
            f"{outcome.verdict.upper()}: expected {expected}, measured {effect} at {outcome.precision} (entry {seq})\n"
            + (f"! {caution}\n" if caution else "")
        ),
    )
    if outcome.verdict in (ChangeVerdict.LESS, ChangeVerdict.NO_EFFECT):
        raise typer.Exit(ExitCode.VERDICT_NO)


@app.command("list")
def list_(
    contract: str = CONTRACT,  # as for `signals`: the parser reads a command's options off its own signature
    folders: list[Path] = FOLDERS,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """List the changes of a contract, what came of each, and how often each owner and layer was right."""
    with opened_past(folders, ledger, os.environ) as past:
        book = keep_book(*past.changes(past.contract(contract).contract_id))
    answer(as_json, book, lambda: terminal_text(compose_changes(book)))


def _named_contract(contract: str, folders: list[Path], ledger: str | None) -> Contract:
    with opened_past(folders, ledger, os.environ) as past:
        return past.contract(contract)


def _record(body: EntryBody, ledger: str | None) -> tuple[int, str]:
    with opened(ledger, os.environ, create=True) as open_:
        return append_signed(open_, body)


def _declared(change: str, ledger: str | None) -> ChangeDeclared:
    with opened(ledger, os.environ) as open_:
        change_id = find_id(open_.log, change, "change")
        for logged in entries_about(open_.log, [change_id]):
            body = logged.entry.body
            if isinstance(body, ChangeDeclared) and body.change_id == change_id:
                return body
    raise BadInput(f"{change}: measured somewhere, but never declared in this ledger")
