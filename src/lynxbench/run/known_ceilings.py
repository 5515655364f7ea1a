"""Ceilings of accelerators from earlier runs, kept by executor id: later runs re-check them instead of starting blind.

Only devices: a CPU's ceilings move with whatever else runs, and measuring them takes a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from lynxbench.evidence.documents import write_text
from lynxbench.model.attribution import Ceiling
from lynxbench.model.document import Document
from lynxbench.model.job import JobReport, JobStatus
from lynxbench.model.precision import Precision
from lynxbench.workload.cache import cache_root

FOLDER = "ceilings"


class KnownCeilings(Document):
    """What one executor is known to reach."""

    executor_id: str
    ceilings: tuple[Ceiling, ...] = ()


def ceilings_file(executor_id: str) -> Path:
    """Where an executor's ceilings are kept."""
    return cache_root() / FOLDER / f"{executor_id}.json"


def read_ceilings(executor_id: str) -> tuple[Ceiling, ...]:
    """The ceilings known of an executor; nothing where none are, or where the file is damaged (it is made anew)."""
    try:
        known = KnownCeilings.model_validate_json(ceilings_file(executor_id).read_bytes())
    except (OSError, ValidationError):
        return ()
    return known.ceilings if known.executor_id == executor_id else ()


def ceilings_for(known: Iterable[Ceiling], precision: Precision) -> tuple[Ceiling, ...]:
    """Those that a process at that precision measures: its own product, and what has no precision; () without one."""
    mine = tuple(ceiling for ceiling in known if ceiling.precision in (precision, None))
    return mine if any(ceiling.precision is precision for ceiling in mine) else ()


def remember_ceilings(executor_id: str, reports: Iterable[JobReport]) -> None:
    """Keep what the processes of a run measured on a device; a cache that cannot be written costs nothing but time."""
    fresh: dict[tuple[str, Precision | None], Ceiling] = {}
    for report in reports:
        if report.status is JobStatus.DONE and str(report.facts.get("runtime.device", "")).startswith("cuda"):
            for ceiling in report.ceilings:
                key = ceiling.name, ceiling.precision
                fresh[key] = max(ceiling, fresh.get(key, ceiling), key=lambda measured: measured.per_s)
    if not fresh:
        return
    # What was measured now replaces what was known: a limit that has come down must not be believed for ever.
    merged = {(ceiling.name, ceiling.precision): ceiling for ceiling in read_ceilings(executor_id)} | fresh
    path = ceilings_file(executor_id)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, KnownCeilings(executor_id=executor_id, ceilings=tuple(merged.values())).model_dump_json())
