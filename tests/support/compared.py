"""Results for comparisons, built from values: the parts that rules look at can be changed one by one."""

from __future__ import annotations

from collections.abc import Mapping

from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, Field, FieldChange, Tier, measured
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.load_figures import Accounting, CacheRecord, InstrumentRecord, LoadFigures, TokenCount
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import (
    Accuracy,
    Conditions,
    Percentile,
    PrecisionResult,
    Result,
    SamplesFile,
    SloOutcome,
    Steady,
    Validity,
    ValidityVerdict,
)
from lynxbench.model.serving import CacheState
from lynxbench.model.standing import Remark, Standing
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.intervals import mean_interval

RUN_MEANS = (100.0, 101.0, 99.0, 100.5, 99.5)


def make_standing(*, retracted: str = "", contested: str = "") -> Standing:
    """What others say of a result."""
    retractions, contests = (
        (Remark(by="another team", trusted=True, at="2026-01-01T00:00:00+00:00", text=text),) if text else ()
        for text in (retracted, contested)
    )
    return Standing(result_id="ab" * 32, signed_by=("a team",), retracted=retractions, contested=contests)


def make_contract(**changes: object) -> Contract:
    """A small torch contract."""
    body: dict[str, object] = {
        "lynxbench": 1,
        "name": "compared",
        "question": "Does it hold?",
        "regime": "throughput",
        "workload": {
            "task": "embed",
            "model": {"source": "preset", "name": "small"},
            "precisions": ["fp32"],
            "input_tokens": {"distribution": "fixed", "value": 64},
        },
        "engine": {"name": "torch", "device": "cpu"},
    }
    return Contract.model_validate(body | changes, strict=False)


def make_executor(changes: Mapping[str, object] = {}, *, machine: str = "a") -> Executor:
    """A machine; `changes` are `layer.field` with another value (None removes it)."""
    layers: dict[Layer, dict[str, Field]] = {
        Layer.APPLICATION: {
            "model_sha256": measured("ab" * 32, "hash"),
            "parameters": measured(1000, "count"),
        },
        Layer.SERVING: {"batching": measured("static", "engine")},
        Layer.RUNTIME: {
            "native_libraries": measured({"libtorch.so": "11" * 32}, "maps"),
            "attention": measured("sdpa", "engine"),
        },
        Layer.FRAMEWORK: {
            "torch": measured("2.5.0", "torch"),
            "torch_threads": measured(2, "torch"),
            "numpy": measured("2.0.0", "numpy"),
        },
        Layer.SYSTEM: {
            "kernel": measured("6.1", "uname"),
            "nvidia_driver": measured("550.54", "NVML"),
            "process_environment": measured({"OMP_NUM_THREADS": "2"}, "environment"),
            "hostname": measured(machine, "uname", Tier.INSTANCE),
            "load_1min": measured(0.1, "loadavg", Tier.STATE),
        },
        Layer.ACCELERATOR: {
            "cpu_model": measured("Neoverse-N1", "cpuinfo"),
            "gpu_power_limit_enforced_w": measured([700], "NVML"),
        },
        Layer.PROCUREMENT: {"price": Field(value="1 USD", source="site", tier=Tier.STATE)},
    }
    for name, value in changes.items():
        layer, _, field = name.partition(".")
        held = layers.setdefault(Layer(layer), {})
        if value is None:
            held.pop(field)
        else:
            tier = held[field].tier if field in held else Tier.CONFIGURATION
            held[field] = measured(value, "changed", tier)  # type: ignore[arg-type]
    return Executor(layers=layers)


def make_percentile(percentile: float, ms: float, *, resolved: bool = True) -> Percentile:
    """A percentile with 1 % bounds."""
    return Percentile(percentile=percentile, low=ms * 0.99, estimate=ms, high=ms * 1.01, resolved=resolved)


def make_accuracy(loss: float | None = 0.0, *, reference: bool = True, **metrics: float) -> Accuracy:
    """An accuracy record."""
    verdict = "reference" if reference else "not measured" if loss is None else "go"
    return Accuracy(
        reference=Precision.FP32,
        is_reference=reference,
        metrics=dict(metrics),
        inputs="text",
        loss=None if reference else loss,
        verdict=verdict,  # type: ignore[arg-type]
    )


