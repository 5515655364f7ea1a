"""One number a process: the response that an experiment or a tuner compares."""

import math

import numpy as np

from lynxbench.measure.precision_figures import latencies_ms, mean_rate
from lynxbench.model.result import PrecisionResult
from lynxbench.model.samples import CountedProcess

THROUGHPUT = "throughput"


def process_response(process: CountedProcess, response: str) -> float:
    """The response over the counted part of one process; NaN where it has none.

    `throughput` in units a second; `latency-p50`, `time-to-first-token-p95`, `time-per-token-p50` … in milliseconds.
    """
    if response == THROUGHPUT:
        return mean_rate(process.samples, process.counted)
    metric, _, percentile = response.rpartition("-p")
    values = latencies_ms(process.samples, process.counted).get(metric, ())
    return float(np.percentile(values, float(percentile))) if len(values) else math.nan


def result_response(result: PrecisionResult, response: str) -> float:
    """The same response from a concluded result, where the samples are those of requests to a server."""
    if response == THROUGHPUT:
        figure = result.throughput
        return math.nan if figure is None or figure.estimate is None else figure.estimate
    metric, _, percentile = response.rpartition("-p")
    listed = {bounds.percentile: bounds.estimate for bounds in result.latency_ms.get(metric, ())}
    estimate = listed.get(float(percentile))
    return math.nan if estimate is None else estimate


def response_unit(response: str, throughput_unit: str) -> str:
    """The unit of a response."""
    return throughput_unit if response == THROUGHPUT else "ms"
