"""Results of the worked example, as values. Invented figures, in the exact form of measured ones."""

from __future__ import annotations

import math
from collections.abc import Mapping

from lynxbench.contract.loader import read_bundled
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling, Intervention, OperatorTime
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, Tier, measured, unreadable
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.job import ExecutedAs
from lynxbench.model.layers import Layer
from lynxbench.model.load_figures import (
    Accounting,
    CacheRecord,
    CurvePoint,
    InstrumentRecord,
    LoadFigures,
    SaturationRecord,
    TokenCount,
)
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import (
    Accuracy,
    Conditions,
    Excluded,
    Percentile,
    PrecisionResult,
    Result,
    SamplesFile,
    Steady,
    Validity,
    ValidityVerdict,
)
from lynxbench.model.serving import CacheState
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.fleets import QueueNode, ServiceForm

CHAT_NODE = QueueNode(24, ServiceForm.GAMMA, 0.75, 0.5, (0.14, 0.42))
"""The queue that the example's service behaves like: 24 slots, half a second each, 48 requests a second at most."""
OUTPUT_TOKENS = 118.0
RESTARTS = 5
SAMPLES = SamplesFile(file="samples.npz", sha256="00" * 32, rows=0, marks=0)
NO_SAMPLES = "The example carries no samples: its figures are invented."


def example_contract(
    bundled: str, name: str, question: str, workload: Mapping[str, object], **sections: object
) -> Contract:
    """A bundled contract with the example's name, model and bounds."""
    body = read_bundled(bundled).canonical()
    merged = {**body["workload"], **workload}  # type: ignore[dict-item]
    document = {**body, "name": name, "question": question, "workload": merged, **sections}
    return Contract.model_validate(document, strict=False)


def chat_result(contract: Contract, gpu: str, curve: tuple[CurvePoint, ...], *, started: str, version: str) -> Result:
    """A served run that searched its saturation; launch-bound decoding on either machine."""
    passed = max(point.rate_per_s for point in curve if point.outcome == "pass")
    failed = min(point.rate_per_s for point in curve if point.outcome == "fail")
    h200 = "H200" in gpu
    tokens = passed * OUTPUT_TOKENS
    attribution = _launch_bound(contract, busier=h200)
    figures = PrecisionResult(
        precision=Precision.BF16,
        throughput=_figure(tokens, 0.008, "token/s"),
        latency_ms={"time-to-first-token": _ladder(curve, passed), "latency": ()},
        peak=Figure(low=None, estimate=tokens * 1.012, high=None, unit="token/s"),
        sustained=_figure(tokens, 0.008, "token/s"),
        steady=_steady(612.0),
        accuracy=Accuracy(
            reference=Precision.BF16,
            is_reference=True,
            metrics={"perplexity": 7.31},
            inputs="held-out text, 4096 tokens",
            loss=0.0,
            verdict="reference",
        ),
        native=Native.NATIVE,
        executed=ExecutedAs(native=Native.NATIVE, how="cuBLASLt bf16", toolchain="vLLM 0.11.0, torch 2.9.0"),
        device_memory_bytes=71 << 30,
        energy_j_per_unit=_figure(0.079 if h200 else 0.061, 0.02, "J/token"),
        validity=Validity(verdict=ValidityVerdict.VALID),
        restarts=RESTARTS,
        run_means=tuple(tokens * factor for factor in (0.994, 0.998, 1.0, 1.003, 1.005)),
        attribution=attribution,
        load=_load(curve, passed, failed),
    )
    conditions = Conditions(
        task="generate",
        model="example-8b",
        batch=1,
        load=f"open loop, Poisson, saturation at {passed:g} /s",
        input_tokens="lognormal, median 200",
        output_tokens="lognormal, median 120",
        regime=contract.regime.value,
        engine="openai",
        graph=None,
        threads=1,
        division="none",
        restarts_planned=RESTARTS,
        clients=1,
    )
    return _result(contract, executor_of(gpu), conditions, (figures,), attribution, started, version, "chat")


