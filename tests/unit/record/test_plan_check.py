"""Samples that two processes have in common: a copy is told, what clocks do by chance is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lynxbench.record.plan_check import in_common


def process(starts: list[int] | np.ndarray[Any, Any], took: int = 7) -> Any:
    start = np.asarray(starts, dtype=np.int64)
    return SimpleNamespace(iterations=SimpleNamespace(start_ns=start, end_ns=start + took))


@pytest.mark.parametrize(("copied", "told"), [(0, 0), (1, 0), (10, 0), (11, 11), (10_000, 10_000)])
def test_a_copy_is_more_than_a_thousandth(copied: int, told: int) -> None:
    one = np.arange(10_000) * 1000
    other = np.concatenate([one[:copied], one[copied:] + 1])
    assert in_common(process(one), process(other)) == told


def test_of_a_few_samples_one_is_a_copy() -> None:
    assert in_common(process([1, 100, 200]), process([2, 100, 201])) == 1


def test_a_start_alone_is_no_sample() -> None:
    assert in_common(process([1, 100, 200]), process([1, 100, 200], took=8)) == 0


def test_processes_one_after_another_or_without_samples_have_nothingin_common() -> None:
    assert in_common(process([1, 2, 3]), process([4, 5, 6])) == 0
    assert in_common(process([4, 5, 6]), process([1, 2, 3])) == 0
    assert in_common(process([]), process([1])) == 0
