"""The contract as a value: question, workload, engine, objective, protocol, bounds, owners, policy.

Keys are what people write; attributes carry the unit (`limit` is written "90 s" and read as `limit_s`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, model_validator

from lynxbench.model.canonical import content_id
from lynxbench.model.document import Document
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision
from lynxbench.model.units import (
    format_duration,
    format_rate,
    format_ratio,
    parse_duration,
    parse_rate,
    parse_ratio,
)

CONTRACT_SCHEMA = 1
PROTOCOL_VERSION: Final = 1
"""Raised when the meaning of a measured number changes; results of different versions are not compared."""

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.eE+-]+ *(ns|us|µs|ms|s|min|h)$", "examples": ["90 s", "250 ms"]}),
]
Ratio = Annotated[
    float,
    BeforeValidator(parse_ratio),
    PlainSerializer(format_ratio, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.eE+-]+ *%$", "examples": ["5 %"]}),
]
RatePerS = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.eE+-]+ */(s|min|h)$", "examples": ["12 /s"]}),
]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class Regime(StrEnum):
    """What good means here; the same results read in another regime rank differently."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COST = "cost"


class Task(StrEnum):
    """What one iteration does."""

    GENERATE = "generate"
    EMBED = "embed"
    CLASSIFY = "classify"
    TRAIN_STEP = "train-step"
    CALLABLE = "callable"


class Agreement(Document):
    """Who agreed to this contract, and when."""

    team: Text
    by: Text | None = None
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None


# --- what to ask -------------------------------------------------------------------------------------------------------


class PackageModel(Document):
    """Weights carried by an installed Python package."""

    source: Literal["package"]
    name: Name


class PresetModel(Document):
    """A named public shape with seeded random weights: right for speed, meaningless for task accuracy."""

    source: Literal["preset"]
    name: Name
    layers: Count | None = None


class PathModel(Document):
    """A model folder or file on disk; its hash is recorded."""

    source: Literal["path"]
    path: Text


class HubModel(Document):
    """A model of a hub by id; the revision should be pinned."""

    source: Literal["hub"]
    id: Text
    revision: Text | None = None


class CallableModel(Document):
    """A function of the user, `module:function`, called once per iteration."""

    source: Literal["callable"]
    target: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]


ModelSource = Annotated[
    PackageModel | PresetModel | PathModel | HubModel | CallableModel, Field(discriminator="source")
]


class FixedLength(Document):
    """Every request has the same length."""

    distribution: Literal["fixed"]
    value: Count


class UniformLength(Document):
    """Whole lengths from low to high, equally likely."""

    distribution: Literal["uniform"]
    low: Count
    high: Count

    @model_validator(mode="after")
    def _ordered(self) -> UniformLength:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}; swap them")
        return self


class LognormalLength(Document):
    """Log-normal with the given median, cut off at low and high."""

    distribution: Literal["lognormal"]
    median: Annotated[float, Field(gt=0, le=1_000_000)]
    sigma: Annotated[float, Field(gt=0, le=5)]
    low: Count = 1
    high: Count

    @model_validator(mode="after")
    def _ordered(self) -> LognormalLength:
        if not self.low <= self.median <= self.high:
            raise ValueError(f"the median {self.median:g} must lie between low {self.low} and high {self.high}")
        return self


class EmpiricalLength(Document):
    """Lengths drawn from a recorded list, such as a production log's."""

    distribution: Literal["empirical"]
    values: Annotated[tuple[Count, ...], Field(min_length=1, max_length=100_000)]


Length = Annotated[
    FixedLength | UniformLength | LognormalLength | EmpiricalLength, Field(discriminator="distribution")
]


class ClosedArrival(Document):
    """The next request starts when the last one ended; `concurrency` of them at a time."""

    process: Literal["closed"]
    concurrency: Count = 1


class ConstantArrival(Document):
    """Requests at equal distances."""

    process: Literal["constant"]
    rate_per_s: Annotated[RatePerS, Field(alias="rate", gt=0)]


class PoissonArrival(Document):
    """Independent arrivals at a mean rate."""

    process: Literal["poisson"]
    rate_per_s: Annotated[RatePerS, Field(alias="rate", gt=0)]


