"""What an entry puts into the index: pure, so that an index can be thrown away and rebuilt from the entries."""

import json
from dataclasses import dataclass, field
from typing import Any

from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.statement import parse_time
from lynxbench.model.entries import (
    ChangeDeclared,
    ChangeMeasured,
    Concluded,
    DecisionTaken,
    Entry,
    ForeignImported,
    KeyAnnounced,
    KeyRevoked,
    ResultContested,
    ResultRecorded,
    ResultRerun,
    ResultTagged,
    RunAbandoned,
    RunRegistered,
)

Row = dict[str, Any]
TAG_MARK = "tag:"
"""Before a tag's name where entries are found by it: no id begins so."""
_OF_RESULT = (
    *("result_id", "run_id", "contract_id", "contract_name", "executor_id", "instance_id", "weights"),
    *("started_at", "attempts", "bottleneck"),
)


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Rows by table."""

    subjects: list[Row]
    result: Row | None = None
    figures: list[Row] = field(default_factory=list)
    begins: Row | None = None
    """A run that is open from now on, unless its end is known already."""
    ends: str | None = None
    """A run that is open no longer."""


def index_rows(seq: int, entry: Entry) -> IndexRows:
    """The index rows of one entry."""
    subjects = [{"id": name, "seq": seq, "what": what} for name, what in sorted(_subjects(entry))]
    body = entry.body
    if isinstance(body, RunRegistered):
        begins = {"seq": seq, "run_id": body.run_id, "contract_id": body.contract_id, "made_at": entry.made_at}
        return IndexRows(subjects, begins=begins)
    if isinstance(body, RunAbandoned):
        return IndexRows(subjects, ends=body.run_id)
    if not isinstance(body, ResultRecorded):
        return IndexRows(subjects)
    result = {
        "seq": seq,
        **{name: getattr(body, name) for name in _OF_RESULT},
        "layer_ids": json.dumps({layer.value: name for layer, name in body.layer_ids.items()}, sort_keys=True),
        "started_s": int(parse_time(body.started_at).timestamp()),
        "validity": body.validity.value,
    }
    figures = [
        {
            "seq": seq,
            "precision": summary.precision.value,
            "contract_id": body.contract_id,
            "started_s": result["started_s"],
            **{name: getattr(summary.throughput, name, None) for name in ("low", "estimate", "high", "unit")},
            "run_means": json.dumps(summary.run_means),
            "validity": summary.validity.value,
            "steady": summary.steady,
        }
        for summary in body.per_precision
    ]
    return IndexRows(subjects, result, figures, ends=body.run_id)


def entry_columns(entry: Entry, envelope: Envelope) -> Row:
    """The copies kept beside the envelope."""
    body = entry.body
    return {
        "signers": " ".join(signature.keyid for signature in envelope.signatures),
        "kind": body.kind.value,
        "made_at": entry.made_at,
        **{name: getattr(body, name, None) for name in ("contract_id", "executor_id", "result_id", "run_id")},
    }


def _subjects(entry: Entry) -> set[tuple[str, str]]:
    body = entry.body
    subjects: set[tuple[str, str]] = set()
    for what in ("contract", "executor", "result"):
        name = getattr(body, f"{what}_id", None)
        if name is not None:
            subjects.add((name, what))
    if isinstance(body, (RunRegistered, ResultRecorded, RunAbandoned)):
        subjects.add((body.run_id, "run"))
    if isinstance(body, ResultRerun):
        subjects.add((body.rerun_id, "result"))
    if isinstance(body, ChangeDeclared | ChangeMeasured):
        subjects.add((body.change_id, "change"))
    if isinstance(body, ChangeMeasured):
        subjects |= {(body.before, "result"), (body.after, "result")}
    if isinstance(body, ForeignImported):
        subjects |= {(blob.sha256, "foreign") for blob in entry.blobs}
    if isinstance(body, Concluded):
        subjects |= {(body.analysis_id, "analysis"), (body.name, "named"), (body.base_contract_id, "cited")}
        subjects |= {(name, "cited") for name in body.without_result}
    if isinstance(body, ResultTagged):
        subjects |= {(f"{TAG_MARK}{tag}", "tag") for tag in (*body.put, *body.taken)}
    if isinstance(body, (KeyAnnounced, KeyRevoked)):
        subjects.add((body.keyid, "key"))
    if isinstance(body, (ResultContested, DecisionTaken, Concluded)):
        subjects |= {(name, "cited") for name in body.cites}
    return subjects
