"""A request split into network, queueing, prefill, decode and the rest, from what a server counted during a run.

Servers count differently, and none counts everything: what the phases do not explain is shown as unattributed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from lynxbench.errors import BadInput
from lynxbench.tables import read_table

TGI_BATCHES = tuple(f'tgi_batch_inference_duration_sum{{method="{method}"}}' for method in ("prefill", "decode"))
"""TGI counts a request's inference as one, and its batches by phase."""


@dataclass(frozen=True, slots=True)
class ServerPhases:
    """Names of a server's own sums, in seconds; those of one phase add up."""

    server: str
    mark: str
    """How only this server's metrics begin."""
    total: tuple[str, ...] = ()
    count: str = ""
    queue: tuple[str, ...] = ()
    prefill: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    first_token: tuple[str, ...] = ()
    scale: float = 1.0
    """Seconds in one unit of the sums."""


SERVERS = TypeAdapter(tuple[ServerPhases, ...]).validate_python(read_table("attribute/tile/servers.toml")["servers"])


@dataclass(frozen=True, slots=True)
class RequestSplit:
    """Mean seconds of a request by phase; what no phase explains is a phase of its own, and never negative."""

    server: str
    requests: int
    seconds: dict[str, float]
    """Queueing, prefill, decode (inference where they are not told apart), batching, network, unexplained."""
    approximate: tuple[str, ...]
    """How phases were derived that the server does not count itself."""
    sees_network: bool = True
    """Whether the server counts whole requests, so that what lies outside of them shows."""
    how: str = "own metrics before and after the run"
    """Where the server's figures come from."""
    damaged: bool = False
    """Whether something is missing or contradicts itself: shares stand, and nobody is blamed."""

    @property
    def whole_s(self) -> float:
        """A whole request."""
        return sum(self.seconds.values())

    @property
    def longest(self) -> str:
        """The phase that takes most."""
        return max(self.seconds, key=lambda phase: self.seconds[phase])

    def share(self, phase: str) -> float:
        """A phase's part of the request."""
        return self.seconds[phase] / self.whole_s


def split_requests(counted: Mapping[str, float], *, client_s: float, requests: int) -> RequestSplit:
    """The split from what counters grew by over a run; `client_s` is the mean latency as the client saw it."""
    if "triton_inferences" in counted:
        return _split_inferences(counted, client_s)
    phases = next((server for server in SERVERS if any(name.startswith(server.mark) for name in counted)), None)
    if phases is None:
        raise BadInput("none of the metrics is known (vLLM, SGLang, TGI, llama.cpp, Triton)")
    named = (*phases.queue, *phases.prefill, *phases.decode, *phases.first_token)
    if not any(name in counted for name in named):
        raise BadInput(f"{phases.server} counted none of {', '.join(named)}")
    return _split_phases(phases, counted, client_s, requests)


def _split_phases(phases: ServerPhases, counted: Mapping[str, float], client_s: float, requests: int) -> RequestSplit:
    approximate: list[str] = []

    def summed(names: tuple[str, ...]) -> float | None:
        sums = [counted[name] for name in names if name in counted]
        return sum(sums) * phases.scale if sums else None

    count = int(counted.get(phases.count, 0.0)) or requests
    if count <= 0:
        raise BadInput(f"{phases.server} finished no request between the two scrapes; scrape before and after the load")
    total, first = summed(phases.total), summed(phases.first_token)
    queue, other = summed(phases.queue) or 0.0, summed(phases.other) or 0.0
    prefill, decode = summed(phases.prefill), summed(phases.decode)
    if prefill is None and first is not None:
        prefill = max(0.0, first - queue)
        approximate.append("prefill is the time to the first token without the queue")
        if decode is None and total is not None:
            decode = max(0.0, total - first)
            approximate.append("decode is what follows the first token")
    prefill, decode = prefill or 0.0, decode or 0.0
    if phases.server == "TGI" and phases.decode[0] in counted:
        batches = [counted.get(name, 0.0) for name in TGI_BATCHES]
        part = batches[0] / sum(batches) if sum(batches) > 0 else 0.0
        prefill, decode = decode * part, decode * (1.0 - part)
        how = "it is divided as the server's batches were" if sum(batches) > 0 else "all of it is shown as decode"
        approximate.append(f"TGI counts inference as one: {how}")
    if total is None:
        total = client_s * count
        approximate.append("the server does not count whole requests: the client's latency stands for them")
    known = queue + prefill + decode + other
    if known > total:  # phases of requests that began before the first scrape
        scale = total / known
        queue, prefill, decode, other = (phase * scale for phase in (queue, prefill, decode, other))
        known = total
        approximate.append("phases exceed the requests that ended; scaled to them")
    seconds = {
        "queueing": queue / count,
        "prefill": prefill / count,
        "decode": decode / count,
        "batching": other / count,
        "network": max(0.0, client_s - total / count) if phases.total else 0.0,
        "unexplained": max(0.0, total - known) / count,
    }
    return RequestSplit(phases.server, count, seconds, tuple(approximate), bool(phases.total))


def _split_inferences(counted: Mapping[str, float], client_s: float) -> RequestSplit:
    """From Triton's own statistics, in seconds; earlier runs kept neither requests nor their whole time."""
    count = int(counted.get("triton_requests", counted["triton_inferences"]))
    if count <= 0:
        raise BadInput("Triton finished no request during the run")
    queue, given, infer, taken = (
        counted.get(f"triton_{name}_s", 0.0) / count
        for name in ("queue", "compute_input", "compute_infer", "compute_output")
    )
    approximate = ["a model without phases: its inference is one"]
    known = queue + given + infer + taken
    total = max(known, counted.get("triton_total_s", 0.0) / count)
    if "triton_total_s" not in counted:
        approximate.append("network is what the client waited beyond Triton's phases, its front end included")
    seconds = {
        "queueing": queue,
        "prefill": 0.0,
        "inference": infer,
        "batching": given + taken,
        "network": max(0.0, client_s - total),
        "unexplained": total - known,
    }
    return RequestSplit("Triton", count, seconds, tuple(approximate))
