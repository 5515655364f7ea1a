"""Answers marked as a person would mark them, and shares that count what had no answer apart."""

from __future__ import annotations

import numpy as np
import pytest

from lynxbench.measure.task_scores import FAILED, is_exact, is_number, letter_place, task_change, task_metrics


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Paris", True),
        (" paris.\n", True),
        ("\nParis\nThe city of light", True),
        ("PARIS", True),
        ("Paris, France", False),
        ("", False),
        ("Pari s", False),
    ],
)
def test_exact_but_for_case_and_spaces(text: str, right: bool) -> None:
    assert is_exact(text, ["Paris"]) is right


@pytest.mark.parametrize(
    ("text", "tolerance", "right"),
    [
        ("so 3 times 4 is 12", 0.0, True),
        ("12 apples and 3 pears", 0.0, False),
        ("= 12.0", 0.0, True),
        ("12.1", 0.0, False),
        ("12.1", 0.01, True),
        ("1,2e1", 0.0, False),
        ("-12", 0.0, False),
        ("no number", 0.5, False),
        ("The total is 12.", 0.0, True),
    ],
)
def test_the_last_number_counts(text: str, tolerance: float, right: bool) -> None:
    assert is_number(text, ["12"], tolerance) is right


def test_numbers_with_commas_and_in_the_answers() -> None:
    assert is_number("it costs $1,234.50", ["#### 1234.5"], 0.0)
    assert is_number("−7", ["-7"], 0.0)
    assert not is_number("5", ["none"], 1.0)
    assert is_number("between 3-4", ["4"], 0.0)
    assert not is_number("9e99999999999999", ["12"], 0.0)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("B", 1),
        ("b.", 1),
        (" (B) lynx", 1),
        ("The answer is B", 1),
        ("Answer: A", 0),
        ("lynx", 1),
        ("A lynx is a mammal", -1),
        ("C", -1),
        ("Because", -1),
        ("", -1),
    ],
)
def test_the_letter_that_begins_an_answer(text: str, place: int) -> None:
    assert letter_place(text, ["trout", "lynx"]) == place


def test_prompts_without_an_answer_are_counted_apart() -> None:
    marks = np.array([1] * 8 + [0] * 2 + [FAILED] * 5, dtype=np.int8)
    metrics = task_metrics(marks)
    assert metrics["task"] == 0.8
    assert (metrics["task-inputs"], metrics["task-failed"]) == (15, 5)
    assert metrics["task-low"] == pytest.approx(0.4902, abs=1e-4)
    nothing = task_metrics(np.full(3, FAILED, dtype=np.int8))
    assert "task" not in nothing
    assert nothing["task-failed"] == 3


def test_a_change_is_paired_over_what_both_answered() -> None:
    before = np.array([1, 1, 1, 0, FAILED, 1], dtype=np.int8)
    after = np.array([1, 0, FAILED, 1, 1, 0], dtype=np.int8)
    change = task_change(before, after)
    assert change["task-change"] == pytest.approx(-1 / 4)
    assert change["task-change-low"] < -0.5 < 0.2 < change["task-change-high"]
    assert task_change(before, after[:3]) == {}
    assert task_change(np.full(2, FAILED, np.int8), np.full(2, FAILED, np.int8)) == {}