def decode_result(*, started: str, version: str) -> Result:
    """Two precisions of the decode step in process, on today's device."""
    contract = example_contract(
        "quickstart",
        "decode-example",
        "Which precision may the chat service decode in?",
        {"precisions": ["bf16", "int8-weight-only"]},
        policy={"accuracy": {"metric": "perplexity", "largest_loss": "1 %"}},
    )
    rows = []
    for precision, rate, memory, energy, loss in (
        (Precision.BF16, 92.0, 16.4, 3.1, 0.0),
        (Precision.INT8_WEIGHT_ONLY, 121.0, 9.3, 2.3, 0.006),
    ):
        reference = loss == 0
        how = "cuBLASLt bf16" if reference else "int8 weights, bf16 arithmetic"
        tools = "torch 2.9.0" if reference else "torchao 0.14.0, per channel"
        rows.append(
            PrecisionResult(
                precision=precision,
                throughput=_figure(rate, 0.006, "token/s"),
                latency_ms={"time-per-token": _around(1000 / rate)},
                peak=Figure(low=None, estimate=rate * 1.01, high=None, unit="token/s"),
                sustained=_figure(rate, 0.006, "token/s"),
                steady=_steady(184.0),
                accuracy=Accuracy(
                    reference=Precision.BF16,
                    is_reference=reference,
                    metrics={"perplexity": 7.31 * (1 + loss), "perplexity-change": loss},
                    inputs="held-out text, 4096 tokens",
                    loss=loss,
                    verdict="reference" if reference else "go",
                ),
                native=Native.NATIVE,
                executed=ExecutedAs(native=Native.NATIVE, how=how, toolchain=tools),
                device_memory_bytes=int(memory * (1 << 30)),
                energy_j_per_unit=_figure(energy, 0.02, "J/token"),
                validity=Validity(verdict=ValidityVerdict.VALID),
                restarts=RESTARTS,
                run_means=tuple(rate * factor for factor in (0.995, 0.998, 1.0, 1.002, 1.005)),
            )
        )
    conditions = Conditions(
        task="generate",
        model="example-8b",
        batch=1,
        load="closed loop, 1 at a time",
        input_tokens="64",
        output_tokens="128",
        regime=contract.regime.value,
        engine="torch",
        graph="eager",
        threads=1,
        division="none",
        restarts_planned=RESTARTS,
    )
    stack = executor_of("NVIDIA A100-SXM4-80GB")
    return _result(contract, stack, conditions, tuple(rows), None, started, version, "decode")


def executor_of(gpu: str) -> Executor:
    """A node with one accelerator."""
    board = 700.0 if "H200" in gpu else 400.0
    return Executor(
        layers={
            Layer.APPLICATION: {"model": measured("example-8b", "server")},
            Layer.SERVING: {"server": measured("vLLM 0.11.0", "/version")},
            Layer.RUNTIME: {"attention": measured("FlashAttention 3", "process map")},
            Layer.FRAMEWORK: {"torch": measured("2.9.0", "package metadata")},
            Layer.SYSTEM: {"driver": measured("580.95", "NVML"), "kernel": measured("6.8.0", "uname")},
            Layer.ACCELERATOR: {
                "gpu_name": measured(gpu, "NVML"),
                "gpu_power_limit_default_w": measured(board, "NVML"),
                "gpu_uuid": measured("pseudonym", "NVML", Tier.INSTANCE),
            },
            Layer.PROCUREMENT: {"price": unreadable("declared in the cost plan")},
            Layer.FACILITY: {"power": unreadable("no meter at the wall")},
            Layer.DEMAND: {"slo": measured("p99 time to first token ≤ 700 ms", "contract")},
        }
    )


def _launch_bound(contract: Contract, *, busier: bool) -> Attribution:
    launch, memory = (0.66, 0.19) if busier else (0.61, 0.24)
    return Attribution(
        bottleneck=Category.LAUNCH,
        bound=Bound.SOFTWARE,
        layer=Layer.RUNTIME,
        owner=contract.owner(Layer.RUNTIME),
        symptom_layer=Layer.ACCELERATOR,
        shares={
            Category.LAUNCH: launch,
            Category.MEMORY_BANDWIDTH: memory,
            Category.COMPUTE: 0.09,
            Category.UNATTRIBUTED: 1 - launch - memory - 0.09,
        },
        gain_if_removed=Interval(1.4, 1.8, 2.4),
        evidence=(f"the device waits for launches in {launch:.0%} of a decode step",),
        sentence=f"kernel launch and framework dispatch take {launch:.0%} of a decode step",
        next_step="capture the decode step as a CUDA graph",
        wall_ms_per_step=11.4,
        unprofiled_ms_per_step=10.9,
        steps=40,
        operators=(
            OperatorTime(
                name="aten::mm",
                category=Category.COMPUTE,
                calls_per_step=225,
                ms_per_step=1.0,
                share=0.09,
                efficiency=0.34,
            ),
        ),
        ceilings=(
            Ceiling(name="copy", precision=None, per_s=1.75e12, unit="bytes/s", how="bare copy, same run"),
            Ceiling(
                name="matmul", precision=Precision.BF16, per_s=248e12, unit="operations/s", how="bare product, same run"
            ),
        ),
        interventions=(
            Intervention(
                name="graph replay of the decode step",
                predicted=Interval(1.4, 1.8, 2.4),
                measured=Interval(1.66, 1.71, 1.76),
            ),
        ),
    )


