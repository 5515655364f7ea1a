"""Engines that are servers: where they listen, how they are asked, when to give up, what the client must keep to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from lynxbench.model.asked_work import SharedPrefix
from lynxbench.model.dialect import Dialect
from lynxbench.model.document import Document
from lynxbench.model.fields import Count, Name, Ratio, Scalar, Seconds, Text, refuse
from lynxbench.model.launching import ServerLaunch, refuse_secret_arguments
from lynxbench.model.server_profile import ProfilePass


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port  # beyond 65535 is refused here
    except ValueError:
        raise ValueError(f"{text!r} is not an address; write for example 'http://127.0.0.1:8000/v1'") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not an address; write for example 'http://127.0.0.1:8000/v1'")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address must not carry a password; name the variable that holds the key (api_key_env)")
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r}: give the address without what follows ? or #")
    return text


def _variable(text: str) -> str:
    if not text.isascii() or not text.isidentifier():
        raise ValueError(f"{text!r} is not the name of an environment variable, such as SERVER_API_KEY")
    return text


Address = Annotated[Text, AfterValidator(_address)]
Variable = Annotated[Text, AfterValidator(_variable)]
"""The name of an environment variable; what it holds is never recorded."""
Place = Annotated[str, Field(max_length=200, pattern=r"^/[A-Za-z0-9._~/-]+$")]
"""Where on a host a request goes."""
Patience = Annotated[Seconds, Field(gt=0, lt=1e6)]
Started = Annotated[ServerLaunch | None, Field(exclude_if=lambda serve: serve is None)]
"""Left out of the canonical form where the server is there already: older contracts keep their ids."""


def _check_address(url: str, serve: ServerLaunch | None) -> None:
    if serve is None and urlsplit(url).port == 0:
        refuse("no server listens on port 0; name its port, or have the server started (serve) on a free one", "url")
    refuse_secret_arguments(serve)


class Timeouts(Document):
    """How long the client waits: a run must end whatever the server does."""

    connect_s: Annotated[Patience, Field(alias="connect")] = 10.0
    first_byte_s: Annotated[Patience, Field(alias="first_byte")] = 120.0
    idle_s: Annotated[Patience, Field(alias="idle")] = 60.0
    total_s: Annotated[Patience, Field(alias="total")] = 600.0
    drain_s: Annotated[Patience, Field(alias="drain")] = 30.0


class InstrumentBounds(Document):
    """What the client must keep to; beyond it the run is void, because the client was the limit."""

    # Within a millisecond of their moment on average: below any latency objective people write down.
    mean_lateness_s: Annotated[Seconds, Field(alias="mean_lateness", gt=0)] = 0.001
    # A hundredth may be later, by no more than one inter-token distance of a fast server; so may the event loop.
    p99_lateness_s: Annotated[Seconds, Field(alias="p99_lateness", gt=0)] = 0.010
    p99_lag_s: Annotated[Seconds, Field(alias="p99_lag", gt=0)] = 0.010
    # Of one core, running or waiting to run. At 0.9 a single server's queue holds 8.1 on average (M/M/1:
    # rho^2/(1-rho)): from here on the client's own queue is a visible part of every stamp.
    busy: Annotated[Ratio, Field(gt=0, le=1)] = 0.9
    # Beyond this share of events read together with others, single inter-token distances are not resolved.
    coalesced: Annotated[Ratio, Field(ge=0, le=1)] = 0.01


LabelName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]


class NodeSource(Document):
    """Who watches the node that the server runs on: exporters to scrape, or a Prometheus server that did."""

    exporters: Annotated[tuple[Address, ...], Field(max_length=8)] = ()
    every_s: Annotated[Seconds, Field(alias="every", ge=0.2, le=60)] = 1.0
    prometheus: Address | None = None
    gpu_labels: dict[LabelName, Text] = Field(default_factory=dict)
    host_labels: dict[LabelName, Text] = Field(default_factory=dict)
    gpus: Annotated[tuple[Annotated[int, Field(ge=0, lt=1024)], ...], Field(min_length=1, max_length=64)] | None = None
    ca_file: Text | None = None
    verify_tls: bool = True

    @model_validator(mode="after")
    def _one_way(self) -> NodeSource:
        if bool(self.exporters) == (self.prometheus is not None):
            refuse("name either exporters to scrape or a prometheus server to query", "exporters")
        if self.prometheus is not None and not self.gpu_labels and not self.host_labels:
            refuse("say which series are this node's, such as {instance: gpu-7:9400}", "gpu_labels")
        if self.exporters and (self.gpu_labels or self.host_labels):
            refuse("labels choose series of a prometheus server; an exporter has one node's alone", "gpu_labels")
        return self


Watched = Annotated[NodeSource | None, Field(exclude_if=lambda node: node is None)]
"""Left out of the canonical form where nobody is named: older contracts keep their ids."""


class CacheState(StrEnum):
    """What the server's prefix cache may do for a request."""

    AVOIDED = "avoided"
    """Every prompt begins with text of its own."""
    BYPASSED = "bypassed"
    """The request asks the server not to use it."""
    ALLOWED = "allowed"
    """Prompts repeat; how many input tokens came from the cache is recorded."""
    SHARED = "shared"
    """Prompts begin alike for a set share of their tokens, and go on with text of their own."""
    TRACED = "traced"
    """Prompts begin alike as far as a trace says that they did (`hash_ids`)."""


