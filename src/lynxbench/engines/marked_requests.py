"""Requests that no cache has seen, by letters of their own; the processes that send import no more than this."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Protocol, runtime_checkable

from lynxbench.load.response_reading import Script

MARK_LETTERS = 10
"""Letters that make a prompt unique: 26^10 leaves room for every request of every run."""
RUNS = 2**20
"""Runs that are told apart; within one, 26^10 / 2^20 requests are: over a hundred million."""
PLACE = "\x02" + "#" * (MARK_LETTERS - 2) + "\x03"
"""Where those letters go; no prompt that people write holds it."""
PLACE_IN_JSON = b"\\u0002" + b"#" * (MARK_LETTERS - 2) + b"\\u0003"


@runtime_checkable
class Markable(Protocol):
    """A script whose requests are those of one run."""

    def of_run(self, run: int) -> Script:
        """The same requests as those of another run."""


class MarkedRotation:
    """Prepared requests in turn, each made unique by letters that stand for its number."""

    stands_alone = True

    def __init__(self, parts: Sequence[tuple[bytes, ...]], run: int) -> None:
        """The parts of a request are what stands between the places of its letters."""
        self._parts, self._run = list(parts), run

    def of_run(self, run: int) -> MarkedRotation:
        """The same prepared requests with other letters."""
        return MarkedRotation(self._parts, run)

    def first(self, number: int) -> bytes:
        """The prepared request with its letters in place."""
        return mark(self._run, number).encode().join(self._parts[number % len(self._parts)])

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """Every request stands alone."""
        return None


def mark(run: int, number: int) -> str:
    """Letters that no other request of this or another run carries, different from the first one on."""
    value = (number * RUNS + run % RUNS) * 2_654_435_761 % 26**MARK_LETTERS  # odd and prime to 26: one to one
    letters = []
    for _ in range(MARK_LETTERS):
        value, letter = divmod(value, 26)
        letters.append(ascii_lowercase[letter])
    return "".join(letters)
