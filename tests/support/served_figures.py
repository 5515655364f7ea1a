"""Load figures as a served run would produce them; report_cases makes results of them."""

from __future__ import annotations

from lynxbench.model.figures import Figure
from lynxbench.model.load_figures import (
    Accounting,
    CacheRecord,
    CurvePoint,
    InstrumentRecord,
    LoadFigures,
    PreFlight,
    RecordFile,
    SaturationRecord,
    TokenCount,
)
from lynxbench.model.serving import CacheState


def per_s(estimate: float, half: float) -> Figure:
    """Requests a second."""
    return Figure(low=estimate - half, estimate=estimate, high=estimate + half, unit="requests/s")


def saturation() -> SaturationRecord:
    """A pair within 5 %, and the curve that led to it."""
    points = [
        (20.0, 0.11, 0.24, "pass"),
        (32.0, 0.13, 0.31, "pass"),
        (41.0, 0.16, 0.46, "pass"),
        (43.0, 0.4, 2.1, "fail"),
    ]
    return SaturationRecord(
        passed_per_s=41.0,
        failed_per_s=43.0,
        failed_outcome="fail",
        confirmed=True,
        goodput_per_s=40.7,
        knee_per_s=32.0,
        ceiling_per_s=52.0,
        probe_s=412.0,
        note="",
        saturated="one thread of the server, busy 97% of the time (1.4 of 8 cores in all)",
        curve=tuple(
            CurvePoint(
                rate_per_s=rate,
                outcome=outcome,  # type: ignore[arg-type]
                why="time-to-first-token: at most 0.80% late",
                scout=False,
                requests=3200,
                seconds=80.0,
                p50_s=p50,
                p99_s=p99,
                goodput_per_s=rate * 0.99,
            )
            for rate, p50, p99, outcome in points
        ),
    )


def load_figures() -> LoadFigures:
    """A chat server at its saturation, with a few failures."""
    return LoadFigures(
        load="open loop, poisson 41 /s, the largest rate that held the objective",
        budget=("p99 time-to-first-token ≤ 500 ms", "p95 time-per-token ≤ 60 ms"),
        accounting=Accounting(
            offered=12_040,
            sent=12_040,
            ok=12_026,
            failed={"http_error": 9, "timeout_idle": 5},
            retries=3,
            said={"503: the queue is full": 9},
        ),
        offered_per_s=per_s(41.0, 0.4),
        requests_per_s=per_s(40.9, 0.4),
        goodput_per_s=per_s(40.5, 0.5),
        in_flight_mean=88.4,
        tokens=TokenCount(
            source="usage",
            input_mean=212.4,
            output_mean=118.0,
            asked_output_mean=118.0,
            shorter_share=0.0,
            coalesced_share=0.004,
        ),
        cache=CacheRecord(
            regime=CacheState.AVOIDED,
            distinct_prompts=None,
            cached_share=0.03,
            counters={"vllm:prefix_cache_hits_total": 76_000.0},
        ),
        instrument=InstrumentRecord(
            verdict="good",
            reasons=(),
            cautions=("3 requests met a connection that the server had closed, and were sent again",),
            processes=2,
            mean_lateness_ms=0.041,
            p99_lateness_ms=0.31,
            p99_lag_ms=0.52,
            busiest_share=0.23,
            preflight=PreFlight(
                streams=64,
                requests_per_s=31_400.0,
                events_per_s=168_000.0,
                ttft_error_mean_ms=0.09,
                ttft_error_p99_ms=0.4,
                itl_error=0.001,
                lateness_mean_ms=0.03,
                problems=(),
            ),
        ),
        saturation=saturation(),
        server_counters={"vllm:request_queue_time_seconds_sum": 12.4, "vllm:request_decode_time_seconds_sum": 8410.2},
        records=(RecordFile(file="attempts/000-01/record.npz", sha256="ab" * 32, rows=12_040),),
    )


def starved(figures: LoadFigures) -> LoadFigures:
    """The same with a client that was the limit."""
    reasons = ("the client needed 100% of a core (bound 90%): it was the limit, or near it",)
    void = figures.instrument.model_copy(update={"verdict": "void", "reasons": reasons})
    return figures.model_copy(update={"instrument": void}).without_figures()
