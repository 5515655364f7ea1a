"""A server's own profiler traces: the one with most of the work judged, and laid over the requests of its pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lynxbench.attribute.attributing import FEWEST_STEPS, attribute_source
from lynxbench.attribute.judge.roofline import DEVICES, Ceilings, ceilings_of
from lynxbench.attribute.read.trace import DEVICE_KINDS, EventKind, Trace
from lynxbench.attribute.read.trace_files import read_source
from lynxbench.attribute.say.verdict_lines import Owner
from lynxbench.attribute.tile.joined_requests import JoinedRequests, join_requests
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Attribution, Ceiling
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES
from lynxbench.model.server_profile import KernelJoin

MOST_OUTSIDE = 0.1
"""Work outside of the pass's requests beyond this: somebody else asked too, or the clocks are not the same."""


@dataclass(frozen=True, slots=True)
class ProfiledServer:
    """What a server's traces came to."""

    path: Path
    device: str | None
    join: KernelJoin | None
    attribution: Attribution | None
    missing: str


def attribute_profile(
    paths: Sequence[Path], spans: Sequence[tuple[int, int]], precision: Precision, *, owner: Owner, rules: int = RULES
) -> ProfiledServer | str:
    """Judge the trace with most of the work, against the requests (times of day) of its pass; or why none can be."""
    readable: list[tuple[Path, Trace]] = []
    problems = []
    for path in paths:
        try:
            source = read_source(path)
        except BadInput as problem:
            problems.append(str(problem).replace(str(path), path.name))
            continue
        if isinstance(source, Trace):
            readable.append((path, source))
        else:
            problems.append(f"{path.name}: no trace of events")
    if not readable:
        return problems[0] if problems else "the server wrote no trace"
    path, trace = max(readable, key=lambda pair: _work_ns(pair[1]))
    joined = join_requests(trace, spans)
    if joined is None:
        why = f"{path.name}: its stamps are of no known clock, so that its kernels are nobody's requests'"
        return ProfiledServer(path, trace.device, None, None, why)
    if joined.open_ns == 0:
        why = f"{path.name}: no request of the pass was open during it: it is of another time"
        return ProfiledServer(path, trace.device, None, None, why)
    join = _join_of(joined)
    if join.outside > MOST_OUTSIDE:
        why = f"{join.outside:.0%} of the work in {path.name} is outside of the pass's requests: others asked too"
        return ProfiledServer(path, trace.device, join, None, why)
    try:
        attribution = attribute_source(
            path, trace, Ceilings(declared_ceilings(trace.device), precision), owner=owner, rules=rules
        )
    except BadInput as problem:
        return ProfiledServer(path, trace.device, join, None, str(problem).replace(str(path), path.name))
    if attribution.steps < FEWEST_STEPS:
        why = f"{path.name}: no steps are told apart in it, so nobody can say what a step waits for"
        return ProfiledServer(path, trace.device, join, None, why)
    return ProfiledServer(path, trace.device, join, _of_server(attribution, owner), "")


def _of_server(attribution: Attribution, owner: Owner) -> Attribution:
    """What is the application's own code in a script is the serving framework's in a server."""
    candidates = tuple(
        each.model_copy(update={"layer": Layer.SERVING, "owner": owner(Layer.SERVING)})
        if each.layer is Layer.APPLICATION
        else each
        for each in attribution.candidates
    )
    changed: dict[str, object] = {"candidates": candidates}
    if attribution.layer is Layer.APPLICATION:
        changed |= {"layer": Layer.SERVING, "owner": owner(Layer.SERVING)}
    return attribution.model_copy(update=changed)


def declared_ceilings(device: str | None) -> tuple[Ceiling, ...]:
    """Those of the device that a trace names, where the table has it; nobody measured them on a server's device."""
    known = next((name for name in DEVICES if re.search(rf"\b{name}\b", (device or "").lower())), None)
    return () if known is None else ceilings_of(known) or ()


def _work_ns(trace: Trace) -> tuple[bool, int]:
    """Whether it holds a device's work, and how much work it holds."""
    kinds = DEVICE_KINDS if trace.has_device_work else (EventKind.OPERATOR,)
    return trace.has_device_work, int(np.sum(trace.dur_ns[trace.rows_of(*kinds)]))


def _join_of(joined: JoinedRequests) -> KernelJoin:
    return KernelJoin(
        busy=round(joined.busy_ns / joined.open_ns, 6),
        outside=round(1 - joined.busy_ns / joined.work_ns, 6) if joined.work_ns else 0.0,
        requests=joined.requests,
        work_ms_per_request=round(joined.busy_ns / joined.requests / 1e6, 6) if joined.requests else None,
    )
