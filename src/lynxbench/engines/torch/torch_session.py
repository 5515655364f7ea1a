"""The engine's order: from a job to threads, device, weights, precision and task, then the session that steps.

A new task is a class in a file of its own (see TaskWork) and an entry of TASKS.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pydantic import JsonValue

from lynxbench.engines.torch.answering import ModelAnswerer
from lynxbench.engines.torch.ceilings import measure_ceilings, recheck_ceilings
from lynxbench.engines.torch.classify import Classify
from lynxbench.engines.torch.device import choose_device, device_facts, memory_peak_bytes, release_memory
from lynxbench.engines.torch.embed import Embed
from lynxbench.engines.torch.estimate import lacking_arithmetic, measure_slowdown
from lynxbench.engines.torch.events import open_clock
from lynxbench.engines.torch.graphs import COMPILATIONS, check_compiler
from lynxbench.engines.torch.grouped_attention import OF_THE_LIBRARY, choose_attention, describe_attention, refusing
from lynxbench.engines.torch.language_tasks import Decode, Generate, Prefill
from lynxbench.engines.torch.merged_projections import MERGED, merge_projections
from lynxbench.engines.torch.model_loading import find_source, load_model
from lynxbench.engines.torch.number_formats import USUAL_BITS, compute_dtype, prepare, supports
from lynxbench.engines.torch.profiling import (
    MOST_KERNELS,
    NAME_HOLDS,
    describe_kernels,
    kernels_of,
    matrix_kernels,
    profile_steps,
    share_of_all,
    share_of_time,
    write_trace,
)
from lynxbench.engines.torch.task_work import STAGED_BATCHES, Loaded, TaskWork
from lynxbench.engines.torch.torch_inputs import read_tokenizer
from lynxbench.engines.torch.train import Train
from lynxbench.errors import BadInput, CannotRun
from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import Graph, Timing, TorchEngine
from lynxbench.model.interventions import Change
from lynxbench.model.job import ExecutedAs, Job
from lynxbench.model.precision import KvCache, Native, Precision
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import Task
from lynxbench.workload.model_packages import distribution_version

TASKS: dict[Task, Callable[[Loaded], TaskWork]] = {
    Task.GENERATE: Generate,
    Task.PREFILL: Prefill,
    Task.DECODE: Decode,
    Task.EMBED: Embed,
    Task.CLASSIFY: Classify,
    Task.TRAIN_STEP: Train,
}
FIRST_CALLS = 3
"""Compiled code is built in the first call, and CUDA graphs are recorded in the second and third."""

CUDA_ONLY = (Change.REPLAY, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC)
ABOUT_INPUTS = (Change.PRESTAGE, Change.PIN, Change.NO_TRANSFER)


def open_session(job: Job) -> TorchSession:
    """Load what the job names; CannotRun or BadInput in one line where that is impossible."""
    engine, workload = job.contract.engine, job.contract.workload
    assert isinstance(engine, TorchEngine)
    if workload.task not in TASKS:
        raise BadInput(f"workload.task: the torch engine cannot do {workload.task}")
    _check_cache(engine, workload.task)
    torch.set_num_threads(job.threads)
    device = choose_device(engine.device)
    source = find_source(workload)
    dtype = torch.float32 if workload.task is Task.TRAIN_STEP else compute_dtype(job.precision, device)
    attention = choose_attention(engine.attention, compiled=engine.graph in COMPILATIONS)

    def load() -> Any:
        try:
            return load_model(
                source, workload.task, seed=workload.seed, dtype=dtype, device=device, attention=attention
            )
        except torch.OutOfMemoryError as error:
            raise CannotRun(f"the model does not fit into the memory of {device} at {job.precision}") from error

    model = load()
    compilation = COMPILATIONS.get(engine.graph)
    merged = merge_projections(model) if compilation is not None and compilation.recorded else 0
    loaded = Loaded(
        model=model,
        source=source,
        tokenizer=read_tokenizer(source.folder),
        workload=workload,
        precision=job.precision,
        device=device,
        prepared=prepare(model, job.precision, device),
        reload=load,
        clock=open_clock(device) if engine.timing is Timing.DEVICE else None,
        merged=merged > 0,
        kv_cache=engine.kv_cache,
    )
    with refusing(engine.attention):
        work = TASKS[workload.task](loaded)
    return TorchSession(loaded, work, engine, job.change)


def _check_cache(engine: TorchEngine, task: Task) -> None:
    """Only what is kept over several tokens at a fixed size can be kept in another format."""
    fixed = task is Task.DECODE or (task is Task.GENERATE and engine.graph is not Graph.EAGER)
    if engine.kv_cache is not KvCache.COMPUTED and not fixed:
        where = "task decode, or generate with a graph that is compiled or recorded"
        raise BadInput(f"engine.kv_cache: {engine.kv_cache} needs a cache of fixed size: {where}")


class TorchSession:
    """Steps through a task until it is closed (the shape of load.engine_session.Session)."""

    def __init__(self, loaded: Loaded, work: TaskWork, engine: TorchEngine, change: Change | None) -> None:
        self._loaded, self._work, self._engine, self._change = loaded, work, engine, change
        self._executed: ExecutedAs | None = None
        self.device_clock = loaded.clock
        self.unit = work.unit
        self.marks: list[int] = []

    def compile(self) -> None:
        """Compile or record where that is asked for and make the first calls; nothing to do when eager."""
        if self.device_clock is not None:
            self._leave_timing_to_the_device()
        if self._change is not None:
            self._intervene(self._change)
        with refusing(self._engine.attention):
            self._prepare_graph()

    def _prepare_graph(self) -> None:
        graph, compilation = self._engine.graph, COMPILATIONS.get(self._engine.graph)
        if graph is Graph.EAGER and self._engine.attention not in OF_THE_LIBRARY:
            self._work.brief_step()  # a kernel that is not there is found here, not in the timed window
        elif graph is Graph.CUDA_GRAPH:
            self._replay()
        elif compilation is not None:
            check_compiler(self._loaded.device, compilation.backend)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the compiler warns about its own parts
                self._work.compile(compilation)
                if compilation.recorded:
                    self._replay()
                else:
                    self._make_first_calls()

    def _intervene(self, change: Change) -> None:
        """Change the one thing that an intervention asks for; CannotRun where there is no such thing here."""
        if change in CUDA_ONLY and self._loaded.device.type != "cuda":
            raise CannotRun(f"does not apply: {self._loaded.device} is no CUDA device")
        if change in ABOUT_INPUTS:
            if self._work.feed is None:
                raise CannotRun("does not apply: the images lie on the device before the clock starts")
            self._work.feed.change(change)
        elif change is Change.NO_SYNC:
            self._work.pace.stop_waiting()
        elif change is Change.REPLAY:
            self._replay()

    def _leave_timing_to_the_device(self) -> None:
        """Nothing in a step may wait for the host: inputs lie on the device before, and no step ends with a wait."""
        self._work.pace.hand_over()
        if self._work.feed is not None:
            self._work.feed.change(Change.PRESTAGE)

    def _replay(self) -> None:
        """Steps as CUDA graphs from now on, the first ones recorded."""
        if self._loaded.device.type != "cuda":
            needs = f"engine.graph: {self._engine.graph} needs a CUDA device, not {self._loaded.device}"
            raise CannotRun(f"{needs}; use eager or compile")
        self._work.replay()
        self._make_first_calls()

    def _make_first_calls(self) -> None:
        for index in range(FIRST_CALLS):
            self.step(index)
        self.marks.clear()

    def step(self, index: int) -> int:
        """One iteration on the inputs of that index."""
        return self._work.step(index, self.marks)

    def facts(self) -> dict[str, JsonValue]:
        """What was loaded and how it runs, by layer."""
        prepared, source = self._loaded.prepared, self._loaded.source
        weights = str(prepared.compute_dtype).removeprefix("torch.")
        bits = prepared.quantised_bits
        return {
            **source.facts,
            "application.model_sha256": source.identity(),
            "application.architecture": source.model_type,
            "application.parameters": prepared.total_parameters,
            "application.weights_dtype": weights,
            "application.quantisation": prepared.quantisation,
            "application.quantised_parameters": prepared.quantised_parameters,
            **({"application.quantised_bits": bits} if bits != USUAL_BITS else {}),
            "application.seed": self._loaded.workload.seed,
            "runtime.precision": self._loaded.precision.value,
            "runtime.quantisation_toolchain": prepared.toolchain or "none",
            "runtime.graph": self._engine.graph.value,
            "runtime.attention": describe_attention(self._engine.attention),
            **({"runtime.projections": MERGED} if self._loaded.merged else {}),
            **self._device_timing(),
            **({"runtime.intervention": self._change.value} if self._change is not None else {}),
            "framework.torch": str(torch.__version__),
            "framework.transformers": distribution_version("transformers"),
            "framework.fp32_products": prepared.float32_products,
            **device_facts(self._loaded.device),
            **self._work.facts(),
        }

    def _device_timing(self) -> dict[str, JsonValue]:
        """Said where it differs from the usual, so that older results keep their executors."""
        if self.device_clock is None:
            return {}
        rotating = f"{STAGED_BATCHES} batches on the device before the clock starts, rotating"
        staged = "on the device before the clock starts" if self._work.feed is None else rotating
        return {"runtime.timing": "events on the device, no wait for the host between steps", "demand.staging": staged}

    def executed(self) -> ExecutedAs:
        """Native or emulated: by kernel names on a device, by a measured product on a CPU."""
        if self._executed is None:
            kernels = kernels_of(self._work.brief_step, self._loaded.device)
            self._executed = self._judge(kernels)
        return self._executed

    def _judge(self, kernels: dict[str, float]) -> ExecutedAs:
        precision, prepared = self._loaded.precision, self._loaded.prepared
        if self._loaded.device.type == "cuda":
            kernels = matrix_kernels(kernels)
            native, how = self._judge_device(kernels)
        elif precision is Precision.FP32:
            native, how = Native.NATIVE, "fp32 products, the CPU's own format"
        else:
            slowdown = measure_slowdown(precision)
            lacks = lacking_arithmetic(precision)
            # The operators of 16 bits are named as those of 32; narrow weights have their own, which tell.
            share = share_of_all(precision, kernels) if prepared.toolchain else None
            fell_back = share is not None and share <= NAME_HOLDS
            native = Native.EMULATED if slowdown.emulated or lacks or fell_back else Native.NATIVE
            how = f"{prepared.quantisation if prepared.toolchain else precision.value}: {slowdown.words}"
            how += f"; {lacks}" if lacks else ""
            how += "" if share is None else f"; {share:.0%} of the products' time in its own operators"
        named = tuple(kernels)[:MOST_KERNELS]
        return ExecutedAs(native=native, how=how, kernels=named, toolchain=prepared.toolchain)

    def _judge_device(self, kernels: dict[str, float]) -> tuple[Native, str]:
        precision = self._loaded.precision
        share = share_of_time(precision, kernels)
        how = f"{precision.value}: {describe_kernels(precision, kernels)}"
        if supports(self._loaded.device, precision) is False:
            return Native.EMULATED, f"{how}; the device has no such inputs"
        if share is None:
            return Native.UNKNOWN, f"{how}, whose names do not tell"
        if share <= NAME_HOLDS:
            return Native.EMULATED, f"{how}; most of the time is others'"
        if (share_of_all(precision, kernels) or 0.0) <= NAME_HOLDS:
            return Native.UNKNOWN, f"{how}; most of the time is in kernels whose names do not tell"
        return Native.NATIVE, how

    def answerer(self) -> ModelAnswerer:
        """The model as one that is asked labelled prompts."""
        return ModelAnswerer(self._loaded)

    def outputs(self) -> Outputs | None:
        """Answers on fixed inputs, outside the timed window."""
        return self._work.outputs()

    def profile(self, steps: int, into: Path) -> Path | None:
        """A trace of that many steps, for attribution."""
        before = len(self.marks)
        profiler = profile_steps(self.step, steps, self._loaded.device)
        del self.marks[before:]
        return write_trace(profiler, into)

    def ceilings(self, known: tuple[Ceiling, ...] = ()) -> tuple[Ceiling, ...]:
        """Matrix product, copy and read at this precision on this device; known ones are re-checked."""
        if known:
            return recheck_ceilings(known, self._loaded.precision, self._loaded.device)
        return measure_ceilings(self._loaded.precision, self._loaded.device)

    def device_memory_peak_bytes(self) -> int | None:
        """The accelerator's high-water mark, or None on a CPU."""
        return memory_peak_bytes(self._loaded.device)

    def close(self) -> None:
        """Drop the model."""
        device = self._loaded.device
        del self._work, self._loaded
        gc.collect()
        release_memory(device)
