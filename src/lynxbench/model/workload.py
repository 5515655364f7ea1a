"""What is asked of the executor: task, model, precisions, batch, lengths, arrivals, seed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from lynxbench.model.asked_work import Cancelling, CheckedAnswers, ModelShare, PromptFile, PromptForm, refuse_mix
from lynxbench.model.document import Document
from lynxbench.model.fields import Count, Name, RatePerS, Ratio, Seconds, Text, refuse
from lynxbench.model.precision import Precision


class Task(StrEnum):
    """What one iteration does."""

    GENERATE = "generate"
    PREFILL = "prefill"
    DECODE = "decode"
    EMBED = "embed"
    RERANK = "rerank"
    TRANSCRIBE = "transcribe"
    CLASSIFY = "classify"
    TRAIN_STEP = "train-step"
    CALLABLE = "callable"


LANGUAGE_TASKS = (Task.GENERATE, Task.PREFILL, Task.DECODE)
"""Those of a model that predicts the next token: `prefill` reads a prompt, `decode` adds one token to a context."""

SERVED_TASKS = (Task.RERANK, Task.TRANSCRIBE)
"""Those that only a server is asked for."""


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
    target: Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]


class ServedModel(Document):
    """A model behind a server, by the name the server knows it under."""

    source: Literal["served"]
    name: Text
    tokenizer: Text | None = None


ModelSource = Annotated[
    PackageModel | PresetModel | PathModel | HubModel | CallableModel | ServedModel, Field(discriminator="source")
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
            refuse(f"low {self.low} is above high {self.high}; swap them", "low")
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
            refuse(f"the median {self.median:g} must lie between low {self.low} and high {self.high}", "median")
        return self


class EmpiricalLength(Document):
    """Lengths drawn from a recorded list, such as a production log's."""

    distribution: Literal["empirical"]
    values: Annotated[tuple[Count, ...], Field(min_length=1, max_length=100_000)]


Length = Annotated[FixedLength | UniformLength | LognormalLength | EmpiricalLength, Field(discriminator="distribution")]


LONGEST_SOUND_S = 1800
"""Servers take files of some 25 MB; half an hour of speech is twice that."""


class Reranking(Document):
    """What one request to a reranker holds; each document has the workload's input_tokens."""

    documents: Length
    query_tokens: Count = 16


class SpokenAudio(Document):
    """The sound of one request to a transcriber: made, of a drawn duration."""

    seconds: Length
    samples_per_s: Literal[8000, 16000, 22050, 24000, 44100, 48000] = 16000
    may_be_empty: Annotated[bool, Field(exclude_if=lambda empty: not empty)] = False
    """Made sound is no speech: whether a transcript without words is an answer."""

    @model_validator(mode="after")
    def _sendable(self) -> SpokenAudio:
        length = self.seconds
        values = length.values if isinstance(length, EmpiricalLength) else ()
        most = length.value if isinstance(length, FixedLength) else max(values, default=getattr(length, "high", 0))
        if most > LONGEST_SOUND_S:
            refuse(f"{most} s is longer than a request may be ({LONGEST_SOUND_S} s)", "seconds")
        return self


class ClosedArrival(Document):
    """The next request starts when the last one ended; `concurrency` of them at a time."""

    process: Literal["closed"]
    concurrency: Count = 1
    start: Annotated[Literal["spread", "together"], Field(exclude_if=lambda start: start == "spread")] = "spread"
    """How the first of them begin: all at once, a server of equal answers goes on in lockstep."""


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


class BurstArrival(Document):
    """Bursts of requests that start as a Poisson process; the mean rate is kept."""

    process: Literal["bursts"]
    rate_per_s: Annotated[RatePerS, Field(alias="rate", gt=0)]
    size: Count
    spread_s: Annotated[Seconds, Field(alias="spread", ge=0)] = 0.0


class RampArrival(Document):
    """A Poisson process whose rate changes linearly over the run."""

    process: Literal["ramp"]
    from_per_s: Annotated[RatePerS, Field(alias="from", ge=0)]
    to_per_s: Annotated[RatePerS, Field(alias="to", ge=0)]

    @model_validator(mode="after")
    def _positive(self) -> RampArrival:
        if self.from_per_s + self.to_per_s <= 0:
            refuse("from and to are both zero: nothing would be asked", "to")
        return self


class ReplayArrival(Document):
    """A recorded trace at its own moments, with its own lengths where the workload names none."""

    process: Literal["replay"]
    path: Text
    speed: Annotated[float, Field(gt=0, le=1000)] = 1.0


