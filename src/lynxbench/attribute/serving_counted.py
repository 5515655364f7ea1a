"""A request's split from counters that a served run kept: summed over labels, so that the same split can be redone."""

from __future__ import annotations

from collections.abc import Mapping

from lynxbench.attribute.prometheus import PrometheusMetrics
from lynxbench.attribute.served_split import RequestSplit, find_server, split_phases
from lynxbench.errors import BadInput


def split_counted(grown: Mapping[str, float], *, client_total_s: float, requests: int) -> RequestSplit:
    """The split from what counters grew by, already summed over labels; times of Triton's statistics are in seconds."""
    if "triton_inferences" in grown:
        return _split_inferences(grown, client_total_s)
    metrics = PrometheusMetrics(dict(grown))
    phases = find_server(metrics)
    if phases is None:
        raise BadInput("none of the metrics is known (vLLM, SGLang, TGI, llama.cpp, Triton)")
    named = (*phases.queue, *phases.prefill, *phases.decode, *phases.first_token)
    if not any(name in grown for name in named):
        raise BadInput(f"{phases.server} counted none of {', '.join(named)}")
    return split_phases(phases, metrics, client_total_s, requests)


def _split_inferences(grown: Mapping[str, float], client_total_s: float) -> RequestSplit:
    count = int(grown["triton_inferences"])
    if count <= 0:
        raise BadInput("Triton finished no request during the run")
    queue, given, infer, taken = (
        grown.get(f"triton_{name}_s", 0.0) / count
        for name in ("queue", "compute_input", "compute_infer", "compute_output")
    )
    known = queue + given + infer + taken
    return RequestSplit(
        server="Triton",
        requests=count,
        total_s=known,
        network_s=max(0.0, client_total_s - known),
        queue_s=queue,
        prefill_s=0.0,
        decode_s=infer,
        batching_s=given + taken,
        unexplained_s=0.0,
        approximate=(
            "a model without phases: its inference is one",
            "network is what the client waited beyond Triton's phases, its front end included",
        ),
        phased=False,
    )
