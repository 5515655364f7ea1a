"""Precision as a decision: speed never without accuracy, native or emulated named, the KV cache apart."""

import math
from collections.abc import Sequence
from typing import Literal

from lynxbench.decide.usable_figures import is_usable
from lynxbench.errors import BadInput, Refused
from lynxbench.model.contract import AccuracyMetric, Contract
from lynxbench.model.decisions import KvCacheLine, PrecisionDecision, PrecisionLine
from lynxbench.model.evidence_gate import figures_fall_short
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision, reference_of
from lynxbench.model.result import Percentile, PrecisionResult, Result
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.workload import LANGUAGE_TASKS, PresetModel

KV_FIELDS = ("kv_cache_dtype", "kv_cache_precision", "cache_dtype")
Verdict = Literal["go", "no-go", "undetermined", "not measured"]
RANDOM_WEIGHTS = "of random weights, so what trained ones lose is not shown by it"
NO_FASTER = 0.02
"""A speed-up that lies whole below this is none to speak of."""
PAIRED = {AccuracyMetric.PERPLEXITY: ("perplexity-change", 1), AccuracyMetric.TASK: ("task-change", -1)}
"""Metrics with an interval over paired inputs: its name, and the sign that makes a change a loss."""
METRICS = ("time-per-token", "time-to-first-token", "latency")


def decide_precisions(results: Sequence[Result]) -> PrecisionDecision:
    """Every precision of the newest result; accuracy intervals are the spread over results of the same contract."""
    if not results:
        raise BadInput("no result is given; name at least one")
    result = results[-1]
    measured = [figures for figures in result.per_precision if is_usable(result, figures)]
    reference = next((o for o in measured if o.precision is reference_of(tuple(m.precision for m in measured))), None)
    lines = tuple(_line(figures, result, reference, results) for figures in result.per_precision)
    return PrecisionDecision(
        sentence=_sentence(lines) + _about(result),
        contract_id=result.contract_id,
        contract_name=result.contract.name,
        policy=policy_words(result.contract),
        lines=lines,
        kv_cache=_kv_cache(result),
        cautions=_cautions(lines, result),
        cites=tuple(dict.fromkeys(cited.result_id for cited in results)),
    )


def decide_formats(results: Sequence[Result]) -> PrecisionDecision:
    """Servers of several formats, a result each: those whose answers were held against one of them, and that one."""
    by_id = {result.result_id: result for result in results}
    held = [result for result in results if _against(result) in by_id]
    names = {_against(result) for result in held}
    if len(names) != 1 or len(held) + 1 != len(results):
        raise Refused(
            "results of several contracts answer different questions; where they are formats of a server, run each but "
            "the reference with --reference, or choose one contract with --for"
        )
    reference = by_id[str(names.pop())]
    for result in held:
        if _asked(result) != _asked(reference):
            raise Refused(f"{result.contract.name} and {reference.contract.name} were asked another load: no choice")
    figures = reference.per_precision[0]
    lines = tuple(
        _line(result.per_precision[0], result, figures if is_usable(reference, figures) else None, [result]).model_copy(
            update={"label": _format_words(result), "is_reference": result is reference}
        )
        for result in (reference, *held)
    )
    return PrecisionDecision(
        sentence=_sentence(lines),
        contract_id=reference.contract_id,
        contract_name=reference.contract.name,
        policy=policy_words(held[-1].contract),
        lines=lines,
        kv_cache=_kv_cache(held[-1]),
        cautions=tuple(dict.fromkeys(caution for result in results for caution in _cautions(lines, result))),
        cites=tuple(result.result_id for result in results),
    )


def _against(result: Result) -> str | None:
    accuracy = result.per_precision[0].accuracy
    return None if accuracy is None else accuracy.against


def _asked(result: Result) -> object:
    """What was asked of a server, whatever it is called and stores."""
    workload = result.contract.workload.model_dump(mode="json", exclude={"precisions", "model"})
    return workload, result.contract.protocol, result.contract.objective


def _format_words(result: Result) -> str:
    engine, precision = result.contract.engine, result.contract.workload.precisions[0].value
    cache = engine.kv_cache if isinstance(engine, OpenAiEngine) else None
    return precision if cache is None else f"{precision} with {cache.value} cache"