class SaturatingArrival(Document):
    """A search for the largest Poisson rate at which the objective holds; then a run at that rate."""

    process: Literal["saturating"]
    tolerance: Annotated[Ratio, Field(ge=0.01, le=0.5)] = 0.05
    concurrency: Count = 128
    budget_s: Annotated[Seconds, Field(alias="budget", gt=0)] = 600.0


Arrival = Annotated[
    ClosedArrival
    | ConstantArrival
    | PoissonArrival
    | GammaArrival
    | BurstArrival
    | RampArrival
    | ReplayArrival
    | SaturatingArrival,
    Field(discriminator="process"),
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
    # What production sends besides; left out of the canonical form where unsaid: older contracts keep their ids.
    prompts: Annotated[PromptFile | None, Field(exclude_if=lambda prompts: prompts is None)] = None
    models: Annotated[tuple[ModelShare, ...], Field(exclude_if=lambda models: not models)] = ()
    cancel: Annotated[Cancelling | None, Field(exclude_if=lambda cancel: cancel is None)] = None
    answers: Annotated[CheckedAnswers | None, Field(exclude_if=lambda answers: answers is None)] = None
    rerank: Annotated[Reranking | None, Field(exclude_if=lambda rerank: rerank is None)] = None
    audio: Annotated[SpokenAudio | None, Field(exclude_if=lambda audio: audio is None)] = None

    @property
    def is_sessions(self) -> bool:
        """Whether an arrival is a session of several calls that wait for each other."""
        return self.prompts is not None and self.prompts.form is PromptForm.SESSIONS

    @model_validator(mode="after")
    def _asks_what_can_be_asked(self) -> Workload:
        for key in ("prompts", "models", "cancel", "answers"):
            if getattr(self, key) and not (isinstance(self.model, ServedModel) and self.task is Task.GENERATE):
                refuse("is for a server that generates: task generate with model source served", key)
        if self.models and isinstance(self.model, ServedModel):
            refuse_mix(self.models, self.model.name)
        if self.prompts is not None and self.input_tokens is not None:
            refuse("has no effect: the prompts have their own lengths; remove it", "input_tokens")
        replayed = self.arrival.path if isinstance(self.arrival, ReplayArrival) else None
        if (
            self.prompts is not None
            and replayed is not None
            and (not self.is_sessions or replayed != self.prompts.file)
        ):
            refuse("replays the moments of sessions from the file of the sessions alone; name that file", "arrival")
        if self.is_sessions and isinstance(self.arrival, SaturatingArrival):
            refuse("a search needs requests that do not wait for each other; sessions do", "arrival")
        return self

    @model_validator(mode="after")
    def _fits_the_task(self) -> Workload:
        if len(set(self.precisions)) != len(self.precisions):
            refuse("names one precision twice; list each once", "precisions")
        for key, length in (("input_tokens", self.input_tokens), ("output_tokens", self.output_tokens)):
            from_trace = isinstance(self.arrival, ReplayArrival) or self.prompts is not None
            if self.task is Task.GENERATE and length is None and not from_trace:
                refuse("is missing; task generate needs input_tokens and output_tokens", key)
            if self.task in (Task.PREFILL, Task.DECODE) and key == "input_tokens" and length is None:
                refuse(f"is missing; task {self.task} needs the length of its context", key)
            if self.task is Task.CALLABLE and length is not None:
                refuse("has no effect on task callable; remove it", key)
        if self.task is not Task.GENERATE and self.output_tokens is not None:
            refuse(f"has no effect on task {self.task}, which generates nothing; remove it", "output_tokens")
        for key, task in (("rerank", Task.RERANK), ("audio", Task.TRANSCRIBE)):
            if (getattr(self, key) is not None) != (self.task is task):
                refuse(f"task {task} and this key go together", key)
        if self.task is Task.RERANK and self.input_tokens is None:
            refuse("is missing; task rerank needs the length of its documents", "input_tokens")
        if self.task is Task.TRANSCRIBE and self.input_tokens is not None:
            refuse("has no effect on task transcribe, whose input is sound; remove it", "input_tokens")
        if self.task in SERVED_TASKS and isinstance(self.arrival, ReplayArrival):
            refuse(f"a trace holds lengths of texts, which task {self.task} has no use for", "arrival")
        if self.task is Task.DECODE and not isinstance(self.input_tokens, FixedLength):
            refuse("must be fixed for task decode: a step is one token at one context length", "input_tokens")
        if (self.task is Task.CALLABLE) != isinstance(self.model, CallableModel):
            refuse(f"task {self.task} with model source {self.model.source}: the two callables go together", "task")
        return self
