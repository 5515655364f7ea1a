"""What each precision takes beside its speed: memory, joules a unit and a request, and the units that were busy."""

from __future__ import annotations

from lynxbench.model.activity import DeviceActivity
from lynxbench.model.result import Result
from lynxbench.report import findings, words

TITLE = "What each precision takes"
HEAD = ("Precision", "Memory", "Energy", "Energy a request", "Units busy", "Accuracy", "Executed as")


def economics_rows(result: Result) -> tuple[tuple[str, ...], ...]:
    """One row a measured precision; nothing where neither energy nor activity was read: other tables say the rest."""
    shown = [one for one in result.per_precision if findings.is_shown(one, result)]
    if not any(one.energy_j_per_unit is not None or one.activity is not None for one in shown):
        return ()
    accuracy = {row.precision: row.accuracy for row in findings.table_rows(result)}
    return tuple(
        (
            one.precision.value,
            words.bytes_text(one.device_memory_bytes or one.memory_bytes),
            words.figure_text(one.energy_j_per_unit),
            words.NO_FIGURE if one.energy_j_per_request is None else words.figure_text(one.energy_j_per_request),
            activity_text(one.activity),
            accuracy.get(one.precision, words.NO_FIGURE),
            one.native.value,
        )
        for one in shown
    )


def activity_text(activity: DeviceActivity | None) -> str:
    """`SM 50 %, tensor 2 %, DRAM 40 %`."""
    if activity is None:
        return words.NO_FIGURE
    named = {"SM": activity.sm, "tensor": activity.tensor, "fp32": activity.fp32, "DRAM": activity.dram}
    return ", ".join(f"{name} {words.percent(share)}" for name, share in named.items() if share is not None)