class KvCacheFormat(StrEnum):
    """What a server keeps keys and values in."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    """e4m3."""
    FP8_E5M2 = "fp8-e5m2"
    INT8 = "int8"
    INT5 = "int5"
    INT4 = "int4"
    NVFP4 = "nvfp4"


class OpenAiEngine(Document):
    """A server that speaks the OpenAI HTTP language, or one of the forms beside it (Messages, rerank)."""

    name: Literal["openai"]
    url: Address
    dialect: Dialect = Dialect.GENERIC
    endpoint: Literal["chat", "completions", "responses", "messages"] = "chat"
    path: Annotated[Place | None, Field(exclude_if=lambda path: path is None)] = None
    """Left out of the canonical form where unsaid."""
    stream: bool = True
    api_key_env: Variable | None = None
    ca_file: Text | None = None
    verify_tls: bool = True
    cache: CacheState = CacheState.AVOIDED
    prefix: Annotated[SharedPrefix | None, Field(exclude_if=lambda prefix: prefix is None)] = None
    prompts: Count = 256
    turns: Annotated[int, Field(ge=1, le=100)] = 1
    think_s: Annotated[Seconds, Field(alias="think", ge=0, lt=1e6)] = 0.0
    processes: Annotated[int, Field(ge=1, le=64)] | None = None
    launch: tuple[Text, ...] = ()
    serve: Started = None
    node: Watched = None
    request: dict[Name, Scalar] = Field(default_factory=dict)
    kv_cache: Annotated[KvCacheFormat | None, Field(exclude_if=lambda kv_cache: kv_cache is None)] = None
    """Declared, as the precision is; left out of the canonical form where unsaid."""
    profile: Annotated[ProfilePass | None, Field(exclude_if=lambda profile: profile is None)] = None
    """Left out of the canonical form where unsaid."""
    timeouts: Timeouts = Timeouts()
    instrument: InstrumentBounds = InstrumentBounds()

    @model_validator(mode="after")
    def _possible(self) -> OpenAiEngine:
        _check_address(self.url, self.serve)
        if self.profile is not None and not self.dialect.has_profiler:
            able = ", ".join(dialect for dialect in Dialect if dialect.has_profiler)
            refuse(f"dialect {self.dialect} has no request that starts a profiler (these have: {able})", "profile")
        if self.cache is CacheState.BYPASSED and not self.dialect.bypasses_cache:
            able = ", ".join(dialect for dialect in Dialect if dialect.bypasses_cache)
            refuse(f"dialect {self.dialect} cannot bypass its prefix cache (these can: {able}); say avoided", "cache")
        if self.cache is CacheState.BYPASSED and self.endpoint in ("responses", "messages"):
            refuse(f"a request to endpoint {self.endpoint} cannot ask for that; say avoided", "cache")
        if self.turns > 1 and (self.endpoint != "chat" or not self.stream):
            refuse("conversations of several turns need endpoint chat, streamed", "turns")
        share = None if self.prefix is None else self.prefix.share
        if (self.cache is CacheState.SHARED) != (share is not None):
            refuse("cache shared and prefix.share go together: say which share of a prompt is common", "cache")
        if self.turns > 1 and self.cache in (CacheState.SHARED, CacheState.TRACED):
            refuse(f"cache {self.cache} is for single requests, or for sessions of a file; say turns: 1", "turns")
        return self


class TensorInput(Document):
    """One input tensor of a request: seeded numbers between low and high, or texts."""

    name: Text
    datatype: Literal[
        "BOOL",
        "UINT8",
        "UINT16",
        "UINT32",
        "UINT64",
        "INT8",
        "INT16",
        "INT32",
        "INT64",
        "FP16",
        "FP32",
        "FP64",
        "BYTES",
    ]
    shape: Annotated[tuple[Count, ...], Field(min_length=1, max_length=8)]
    low: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    high: Annotated[float, Field(allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> TensorInput:
        if self.low > self.high:
            refuse(f"low {self.low:g} is above high {self.high:g}; swap them", "low")
        return self


class KserveEngine(Document):
    """A server that speaks the KServe v2 inference protocol over HTTP or gRPC, such as Triton or MLServer."""

    name: Literal["kserve"]
    url: Address
    protocol: Annotated[Literal["http", "grpc"], Field(exclude_if=lambda protocol: protocol == "http")] = "http"
    stream: Annotated[bool, Field(exclude_if=lambda stream: not stream)] = False
    """Both are left out of the canonical form where unsaid: older contracts keep their ids."""
    version: Text | None = None
    inputs: Annotated[tuple[TensorInput, ...], Field(min_length=1, max_length=64)]
    outputs: tuple[Text, ...] = ()
    binary: bool = True
    api_key_env: Variable | None = None
    ca_file: Text | None = None
    verify_tls: bool = True
    cache: Literal["avoided", "allowed"] = "avoided"
    prompts: Count = 64
    processes: Annotated[int, Field(ge=1, le=64)] | None = None
    launch: tuple[Text, ...] = ()
    serve: Started = None
    node: Watched = None
    timeouts: Timeouts = Timeouts()
    instrument: InstrumentBounds = InstrumentBounds()

    @model_validator(mode="after")
    def _possible(self) -> KserveEngine:
        _check_address(self.url, self.serve)
        if self.stream and self.protocol != "grpc":
            refuse("only gRPC has a call that answers several times (ModelStreamInfer); say protocol: grpc", "stream")
        return self


ServedEngine = OpenAiEngine | KserveEngine
