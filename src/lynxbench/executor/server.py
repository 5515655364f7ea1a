"""The executor behind an address: what the server tells of itself, and, where it runs on this host, its process.

The client is not the executor: its own Python and packages are kept apart under `client_` names.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import JsonValue

from lynxbench.executor.host import Host, exact_json, explain
from lynxbench.executor.server_on_host import (
    ServerProcess,
    capture_server_process,
    find_server_process,
    redact_command,
)
from lynxbench.https import HttpAnswer, request
from lynxbench.model.executor import Executor, Field, Tier, declared, measured, unreadable
from lynxbench.model.layers import Layer
from lynxbench.model.secrets import value_is_credential

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

ASK_TIMEOUT_S = 5.0
SCRAPE_TIMEOUT_S = 2.0
"""Of one look among many: a server that is too busy to answer has told something too."""
LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
LARGEST_METRICS_BYTES = 4 * 1024 * 1024
"""Many times what a server of models exposes: a minute would go into reading the sixteen that others may have."""
CHANGING_KEYS = frozenset({"created", "permission", "uptime", "timestamp", "loaded_at", "expires_at", "modified_at"})
"""Keys of a server's answers that say when and not what; they would make every capture differ."""

SPLIT_BY = {"tgi_batch_inference_duration_sum": "method"}
"""Counters that are also kept by a label: TGI tells prefill from decode by nothing else."""

Layers = dict[Layer, dict[str, Field]]
TellServer = Callable[[], tuple[dict[str, Field], bytes | None]]
"""What a server says of itself, and its statistics where it has any."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to ask, and with what."""

    url: str
    ca_file: str | None = None
    verify: bool = True
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CapturedServer:
    """One look at a server."""

    layers: Layers
    counters: dict[str, float]
    """Its Prometheus counters, summed over labels; those in SPLIT_BY also apart, named as they are exported."""
    process: ServerProcess | None
    is_local: bool
    statistics: bytes | None = None
    """The KServe statistics of the model, as they were sent."""


def capture_server(
    address: Address,
    *,
    model: str,
    launch: Sequence[str] = (),
    kserve: bool = False,
    host: Host | None = None,
    told: TellServer | None = None,
) -> CapturedServer:
    """Everything the server and, where possible, its process tell; what cannot be read says why.

    `told` asks in another language than HTTP, where the server has no other.
    """
    host = host or Host()
    parts = urlsplit(address.url)
    name = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    local = is_this_host(name)
    layers: Layers = {layer: {} for layer in Layer}
    root = parts.path.rstrip("/").removesuffix("/v1")
    if told is None:
        layers[Layer.SERVING].update(_tell(address, root, model, kserve))
        answer = _get(address, f"{root}/metrics", most_bytes=LARGEST_METRICS_BYTES)
        given = _get(address, f"{root}/v2/models/{model}/stats") if kserve else ""
        statistics = None if isinstance(given, str) else given.body
    else:
        fields, statistics = told()
        layers[Layer.SERVING].update(fields)
        answer = "a gRPC port has no /metrics"
    counters: dict[str, float] = {}
    if isinstance(answer, str):
        layers[Layer.SERVING]["server_metrics_unavailable"] = unreadable(answer, Tier.STATE)
    else:
        text = answer.body.decode("utf-8", "replace")
        metrics = parse_metrics(text)
        counters = sum_counters(metrics)
        layers[Layer.SERVING].update(describe_metrics(metrics, text))
    layers[Layer.SERVING]["server_launch"] = (
        declared([*redact_command(list(launch))], "contract, engine.launch")
        if launch
        else unreadable("not declared: name the launch arguments in engine.launch", Tier.STATE)
    )
    process = find_server_process(port) if local else None
    if process is not None:
        for layer, fields in capture_server_process(process, host).items():
            layers[layer].update(fields)
    else:
        why = "its process is not visible to this user" if local else f"the server runs on another host ({name})"
        for layer, missing in ((Layer.SERVING, "server_command"), (Layer.RUNTIME, "server_libraries")):
            layers[layer][missing] = unreadable(f"{why}; declare it with --declare or engine.launch")
    return CapturedServer(layers, counters, process, local, statistics)


