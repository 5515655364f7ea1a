"""Whose time a served request is: the server's own counters over the run, and what moved with the requests' latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lynxbench.attribute.correlation import correlate_telemetry
from lynxbench.attribute.served_split import attribute_serving
from lynxbench.attribute.serving_counted import split_counted
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution
from lynxbench.model.contract import Contract
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Float64, Telemetry

SHOWN_COLUMNS = 3
"""Telemetry columns that are named, the closest first: more would be a list of everything that heats up together."""


def attribute_served(
    contract: Contract, served: Sequence[Requests], counted: Mapping[str, float], telemetry: Telemetry | None
) -> Attribution | str:
    """The attribution of a served run from what the server counted meanwhile, or why there is none."""
    if not counted:
        return (
            f"engine {contract.engine.name} is not profiled from outside, and the server's /metrics count no phases of "
            "its requests"
        )
    latency_s = np.concatenate([(one.last_ns - one.sent_ns)[one.ok] / 1e9 for one in served])
    sent_s = np.concatenate([one.sent_ns[one.ok] / 1e9 for one in served])
    if not len(latency_s):
        return "no request was answered, so there is no time to attribute"
    try:
        split = split_counted(counted, client_total_s=float(latency_s.mean()), requests=len(latency_s))
        found = attribute_serving(split, owner=contract.owner)
    except BadInput as why:
        return f"the server's counters do not tell where its requests spent their time: {why}"
    lines = _moving_with(sent_s, latency_s, telemetry) if telemetry is not None else ()
    return found.model_copy(update={"evidence": (*found.evidence, *lines)})


def _moving_with(sent_s: Float64, latency_s: Float64, telemetry: Telemetry) -> tuple[str, ...]:
    found = correlate_telemetry(sent_s, latency_s, telemetry.at_ns / 1e9, telemetry.columns)
    return tuple(f"telemetry: {one.line}" for one in found if one.related)[:SHOWN_COLUMNS]
