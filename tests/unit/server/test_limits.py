"""Whom a wrong password counts against, and whom an address stands for."""

from __future__ import annotations

import pytest

from lynxbench.server.limits import GUESSES_PER_H, MOST_HOMES, SIGN_INS_PER_MIN, Limiter, SignInLimits, network_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def guessed(limits: SignInLimits, name: str, address: str, times: int) -> list[bool]:
    return [limits.wait_s(name, address) == 0 for _ in range(times)]


def test_whoever_guesses_shuts_out_their_own_address_alone() -> None:
    limits = SignInLimits(Clock())
    assert guessed(limits, "ada", "192.0.2.9", SIGN_INS_PER_MIN + 5) == [True] * SIGN_INS_PER_MIN + [False] * 5
    assert limits.wait_s("ada", "198.51.100.1") == 0, "ada elsewhere is heard"
    assert limits.wait_s("bob", "192.0.2.9") > 0, "the address tries no other name either"


def test_right_passwords_count_against_nobody() -> None:
    """An office behind one address signs in as often as it likes."""
    limits = SignInLimits(Clock())
    for number in range(10 * SIGN_INS_PER_MIN):
        assert limits.wait_s(f"user{number}", "192.0.2.9") == 0
        limits.right(f"user{number}", "192.0.2.9")


def test_many_addresses_together_are_braked_and_the_user_at_home_is_not() -> None:
    clock = Clock()
    limits = SignInLimits(clock)
    assert limits.wait_s("ada", "198.51.100.1") == 0
    limits.right("ada", "198.51.100.1")
    tried = [limits.wait_s("ada", f"203.0.{number}.7") == 0 for number in range(3 * GUESSES_PER_H)]
    assert sum(tried) == GUESSES_PER_H
    assert limits.wait_s("ada", "203.0.113.250") > 0
    assert limits.wait_s("ada", "198.51.100.1") == 0, "where ada was at home ada is heard"
    clock.now = 3600.0
    again = [limits.wait_s("ada", f"203.1.{number}.7") == 0 for number in range(3 * GUESSES_PER_H)]
    assert sum(again) == GUESSES_PER_H, "an hour brings so many guesses, not more"


def test_homes_do_not_fill_the_memory() -> None:
    limits = SignInLimits(Clock())
    for number in range(MOST_HOMES + 10):
        limits.right("ada", str(number))
    assert len(limits._homes) == MOST_HOMES


def test_looking_takes_nothing() -> None:
    limiter = Limiter(1.0, 2, Clock())
    assert [limiter.wait_s("a", take=False) for _ in range(5)] == [0.0] * 5
    assert [limiter.wait_s("a") > 0 for _ in range(3)] == [False, False, True]
    assert limiter.wait_s("a", take=False) > 0
    limiter.give_back("a")
    limiter.give_back("nobody")
    assert limiter.wait_s("a") == 0


@pytest.mark.parametrize(
    ("address", "stands_for"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("unknown", "unknown"),
    ],
)
def test_a_household_has_one_address(address: str, stands_for: str) -> None:
    assert network_of(address) == stands_for
