"""A loaded model at a precision, in the shape the driver asks for (load.session.Session)."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import torch
from pydantic import JsonValue

from lynxbench.engines.torch.ceilings import measure_ceilings, recheck_ceilings
from lynxbench.engines.torch.compiling import COMPILE_MODES, check_compiler
from lynxbench.engines.torch.device import device_facts, memory_peak_bytes, release_memory, supports
from lynxbench.engines.torch.feeding import STAGED_BATCHES
from lynxbench.engines.torch.probe import measure_slowdown
from lynxbench.engines.torch.profiling import kernels_of, matrix_kernels, names_say, telling, write_trace
from lynxbench.engines.torch.task_work import Loaded, TaskWork
from lynxbench.errors import CannotRun
from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import Graph, TorchEngine
from lynxbench.model.interventions import Change
from lynxbench.model.job import ExecutedAs
from lynxbench.model.precision import Native, Precision
from lynxbench.model.samples import Outputs

FIRST_CALLS = 3
"""Compiled code is built in the first call, and CUDA graphs are recorded in the second and third."""

CUDA_ONLY = (Change.REPLAY, Change.PIN, Change.NO_TRANSFER, Change.NO_SYNC)
ABOUT_INPUTS = (Change.PRESTAGE, Change.PIN, Change.NO_TRANSFER)


class TorchSession:
    """Steps through a task until it is closed."""

    def __init__(self, loaded: Loaded, work: TaskWork, engine: TorchEngine, change: Change | None = None) -> None:
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
        if self._engine.graph is Graph.EAGER:
            return
        if self._engine.graph is Graph.CUDA_GRAPH:
            self._replay()
            return
        check_compiler(self._loaded.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler warns about its own parts
            self._work.compile(COMPILE_MODES[self._engine.graph])
            for index in range(FIRST_CALLS):
                self.step(index)
        self.marks.clear()

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
            raise CannotRun(f"engine.graph: cuda-graph needs a CUDA device, not {self._loaded.device}; use eager")
        self._work.replay()
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
        return {
            **source.facts,
            "application.model_sha256": source.identity(),
            "application.architecture": source.model_type,
            "application.parameters": prepared.total_parameters,
            "application.weights_dtype": weights,
            "application.quantisation": prepared.quantisation,
            "application.quantised_parameters": prepared.quantised_parameters,
            "application.seed": self._loaded.workload.seed,
            "runtime.precision": self._loaded.precision.value,
            "runtime.quantisation_toolchain": prepared.toolchain or "none",
            "runtime.graph": self._engine.graph.value,
            "runtime.attention": self._engine.attention,
            **self._device_timing(),
            **({"runtime.intervention": self._change.value} if self._change is not None else {}),
            "framework.torch": str(torch.__version__),
            "framework.transformers": _version("transformers"),
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
            return self._judge_device(matrix_kernels(kernels))
        if precision is Precision.FP32:
            how = "fp32 products, the CPU's own format"
            return ExecutedAs(native=Native.NATIVE, how=how, kernels=tuple(kernels), toolchain=prepared.toolchain)
        slowdown = measure_slowdown(precision)
        native = Native.EMULATED if slowdown.emulated else Native.NATIVE
        how = f"{prepared.quantisation if prepared.toolchain else precision.value}: {slowdown.words}"
        return ExecutedAs(native=native, how=how, kernels=tuple(kernels), toolchain=prepared.toolchain)

    def _judge_device(self, kernels: dict[str, float]) -> ExecutedAs:
        precision, prepared = self._loaded.precision, self._loaded.prepared
        computed = Precision.BF16 if precision is Precision.INT8_WEIGHT_ONLY else precision
        said, able = names_say(computed, kernels), supports(self._loaded.device, computed)
        if able is False or said is False:
            native = Native.EMULATED
        elif said:
            native = Native.NATIVE
        else:
            native = Native.UNKNOWN
        words = {
            True: "kernel names tell of it",
            False: "kernel names tell of others",
            None: "kernel names do not tell",
        }
        how = f"{precision.value}: {words[said]} ({telling(computed, kernels)})" + (
            "; the device has no such inputs" if able is False else ""
        )
        return ExecutedAs(native=native, how=how, kernels=tuple(kernels), toolchain=prepared.toolchain)

    def outputs(self) -> Outputs | None:
        """Answers on fixed inputs, outside the timed window."""
        return self._work.outputs()

    def profile(self, steps: int, into: Path) -> Path | None:
        """A trace of that many steps, for attribution."""
        before = len(self.marks)
        path = write_trace(self.step, steps, self._loaded.device, into)
        del self.marks[before:]
        return path

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


def _version(distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"
