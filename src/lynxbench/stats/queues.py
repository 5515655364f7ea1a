"""Queues whose truth is known: M/M/k sojourn tails in closed form, and the capacity that follows from them.

Used to hold the saturation search against servers of known capacity (Kleinrock, Queueing Systems I, 1975, 3.5).
"""

import math


def erlang_c(servers: int, offered: float) -> float:
    """Probability that an arrival waits, at `offered` = arrival rate × mean service time < servers."""
    if offered >= servers:
        return 1.0
    blocked = 1.0  # Erlang B by its recursion, which never overflows
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def sojourn_tail(rate_per_s: float, service_s: float, servers: int, limit_s: float) -> float:
    """P(waiting + service > limit) in an M/M/k queue, first come first served."""
    mu = 1 / service_s
    spare = servers * mu - rate_per_s
    if spare <= 0:
        return 1.0
    waits = erlang_c(servers, rate_per_s * service_s)
    alone = math.exp(-mu * limit_s)
    if math.isclose(spare, mu, rel_tol=1e-9):
        queued = alone * (1 + mu * limit_s)
    else:
        queued = (spare * alone - mu * math.exp(-spare * limit_s)) / (spare - mu)
    return (1 - waits) * alone + waits * queued


def capacity(service_s: float, servers: int, limit_s: float, violations: float) -> float:
    """The largest rate at which at most that share of requests exceeds the limit; 0 where an idle queue misses it."""
    if math.exp(-limit_s / service_s) > violations:
        return 0.0
    low, high = 0.0, servers / service_s
    for _ in range(200):
        middle = (low + high) / 2
        if sojourn_tail(middle, service_s, servers, limit_s) <= violations:
            low = middle
        else:
            high = middle
    return low
