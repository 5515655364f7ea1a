"""The engine and its session."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import JsonValue

from lynxbench.engines.host_ceilings import budget_within, measure_matmul, measure_streams
from lynxbench.engines.onnx.matmul_ceiling import measure_runtime_matmul
from lynxbench.engines.onnx.model_file import ModelFile, find_model, find_tokenizer, quantised_copy, read_model
from lynxbench.engines.onnx.onnx_inputs import (
    INPUT_SETS,
    Feed,
    GraphInput,
    axis_kinds,
    check_batch,
    make_feed,
    needs_lengths,
)
from lynxbench.engines.onnx.onnx_outputs import answer_seeded, embed_polarity
from lynxbench.engines.onnx.runtime_profile import RuntimeProfile, judge_execution, parse_profile, write_trace
from lynxbench.errors import CannotRun, first_line
from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import OnnxEngine
from lynxbench.model.job import ExecutedAs, Job, Skip
from lynxbench.model.precision import Precision
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import Task
from lynxbench.workload.lengths import sample_length

OUTPUT_INPUTS = 32
"""Fixed inputs for accuracy: enough that one odd input does not decide a mean cosine."""
OUTPUT_STREAM = 1
"""Second word of the random seed of accuracy's inputs, so that they are not the timed ones."""
EXECUTED_STEPS = 2

_EMBEDDING_NAMES = ("sentence_embedding", "embeddings", "embedding", "pooler_output", "last_hidden_state")
_LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_CUDA = "CUDAExecutionProvider"


class OnnxRuntimeEngine:
    """Runs ONNX model files in this process."""

    name = "onnx"

    def available(self) -> str | None:
        """Whether ONNX Runtime is installed."""
        if importlib.util.find_spec("onnxruntime") is None:
            return "ONNX Runtime is not installed; pip install 'lynxbench[onnx]'"
        return None

    def estimate(self, job: Job) -> Skip | None:
        """A precision that neither the file nor dynamic quantisation can give is skipped."""
        model = read_model(find_model(job.contract.workload.model))
        reason = _impossible(model, job)
        return Skip(reason=reason) if reason else None

    def open(self, job: Job) -> OnnxSession:
        """Load the file, in its 8-bit form where the contract asks for one the file is not."""
        task = job.contract.workload.task
        if task not in (Task.EMBED, Task.CLASSIFY):
            raise CannotRun(f"engine onnx runs tasks embed and classify; the contract asks for {task}")
        model = read_model(find_model(job.contract.workload.model))
        reason = _impossible(model, job)
        if reason:
            raise CannotRun(reason)
        return OnnxSession(model, job)


def _impossible(model: ModelFile, job: Job) -> str | None:
    precision, stored = job.precision, model.stored
    on_cuda = isinstance(job.contract.engine, OnnxEngine) and job.contract.engine.provider == _CUDA
    made_of_fp32 = (Precision.INT8, Precision.TF32) if on_cuda else (Precision.INT8,)
    if precision is (stored or Precision.FP32) or (stored is Precision.FP32 and precision in made_of_fp32):
        return None  # where nobody can look inside, fp32 is run as stored, and executed() says so
    if stored is None:
        return f"{precision} needs the onnx package to read {model.path.name}; pip install 'lynxbench[onnx]'"
    return f"{model.path.name} stores {stored} weights; {precision} needs a file of that precision"


