"""Results in the shapes that reports must show: one function a shape."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lynxbench.model.attribution import Bound, CandidateLayer, Category, Ceiling, OperatorTime
from lynxbench.model.executor import FieldChange, Tier, measured
from lynxbench.model.figures import Figure
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.job import ExecutedAs, Skip
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import Accuracy, Governor, Percentile, SamplesFile, Validity, ValidityVerdict
from lynxbench.model.samples import Marks, Telemetry
from lynxbench.model.verdicts import SteadyVerdict
from report_samples import processes, telemetry
from reported import (
    Case,
    attribution,
    base_result,
    conditions,
    contract,
    figure,
    percentiles,
    steady,
)
from served_figures import load_figures, starved


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
            "candidates": (CandidateLayer(layer=Layer.SYSTEM, owner=HOSTILE[0], reason=HOSTILE[1]),),
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
            "load": load_figures(),
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
    void_one = one.model_copy(update={**emptied, "load": starved(one.load), "validity": why})
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
