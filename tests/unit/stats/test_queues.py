"""M/M/k in closed form against textbook values and a simulation."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from lynxbench.stats.queues import capacity, erlang_c, sojourn_tail


def test_one_server_is_the_textbook_queue() -> None:
    # M/M/1: waits with probability rho, and the time in the system is exponential with rate mu - lambda.
    assert erlang_c(1, 0.7) == pytest.approx(0.7)
    assert sojourn_tail(0.7, 1.0, 1, 5.0) == pytest.approx(math.exp(-0.3 * 5))
    assert capacity(1.0, 1, 10.0, 0.01) == pytest.approx(1 - math.log(100) / 10)


def test_erlang_c_of_a_telephone_table() -> None:
    # 10 servers offered 7 Erlang: B = 0.0787, so C = B / (1 - 0.7 (1 - B)) = 0.2217.
    assert erlang_c(10, 7.0) == pytest.approx(0.2217, abs=2e-4)
    assert erlang_c(4, 4.0) == 1.0


def test_the_tail_agrees_with_a_simulation() -> None:
    rng = np.random.default_rng(1)
    count, free, now, late = 300_000, [0.0] * 4, 0.0, 0
    gaps, services = rng.exponential(1 / 3.2, count), rng.exponential(1.0, count)
    for gap, service in zip(gaps.tolist(), services.tolist(), strict=True):
        now += gap
        end = max(free[0], now) + service
        heapq.heapreplace(free, end)
        late += end - now > 4.0
    assert late / count == pytest.approx(sojourn_tail(3.2, 1.0, 4, 4.0), rel=0.08)


def test_equal_rates_are_no_division_by_zero() -> None:
    near = sojourn_tail(1.0 + 1e-5, 1.0, 2, 3.0)
    assert sojourn_tail(1.0, 1.0, 2, 3.0) == pytest.approx(near, rel=1e-3)


@pytest.mark.parametrize("servers", [1, 2, 8, 64])
def test_capacity_is_where_the_tail_meets_the_allowed_share(servers: int) -> None:
    rate = capacity(0.5, servers, 4.0, 0.02)
    assert sojourn_tail(rate, 0.5, servers, 4.0) == pytest.approx(0.02)
    assert sojourn_tail(rate * 1.01, 0.5, servers, 4.0) > 0.02


def test_an_impossible_bound_has_no_capacity_and_overload_is_all_late() -> None:
    assert capacity(1.0, 8, 2.0, 0.05) == 0.0
    assert sojourn_tail(9.0, 1.0, 8, 100.0) == 1.0