class OnnxSession:
    """One model file in one ONNX Runtime session."""

    def __init__(self, model: ModelFile, job: Job) -> None:
        self.marks: list[int] = []
        self._model = model
        self._job, self._workload = job, job.contract.workload
        self._batch = job.contract.workload.batch
        self._toolchain = f"as stored in {model.path.name} ({model.producer})"
        self._path = model.path
        if job.precision is Precision.INT8 and model.stored is Precision.FP32:
            self._path, self._toolchain = quantised_copy(model)
        self._session = self._open_session(str(self._path))
        self._signatures = [GraphInput(i.name, i.type, tuple(i.shape)) for i in self._session.get_inputs()]
        check_batch(self._signatures, self._batch)
        self._feeds = self._make_feeds([self._workload.seed], INPUT_SETS)
        self._output_names = [output.name for output in self._session.get_outputs()]
        self.unit = self._unit()
        self._profile: RuntimeProfile | None = None

    def compile(self) -> None:
        """Run every input set once: memory is planned per shape."""
        for index in range(len(self._feeds)):
            try:
                self.step(index)
            except Exception as error:  # ONNX Runtime's errors share no public class
                raise CannotRun(f"{self._model.path.name} does not run: {first_line(error)}") from error

    def step(self, index: int) -> int:
        """One call of the session, from host memory to host memory."""
        self._session.run(self._output_names, self._feeds[index % len(self._feeds)])
        return self._batch

    def facts(self) -> dict[str, JsonValue]:
        """The file, the runtime's options, and who executed its nodes."""
        import onnxruntime

        spec = self._spec
        used: dict[str, JsonValue] = dict(self._kernels().nodes_by_provider)
        return {
            "application.model_sha256": self._model.sha256,
            "application.model_bytes": self._model.bytes,
            "application.model_file": self._model.path.name,
            "application.stored_precision": None if self._model.stored is None else self._model.stored.value,
            "application.opset": self._model.opset,
            "application.producer": self._model.producer,
            "application.input_shapes": {name: list(array.shape) for name, array in self._feeds[0].items()},
            "application.input_sets": len(self._feeds),
            "application.open_image_axes": any("image" in axis_kinds(s) for s in self._signatures),
            "runtime.onnxruntime": onnxruntime.__version__,
            "runtime.provider_requested": spec.provider,
            "runtime.providers_of_session": list(self._session.get_providers()),
            "runtime.nodes_by_provider": used,
            "runtime.graph_optimisation": spec.graph_optimisation,
            "runtime.threads": self._job.threads,
            "runtime.quantisation": self._toolchain,
        }

    def executed(self) -> ExecutedAs:
        """By the kernels in ONNX Runtime's own profile."""
        return judge_execution(self._kernels(), self._job.precision, self._model.stored, self._toolchain)

    def outputs(self) -> Outputs | None:
        """Answers on labelled sentences where there is a tokenizer, else on seeded inputs apart from the timed ones."""
        embeds = self._workload.task is Task.EMBED
        run = self._session.run
        tokenizer = find_tokenizer(self._workload.model, self._model.path) if embeds else None
        if tokenizer is not None and self.unit == "sentence":
            labelled = embed_polarity(tokenizer, self._signatures, self._batch, self._answer_name(), run)
            if labelled is not None:
                return labelled
        feeds = self._make_feeds([self._workload.seed, OUTPUT_STREAM], -(-OUTPUT_INPUTS // self._batch))
        return answer_seeded(feeds, self._answer_name(), run, embeds=embeds)

    def profile(self, steps: int, into: Path) -> Path | None:
        """ONNX Runtime's profile of that many steps as a trace in the profiler's common form."""
        into.mkdir(parents=True, exist_ok=True)
        profile, steps_ns = self._profiled(steps)
        self._profile = profile
        return write_trace(profile, steps_ns, into / "trace.json.gz")

    def ceilings(self) -> tuple[Ceiling, ...]:
        """ONNX Runtime's own matrix product at this precision (numpy's where it has none); memory's copy and read."""
        threads, budget_s = self._job.threads, budget_within(self._job.contract.protocol.limit_s)
        own = measure_runtime_matmul(self._job.precision, self._open_session, threads, budget_s)
        matmul = own or measure_matmul("float32", Precision.FP32, threads, budget_s)
        return (matmul, *measure_streams(threads, budget_s))

    def device_memory_peak_bytes(self) -> int | None:
        """ONNX Runtime's arenas keep no high-water mark that Python can read."""
        return None

    def close(self) -> None:
        """Free the session."""
        del self._session

    @property
    def _spec(self) -> OnnxEngine:
        spec = self._job.contract.engine
        assert isinstance(spec, OnnxEngine)
        return spec

    def _unit(self) -> str:
        if any("image" in axis_kinds(s) or len(s.axes) == 4 for s in self._signatures):
            return "image"
        return "sentence" if any(s.name in self._model.vocabulary for s in self._signatures) else "sample"

    def _lengths(self, count: int) -> list[int]:
        length = self._workload.input_tokens
        if not needs_lengths(self._signatures):
            return [1] * count
        if length is None:
            raise CannotRun(f"{self._model.path.name} takes sequences; say workload.input_tokens")
        return [sample_length(length, seed=self._workload.seed, index=index) for index in range(count)]

    def _make_feeds(self, seed: list[int], count: int) -> list[Feed]:
        random = np.random.default_rng(seed)
        rows = self._model.vocabulary
        return [make_feed(self._signatures, self._batch, length, rows, random) for length in self._lengths(count)]

    def _answer_name(self) -> str:
        names = _EMBEDDING_NAMES if self._workload.task is Task.EMBED else ()
        return next((name for name in names if name in self._output_names), str(self._output_names[0]))

    def _options(self, profile_prefix: str | None) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._job.threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, _LEVELS[self._spec.graph_optimisation]
        )
        options.log_severity_level = 3
        if profile_prefix is not None:
            options.enable_profiling = True
            options.profile_file_prefix = profile_prefix
        return options

    def _open_session(self, model: str | bytes, profile_prefix: str | None = None) -> Any:
        import onnxruntime

        wanted = self._spec.provider
        known = onnxruntime.get_available_providers()
        if wanted not in known:
            raise CannotRun(f"this ONNX Runtime has no {wanted}; it has {', '.join(known)}")
        # CUDA multiplies fp32 in TF32 unless told otherwise: the contract's precision decides, not the default.
        tf32 = {"use_tf32": str(int(self._job.precision is Precision.TF32))} if wanted == _CUDA else {}
        try:
            session = onnxruntime.InferenceSession(model, self._options(profile_prefix), providers=[(wanted, tf32)])
        except Exception as error:  # ONNX Runtime's errors share no public class
            raise CannotRun(f"{self._model.path.name} cannot be loaded: {first_line(error)}") from error
        if wanted not in session.get_providers():
            raise CannotRun(f"{wanted} was asked for; ONNX Runtime fell back to {', '.join(session.get_providers())}")
        return session

    def _kernels(self) -> RuntimeProfile:
        if self._profile is None:
            self._profile = self._profiled(EXECUTED_STEPS)[0]
        return self._profile

    def _profiled(self, steps: int) -> tuple[RuntimeProfile, list[tuple[int, int]]]:
        with tempfile.TemporaryDirectory() as folder:
            session = self._open_session(str(self._path), str(Path(folder) / "ort"))
            session.run(self._output_names, self._feeds[0])  # memory is planned in the first call; it is dropped below
            steps_ns: list[tuple[int, int]] = []
            for index in range(steps):
                start = time.perf_counter_ns()
                session.run(self._output_names, self._feeds[index % len(self._feeds)])
                steps_ns.append((start, time.perf_counter_ns()))
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        whole = parse_profile(events)
        from_us = whole.runs_us[1][0] if len(whole.runs_us) > 1 else 0.0
        return (
            RuntimeProfile(tuple(n for n in whole.nodes if n.start_us >= from_us), tuple(whole.runs_us[1:])),
            steps_ns,
        )
