"""How much one caller may ask for: buckets that fill again with time, and never grow without bound."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MOST_CALLERS = 10_000
"""Callers that are remembered; the one that was quiet the longest is forgotten."""
BURST_S = 10.0
"""A bucket holds what it gains in this time."""
SIGN_INS_PER_MIN = 10
SUBMISSIONS_PER_MIN = 240


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Limiter:
    """One rate for many callers; 0 means no limit."""

    def __init__(self, per_s: float, burst: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = burst if burst is not None else max(per_s * BURST_S, 1.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, caller: str) -> float:
        """0 where the caller may go on, else the seconds until it may."""
        if self._per_s <= 0:
            return 0.0
        now = self._clock()
        with self._lock:
            bucket = self._buckets.pop(caller, None) or _Bucket(self._burst, now)
            bucket.level = min(self._burst, bucket.level + (now - bucket.at) * self._per_s)
            bucket.at = now
            self._buckets[caller] = bucket
            while len(self._buckets) > MOST_CALLERS:
                self._buckets.popitem(last=False)
            if bucket.level >= 1:
                bucket.level -= 1
                return 0.0
            return (1 - bucket.level) / self._per_s