def make_load(
    *,
    offered: float = 10.0,
    source: str = "usage",
    output_mean: float = 32.0,
    cache: CacheState = CacheState.AVOIDED,
    cached: float | None = 0.0,
    instrument: str = "good",
    cautions: tuple[str, ...] = (),
    failed: int = 0,
) -> LoadFigures:
    """What a served run says about its load."""
    return LoadFigures(
        load="poisson",
        budget=(),
        accounting=Accounting(
            offered=100,
            sent=100,
            ok=100 - failed,
            failed={"timeout_idle": failed} if failed else {},
            retries=0,
            said={},
        ),
        offered_per_s=Figure(low=offered, estimate=offered, high=offered, unit="requests/s"),
        tokens=TokenCount(
            source=source,  # type: ignore[arg-type]
            input_mean=10.0,
            output_mean=output_mean,
            asked_output_mean=32.0,
            shorter_share=0.0,
            coalesced_share=0.0,
        ),
        cache=CacheRecord(regime=cache, distinct_prompts=None, cached_share=cached, counters={}),
        instrument=InstrumentRecord(
            verdict=instrument,  # type: ignore[arg-type]
            reasons=() if instrument == "good" else ("sent late",),
            cautions=cautions,
            processes=1,
            mean_lateness_ms=0.1,
            p99_lateness_ms=0.2,
            p99_lag_ms=0.1,
            busiest_share=0.1,
            preflight=None,
        ),
    )


def make_attribution(**changes: object) -> Attribution:
    """Launch-bound work in the runtime."""
    body: dict[str, object] = {
        "bottleneck": Category.LAUNCH,
        "bound": Bound.SOFTWARE,
        "layer": Layer.RUNTIME,
        "owner": "ML platform engineering",
        "shares": {Category.LAUNCH: 0.6, Category.COMPUTE: 0.4},
        "gain_if_removed": Interval(1.5, 1.7, 1.9),
        "evidence": (),
        "sentence": "launches take most of it",
        "next_step": "compile it",
        "wall_ms_per_step": 1.0,
        "steps": 5,
    }
    return Attribution(**(body | changes))  # type: ignore[arg-type]


def make_precision(precision: Precision = Precision.FP32, **changes: object) -> PrecisionResult:
    """One measured precision."""
    means = changes.pop("run_means", RUN_MEANS)
    assert isinstance(means, tuple)
    inside = mean_interval(means) if len(means) > 1 else Interval(means[0], means[0], means[0])
    body: dict[str, object] = {
        "precision": precision,
        "throughput": Figure(low=inside.low, estimate=inside.estimate, high=inside.high, unit="sequences/s"),
        "latency_ms": {"latency": (make_percentile(50.0, 10.0), make_percentile(99.0, 12.0))},
        "steady": Steady(
            verdict=SteadyVerdict.STEADY,
            reason="",
            drift=Interval(-0.001, 0.0, 0.001),
            counted_s=60.0,
            counted_iterations=6000,
            executed_s=70.0,
            excluded=(),
            per_process=("steady",) * len(means),
        ),
        "accuracy": make_accuracy(),
        "native": Native.NATIVE,
        "validity": Validity(verdict=ValidityVerdict.VALID),
        "restarts": len(means),
        "run_means": means,
    }
    return PrecisionResult(**(body | changes))  # type: ignore[arg-type]


def make_result(
    *,
    contract: Contract | None = None,
    executor: Executor | None = None,
    per_precision: tuple[PrecisionResult, ...] | None = None,
    run_means: tuple[float, ...] = RUN_MEANS,
    started_at: str = "2026-01-01T00:00:00+00:00",
    threads: int = 2,
    clients: int | None = None,
    version: str = "0.1.0",
    drift: tuple[FieldChange, ...] = (),
    validity: Validity | None = None,
    attribution: Attribution | None = None,
    ceilings: tuple[Ceiling, ...] = (),
) -> Result:
    """A sealed result."""
    agreed, stack = contract or make_contract(), executor or make_executor()
    return Result(
        lynxbench_version=version,
        run_id="run",
        started_at=started_at,
        finished_at=started_at,
        measuring_s=300.0,
        contract_id=agreed.contract_id,
        executor_id=stack.executor_id,
        instance_id=stack.instance_id,
        contract=agreed,
        executor=stack,
        executor_drift=drift,
        conditions=Conditions(
            task="embed",
            model="small",
            batch=1,
            load="closed loop",
            input_tokens="64",
            output_tokens=None,
            regime="throughput",
            engine=agreed.engine.name,
            graph="eager",
            threads=threads,
            division="none",
            restarts_planned=5,
            clients=clients,
        ),
        per_precision=per_precision or (make_precision(run_means=run_means),),
        attribution=attribution,
        validity=validity or Validity(verdict=ValidityVerdict.VALID),
        ceilings=ceilings,
        assumptions=(),
        samples=SamplesFile(file="samples.npz", sha256="00" * 32, rows=1, marks=0),
    ).sealed()


def make_slo(verdict: str) -> SloOutcome:
    """A judged bound."""
    return SloOutcome(
        metric="latency",
        percentile=99.0,
        at_most_ms=11.0,
        measured=make_percentile(99.0, 12.0),
        verdict=verdict,  # type: ignore[arg-type]
    )
