"""A server as it is read while a run goes on: captured before and after, with what it counted in between.

Nobody can read this again later; it goes into the result as it was seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from lynxbench.engines.kserve import parse_triton_stats
from lynxbench.engines.served import api_key_headers
from lynxbench.errors import BadResult
from lynxbench.executor.capture import capture_host
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.server import Address, CapturedServer, capture_server, counted_between, with_server
from lynxbench.model.contract import Contract, KserveEngine, ServedEngine, ServedModel
from lynxbench.model.executor import Executor, FieldChange, Tier, difference
from lynxbench.run.client_results import ServerCounts
from lynxbench.run.concluding import LiveEvidence

COUNTED_PARTS = (
    *("queue", "prefill", "decode", "prompt", "predicted", "inference", "first_token", "compute", "deferred"),
    *("e2e_request", "tgi_request_duration", "tgi_request_validation"),
)
"""Counters of a server that say where requests spent their time."""


def capture(contract: Contract) -> CapturedServer:
    """The server as it stands."""
    engine, model = contract.engine, contract.workload.model
    assert isinstance(engine, ServedEngine)
    assert isinstance(model, ServedModel)
    address = Address(engine.url, engine.ca_file, engine.verify_tls, api_key_headers(engine))
    return capture_server(address, model=model.name, launch=engine.launch, kserve=isinstance(engine, KserveEngine))


def observe(
    contract: Contract, host: Executor, before: CapturedServer, declaration: Declaration | None
) -> LiveEvidence:
    """Capture the server again: what it counted, and whether it is still the one it was."""
    after = capture(contract)
    counters = counted_between(before.counters, after.counters)
    first, last = before.process, after.process
    restarted = first is not None and (last is None or (first.pid, first.started) != (last.pid, last.started))
    return LiveEvidence(
        executor=with_server(host, after),
        drift=_drift(with_server(host, before), with_server(capture_host(declaration), after)),
        restarted=restarted,
        server=ServerCounts(
            counters, {**_spent(counters), **_triton(contract, before, after)}, shares_host=before.is_local
        ),
    )


def _spent(counters: Mapping[str, float]) -> dict[str, float]:
    return {
        name: round(value, 6)
        for name, value in sorted(counters.items())
        if any(part in name for part in COUNTED_PARTS) and name.endswith(("_sum", "_total", "_us", "_count"))
    }


def _triton(contract: Contract, before: CapturedServer, after: CapturedServer) -> dict[str, float]:
    """Triton's own account of the run: where inferences spent their time, in seconds."""
    model = contract.workload.model
    if before.statistics is None or after.statistics is None or not isinstance(model, ServedModel):
        return {}
    version = getattr(contract.engine, "version", None)
    try:
        first, last = (parse_triton_stats(data, model.name, version) for data in (before.statistics, after.statistics))
        spent = last.since(first)
    except BadResult:
        return {}
    parts = ("queue", "compute_input", "compute_infer", "compute_output")
    return {
        "triton_inferences": float(spent.inferences),
        "triton_executions": float(spent.executions),
        "triton_cache_hits": float(spent.cache_hits),
        **{f"triton_{name}_s": getattr(spent, f"{name}_ns") / 1e9 for name in parts},
    }


def _drift(before: Executor, after: Executor) -> tuple[FieldChange, ...]:
    """What changed while the server was measured. Libraries loaded on first use are no change; replaced ones are."""
    changes = []
    for change in difference(before, after, (Tier.CONFIGURATION,)):
        old, new = change.before, change.after
        libraries = change.name.endswith("libraries") and isinstance(old, dict) and isinstance(new, dict)
        if not libraries or any(new.get(name) != value for name, value in old.items()):  # type: ignore[union-attr]
            changes.append(change)
    return tuple(changes)
