"""What a ledger says as documents for programs: the same for `--json` and for the server's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from lynxbench.ledger.log import Logged, TreeHead
from lynxbench.ledger.queries import Listed, OpenRun
from lynxbench.ledger.remarks import NO_REMARKS, ResultRemarks
from lynxbench.model.standing import Standing, Voice

if TYPE_CHECKING:
    from lynxbench.ledger.checkpoints import Signed
    from lynxbench.ledger.log_witnesses import Sighting
    from lynxbench.ledger.witness_book import SplitView

Plain = dict[str, object]
_LISTED = (
    *("result_id", "run_id", "contract_id", "contract_name", "executor_id", "instance_id", "started_at"),
    *("validity", "attempts", "bottleneck"),
)


def list_document(
    listed: Sequence[Listed],
    standing: Mapping[str, Standing],
    unfinished: Sequence[OpenRun],
    head: TreeHead,
    machines: Mapping[str, str] | None = None,
    remarks: Mapping[str, ResultRemarks] | None = None,
) -> Plain:
    """Results of a ledger, newest first, and runs that have none yet; `machines` are letters by instance."""
    said = remarks or {}
    return {
        "tree_size": head.size,
        "root_hash": head.root.hex(),
        "results": [
            {
                **{name: getattr(result, name) for name in _LISTED},
                **({"machine": machines[result.instance_id]} if machines else {}),
                "per_precision": [
                    {**asdict(figure), "throughput": figure.throughput and figure.throughput.model_dump()}
                    for figure in result.figures
                ],
                "standing": standing_document(standing[result.result_id]),
                "tags": [asdict(tag) for tag in said.get(result.result_id, NO_REMARKS).tags],
            }
            for result in listed
        ],
        "unfinished": [asdict(run) for run in unfinished],
    }


def about_document(
    about: Sequence[tuple[Logged, Voice]], standing: Standing, remarks: ResultRemarks = NO_REMARKS
) -> Plain:
    """How a result stands, its tags and notes, and every entry about it with who signed it."""
    return {
        "standing": standing_document(standing),
        "tags": [asdict(tag) for tag in remarks.tags],
        "notes": [asdict(note) for note in remarks.notes],
        "entries": [
            {
                "seq": logged.seq,
                "logged_at": logged.logged_at,
                "teams": list(voice.teams),
                "keys": list(voice.keys),
                "entry": logged.entry.model_dump(mode="json", by_alias=True),
            }
            for logged, voice in about
        ],
    }


def foreign_document(imported: Sequence[tuple[Logged, Voice]]) -> Plain:
    """Results of other tools."""
    return {
        "foreign": [
            {"seq": logged.seq, "by": voice.name, **logged.entry.model_dump(mode="json", by_alias=True)}
            for logged, voice in imported
        ]
    }


def standing_document(standing: Standing) -> Plain:
    """A standing with its words."""
    return {"summary": standing.short, "words": list(standing.words), **standing.model_dump(mode="json")}


def log_document(
    name: str,
    origin: str,
    head: TreeHead,
    checkpoints: Sequence[Signed],
    seen: Sequence[Sighting],
    splits: Sequence[SplitView],
    verified: str | None = None,
) -> Plain:
    """The state of a ledger."""
    return {
        "ledger": name,
        "origin": origin,
        "tree_size": head.size,
        "root_hash": head.root.hex(),
        "verified": verified,
        "checkpoints": [
            {
                **signed.checkpoint.model_dump(mode="json"),
                "keys": [signature.keyid for signature in signed.envelope.signatures],
                "teams": [signer.team for signer in signed.signers],
            }
            for signed in checkpoints
        ],
        "witnesses": [asdict(sighting) for sighting in seen],
        "split_views": [split.model_dump(mode="json") for split in splits],
    }
