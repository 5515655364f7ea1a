"""Whether others asked a server while it was measured: it then holds more requests than its clients have open."""

import math
from collections.abc import Sequence

import numpy as np

from lynxbench.attribute.tile.served_series import ServedSeries, Span
from lynxbench.model.requests import Requests

FEWEST_LOOKS = 6
"""Three seconds of them: with fewer, one odd moment decides what stands in a queue."""
MORE, ROOM = 1.5, 1.0
"""Requests that a server holds, over those that its clients have open: looks are rare, and a request that was counted
as open a moment ago may have ended."""
MOST_LEFT = 0.01
"""Of the requests, those that the clients gave up or lost: a server may go on with them for nobody."""


def open_requests(served: Sequence[Requests], spans: Sequence[Span]) -> float:
    """How many requests the clients had open on average while counting; NaN where too many were left behind."""
    seconds = sum(end - start for start, end in spans)
    asked, left = sum(map(len, served)), sum(int((~part.ok).sum()) for part in served)
    if seconds <= 0 or left > MOST_LEFT * asked:
        return math.nan
    return sum(_open_ns(part, span) for part in served for span in spans) / seconds


def _open_ns(requests: Requests, span: Span) -> int:
    """The time of all good requests that lies within a span, added up."""
    begins, ends = requests.sent_ns[requests.ok], requests.last_ns[requests.ok]
    return int(np.maximum(np.minimum(ends, span[1]) - np.maximum(begins, span[0]), 0).sum())


def find_others(series: ServedSeries, ours: float) -> str:
    """In words, where a server held more requests than its clients had open; empty where that does not show."""
    running, waiting = series.level("running"), series.level("waiting")
    held = running + (0.0 if math.isnan(waiting) else waiting)
    if series.looks < FEWEST_LOOKS or not held > MORE * ours + ROOM:  # also where either is not known
        return ""
    return f"others asked the server meanwhile: it held {held:.1f} requests on average, this run's clients {ours:.1f}"
