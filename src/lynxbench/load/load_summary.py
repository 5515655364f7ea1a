"""Records of a served run as the values a result carries: every request's end, the tokens, the cache, the client."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lynxbench.load.instrument import judge
from lynxbench.load.load_record import LoadRecord, RequestEnd
from lynxbench.load.record_parts import judge_each
from lynxbench.model.canonical import finite_or_none
from lynxbench.model.load_figures import (
    Accounting,
    AlikeAnswers,
    CacheRecord,
    ExpectedCache,
    InstrumentRecord,
    PreFlight,
    TokenCount,
)
from lynxbench.model.samples import Int64
from lynxbench.model.serving import CacheState, InstrumentBounds

KEPT_SAYINGS = 20
CACHE_WORDS = ("prefix_cache", "cache_hit", "cached_tokens", "cache_query", "cache_queries", "cache_miss")
HIT_COUNTERS = (
    ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
    ("sglang:cached_tokens_total", "sglang:prompt_tokens_total"),
    ("ground_truth:prefix_cache_hits_total", "ground_truth:prefix_cache_queries_total"),
)
"""Counters of servers, in tokens: what was found, and what was looked up."""


def account(record: LoadRecord) -> Accounting:
    """Offered = ok + cancelled + every kind of failure."""
    counts = record.counts()
    ok, cancelled = counts.pop(RequestEnd.OK.word), counts.pop(RequestEnd.CANCELLED.word)
    return Accounting(
        offered=len(record),
        sent=record.sent,
        ok=ok,
        failed={kind: count for kind, count in counts.items() if count},
        retries=int(record.retries.sum()),
        said=dict(sorted(record.notes.items(), key=lambda item: -item[1])[:KEPT_SAYINGS]),
        cancelled=cancelled,
    )


def describe_instrument(
    records: Sequence[LoadRecord],
    bounds: InstrumentBounds,
    preflight: PreFlight | None,
    processes: int,
    *,
    each: bool = False,
) -> InstrumentRecord:
    """How the clients of all runs fared; the worst decides. `each` holds every client to the bounds by itself."""
    if each:
        judged = [client for record in records for client in judge_each(record, bounds).items()]
        verdicts = [verdict for _, verdict in judged]
        given = [f"client {number}: {reason}" for number, verdict in judged for reason in verdict.reasons]
    else:
        verdicts = [judge(record, bounds) for record in records]
        given = [reason for verdict in verdicts for reason in verdict.reasons]
    cautions = tuple(dict.fromkeys(caution for verdict in verdicts for caution in verdict.cautions))
    return InstrumentRecord(
        verdict="void" if given else "good",
        reasons=tuple(dict.fromkeys(given)),
        cautions=cautions,
        processes=processes,
        mean_lateness_ms=_worst([verdict.mean_lateness_s * 1e3 for verdict in verdicts]),
        p99_lateness_ms=_worst([verdict.p99_lateness_s * 1e3 for verdict in verdicts]),
        p99_lag_ms=_worst([verdict.p99_lag_s * 1e3 for verdict in verdicts]),
        busiest_share=_worst([verdict.busiest_share for verdict in verdicts]),
        preflight=preflight,
    )


def describe_tokens(
    record: LoadRecord,
    source: str,
    asked_output_mean: float | None,
    shorter_share: float | None,
    longer_share: float | None = None,
    unpaced: float | None = None,
    alike: AlikeAnswers | None = None,
    first_share: float | None = None,
) -> TokenCount:
    """Where the counts come from, and what they were."""
    ok = record.kind == RequestEnd.OK
    return TokenCount.model_validate(
        {
            "source": source,
            "input_mean": _mean(record.input_tokens[ok]),
            "output_mean": _mean(record.output_tokens[ok]) if source != "none" else None,
            "asked_output_mean": asked_output_mean,
            "shorter_share": shorter_share,
            "coalesced_share": finite_or_none(record.coalesced_share),
            "reasoning_mean": _mean(record.reasoning_tokens[ok]),
            "longer_share": longer_share,
            "unpaced_share": unpaced,
            "alike": alike,
            "first_share": first_share,
        }
    )


def describe_cache(
    record: LoadRecord,
    regime: CacheState,
    distinct_prompts: int | None,
    counters: Mapping[str, float],
    *,
    expected: ExpectedCache | None = None,
    reset: str = "",
) -> CacheRecord:
    """What came from the server's prefix cache, by its answers and by its own counters."""
    known = (record.kind == RequestEnd.OK) & (record.cached_tokens >= 0) & (record.input_tokens > 0)
    total = int(record.input_tokens[known].sum())
    share = float(record.cached_tokens[known].sum()) / total if total else None
    return CacheRecord(
        regime=regime,
        distinct_prompts=distinct_prompts,
        cached_share=share,
        # Only beside what was to be expected: older results have the one share alone.
        counted_share=None if expected is None else _counted_share(counters) if share is None else share,
        expected=expected,
        reset=reset,
        counters={n: v for n, v in sorted(counters.items()) if any(word in n for word in CACHE_WORDS)},
    )


def _counted_share(counters: Mapping[str, float]) -> float | None:
    """Of the tokens that a server looked up, those that it found, by its own counters."""
    for hits, looked_up in HIT_COUNTERS:
        if counters.get(looked_up):
            return counters.get(hits, 0.0) / counters[looked_up]
    return None


def _mean(tokens: Int64) -> float | None:
    known = tokens[tokens >= 0]
    return float(np.mean(known)) if len(known) else None


def _worst(values: Sequence[float]) -> float | None:
    return max((value for value in values if math.isfinite(value)), default=None)