class GammaArrival(Document):
    """Gamma inter-arrival times; a coefficient of variation above 1 is burstier than Poisson."""

    process: Literal["gamma"]
    rate_per_s: Annotated[RatePerS, Field(alias="rate", gt=0)]
    variation: Annotated[float, Field(gt=0, le=100)]


Arrival = Annotated[
    ClosedArrival | ConstantArrival | PoissonArrival | GammaArrival, Field(discriminator="process")
]


class Workload(Document):
    """What is asked of the executor."""

    task: Task
    model: ModelSource
    precisions: Annotated[tuple[Precision, ...], Field(min_length=1)]
    batch: Count = 1
    input_tokens: Length | None = None
    output_tokens: Length | None = None
    arrival: Arrival = ClosedArrival(process="closed")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0

    @model_validator(mode="after")
    def _fits_the_task(self) -> Workload:
        if len(set(self.precisions)) != len(self.precisions):
            raise ValueError("precisions name one precision twice; list each once")
        generates = self.task is Task.GENERATE
        if generates and (self.input_tokens is None or self.output_tokens is None):
            raise ValueError("task generate needs input_tokens and output_tokens")
        if not generates and self.output_tokens is not None:
            raise ValueError(f"task {self.task} has no output_tokens; remove them")
        if (self.task is Task.CALLABLE) != isinstance(self.model, CallableModel):
            raise ValueError("task callable and model source callable go together")
        return self


# --- what executes it --------------------------------------------------------------------------------------------------


class Graph(StrEnum):
    """How the framework turns the model into kernels."""

    EAGER = "eager"
    COMPILE = "compile"
    COMPILE_REDUCE_OVERHEAD = "compile-reduce-overhead"
    COMPILE_MAX_AUTOTUNE = "compile-max-autotune"


class TorchEngine(Document):
    """PyTorch in a process of its own."""

    name: Literal["torch"]
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    threads: Count | None = None
    graph: Graph = Graph.EAGER
    attention: Literal["sdpa", "eager"] = "sdpa"


class OnnxEngine(Document):
    """ONNX Runtime; the provider that ran is disclosed."""

    name: Literal["onnx"]
    provider: Text = "CPUExecutionProvider"
    threads: Count | None = None
    graph_optimisation: Literal["none", "basic", "extended", "all"] = "all"


class CallableEngine(Document):
    """A Python function in a process of its own."""

    name: Literal["callable"]
    threads: Count | None = None


class PluginEngine(Document):
    """An engine that an installed package registers under the entry point group `lynxbench.engines`."""

    name: Literal["plugin"]
    plugin: Name
    threads: Count | None = None
    options: dict[str, bool | int | float | str] = {}


Engine = Annotated[TorchEngine | OnnxEngine | CallableEngine | PluginEngine, Field(discriminator="name")]


# --- what good means, and how it is established ------------------------------------------------------------------------


class SloMetric(StrEnum):
    """Latencies an objective can bound."""

    LATENCY = "latency"
    TIME_TO_FIRST_TOKEN = "time-to-first-token"
    TIME_PER_TOKEN = "time-per-token"


class Slo(Document):
    """One bound on one percentile of one latency."""

    metric: SloMetric
    percentile: Annotated[float, Field(gt=0, lt=100)]
    at_most_s: Annotated[Seconds, Field(alias="at_most", gt=0)]


class Objective(Document):
    """What good means: all bounds hold, and the regime's figure is as good as possible."""

    slo: tuple[Slo, ...] = ()


class SteadyRule(Document):
    """The equivalence test of drift that separates steady from not."""

    drift: Annotated[Ratio, Field(gt=0, le=0.2)] = 0.01
    window_s: Annotated[Seconds, Field(alias="window", gt=0)] = 1.0


