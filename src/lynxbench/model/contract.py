"""The contract as a value: question, workload, engine, objective, protocol, bounds, owners, policy.

Keys are what people write; attributes carry the unit (`limit` is written "90 s" and read as `limit_s`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from lynxbench.model.accuracy_asked import AccuracyAsked
from lynxbench.model.asked_of_server import OPENAI_TASKS, refuse_unasked
from lynxbench.model.canonical import content_id
from lynxbench.model.document import Document
from lynxbench.model.fields import Count, Name, One, Ratio, Scalar, Seconds, Sha256, Text, real_day, refuse
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.mlperf_forms import MlperfForm, refuse_unlike
from lynxbench.model.precision import KvCache
from lynxbench.model.quantities import format_duration
from lynxbench.model.serving import KserveEngine, OpenAiEngine
from lynxbench.model.team_names import Teams
from lynxbench.model.workload import (
    LANGUAGE_TASKS,
    SERVED_TASKS,
    PresetModel,
    SaturatingArrival,
    ServedModel,
    Task,
    Workload,
)

PROTOCOL_VERSION: Final = 1
"""Raised when the meaning of a measured number changes; results of different versions are not compared."""


class Regime(StrEnum):
    """What good means here; the same results read in another regime rank differently."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    COST = "cost"


class Agreement(Document):
    """Who is said to have agreed to this contract, and when: a note in the file, which nobody signed."""

    team: Text
    by: Text | None = None
    date: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(real_day)] | None = None


# --- what executes it ---


class Graph(StrEnum):
    """How the framework turns the model into kernels."""

    EAGER = "eager"
    COMPILE = "compile"
    COMPILE_REDUCE_OVERHEAD = "compile-reduce-overhead"
    COMPILE_MAX_AUTOTUNE = "compile-max-autotune"
    CUDA_GRAPH = "cuda-graph"
    COMPILE_CUDA_GRAPH = "compile-cuda-graph"
    """Compiled, and the whole step recorded as one CUDA graph."""
    COMPILE_TUNED_CUDA_GRAPH = "compile-tuned-cuda-graph"
    """The same with kernels tuned one by one on the device: minutes of compiling, best for products of few rows."""
    TENSORRT = "tensorrt"
    """Compiled by Torch-TensorRT, where that is installed."""


class Attention(StrEnum):
    """Who computes attention in the torch engine, and with which kernel."""

    SDPA = "sdpa"
    """The model library through PyTorch, which repeats keys and values wherever there is a mask."""
    EAGER = "eager"
    """The model library, operator by operator."""
    GROUPED = "grouped"
    """Keys and values never repeated, no mask where none is needed; the kernel is PyTorch's choice."""
    FLASH = "flash"
    CUDNN = "cudnn"
    EFFICIENT = "efficient"
    FLEX = "flex"
    MATH = "math"
    """As grouped, with that kernel and no other."""


class Timing(StrEnum):
    """Whose clock times a step of the torch engine."""

    HOST = "host"
    """The host's, with the device drained at the end of every step, as a program that waits for each answer."""
    DEVICE = "device"
    """Events on the device; steps follow each other without the host in between, and inputs are staged before."""