def with_server(host: Executor, server: CapturedServer) -> Executor:
    """The executor of a served run: the server's layers; of the client's host only what the server shares with it."""
    shared = {Layer.SYSTEM, Layer.ACCELERATOR} if server.is_local else set()
    of_host = {Layer.PROCUREMENT, Layer.FACILITY, Layer.DEMAND} | shared
    layers: Layers = {}
    for layer in Layer:
        fields = host.layers.get(layer, {})
        layers[layer] = (
            dict(fields)
            if layer in of_host
            else {f"client_{n}": f.model_copy(update={"tier": Tier.STATE}) for n, f in fields.items()}
        )
    if not server.is_local:
        for layer in (Layer.SYSTEM, Layer.ACCELERATOR):
            layers[layer]["server_host"] = unreadable("the server runs on another host; declare it with --declare")
    return Executor(schema_version=host.schema_version, layers=layers).merged(server.layers)


def is_this_host(name: str) -> bool:
    """Whether a name or address is one of this machine's own."""
    import psutil

    try:
        addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(name, None)}
    except OSError:
        return False
    own = {address.address.partition("%")[0] for listed in psutil.net_if_addrs().values() for address in listed}
    return all(ipaddress.ip_address(ip.partition("%")[0]).is_loopback or ip in own for ip in addresses)


# --- what the server tells -------------------------------------------------------------------------------------------


def _tell(address: Address, root: str, model: str, kserve: bool) -> dict[str, Field]:
    of_model = f"/v2/models/{model}"
    paths = {"server_version": "/version", "server_models": "/v1/models", "server_properties": "/props"}
    if kserve:
        paths = {"server_metadata": "/v2", "server_model": of_model, "server_model_config": f"{of_model}/config"}
    fields: dict[str, Field] = {}
    for name, below_root in paths.items():
        path = f"{root}{below_root}"
        answer = _get(address, path)
        if isinstance(answer, str):
            # A server that lacks an endpoint is no different from itself a minute later.
            fields[name] = unreadable(answer, Tier.STATE)
            continue
        if software := answer.headers.get("server", ""):
            fields["server_software"] = measured(software, f"Server header of {path}")
        text = answer.body.decode("utf-8", "replace")
        try:
            fields[name] = measured(exact_json(without_changing(json.loads(text))), f"GET {path}")
        except (ValueError, RecursionError):
            fields[name] = unreadable(f"GET {path}: not JSON", Tier.STATE)
            continue
        if value_is_credential(text):
            fields[name] = unreadable(f"GET {path}: withheld, it holds what looks like a credential")
    return fields


def without_changing(value: object) -> object:
    """A document without the keys that only say when."""
    if isinstance(value, dict):
        return {key: without_changing(item) for key, item in value.items() if key not in CHANGING_KEYS}
    if isinstance(value, list):
        return [without_changing(item) for item in value]
    return value


def read_metrics(address: Address) -> str | None:
    """What a server exposes at this moment; None where it does not answer in time."""
    root = urlsplit(address.url).path.rstrip("/").removesuffix("/v1")
    answer = _get(address, f"{root}/metrics", SCRAPE_TIMEOUT_S, LARGEST_METRICS_BYTES)
    return None if isinstance(answer, str) else answer.body.decode("utf-8", "replace")


def _get(
    address: Address, path: str, timeout_s: float = ASK_TIMEOUT_S, most_bytes: int = LARGEST_ANSWER_BYTES
) -> HttpAnswer | str:
    """A good answer that is whole, or why there is none."""
    parts = urlsplit(address.url)
    try:
        answer = request(
            "GET",
            f"{parts.scheme}://{parts.netloc}{path}",
            headers=address.headers,
            timeout_s=timeout_s,
            whole_s=timeout_s,
            most_bytes=most_bytes + 1,
            ca_file=address.ca_file,
            verify=address.verify,
        )
    except OSError as problem:
        return f"GET {path}: {explain(problem)}"
    if len(answer.body) > most_bytes:
        return f"GET {path}: longer than {most_bytes >> 20} MiB, and not read"
    return answer if answer.status == 200 else f"GET {path}: status {answer.status}"


