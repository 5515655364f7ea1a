"""What the ledger says, as text for people and as documents for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lynxbench.model.canonical import short
from lynxbench.model.entries import ForeignImported
from lynxbench.record.listing import about_document, foreign_document, list_document, say, standing_document

if TYPE_CHECKING:
    from lynxbench.ledger.checkpoints import Signed
    from lynxbench.ledger.log import Logged, TreeHead
    from lynxbench.ledger.queries import Listed, ListedFigure, OpenRun
    from lynxbench.model.standing import Standing, Voice

__all__ = [
    "about_document",
    "foreign_document",
    "list_document",
    "render_about",
    "render_foreign_list",
    "render_list",
    "render_log",
    "say",
    "standing_document",
]


def render_list(listed: Sequence[Listed], standing: Mapping[str, Standing], unfinished: Sequence[OpenRun]) -> str:
    """One line a precision: the figure with its interval, where it came from, what it stands on."""
    if not listed:
        return "no result fits\n" + _unfinished(unfinished)
    rows = [("result", "contract", "executor", "started (UTC)", "precision", "throughput", "validity", "standing")]
    for one in listed:
        for index, figure in enumerate(one.figures or (None,)):
            lead = (short(one.result_id), one.contract_name[:28], short(one.executor_id), one.started_at[:16])
            rows.append(
                (
                    *(lead if index == 0 else ("", "", "", "")),
                    figure.precision if figure else "",
                    _figure(figure),
                    figure.validity if figure else one.validity,
                    standing[one.result_id].short if index == 0 else "",
                )
            )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n" + _unfinished(unfinished)


def render_about(about: Sequence[tuple[Logged, Voice]], standing: Standing) -> str:
    """The standing of a result and everything that was said about it, in the log's order."""
    lines = ["standing   " + "; ".join(standing.words)]
    for logged, voice in about:
        lines.append(f"  #{logged.seq:<6} {logged.entry.made_at[:19]}  {say(logged.entry):60}  {voice.name}")
    return "\n".join(lines) + "\n"


def render_foreign_list(found: Sequence[tuple[Logged, Voice]]) -> str:
    """One line a foreign result; never beside ours, whose figures have intervals."""
    lines = []
    for logged, voice in found:
        body = logged.entry.body
        assert isinstance(body, ForeignImported)
        file = ", ".join(f"{blob.name} ({short(blob.sha256)})" for blob in logged.entry.blobs)
        lines.append(
            f"#{logged.seq:<6} {logged.entry.made_at[:16]}  {body.tool:<15} {file}: {len(body.figures)} figures, "
            f"{len(body.missing)} things not stated; imported by {voice.name}"
        )
    return "\n".join(lines or ["no foreign result was imported"]) + "\n"


def render_log(name: str, origin: str, head: TreeHead, checkpoints: Sequence[Signed], verified: str | None) -> str:
    """The state of a ledger."""
    lines = [
        f"ledger      {name}",
        f"origin      {origin}",
        f"entries     {head.size}",
        f"root        {head.root.hex()}",
    ]
    if verified is not None:
        lines.append(f"verified    {verified}")
    for one in checkpoints:
        who = ", ".join(f"{signer.team}" for signer in one.signers)
        keys = ", ".join(short(signature.keyid) for signature in one.envelope.signatures)
        lines.append(f"checkpoint  {one.checkpoint.tree_size} entries, {one.checkpoint.made_at}, by {who or keys}")
    return "\n".join(lines) + "\n"


def _figure(figure: ListedFigure | None) -> str:
    if figure is None or figure.throughput is None or figure.throughput.estimate is None:
        return "—"
    found = figure.throughput
    bounds = "" if found.low is None or found.high is None else f" [{found.low:.4g}, {found.high:.4g}]"
    return f"{found.estimate:.4g}{bounds} {found.unit}"


def _unfinished(unfinished: Sequence[OpenRun]) -> str:
    if not unfinished:
        return ""
    names = ", ".join(one.run_id for one in unfinished[:3])
    more = f" and {len(unfinished) - 3} more" if len(unfinished) > 3 else ""
    return f"{len(unfinished)} registered without an end: {names}{more}\n"
