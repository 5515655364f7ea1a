from __future__ import annotations

from itertools import count

from lynxbench.measure.calm import read_busy_share, wait_until_calm


def test_it_waits_for_the_first_calm_look_and_no_longer() -> None:
    looks, clock = iter([0.9, 0.4, 0.05, 0.9]), count()
    assert wait_until_calm(0.1, 100, read=lambda: next(looks), clock=lambda: float(next(clock))) == 3.0
    assert next(looks) == 0.9


def test_it_gives_up_at_the_limit() -> None:
    clock = count()
    assert wait_until_calm(0.1, 5, read=lambda: 1.0, clock=lambda: float(next(clock))) is None


def test_a_share_is_a_share() -> None:
    assert 0 <= read_busy_share() <= 1
