"""The procurement pack of the worked example, without a ledger."""

from __future__ import annotations

from lynxbench.decide.deciding import Gathered, compare_cited
from lynxbench.decide.demonstrating import decide_demo, demo_results
from lynxbench.decide.pack_words import limitations_of, methodology_for
from lynxbench.model.packs import Pack
from planted import signed


def example_pack(title: str, invented: str = "") -> Pack:
    """All five kinds of decision under a title."""
    results = demo_results()
    decisions = decide_demo(Gathered(results, signed(*results)))
    return Pack(
        title=title,
        made_at="2026-11-15T08:00:00+00:00",
        lynxbench_version="0",
        decided_by="ML platform",
        decisions=decisions,
        comparison=compare_cited(results[:2], {}),
        results=results,
        standings=(),
        methodology=methodology_for(decisions),
        limitations=limitations_of(decisions, results),
        invented=invented,
    )
