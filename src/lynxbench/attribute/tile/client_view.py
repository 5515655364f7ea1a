"""A served load as its client saw it: lengths, waits, how long decoding stood still, and who asked for long prompts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.model.requests import Requests
from lynxbench.model.samples import Float64

LONG = 4.0
"""Times the median prompt: one that takes this much of everybody's steps is another kind of request."""
STILL = 3.0
"""Times the median distance of two events of an answer: a step of the usual kind does not vary by so much."""


@dataclass(frozen=True, slots=True)
class ClientView:
    """Means over the answered requests; NaN where unknown."""

    requests: int
    latency_s: float
    first_token_s: float
    between_s: float
    """The usual distance of two events of an answer."""
    prompt_tokens: float
    output_tokens: float
    still: float
    """Share of the time after first tokens in which an answer stood still for longer than a usual step."""
    long_share: float
    """Of the requests, those with a long prompt …"""
    long_tokens: float
    """… and of all prompt tokens, theirs."""
    short_first_s: float
    """Time to the first token of the others while a long prompt was being read, in the middle …"""
    undisturbed_first_s: float
    """… and while none was."""


def view_load(served: Sequence[Requests]) -> ClientView | None:
    """What the client saw over all runs; None where nothing was answered."""
    answered = [part for part in served if part.ok.any()]
    if not answered:
        return None
    latency_s = np.concatenate([(part.last_ns - part.sent_ns)[part.ok] / 1e9 for part in answered])
    first_s = np.concatenate([_first_s(part) for part in answered])
    inputs = np.concatenate([part.input_tokens[part.ok] for part in answered]).astype(np.float64)
    outputs = np.concatenate([part.output_tokens[part.ok] for part in answered]).astype(np.float64)
    gaps_s = np.concatenate([_gaps_s(part) for part in answered])
    usual_s = float(np.median(gaps_s)) if len(gaps_s) else math.nan
    excess = gaps_s[gaps_s > STILL * usual_s] - usual_s if len(gaps_s) else gaps_s
    known = inputs[inputs > 0]
    is_long = inputs > LONG * float(np.median(known)) if len(known) else np.zeros(len(inputs), bool)
    disturbed = (
        np.concatenate([_beside_long(part, LONG * float(np.median(known))) for part in answered])
        if len(known)
        else np.zeros(len(inputs), bool)
    )
    return ClientView(
        requests=len(latency_s),
        latency_s=float(latency_s.mean()),
        first_token_s=_mean(first_s),
        between_s=usual_s,
        prompt_tokens=_mean(known),
        output_tokens=_mean(outputs[outputs > 0]),
        still=float(excess.sum() / gaps_s.sum()) if len(gaps_s) and gaps_s.sum() > 0 else math.nan,
        long_share=float(is_long.mean()),
        long_tokens=float(inputs[is_long].sum() / known.sum()) if len(known) else 0.0,
        short_first_s=_median(first_s[disturbed & ~is_long]),
        undisturbed_first_s=_median(first_s[~disturbed & ~is_long]),
    )


def _first_s(requests: Requests) -> Float64:
    first = requests.first_token_ns[requests.ok].astype(np.float64)
    return np.where(first > 0, (first - requests.sent_ns[requests.ok]) / 1e9, np.nan)


def _gaps_s(requests: Requests) -> Float64:
    """Distances of neighbouring events of one answer."""
    order = np.lexsort((requests.event_ns, requests.event_row))
    row, at_ns = requests.event_row[order], requests.event_ns[order]
    same = row[1:] == row[:-1]
    return np.asarray((at_ns[1:] - at_ns[:-1])[same] / 1e9, dtype=np.float64)


def _beside_long(requests: Requests, longest: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Answered requests between whose sending and first token a long prompt was being read."""
    ok = requests.ok & (requests.first_token_ns > 0)
    long = ok & (requests.input_tokens > longest)
    starts, ends = np.sort(requests.sent_ns[long]), np.sort(requests.first_token_ns[long])
    sent, first = requests.sent_ns[requests.ok], requests.first_token_ns[requests.ok]
    # Long prompts begun before this one's first token, less those ended before it was sent: some were being read.
    return np.asarray(np.searchsorted(starts, first) - np.searchsorted(ends, sent) > 0)


def _mean(values: Float64) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _median(values: Float64) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan
