"""One number a process: the response that an experiment or a tuner compares."""

from __future__ import annotations

import math

import numpy as np

from lynxbench.model.result import PrecisionResult
from lynxbench.model.samples import CountedProcess, Phase

THROUGHPUT = "throughput"


def process_response(process: CountedProcess, response: str) -> float:
    """The response over the counted part of one process; NaN where it has none.

    `throughput` in units a second; `latency-p50`, `time-to-first-token-p95`, `time-per-token-p50` … in milliseconds.
    """
    iterations = process.samples.iterations
    steady = process.phase == Phase.STEADY
    counted = steady if steady.any() else process.phase >= Phase.TRANSIENT
    if response == THROUGHPUT:
        seconds = float(iterations.seconds[counted].sum())
        return float(iterations.units[counted].sum()) / seconds if seconds > 0 else math.nan
    metric, _, percentile = response.rpartition("-p")
    if metric == "latency":
        values = iterations.seconds[counted] * 1e3
    else:
        marks = process.samples.marks
        rows = marks.iteration
        if not len(rows):
            return math.nan
        first, kept = np.r_[True, rows[1:] != rows[:-1]], counted[rows]
        if metric == "time-to-first-token":
            values = (marks.at_ns - iterations.start_ns[rows])[first & kept] / 1e6
        else:
            values = np.diff(marks.at_ns, prepend=0)[~first & kept] / 1e6
    return float(np.percentile(values, float(percentile))) if len(values) else math.nan


def result_response(result: PrecisionResult, response: str) -> float:
    """The same response from a concluded result, where the samples are those of requests to a server."""
    if response == THROUGHPUT:
        figure = result.throughput
        return math.nan if figure is None or figure.estimate is None else figure.estimate
    metric, _, percentile = response.rpartition("-p")
    for one in result.latency_ms.get(metric, ()):
        if one.percentile == float(percentile):
            return math.nan if one.estimate is None else one.estimate
    return math.nan


def response_unit(response: str, throughput_unit: str) -> str:
    """The unit of a response."""
    return throughput_unit if response == THROUGHPUT else "ms"
