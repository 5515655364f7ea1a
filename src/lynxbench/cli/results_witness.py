"""`lynxbench results witness`: other people's logs, seen to grow and co-signed."""

from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.results_log import read_checkpoint
from lynxbench.errors import BadInput
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.whole_files import write_text
from lynxbench.ledger.signed_notes import WITNESS_KEY, verifier_key, witness_name
from lynxbench.ledger.witness_book import SplitView, WitnessBook, WitnessedLog, parse_request
from lynxbench.model.canonical import short


def witness(
    file: Path | None = typer.Argument(
        None, help="A checkpoint of `results log --checkpoint`; without one, every log that was witnessed here."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Where the co-signed checkpoint goes; else into FILE."),
    forget: str | None = typer.Option(
        None, help="Begin anew with the log of this origin: its keeper changed keys, or set its server up again."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Co-sign a checkpoint of another team's log that continues what was seen of it.

    Exit code 5 when the log shrank or forked since, or when another key signed in its name.
    """
    keyring, now = Keyring(), datetime.now(UTC)
    book = WitnessBook(keyring.where)
    if forget is not None:
        book.forget(forget)
    if file is None:
        logs, splits = book.logs(), book.splits()
        answer(as_json, lambda: _book_document(logs, splits), lambda: _book_text(logs, splits))
        return
    request = parse_request(read_checkpoint(file))
    before, key = book.seen_of(request.note.origin), keyring.signing_key(now).key
    cosigned = book.witness(request, keyring.trust, key, now)
    target, origin, head = out or file, cosigned.origin, cosigned.head
    try:
        write_text(target, cosigned.to_text())
    except OSError as error:
        raise BadInput(f"{target}: cannot be written: {error.strerror or error}") from error
    answer(
        as_json,
        lambda: {
            "file": str(target),
            "origin": origin,
            "tree_size": head.size,
            "root_hash": head.root.hex(),
            "seen_before": before.size,
            "team": key.team,
            "verifier_key": verifier_key(witness_name(key.team), WITNESS_KEY, key.card.public),
        },
        lambda: f"{target}: {head.size} entries of {origin} co-signed by {key.team}; {before.size} were seen before\n",
    )


def _book_document(logs: dict[str, WitnessedLog], splits: tuple[SplitView, ...]) -> dict[str, object]:
    return {
        "logs": [
            {
                "origin": origin,
                "tree_size": log.checkpoint.head.size,
                "root_hash": log.checkpoint.head.root.hex(),
                "keyid": log.keyid,
                "team": log.team,
                "seen_at": log.seen_at,
            }
            for origin, log in logs.items()
        ],
        "split_views": [split.model_dump(mode="json") for split in splits],
    }


def _book_text(logs: dict[str, WitnessedLog], splits: tuple[SplitView, ...]) -> str:
    lines = [
        f"{origin}  {log.checkpoint.head.size} entries at {log.seen_at}, key {short(log.keyid)} ({log.team})\n"
        for origin, log in logs.items()
    ]
    lines += [f"SPLIT VIEW: {split.words}\n" for split in splits]
    return "".join(lines) or "no log was witnessed here yet\n"
