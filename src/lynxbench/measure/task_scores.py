"""Answers to labelled prompts, marked right or wrong; the share that is right with its interval. Pure."""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from string import ascii_uppercase
from typing import Final

import numpy as np
import numpy.typing as npt

from lynxbench.stats.shares import paired_share_change, share_interval

Metrics = dict[str, float]
Marks01 = npt.NDArray[np.int8]
RIGHT, WRONG, FAILED = 1, 0, -1
"""Marks of an answer; a prompt without an answer is counted apart, not as a wrong answer."""
LARGEST_FAILED: Final = 0.01
"""Beyond one prompt in a hundred without an answer, those answered are no longer a sample of the task."""

_NUMBER = re.compile(r"(?:(?<!\d)[-+−])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
_LETTER = re.compile(
    r"^\W*(?:(?:the )?(?:right |correct )?(?:answer|choice)(?: is)?\W+)?\(?([A-Z])(?=\s*$|\s*[.):,*]|\n)", re.I
)
"""A letter alone or with a mark after it: the article of "A lynx …" is none."""


def is_exact(text: str, answers: Sequence[str]) -> bool:
    """Whether an answer, or its first line, is a right one but for case, spaces and a last full stop."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return not {_plain(text), _plain(first)}.isdisjoint(_plain(answer) for answer in answers)


def is_number(text: str, answers: Sequence[str], tolerance: float) -> bool:
    """Whether the last number of an answer is within a share of a right one."""
    said = last_number(text)
    wanted = [number for answer in answers if (number := last_number(answer)) is not None]
    return said is not None and any(abs(said - right) <= Decimal(repr(tolerance)) * abs(right) for right in wanted)


def last_number(text: str) -> Decimal | None:
    """The last number of a text; commas between digits are read over."""
    for match in reversed(_NUMBER.findall(text)):
        try:
            return Decimal(match.replace(",", "").replace("−", "-"))
        except InvalidOperation:
            continue
    return None


def letter_place(text: str, choices: Sequence[str]) -> int:
    """Which choice an answer names, by its letter at the beginning or by its own text; -1 where it names none."""
    plain = _plain(text)
    texts = [_plain(choice) for choice in choices]
    if plain in texts:
        return texts.index(plain)
    match = _LETTER.match(text.strip())
    place = -1 if match is None else ascii_uppercase.index(match.group(1).upper())
    return place if place < len(choices) else -1


def task_metrics(marks: Marks01) -> Metrics:
    """The share that is right of those answered, with its Wilson interval; how many were asked and had no answer."""
    answered = marks[marks != FAILED]
    counts = {"task-inputs": float(len(marks)), "task-failed": float(len(marks) - len(answered))}
    if not len(answered):
        return counts
    bounds = share_interval(int((answered == RIGHT).sum()), len(answered))
    return {"task": bounds.estimate, "task-low": bounds.low, "task-high": bounds.high, **counts}


def task_change(before: Marks01, after: Marks01) -> Metrics:
    """How the share moved over prompts that both answered, with the interval of paired differences."""
    if before.shape != after.shape:
        return {}
    both = (before != FAILED) & (after != FAILED)
    if not both.any():
        return {}
    moved = after[both].astype(np.int64) - before[both]
    change = paired_share_change(int((moved > 0).sum()), int((moved < 0).sum()), int(both.sum()))
    return {"task-change": change.estimate, "task-change-low": change.low, "task-change-high": change.high}


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()
