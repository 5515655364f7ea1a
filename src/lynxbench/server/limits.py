"""How much one caller may ask for: buckets that fill again with time, and never grow without bound."""

import ipaddress
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
"""Wrong passwords from one address, and for one name from one address."""
GUESSES_PER_H = 100
"""Wrong passwords for one name from everywhere; then only addresses that the name was at home at are heard."""
WRONG_TOKENS_PER_MIN = 30
"""From one address; a token of 256 random bits is not guessed, but looking each one up is work."""
SUBMISSIONS_PER_MIN = 240
MOST_HOMES = 10_000
HOME_PREFIX = 64
"""One household or one machine has as many IPv6 addresses: RFC 6177."""


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

    def wait_s(self, caller: str, *, take: bool = True) -> float:
        """0 where the caller may go on, else the seconds until it may; `take=False` only looks."""
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
                bucket.level -= take
                return 0.0
            return (1 - bucket.level) / self._per_s

    def give_back(self, caller: str) -> None:
        """What was taken does not count after all."""
        with self._lock:
            bucket = self._buckets.get(caller)
            if bucket is not None:
                bucket.level = min(self._burst, bucket.level + 1)


class SignInLimits:
    """Who may try a password: wrong ones count against the address that sent them, and slowly against the name.

    Whoever guesses shuts out the address that they guess from, never the user: an address that the user signed in from
    is heard whatever others do elsewhere.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._near = Limiter(SIGN_INS_PER_MIN / 60, SIGN_INS_PER_MIN, clock)
        self._far = Limiter(GUESSES_PER_H / 3600, GUESSES_PER_H, clock)
        self._homes: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait_s(self, name: str, address: str) -> float:
        """0 where a password may be tried, else the seconds until it may; counted as wrong until it was right."""
        wait = max(self._near.wait_s(key) for key in _keys(name, address))
        if wait == 0 and (name, address) not in self._homes:
            wait = self._far.wait_s(name)
        return wait

    def right(self, name: str, address: str) -> None:
        """The password was right."""
        for key in _keys(name, address):
            self._near.give_back(key)
        if (name, address) not in self._homes:
            self._far.give_back(name)
        self._homes.pop((name, address), None)
        self._homes[name, address] = None
        while len(self._homes) > MOST_HOMES:
            self._homes.popitem(last=False)


def _keys(name: str, address: str) -> tuple[str, str]:
    return f"address {address}", f"user {name} at {address}"


def network_of(address: str) -> str:
    """Whom an address stands for: itself, or of IPv6 the network that one household or machine is given."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:  # how a socket for both families shows the older one
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed.packed, HOME_PREFIX), strict=False))
    return str(parsed)