class TorchEngine(Document):
    """PyTorch in a process of its own."""

    name: Literal["torch"]
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:\d+)?)$")] = "auto"
    threads: Count | None = None
    graph: Graph = Graph.EAGER
    attention: Attention = Attention.SDPA
    kv_cache: KvCache = KvCache.COMPUTED
    timing: Timing = Timing.HOST

    @model_serializer(mode="wrap")
    def _without_the_usual(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What there was no choice of once is left unsaid: contracts from before keep their ids."""
        written: dict[str, Any] = write(self)
        if self.timing is Timing.HOST:
            written.pop("timing", None)
        if self.kv_cache is KvCache.COMPUTED:
            written.pop("kv_cache", None)
        return written


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
    options: dict[Name, Scalar] = Field(default_factory=dict)


Engine = Annotated[
    TorchEngine | OnnxEngine | CallableEngine | PluginEngine | OpenAiEngine | KserveEngine, Field(discriminator="name")
]


# --- what good means, and how it is established ---


class SloMetric(StrEnum):
    """Latencies an objective can bound."""

    LATENCY = "latency"
    TIME_TO_FIRST_TOKEN = "time-to-first-token"
    TIME_TO_FIRST_ANSWER = "time-to-first-answer"
    """The first token of the answer itself, after what a model thinks aloud before it."""
    TIME_PER_TOKEN = "time-per-token"


class Slo(Document):
    """One bound on one percentile of one latency."""

    metric: SloMetric
    percentile: Annotated[float, Field(gt=0, lt=100)]
    at_most_s: Annotated[Seconds, Field(alias="at_most", gt=0)]


class Objective(Document):
    """What good means: all bounds hold, and the regime's figure is as good as possible."""

    slo: tuple[Slo, ...] = ()
    mlperf: Annotated[MlperfForm | None, Field(exclude_if=lambda mlperf: mlperf is None)] = None
    """The scenario of MLPerf whose figures are stated too; left out of the canonical form where unsaid."""


FEWEST_WINDOWS: Final = 4
"""Fewer window means than this leave the drift test no degree of freedom for its error."""


class SteadyRule(Document):
    """The equivalence test of drift that separates steady from not."""

    drift: Annotated[Ratio, Field(gt=0, le=0.2)] = 0.01
    window_s: Annotated[Seconds, Field(alias="window", gt=0)] = 1.0


SHORTEST_ENDURANCE_S = 60.0
"""Twelve slices of the shortest length: fewer show no course."""
LONGEST_ENDURANCE_S = 60 * 86_400.0


class Protocol(Document):
    """How a number is established; two results are compared only under one protocol."""

    version: One = PROTOCOL_VERSION
    restarts: Annotated[int, Field(ge=1, le=1000)] = 5
    steady: SteadyRule = SteadyRule()
    min_duration_s: Annotated[Seconds, Field(alias="min_duration", gt=0)] = 60.0
    limit_s: Annotated[Seconds, Field(alias="limit", gt=0)] = 600.0
    confidence: Annotated[Ratio, Field(ge=0.5, lt=1)] = 0.95
    emulated_limit_s: Annotated[Seconds, Field(alias="emulated_limit", ge=0)] = 600.0
    foreign_load: Annotated[Ratio, Field(ge=0, le=1)] = 0.05
    session_noise: Annotated[
        Annotated[Ratio, Field(gt=0, le=0.5)] | None, Field(exclude_if=lambda session_noise: session_noise is None)
    ] = None
    duration_s: Annotated[
        Annotated[Seconds, Field(ge=SHORTEST_ENDURANCE_S, le=LONGEST_ENDURANCE_S)] | None,
        Field(alias="duration", exclude_if=lambda duration_s: duration_s is None),
    ] = None
    """Of an endurance run: one process for so long, rolled up; None stops when the contract's limits say so."""

    @model_validator(mode="after")
    def _one_process_endures(self) -> Protocol:
        if self.duration_s is not None and self.restarts != 1:
            refuse("an endurance run (duration) is one process of that length; say restarts: 1", "restarts")
        return self

    @model_validator(mode="after")
    def _ordered(self) -> Protocol:
        if self.limit_s < self.min_duration_s:
            shortest = format_duration(self.min_duration_s)
            refuse(f"{format_duration(self.limit_s)} is shorter than min_duration {shortest}", "limit")
        if self.steady.window_s * FEWEST_WINDOWS > self.min_duration_s:
            window = format_duration(self.steady.window_s)
            refuse(
                f"{format_duration(self.min_duration_s)} holds fewer than {FEWEST_WINDOWS} windows of {window}: "
                "nothing can be said about drift",
                "min_duration",
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
    knobs: dict[Name, Annotated[tuple[Scalar, ...], Field(min_length=1)]] = Field(default_factory=dict)
    trials: Count | None = None
    time_s: Annotated[Annotated[Seconds, Field(gt=0)] | None, Field(alias="time")] = None

    @model_validator(mode="after")
    def _bounded_means_bounds(self) -> Optimisation:
        if self.division is Division.BOUNDED and not (self.knobs and (self.trials or self.time_s)):
            refuse("bounded needs knobs and a budget (trials or time)", "division")
        if self.division is Division.NONE and (self.knobs or self.trials or self.time_s):
            refuse("none allows no knobs, trials or time; say bounded or remove them", "division")
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
    regression: Annotated[Ratio, Field(gt=0, le=1)] = 0.005
    """A loss must lie above this with its whole interval. At 0.5 % five restarts with 1 % noise call 3 % in 9 of 10
    pairs (benchmarks/regressions.py); a budget of 3 % could never call a loss of 3 %."""


def _with_usual_owners(named: dict[Layer, str]) -> dict[Layer, str]:
    # Filled in, so that the id covers who is meant and a later change of the usual owners changes no old contract.
    return {layer: named.get(layer, DEFAULT_OWNERS[layer]) for layer in Layer}


class Contract(Document):
    """The agreed methodology. Its id is the SHA-256 of its canonical form."""

    lynxbench: One
    name: Name
    question: Text
    regime: Regime
    agreed: tuple[Agreement, ...] = ()
    teams: Annotated[Teams, Field(exclude_if=lambda teams: not teams)] = ()
    """Whose signatures make it agreed. Left out of the canonical form where unsaid: older contracts keep their ids."""
    amends: Annotated[Sha256 | None, Field(exclude_if=lambda amends: amends is None)] = None
    """The contract that this one replaces, by its id; likewise left out."""
    workload: Workload
    engine: Engine
    objective: Objective = Objective()
    protocol: Protocol = Protocol()
    optimisation: Optimisation = Optimisation()
    owners: Annotated[dict[Layer, Text], AfterValidator(_with_usual_owners)] = DEFAULT_OWNERS
    policy: Policy = Policy()
    accuracy: Annotated[AccuracyAsked | None, Field(exclude_if=lambda accuracy: accuracy is None)] = None
    """What is asked of the answers beside the load; left out of the canonical form where unsaid."""

    @model_validator(mode="after")
    def _answers_can_be_asked(self) -> Contract:
        asked, server = self.accuracy, isinstance(self.engine, OpenAiEngine)
        if asked is not None and (
            self.workload.task is not Task.GENERATE or self.engine.name not in ("openai", "torch")
        ):
            refuse("labelled prompts and greedy sets go with task generate and engines openai and torch", "accuracy")
        if asked is not None and isinstance(self.workload.model, PresetModel):
            refuse("a preset's weights are random: no labelled prompt says anything of them", "accuracy.task")
        if asked is not None and asked.greedy is not None and not server:
            refuse("in this process precisions are held against each other already; leave it out", "accuracy.greedy")
        return self

    @model_validator(mode="after")
    def _engine_fits_task(self) -> Contract:
        if (self.engine.name == "callable") != (self.workload.task is Task.CALLABLE):
            refuse(f"{self.engine.name} cannot run task {self.workload.task}", "engine.name")
        if self.workload.task in SERVED_TASKS and self.engine.name != "openai":
            refuse(f"task {self.workload.task} is asked of a server: engine openai", "engine.name")
        token_bounds = {SloMetric.TIME_PER_TOKEN, SloMetric.TIME_TO_FIRST_TOKEN, SloMetric.TIME_TO_FIRST_ANSWER}
        if self.workload.task is not Task.GENERATE:
            for index, slo in enumerate(self.objective.slo):
                if slo.metric in token_bounds:
                    says = f"task {self.workload.task} produces no tokens; bound its latency instead"
                    refuse(says, f"objective.slo.{index}.metric")
            perplexed = self.policy.accuracy is not None and self.policy.accuracy.metric is AccuracyMetric.PERPLEXITY
            if perplexed and self.workload.task not in LANGUAGE_TASKS:
                refuse(f"task {self.workload.task} has no perplexity; name another metric", "policy.accuracy.metric")
        return self

    @model_validator(mode="after")
    def _server_fits(self) -> Contract:
        engine, workload = self.engine, self.workload
        served = isinstance(engine, OpenAiEngine | KserveEngine)
        if served != isinstance(workload.model, ServedModel):
            says = "model source served goes with engines openai and kserve, and they with it"
            refuse(f"{says}, not {workload.model.source} with {engine.name}", "workload.model.source")
        if self.objective.mlperf is not None:
            if not served:
                refuse("MLPerf's forms are for servers: engines openai and kserve", "objective.mlperf")
            refuse_unlike(self.objective.mlperf, workload, len(self.objective.slo))
        if not served:
            return self
        if self.protocol.duration_s is not None:
            refuse(
                "an endurance run needs the workload in its own process; leave it out for a server", "protocol.duration"
            )
        if len(workload.precisions) > 1:
            says = "a server runs one precision: the one it was started with; write a contract for each"
            refuse(says, "workload.precisions")
        able = OPENAI_TASKS if isinstance(engine, OpenAiEngine) else (Task.EMBED, Task.CLASSIFY)
        if workload.task not in able:
            named = f"{', '.join(able[:-1])} and {able[-1]}"
            refuse(f"{engine.name} can do {named}, not {workload.task}", "workload.task")
        if workload.task is Task.GENERATE and workload.batch > 1:
            refuse("a request to a server generates one answer; ask for more at a time with arrival", "workload.batch")
        if workload.task in SERVED_TASKS and workload.batch > 1:
            refuse(f"has no effect on task {workload.task}; remove it", "workload.batch")
        if isinstance(engine, OpenAiEngine):
            refuse_unasked(engine, workload, accuracy=self.accuracy is not None)
        if isinstance(workload.arrival, SaturatingArrival) and not self.objective.slo:
            refuse("a saturation search needs at least one bound: saturated is when it breaks", "objective.slo")
        streamed = isinstance(engine, OpenAiEngine) and engine.stream
        for index, slo in enumerate(self.objective.slo):
            if slo.metric is not SloMetric.LATENCY and workload.task is Task.GENERATE and not streamed:
                refuse("only streamed answers show single tokens; bound the latency", f"objective.slo.{index}.metric")
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
        return self.owners[layer]