class Protocol(Document):
    """How a number is established; two results are compared only under one protocol."""

    version: Literal[1] = PROTOCOL_VERSION
    restarts: Annotated[int, Field(ge=1, le=1000)] = 5
    steady: SteadyRule = SteadyRule()
    min_duration_s: Annotated[Seconds, Field(alias="min_duration", gt=0)] = 60.0
    limit_s: Annotated[Seconds, Field(alias="limit", gt=0)] = 600.0
    confidence: Annotated[Ratio, Field(ge=0.5, lt=1)] = 0.95
    emulated_limit_s: Annotated[Seconds, Field(alias="emulated_limit", ge=0)] = 600.0
    foreign_load: Annotated[Ratio, Field(ge=0, le=1)] = 0.05

    @model_validator(mode="after")
    def _ordered(self) -> Protocol:
        if self.limit_s < self.min_duration_s:
            raise ValueError(
                f"limit {format_duration(self.limit_s)} is shorter than min_duration {format_duration(self.min_duration_s)}"
            )
        if self.steady.window_s * 4 > self.min_duration_s:
            raise ValueError(
                f"min_duration {format_duration(self.min_duration_s)} holds fewer than 4 windows of "
                f"{format_duration(self.steady.window_s)}; nothing can be said about drift"
            )
        return self


class Division(StrEnum):
    """How much tuning is allowed; divisions are not compared with each other."""

    NONE = "none"
    BOUNDED = "bounded"
    OPEN = "open"


class Optimisation(Document):
    """The knobs a tuner may turn and its budget."""

    division: Division = Division.NONE
    knobs: dict[Name, Annotated[tuple[bool | int | float | str, ...], Field(min_length=1)]] = {}
    trials: Count | None = None
    time_s: Annotated[Annotated[Seconds, Field(gt=0)] | None, Field(alias="time")] = None

    @model_validator(mode="after")
    def _bounded_means_bounds(self) -> Optimisation:
        if self.division is Division.BOUNDED and not (self.knobs and (self.trials or self.time_s)):
            raise ValueError("division bounded needs knobs and a budget (trials or time)")
        if self.division is Division.NONE and (self.knobs or self.trials or self.time_s):
            raise ValueError("division none allows no knobs, trials or time; say bounded or remove them")
        return self


class AccuracyMetric(StrEnum):
    """What an accuracy loss is counted in."""

    RELATIVE_ERROR = "relative-error"
    COSINE = "cosine"
    TOP1 = "top1"
    PERPLEXITY = "perplexity"
    TASK = "task"


class AccuracyPolicy(Document):
    """The largest loss against the highest precision that is still acceptable."""

    metric: AccuracyMetric
    largest_loss: Annotated[Ratio, Field(ge=0, le=1)]


class Policy(Document):
    """What decides go or no-go, agreed before the first sample."""

    accuracy: AccuracyPolicy | None = None
    regression: Annotated[Ratio, Field(gt=0, le=1)] = 0.03


class Contract(Document):
    """The agreed methodology. Its id is the SHA-256 of its canonical form."""

    lynxbench: Literal[1]
    name: Name
    question: Text
    regime: Regime
    agreed: tuple[Agreement, ...] = ()
    workload: Workload
    engine: Engine
    objective: Objective = Objective()
    protocol: Protocol = Protocol()
    optimisation: Optimisation = Optimisation()
    owners: dict[Layer, Text] = {}
    policy: Policy = Policy()

    @model_validator(mode="after")
    def _engine_fits_task(self) -> Contract:
        if (self.engine.name == "callable") != (self.workload.task is Task.CALLABLE):
            raise ValueError(f"engine {self.engine.name} cannot run task {self.workload.task}")
        token_bounds = {SloMetric.TIME_PER_TOKEN, SloMetric.TIME_TO_FIRST_TOKEN}
        if self.workload.task is not Task.GENERATE and any(s.metric in token_bounds for s in self.objective.slo):
            raise ValueError(f"task {self.workload.task} produces no tokens; bound its latency instead")
        return self

    def canonical(self) -> dict[str, object]:
        """The whole meaning with defaults filled in; comments, key order and spelling of units are gone."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def contract_id(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return content_id(self.canonical())  # type: ignore[arg-type]

    def owner(self, layer: Layer) -> str:
        """Who owns a layer under this contract."""
        return self.owners.get(layer, DEFAULT_OWNERS[layer])
