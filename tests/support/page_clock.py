"""A clock for pages that stands still until it is moved."""

from __future__ import annotations

from collections.abc import Callable


class PageClock:
    """Stands still until it is moved; making a page takes what is set."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def making(clock: PageClock, took_s: float) -> Callable[[], str]:
    """Makes `page 1`, `page 2`, …, each in that time."""
    made: list[str] = []

    def make() -> str:
        clock.now_s += took_s
        made.append(f"page {len(made) + 1}")
        return made[-1]

    return make