# --- Prometheus text -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExposedMetrics:
    """The families that a server exposes, under the names that it declares."""

    families: tuple[Metric, ...]
    left_out: int
    """Lines that are not in the format."""


def parse_metrics(text: str) -> ExposedMetrics:
    """Every family of an exposition, without the buckets of histograms: they are most of a text, and not needed."""
    lines = [line for line in text.splitlines() if "_bucket{" not in line]
    families, readable = _parse_families("\n".join(lines)), lines
    if families is None:  # the parser gives up at the first line that it cannot read; the others are none the worse
        readable = _readable(lines)
        families = _parse_families("\n".join(readable)) or ()
    declared = {line.split()[2] for line in readable if line.startswith("# TYPE ") and len(line.split()) > 2}
    for family in families:
        if family.type == "counter" and f"{family.name}_total" in declared:
            family.name += "_total"  # the parser drops the suffix, and gives it to samples that were sent without
        elif family.type == "counter":
            family.samples = [sample._replace(name=family.name) for sample in family.samples]
    return ExposedMetrics(families, len(lines) - len(readable))


def _readable(lines: list[str]) -> list[str]:
    """The lines without those that cannot be read, which are looked for by halves: there are few of them."""
    if not lines or _parse_families("\n".join(lines)) is not None:
        return lines
    half = len(lines) // 2
    return [*_readable(lines[:half]), *_readable(lines[half:])] if half else []


def _parse_families(text: str) -> tuple[Metric, ...] | None:
    # The package brings an exporter with an HTTP server: only who reads metrics pays for it.
    from prometheus_client.parser import text_string_to_metric_families

    try:
        return tuple(text_string_to_metric_families(text))
    except ValueError:
        return None


def describe_metrics(metrics: ExposedMetrics, text: str) -> dict[str, Field]:
    """What a server's metrics say about how it is set: the families it offers and its info gauges."""
    families = sorted({family.name for family in metrics.families if family.type != "unknown"})
    info: dict[str, JsonValue] = {}
    for sample in (sample for family in metrics.families for sample in family.samples):
        if sample.name.endswith("_info") and sample.labels:
            labels = {key: value for key, value in sample.labels.items() if not value_is_credential(value)}
            info[sample.name] = exact_json(labels)
    fields = {
        # A library that makes its families as they are first used would look like a change of the server.
        "server_metric_families": measured(
            hashlib.sha256("\n".join(families).encode()).hexdigest(), "GET /metrics, SHA-256", Tier.STATE
        ),
        "server_metric_count": measured(len(families), "GET /metrics", Tier.STATE),
        "server_metrics_sha256": measured(hashlib.sha256(text.encode()).hexdigest(), "GET /metrics", Tier.STATE),
    }
    if metrics.left_out:
        why = f"GET /metrics: lines left out that are not in Prometheus' format: {metrics.left_out}"
        fields["server_metrics_damaged"] = unreadable(why, Tier.STATE)
    if info:
        fields["server_info"] = measured(info, "GET /metrics, *_info")
    return fields


def sum_counters(metrics: ExposedMetrics) -> dict[str, float]:
    """Every counter, histogram sum and count, added up over its labels; those in SPLIT_BY also by theirs."""
    totals: dict[str, float] = {}
    for family in metrics.families:
        wanted = {
            "counter": (family.name,),
            "histogram": (f"{family.name}_sum", f"{family.name}_count"),
            "summary": (f"{family.name}_sum", f"{family.name}_count"),
        }.get(family.type, ())
        for sample in family.samples:
            if sample.name not in wanted or not math.isfinite(sample.value):
                continue
            totals[sample.name] = totals.get(sample.name, 0.0) + float(sample.value)
            label = SPLIT_BY.get(sample.name)
            if label in sample.labels:
                part = f'{sample.name}{{{label}="{sample.labels[label]}"}}'
                totals[part] = totals.get(part, 0.0) + float(sample.value)
    return totals


def counted_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What the server counted in between; empty where a counter went back, which is a restart."""
    moved = {name: after[name] - before.get(name, 0.0) for name in after}
    return {} if any(value < 0 for value in moved.values()) else {n: v for n, v in moved.items() if v > 0}
