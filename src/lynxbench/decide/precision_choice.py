"""Precision as a decision: speed never without accuracy, native or emulated named, the KV cache apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from lynxbench.decide.usable_figures import is_usable
from lynxbench.errors import BadInput
from lynxbench.model.contract import Contract
from lynxbench.model.decisions import KvCacheLine, PrecisionDecision, PrecisionLine
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision, reference_of
from lynxbench.model.result import Percentile, PrecisionResult, Result
from lynxbench.model.workload import LANGUAGE_TASKS

KV_FIELDS = ("kv_cache_dtype", "kv_cache_precision", "cache_dtype")
Verdict = Literal["go", "no-go", "not measured"]
METRICS = ("time-per-token", "time-to-first-token", "latency")


def decide_precisions(results: Sequence[Result]) -> PrecisionDecision:
    """Every precision of the newest result; accuracy intervals are the spread over results of the same contract."""
    if not results:
        raise BadInput("no result is given; name at least one")
    result = results[-1]
    measured = [one for one in result.per_precision if is_usable(result, one)]
    reference = next((o for o in measured if o.precision is reference_of(tuple(m.precision for m in measured))), None)
    lines = tuple(_line(one, result, reference, results) for one in result.per_precision)
    return PrecisionDecision(
        sentence=_sentence(lines),
        contract_id=result.contract_id,
        contract_name=result.contract.name,
        policy=policy_words(result.contract),
        lines=lines,
        kv_cache=_kv_cache(result),
        cautions=_cautions(lines, result),
        cites=tuple(dict.fromkeys(one.result_id for one in results)),
    )


def policy_words(contract: Contract) -> str:
    """What the contract demands of a lower precision."""
    policy = contract.policy.accuracy
    if policy is None:
        return "the contract has no accuracy policy: nothing can be a go (add policy.accuracy)"
    return f"loss in {policy.metric} at most {policy.largest_loss:.2%} against the highest precision measured"


def _line(
    one: PrecisionResult, result: Result, reference: PrecisionResult | None, results: Sequence[Result]
) -> PrecisionLine:
    verdict, why = _verdict(one, result)
    usable = is_usable(result, one)
    metric, tail = _tail(one) if usable else ("", None)
    loss, how = _loss(one.precision, results)
    executed = one.executed
    return PrecisionLine(
        precision=one.precision,
        verdict=verdict,
        why=why,
        is_reference=reference is not None and one.precision is reference.precision,
        throughput=(one.sustained or one.throughput) if usable else None,
        speedup=_speedup(one, reference) if usable else None,
        latency=tail,
        latency_metric=metric,
        memory_bytes=one.device_memory_bytes or one.memory_bytes,
        energy=one.energy_j_per_unit if usable else None,
        energy_per_request=one.energy_j_per_request if usable else None,
        accuracy={} if one.accuracy is None else dict(one.accuracy.metrics),
        loss=loss,
        loss_how=how,
        native=one.native,
        executed="" if executed is None else executed.how,
        toolchain="not stated" if executed is None or not executed.toolchain else executed.toolchain,
    )


def _verdict(one: PrecisionResult, result: Result) -> tuple[Verdict, str]:
    if one.skipped is not None:
        return "not measured", one.skipped.reason
    if not is_usable(result, one):
        return "not measured", "; ".join(one.validity.reasons or result.validity.reasons) or "the run is void"
    if one.accuracy is None:
        return "not measured", "its accuracy was not measured: no speed figure stands alone"
    said = one.accuracy.verdict
    if said == "reference":
        return "go", "it is the reference"
    if said == "no policy":
        return "not measured", "the contract has no accuracy policy"
    if said == "not measured":
        return "not measured", "the accuracy in the policy's metric is missing"
    missed = [slo for slo in one.slo if slo.verdict == "missed"]
    if said == "go" and missed:
        return "no-go", f"accurate enough, and misses p{missed[0].percentile:g} {missed[0].metric}"
    loss = "" if one.accuracy.loss is None else f"loss {one.accuracy.loss:.2%}"
    slower = ", but emulated: it may be slower than a native one" if one.native is Native.EMULATED else ""
    return said, f"{loss or 'by the policy'}{slower}"


def _speedup(one: PrecisionResult, reference: PrecisionResult | None) -> Interval | None:
    if reference is None:
        return None
    top, bottom = (p.sustained or p.throughput for p in (one, reference))
    if top is None or bottom is None or not top.estimate or not bottom.estimate:
        return None
    if one.precision is reference.precision:
        return Interval(1.0, 1.0, 1.0)
    ratio = top.estimate / bottom.estimate
    if not (top.low and top.high and bottom.low and bottom.high and min(top.low, bottom.low) > 0):
        return Interval(math.nan, ratio, math.nan)
    return Interval(top.low / bottom.high, ratio, top.high / bottom.low)


def _loss(precision: Precision, results: Sequence[Result]) -> tuple[Interval | None, str]:
    """Accuracy on fixed inputs repeats exactly; its spread shows only over several results."""
    losses = [
        one.accuracy.loss
        for result in results
        for one in result.per_precision
        if one.precision is precision and one.accuracy is not None and one.accuracy.loss is not None
    ]
    if not losses:
        return None, "not measured"
    latest = losses[-1]
    if len(losses) < 2:
        return Interval(UNKNOWN_INTERVAL.low, latest, UNKNOWN_INTERVAL.high), "one result: no spread known"
    return Interval(min(losses), latest, max(losses)), f"lowest and highest of {len(losses)} results"


def _tail(one: PrecisionResult) -> tuple[str, Percentile | None]:
    for metric in METRICS:
        for percentile in one.latency_ms.get(metric, ()):
            if percentile.percentile == 99:
                return metric, percentile
    return "", None


def _kv_cache(result: Result) -> KvCacheLine:
    if result.contract.workload.task not in LANGUAGE_TASKS:
        return KvCacheLine(state="not used", says=f"task {result.contract.workload.task} keeps no KV cache")
    for layer in (Layer.RUNTIME, Layer.SERVING):
        for name in KV_FIELDS:
            value = result.executor.get(layer, name)
            if value is not None:
                return KvCacheLine(
                    state="stated",
                    says=f"{layer}.{name} = {value}; its accuracy is part of the figures above",
                )
    form = result.executor.get(Layer.RUNTIME, "kv_cache")
    says = f"form {form}; " if form else ""
    return KvCacheLine(
        state="not measured",
        says=f"{says}the precision of the cache is not in the record; a cache below the weights' precision is its own "
        "decision",
        command="declare it (declared: {runtime: {kv_cache_dtype: fp8}} in a site file) and measure both: "
        f"lynxbench run {result.contract.name}",
    )


def _sentence(lines: Sequence[PrecisionLine]) -> str:
    lower = [line for line in lines if not line.is_reference]
    go = [line for line in lower if line.verdict == "go" and line.speedup is not None]
    if go:
        best = max(go, key=lambda line: line.speedup.estimate if line.speedup else 0.0)
        assert best.speedup is not None
        faster = best.speedup.low > 1
        word = f"{best.speedup.estimate:.2f}× the reference" if faster else "no faster than the reference"
        return f"go: {best.precision} keeps the policy at {word}"
    verdicts = ", ".join(f"{line.precision} {line.verdict}" for line in lower)
    return (
        f"stay with the reference: {verdicts}" if verdicts else "one precision was measured: there is nothing to choose"
    )


def _cautions(lines: Sequence[PrecisionLine], result: Result) -> tuple[str, ...]:
    said = [
        f"{line.precision} is {line.native}: its speed is not that of hardware that has it"
        for line in lines
        if line.native in (Native.EMULATED, Native.UNKNOWN) and line.throughput is not None
    ]
    said += [f"{line.precision}: the tool chain that made it is not stated" for line in lines
             if line.toolchain == "not stated" and line.verdict == "go" and not line.is_reference]  # fmt: skip
    if result.validity.verdict != "valid":
        said += list(result.validity.reasons)
    return tuple(said)
