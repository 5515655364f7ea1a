"""An analysed trace as the values that its views draw, and as a document for programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from lynxbench.attribute.judge.faster_hardware import compare_swaps
from lynxbench.attribute.rank_traces import Rank, RankReport
from lynxbench.model.evidence_gate import weakness_of, without_blame
from lynxbench.model.trace_detail import TraceChange
from lynxbench.report.documents.trace_document import RankRow, TraceView


def view_of(report: RankReport) -> TraceView:
    """The values that the views draw, carried from one room to the other."""
    main = report.main
    assert main.analysis is not None
    named, swaps = main.analysis.attribution, main.analysis.swaps
    attribution = without_blame(named, weakness_of(named))
    several = len(report.ranks) > 1
    return TraceView(
        source=f"{len(report.ranks)} ranks, rank {main.number} shown" if several else Path(main.source).name,
        attribution=attribution,
        detail=main.analysis.detail,
        swaps=tuple((swap.swap.words, swap.gain) for swap in swaps),
        swap_sentence=compare_swaps(swaps, named.gain_if_removed, f"the fix ({named.next_step})"),
        ranks=tuple(_row(rank, report) for rank in report.ranks) if several else (),
        rank_lines=report.lines,
        unit=main.analysis.account.unit,
    )


def _row(rank: Rank, report: RankReport) -> RankRow:
    if rank.analysis is None:
        return RankRow(rank.number, None, None, None, "not read", rank.problem or "")
    note = "straggles" if rank.number == report.straggler else ""
    bottleneck = rank.analysis.attribution.bottleneck.value
    return RankRow(rank.number, rank.step_ms, rank.own_ms, rank.exposed_ms, bottleneck, note)


def document_of(report: RankReport, view: TraceView) -> dict[str, Any]:
    """The attribution object of a result, with what only a trace has."""
    attribution = view.attribution.model_dump(mode="json", by_alias=True)
    document: dict[str, Any] = {
        "attribution": attribution,
        "wall_ms_per_step": attribution["wall_ms_per_step"],
        "steps": attribution["steps"],
        "device": view.detail.device,
        "what_if": [{"change": name, "gain": asdict(gain), "estimate_only": True} for name, gain in view.swaps],
        "movements": [
            {
                "name": row.name,
                "ms_per_step": row.ms_per_step,
                "exposed_ms_per_step": row.exposed_ms_per_step,
                "bytes_per_s": row.bytes_per_s,
            }
            for row in view.detail.movements
        ],
    }
    if view.change is not None:
        document["against"] = _change_document(view.change)
    if view.ranks:
        document["ranks"] = [asdict(row) for row in view.ranks]
        document["straggler"] = report.straggler
        document["rank_findings"] = list(report.lines)
    return document


def _change_document(change: TraceChange) -> dict[str, Any]:
    """What changed since an earlier trace."""
    return {
        "before": change.before,
        "before_ms_per_step": change.before_ms,
        "after_ms_per_step": change.after_ms,
        "sentence": change.sentence,
        "layer": change.layer,
        "owner": change.owner,
        "suspects": [{"layer": layer, "owner": owner, "reason": why} for layer, owner, why in change.suspects],
        "parts": [{"what": words, "ms_per_step": ms} for words, ms in change.parts],
        "operators": [
            {
                "name": one.name,
                "category": one.category,
                "before_ms_per_step": one.before_ms,
                "after_ms_per_step": one.after_ms,
                "before_calls_per_step": one.before_calls,
                "after_calls_per_step": one.after_calls,
                "note": one.note,
            }
            for one in change.operators
        ],
    }
