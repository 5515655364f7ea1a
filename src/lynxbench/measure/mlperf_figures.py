"""The figures of MLPerf's scenarios from a served run's requests, with its early-stopping rule beside ours."""

from collections.abc import Sequence

import numpy as np

from lynxbench.measure.served_load import MeasuredLoad, request_latency_ms
from lynxbench.model.contract import Contract, Slo, SloMetric
from lynxbench.model.mlperf_forms import MULTI_STREAM_SAMPLES, EarlyStopping, MlperfFigures, MlperfForm
from lynxbench.model.requests import Requests
from lynxbench.model.samples import Float64, counted_rows
from lynxbench.stats.early_stopping import early_estimate, further_queries

SHORTEST_S = 600.0
"""MLPerf's least duration of a run."""
FEWEST_OFFLINE = 24_576
"""Samples of an Offline query."""
NEVER = ("MLPerf's own load generator, models, data sets, accuracy targets and review are not part of it",)


def mlperf_figures(contract: Contract, runs: Sequence[Requests], measured: MeasuredLoad) -> MlperfFigures | None:
    """What the contract's form reports; None where it names none."""
    form = contract.objective.mlperf
    if form is None:
        return None
    counted = [
        _counted(requests, process.samples.iterations.start_ns[counted_rows(process.phase)])
        for requests, process in zip(runs, measured.measured.processes, strict=True)
    ]
    steady = measured.measured.steady
    latency = np.concatenate([request_latency_ms(requests, SloMetric.LATENCY)[mask] for requests, mask in counted])
    early: tuple[EarlyStopping, ...] = ()
    metric, value, unit = "", None, "samples/s"
    percentile = form.percentile
    if form in (MlperfForm.SINGLE_STREAM, MlperfForm.MULTI_STREAM):
        assert percentile is not None
        early = (_estimate(latency, percentile),)
        finite = latency[np.isfinite(latency)]
        metric, unit = f"{percentile:g}th percentile latency", "ms"
        value = _loadgen_percentile(finite, percentile) if len(finite) else None
    elif form is MlperfForm.SERVER:
        assert percentile is not None
        early = tuple(_bounded(slo, counted, percentile) for slo in contract.objective.slo)
        metric, value = "scheduled samples per second", measured.offered_per_s.estimate
    else:
        metric, value = "samples per second", measured.requests_per_s.estimate
    if value is not None and form is MlperfForm.OFFLINE:
        value *= contract.workload.batch
    return MlperfFigures(
        form=form,
        metric=metric,
        value=value,
        unit=unit,
        early_stopping=early,
        counted_s=steady.counted_s,
        unlike=tuple(_unlike(form, steady.counted_s, len(latency), contract)),
    )


def _counted(requests: Requests, starts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> tuple[Requests, Float64]:
    """The requests of a run that were due since what counts began."""
    first = int(starts.min()) if len(starts) else 0
    return requests, np.asarray(requests.scheduled_ns >= first)


def _loadgen_percentile(values: Float64, percentile: float) -> float:
    """LoadGen's own: the value at that place of the ordered ones, without interpolation."""
    ordered = np.sort(values)
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * percentile / 100))])


def _estimate(latency: Float64, percentile: float) -> EarlyStopping:
    """Failed queries took for ever; where one is the estimate, there is none."""
    known = latency[~np.isnan(latency)]
    estimate = early_estimate(known.tolist(), percentile)
    finite = estimate.value is not None and np.isfinite(estimate.value)
    return EarlyStopping(
        metric="latency",
        percentile=percentile,
        queries=len(known),
        discarded=estimate.discarded,
        estimate_ms=estimate.value if finite else None,
        needed=max(0, estimate.needed - len(known)),
    )


def _bounded(slo: Slo, counted: Sequence[tuple[Requests, Float64]], percentile: float) -> EarlyStopping:
    values = np.concatenate([request_latency_ms(requests, slo.metric)[mask] for requests, mask in counted])
    known = values[~np.isnan(values)]
    over = int((known > slo.at_most_s * 1e3).sum())
    return EarlyStopping(
        metric=slo.metric.value,
        percentile=percentile,
        queries=len(known),
        over=over,
        at_most_ms=slo.at_most_s * 1e3,
        needed=further_queries(percentile, len(known), over),
    )


def _unlike(form: MlperfForm, counted_s: float, queries: int, contract: Contract) -> list[str]:
    lines = list(NEVER)
    if counted_s < SHORTEST_S:
        lines.append(f"{counted_s:.0f} s were counted, MLPerf asks for {SHORTEST_S:.0f} s")
    if form is MlperfForm.OFFLINE and queries * contract.workload.batch < FEWEST_OFFLINE:
        lines.append(f"{queries * contract.workload.batch} samples, MLPerf asks for {FEWEST_OFFLINE}")
    if form is MlperfForm.OFFLINE:
        lines.append("samples are kept in flight by a closed loop; MLPerf hands all of them over in one query")
    if form is MlperfForm.MULTI_STREAM:
        lines.append(f"a query is one request with {MULTI_STREAM_SAMPLES} inputs")
    return lines
