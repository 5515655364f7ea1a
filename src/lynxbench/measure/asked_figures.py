"""Figures of what production asks: by model, and by session of several calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.measure.served_load import request_latency_ms
from lynxbench.model.asked_work import ModelShare
from lynxbench.model.contract import SloMetric
from lynxbench.model.load_figures import ModelFigures, SessionFigures
from lynxbench.model.requests import Mask, Requests
from lynxbench.model.samples import Float64, Int64


@dataclass(frozen=True, slots=True)
class NumberedRequests:
    """The requests of one run with the number of their arrival and their place in a session."""

    requests: Requests
    number: Int64
    turn: Int64
    counted: tuple[int, int]
    """From and until when requests count, on their clock."""

    @property
    def due(self) -> Mask:
        """Rows that were due while counting."""
        begin_ns, end_ns = self.counted
        return np.asarray((self.requests.scheduled_ns >= begin_ns) & (self.requests.scheduled_ns <= end_ns))


def figures_by_model(
    runs: Sequence[NumberedRequests], models: Sequence[ModelShare], assigned: Sequence[int]
) -> tuple[ModelFigures, ...]:
    """What each model did, over the requests that were due while counting."""
    if not models or not assigned:
        return ()
    model_of = np.asarray(assigned)
    figures = []
    for place, model in enumerate(models):
        rows = [run.due & (model_of[run.number % len(model_of)] == place) for run in runs]
        seconds = sum((run.counted[1] - run.counted[0]) / 1e9 for run in runs)
        tokens = [run.requests.output_tokens[mask & run.requests.ok] for run, mask in zip(runs, rows, strict=True)]
        known = all((part >= 0).all() for part in tokens)
        figures.append(
            ModelFigures(
                name=model.name,
                share=model.share,
                offered=sum(int(mask.sum()) for mask in rows),
                ok=sum(int((mask & run.requests.ok).sum()) for run, mask in zip(runs, rows, strict=True)),
                cancelled=sum(int((mask & run.requests.cancelled).sum()) for run, mask in zip(runs, rows, strict=True)),
                output_tokens_per_s=float(sum(part.sum() for part in tokens)) / seconds
                if known and seconds > 0
                else None,
                first_token_ms=_percentiles(_latencies(runs, rows, SloMetric.TIME_TO_FIRST_TOKEN)),
                latency_ms=_percentiles(_latencies(runs, rows, SloMetric.LATENCY)),
            )
        )
    return tuple(figures)


def session_figures(runs: Sequence[NumberedRequests], calls_of: Sequence[int]) -> SessionFigures | None:
    """How sessions fared that began while counting; one that the end of the load cut short is not whole."""
    if not calls_of:
        return None
    offered = whole = calls = 0
    durations: list[float] = []
    waiting: list[float] = []
    for run in runs:
        begin_ns, end_ns = run.counted
        order = np.lexsort((run.requests.scheduled_ns, run.number))
        starts = np.flatnonzero(np.diff(run.number[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if len(order) else ():
            due = run.requests.scheduled_ns[rows]
            if not begin_ns <= due[0] <= end_ns:
                continue
            offered += 1
            calls += len(rows)
            if not run.requests.ok[rows].all() or len(rows) < calls_of[int(run.number[rows[0]]) % len(calls_of)]:
                continue
            whole += 1
            ended = run.requests.last_ns[rows]
            durations.append(float(ended.max() - due[0]) / 1e6)
            waiting.append(_covered_ns(due, ended) / 1e6)
    return SessionFigures(
        offered=offered,
        whole=whole,
        calls=calls,
        duration_ms=_percentiles(np.array(durations)),
        waiting_ms=_percentiles(np.array(waiting)),
    )


def _covered_ns(begin_ns: Int64, end_ns: Int64) -> float:
    """Time in which at least one call was open; calls come by their beginning."""
    reached = np.maximum.accumulate(end_ns)
    before = np.concatenate(([begin_ns[0]], reached[:-1]))
    return float(np.maximum(reached - np.maximum(begin_ns, before), 0).sum())


def _latencies(runs: Sequence[NumberedRequests], rows: Sequence[Mask], metric: SloMetric) -> Float64:
    parts = [request_latency_ms(run.requests, metric)[mask] for run, mask in zip(runs, rows, strict=True)]
    values = np.concatenate(parts) if parts else np.zeros(0)
    return values[np.isfinite(values)]


def _percentiles(values: Float64) -> tuple[float | None, float | None]:
    if not len(values):
        return None, None
    return float(np.percentile(values, 50)), float(np.percentile(values, 99))