def _load(curve: tuple[CurvePoint, ...], passed: float, failed: float) -> LoadFigures:
    offered = 24_600
    return LoadFigures(
        load=f"open loop, Poisson {passed:g} /s",
        budget=("p99 time-to-first-token ≤ 700 ms",),
        accounting=Accounting(offered=offered, sent=offered, ok=offered, failed={}, retries=0, said={}),
        offered_per_s=_figure(passed, 0.006, "requests/s"),
        requests_per_s=_figure(passed, 0.006, "requests/s"),
        goodput_per_s=_figure(passed * 0.994, 0.006, "requests/s"),
        in_flight_mean=passed * 0.55,
        tokens=TokenCount(
            source="usage",
            input_mean=231.0,
            output_mean=OUTPUT_TOKENS,
            asked_output_mean=OUTPUT_TOKENS,
            shorter_share=0.0,
            coalesced_share=0.0,
        ),
        cache=CacheRecord(regime=CacheState.AVOIDED, distinct_prompts=None, cached_share=0.0, counters={}),
        instrument=InstrumentRecord(
            verdict="good",
            reasons=(),
            cautions=(),
            processes=1,
            mean_lateness_ms=0.05,
            p99_lateness_ms=0.3,
            p99_lag_ms=0.4,
            busiest_share=0.08,
            preflight=None,
        ),
        saturation=SaturationRecord(
            passed_per_s=passed,
            failed_per_s=failed,
            failed_outcome="fail",
            confirmed=True,
            goodput_per_s=passed * 0.994,
            knee_per_s=curve[1].rate_per_s,
            ceiling_per_s=CHAT_NODE.ceiling_per_s * passed / 41.0,
            probe_s=960.0,
            note="",
            saturated="one thread of the server, busy 98 % of the time",
            curve=curve,
        ),
    )


def _result(
    contract: Contract,
    executor: Executor,
    conditions: Conditions,
    rows: tuple[PrecisionResult, ...],
    attribution: Attribution | None,
    started: str,
    version: str,
    label: str,
) -> Result:
    day = started[:10].replace("-", "")
    return Result(
        lynxbench_version=version,
        run_id=f"{day}-080000-{label}-example",
        started_at=started,
        finished_at=started.replace("T08:00", "T08:41"),
        measuring_s=2440.0,
        contract_id=contract.contract_id,
        executor_id=executor.executor_id,
        instance_id=executor.instance_id,
        contract=contract,
        executor=executor,
        conditions=conditions,
        per_precision=rows,
        attribution=attribution,
        validity=Validity(verdict=ValidityVerdict.VALID),
        assumptions=("Greedy decoding.", "Every prompt is unique: no prefix is shared.", NO_SAMPLES),
        samples=SAMPLES,
    ).sealed()


def _figure(estimate: float, share: float, unit: str) -> Figure:
    return Figure(low=estimate * (1 - share), estimate=estimate, high=estimate * (1 + share), unit=unit)


def _steady(counted_s: float) -> Steady:
    return Steady(
        verdict=SteadyVerdict.STEADY,
        reason="",
        drift=Interval(-0.004, 0.001, 0.006),
        counted_s=counted_s,
        counted_iterations=int(counted_s * 40),
        executed_s=counted_s + 96,
        excluded=(
            Excluded(phase="setup", seconds=31.0, iterations=0),
            Excluded(phase="warm-up", seconds=41.0, iterations=900),
            Excluded(phase="transient", seconds=24.0, iterations=700),
        ),
        per_process=("steady",) * RESTARTS,
    )


def _ladder(curve: tuple[CurvePoint, ...], passed: float) -> tuple[Percentile, ...]:
    held = next(point for point in curve if math.isclose(point.rate_per_s, passed))
    assert held.p50_s is not None
    assert held.p99_s is not None
    return _percentile(50.0, held.p50_s * 1e3), _percentile(99.0, held.p99_s * 1e3)


def _around(middle_ms: float) -> tuple[Percentile, ...]:
    return _percentile(50.0, middle_ms), _percentile(99.0, middle_ms * 1.12)


def _percentile(which: float, value_ms: float) -> Percentile:
    return Percentile(percentile=which, low=value_ms * 0.985, estimate=value_ms, high=value_ms * 1.02, resolved=True)
