"""The instrument measured just before a run, at the run's own load: quick, and recorded with the result."""

from __future__ import annotations

import math

from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.reading import Language
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
from lynxbench.model.load_figures import PreFlight

CEILING_S = 0.5
STAMPS_S = 0.5
OPEN_S = 0.5
MOST_STREAMS = 512
HIGHEST_RATE_PER_S = 2000.0
NEAR_CEILING = 0.5
"""A run that asks for more than half of what the client can do at all is said to be near its limit."""


def fly(language: Language, build: BuildRequest, load: ClosedLoop | OpenLoop, duration_s: float) -> PreFlight:
    """Ceiling, stamp error and lateness against the bundled server in about three seconds."""
    rate_per_s = len(load.offsets_ns) / duration_s if isinstance(load, OpenLoop) else math.nan
    streams = load.concurrency if isinstance(load, ClosedLoop) else min(64, max(1, round(rate_per_s)))
    streams = min(streams, MOST_STREAMS)
    with two_cores() as core:
        ceiling = measure_ceiling(language, build, 1, CEILING_S, core)
        error = measure_stamp_error(language, build, streams, STAMPS_S, core)
        open_loop = None
        if math.isfinite(rate_per_s):
            asked = min(max(rate_per_s, 20.0), HIGHEST_RATE_PER_S)
            open_loop = measure_open_loop(language, build, OPEN_S, core, asked)
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
        requests_per_s=ceiling.requests_per_s,
        events_per_s=ceiling.events_per_s,
        ttft_error_mean_ms=_known(error.ttft_mean_ms),
        ttft_error_p99_ms=_known(error.ttft_p99_ms),
        itl_error=_known(error.itl_mean_relative),
        lateness_mean_ms=None if open_loop is None else _known(open_loop.lateness_mean_ms),
        problems=tuple(problems),
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
