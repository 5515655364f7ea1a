"""The operators that take most of a step, for people."""

from __future__ import annotations

from lynxbench.attribute.accounting import OperatorGroup, TimeBook
from lynxbench.model.attribution import Category, OperatorTime

TOP_OPERATORS = 15


def top_operators(book: TimeBook) -> tuple[OperatorTime, ...]:
    """The operators that take most, all shapes of one name and category together."""
    merged: dict[tuple[str, Category], list[OperatorGroup]] = {}
    for group in book.groups:
        merged.setdefault((group.name, group.category), []).append(group)
    steps, wall = len(book.wall_ns), float(book.wall_ns.sum())
    rows = []
    for (name, category), groups in merged.items():
        took = sum(group.self_ns for group in groups)
        known = [group for group in groups if group.attainable_ns is not None]
        known_ns = sum(group.self_ns for group in known)
        rows.append(
            OperatorTime(
                name=name,
                category=category,
                calls_per_step=sum(group.calls for group in groups) / steps,
                ms_per_step=took / steps / 1e6,
                share=took / wall if wall else 0.0,
                efficiency=sum(g.attainable_ns or 0.0 for g in known) / known_ns if known_ns > 0 else None,
            )
        )
    rows.sort(key=lambda row: (-row.ms_per_step, row.name))
    return tuple(rows[:TOP_OPERATORS])