def policy_words(contract: Contract) -> str:
    """What the contract demands of a lower precision."""
    policy = contract.policy.accuracy
    if policy is None:
        return "the contract has no accuracy policy: nothing can be a go (add policy.accuracy)"
    return f"loss in {policy.metric} at most {policy.largest_loss:.2%} against the highest precision measured"


def _line(
    figures: PrecisionResult, result: Result, reference: PrecisionResult | None, results: Sequence[Result]
) -> PrecisionLine:
    usable = is_usable(result, figures)
    metric, tail = _tail(figures) if usable else ("", None)
    loss, how = _loss(figures.precision, results)
    verdict, why = _carried(_verdict(figures, result, loss), figures, reference, result)
    executed = figures.executed
    return PrecisionLine(
        precision=figures.precision,
        verdict=verdict,
        why=why,
        is_reference=reference is not None and figures.precision is reference.precision,
        throughput=(figures.sustained or figures.throughput) if usable else None,
        speedup=_speedup(figures, reference) if usable else None,
        latency=tail,
        latency_metric=metric,
        memory_bytes=figures.device_memory_bytes or figures.memory_bytes,
        energy=figures.energy_j_per_unit if usable else None,
        energy_per_request=figures.energy_j_per_request if usable else None,
        accuracy={} if figures.accuracy is None else dict(figures.accuracy.metrics),
        loss=loss,
        loss_how=how,
        native=figures.native,
        executed="" if executed is None else executed.how,
        toolchain="not stated" if executed is None or not executed.toolchain else executed.toolchain,
    )


def _carried(
    judged: tuple[Verdict, str], figures: PrecisionResult, reference: PrecisionResult | None, result: Result
) -> tuple[Verdict, str]:
    """A go or a no-go rests on its own figures and on the reference's; where these cannot carry it, it is open."""
    verdict, why = judged
    if verdict not in ("go", "no-go"):
        return judged
    beside = () if reference is None or reference is figures else figures_fall_short(result, reference)
    short_of = (*figures_fall_short(result, figures), *beside)
    return ("undetermined", f"{short_of[0].line}; otherwise {verdict}: {why}") if short_of else judged


def _verdict(figures: PrecisionResult, result: Result, spread: Interval | None) -> tuple[Verdict, str]:
    if figures.skipped is not None:
        return "not measured", figures.skipped.reason
    if not is_usable(result, figures):
        return "not measured", "; ".join(figures.validity.reasons or result.validity.reasons) or "the run is void"
    if figures.accuracy is None:
        return "not measured", "its accuracy was not measured: no speed figure stands alone"
    verdict = figures.accuracy.verdict
    if verdict == "reference":
        return "go", "it is the reference"
    if verdict == "no policy":
        return "not measured", "the contract has no accuracy policy"
    if verdict == "not measured":
        return "not measured", "the accuracy in the policy's metric is missing"
    if verdict == "undetermined":
        return "undetermined", figures.accuracy.notes[-1]
    missed = [slo for slo in figures.slo if slo.verdict == "missed"]
    if missed:
        enough = "accurate enough, and " if verdict == "go" else ""
        return "no-go", f"{enough}misses p{missed[0].percentile:g} {missed[0].metric}"
    unresolved = [slo for slo in figures.slo if slo.verdict == "unresolved"]
    if verdict == "go" and unresolved:
        bound = f"p{unresolved[0].percentile:g} {unresolved[0].metric}"
        return "undetermined", f"accurate enough, and whether it keeps {bound} is unresolved: run it longer"
    policy = result.contract.policy.accuracy
    if policy is not None and spread is not None and spread.low <= policy.largest_loss < spread.high:
        words = f"losses from {spread.low:.2%} to {spread.high:.2%} lie on both sides of {policy.largest_loss:.2%}"
        return "undetermined", f"{words}: more inputs, or more results, would tell"
    loss = "" if figures.accuracy.loss is None else f"loss {figures.accuracy.loss:.2%}"
    return verdict, loss or "by the policy"


def _speedup(figures: PrecisionResult, reference: PrecisionResult | None) -> Interval | None:
    if reference is None:
        return None
    top, bottom = (p.sustained or p.throughput for p in (figures, reference))
    if top is None or bottom is None or not top.estimate or not bottom.estimate:
        return None
    if figures is reference:
        return Interval(1.0, 1.0, 1.0)
    ratio = top.estimate / bottom.estimate
    if not (top.low and top.high and bottom.low and bottom.high and min(top.low, bottom.low) > 0):
        return Interval(math.nan, ratio, math.nan)
    return Interval(top.low / bottom.high, ratio, top.high / bottom.low)


