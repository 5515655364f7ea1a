"""The instrument measured just before a run, at the run's own load: quick, and recorded with the result."""

from __future__ import annotations

import math

from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.response_reading import Language
from lynxbench.load.selfcheck import (
    LARGEST_ITL_ERROR,
    LARGEST_TTFT_ERROR_MS,
    LARGEST_TTFT_P99_ERROR_MS,
    BuildRequest,
    measure_ceiling,
    measure_open_loop,
    measure_stamp_error,
    two_cores,
)
from lynxbench.load.truth_process import running_server
from lynxbench.model.load_figures import PreFlight

CEILING_S, STAMPS_S, OPEN_S = 0.3, 0.5, 0.3
STAMP_TOKENS = 8
MOST_STREAMS = 512
LOWEST_RATE_PER_S, HIGHEST_RATE_PER_S = 50.0, 2000.0
"""Rates at which a third of a second says something about lateness."""
NEAR_CEILING = 0.5
"""A run that asks for more than half of what the client can do at all is said to be near its limit."""


def fly(language: Language, build: BuildRequest, load: ClosedLoop | OpenLoop, duration_s: float) -> PreFlight:
    """Ceiling, stamp error and lateness against the bundled server in about two seconds."""
    rate_per_s = len(load.offsets_ns) / duration_s if isinstance(load, OpenLoop) else math.nan
    streams = load.concurrency if isinstance(load, ClosedLoop) else min(64, max(1, round(rate_per_s)))
    streams = min(streams, MOST_STREAMS)
    with two_cores() as core:
        open_loop = None
        with running_server(Behaviour(), core) as server:
            ceiling = measure_ceiling(server.url, language, build, 1, CEILING_S)
            if math.isfinite(rate_per_s):
                asked = min(max(rate_per_s, LOWEST_RATE_PER_S), HIGHEST_RATE_PER_S)
                open_loop = measure_open_loop(server.url, language, build, OPEN_S, asked)
        error = measure_stamp_error(language, build, streams, STAMPS_S, core, STAMP_TOKENS)
    problems = []
    if abs(error.ttft_mean_ms) > LARGEST_TTFT_ERROR_MS:
        problems.append(f"time to first token is {error.ttft_mean_ms:+.2f} ms off at {streams} streams")
    if abs(error.ttft_p99_ms) > LARGEST_TTFT_P99_ERROR_MS:
        problems.append(f"its 99th percentile is {error.ttft_p99_ms:+.2f} ms off at {streams} streams")
    if abs(error.itl_mean_relative) > LARGEST_ITL_ERROR:
        problems.append(f"inter-token time is {error.itl_mean_relative:+.1%} off at {streams} streams")
    if math.isfinite(rate_per_s) and rate_per_s > NEAR_CEILING * ceiling.requests_per_s:
        problems.append(
            f"{rate_per_s:.0f} requests/s are asked of a client that can send {ceiling.requests_per_s:.0f} at most"
        )
    return PreFlight(
        streams=streams,
        requests_per_s=_known(ceiling.requests_per_s) or 0.0,
        events_per_s=_known(ceiling.events_per_s) or 0.0,
        ttft_error_mean_ms=_known(error.ttft_mean_ms),
        ttft_error_p99_ms=_known(error.ttft_p99_ms),
        itl_error=_known(error.itl_mean_relative),
        lateness_mean_ms=None if open_loop is None else _known(open_loop.lateness_mean_ms),
        problems=tuple(problems),
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