def _loss(precision: Precision, results: Sequence[Result]) -> tuple[Interval | None, str]:
    """The spread over results, and over inputs where the metric has an interval of its own; the widest of both."""
    losses = [
        loss
        for result in results
        for figures in result.per_precision
        if figures.precision is precision and (loss := loss_of(figures, result.contract)) is not None
    ]
    if not losses:
        return None, "not measured"
    ends = [loss for loss in losses if loss.known]
    if len(losses) < 2 and not ends:
        return losses[-1], "one result: no spread known"
    how = [f"lowest and highest of {len(losses)} results"] if len(losses) > 1 else []
    how += ["95 % interval over the inputs"] if ends else []
    low = min([*(loss.estimate for loss in losses), *(loss.low for loss in ends)])
    high = max([*(loss.estimate for loss in losses), *(loss.high for loss in ends)])
    return Interval(low, losses[-1].estimate, high), ", ".join(how)


def loss_of(figures: PrecisionResult, contract: Contract) -> Interval | None:
    """The loss in the policy's metric, with its interval over the inputs where the metric has one."""
    policy, accuracy = contract.policy.accuracy, figures.accuracy
    if accuracy is None or accuracy.loss is None:
        return None
    name, sign = ("", 1) if policy is None else PAIRED.get(policy.metric, ("", 1))
    ends = [accuracy.metrics.get(f"{name}-{end}") for end in ("low", "high")]
    if None in ends:
        return Interval(UNKNOWN_INTERVAL.low, accuracy.loss, UNKNOWN_INTERVAL.high)
    low, high = sorted(sign * float(end) for end in ends if end is not None)
    return Interval(low, accuracy.loss, high)


def _tail(figures: PrecisionResult) -> tuple[str, Percentile | None]:
    for metric in METRICS:
        for percentile in figures.latency_ms.get(metric, ()):
            if percentile.percentile == 99:
                return metric, percentile
    return "", None


def _kv_cache(result: Result) -> KvCacheLine:
    if result.contract.workload.task not in LANGUAGE_TASKS:
        return KvCacheLine(state="not used", says=f"task {result.contract.workload.task} keeps no KV cache")
    engine = result.contract.engine
    if isinstance(engine, OpenAiEngine) and engine.kv_cache is not None:
        return KvCacheLine(
            state="stated", says=f"engine.kv_cache = {engine.kv_cache}; its accuracy is part of the figures above"
        )
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
        low, high = best.speedup.low, best.speedup.high
        word = f"{best.speedup.estimate:.2f}× the reference, faster or slower undetermined"
        if low > 1:
            word = f"{best.speedup.estimate:.2f}× [{low:.2f}, {high:.2f}] the reference"
        elif high < 1 + NO_FASTER:
            word = "no faster than the reference"
        rivals = [line for line in go if line is not best]
        level = [line.name for line in rivals if line.speedup and not line.speedup.high < low]
        beside = f"; level with {', '.join(level)}" if level else ""
        return f"go: {best.name} keeps the policy at {word}{beside}"
    verdicts = ", ".join(f"{line.name} {line.verdict}" for line in lower)
    return (
        f"stay with the reference: {verdicts}" if verdicts else "one precision was measured: there is nothing to choose"
    )


def _about(result: Result) -> str:
    """Which weights it speaks of, where nobody uses them: a shape's random ones lose what trained ones need not."""
    random = isinstance(result.contract.workload.model, PresetModel) and len(result.contract.workload.precisions) > 1
    return f"; {RANDOM_WEIGHTS}" if random else ""


def _cautions(lines: Sequence[PrecisionLine], result: Result) -> tuple[str, ...]:
    cautions = [
        f"{line.precision} is {line.native}: its speed is not that of hardware that has it"
        for line in lines
        if line.native in (Native.EMULATED, Native.UNKNOWN) and line.throughput is not None
    ]
    cautions += [f"{line.precision}: the tool chain that made it is not stated" for line in lines
             if line.toolchain == "not stated" and line.verdict == "go" and not line.is_reference]  # fmt: skip
    if result.validity.verdict != "valid":
        cautions += list(result.validity.reasons)
    return tuple(cautions)
