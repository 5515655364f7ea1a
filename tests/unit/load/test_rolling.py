"""Rolled-up samples: exact sums of all that was appended, bounded memory, raw excerpts, and lies that do not pass."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.errors import BadResult
from lynxbench.load.rolling import (
    BUFFERED_ROWS,
    EXCERPT_ROWS,
    SLICES_FOLDER,
    RollingJournal,
    SliceReadings,
    count_rolled,
    read_slices,
)
from rolled_runs import SECOND, made_iterations, roll_up

_ENDLESS = """
import sys
from pathlib import Path
from lynxbench.load.rolling import RollingJournal
journal = RollingJournal(Path(sys.argv[1]), 0.001, 0)
i = 1
while True:
    journal.append(i, i + 9_000, 1)
    i += 10_000
"""


def test_counts_and_sums_are_those_of_all_iterations(tmp_path: Path) -> None:
    iterations = made_iterations(600, seed=1)
    roll_up(tmp_path, iterations)
    slices = read_slices(tmp_path)
    lasted = iterations.end_ns - iterations.start_ns
    assert len(slices) == 120
    assert sum(each.latency.count for each in slices) == len(iterations) == count_rolled(tmp_path)
    assert sum(each.latency.sum_ns for each in slices) == int(lasted.sum())
    assert sum(each.units for each in slices) == len(iterations)
    assert min(each.latency.least_ns for each in slices) == int(lasted.min())
    assert max(each.latency.most_ns for each in slices) == int(lasted.max())
    assert slices[0].start_ns == iterations.start_ns[0]
    assert slices[-1].end_ns == iterations.end_ns[-1]


def test_excerpts_are_iterations_as_they_were_stamped(tmp_path: Path) -> None:
    iterations = made_iterations(60, seed=2)
    roll_up(tmp_path, iterations)
    stamped = dict(zip(iterations.start_ns.tolist(), iterations.end_ns.tolist(), strict=True))
    for each in read_slices(tmp_path):
        assert len(each.excerpts) == 2
        assert each.excerpts[0].start_ns[0] == 0  # the first second …
        assert each.excerpts[1].start_ns[0] >= 2.5 * SECOND  # … and one from the middle
        for excerpt in each.excerpts:
            assert 8 <= len(excerpt.start_ns) <= 12
            for start, lasted in zip(excerpt.start_ns, excerpt.lasted_ns, strict=True):
                assert stamped[each.start_ns + start] == each.start_ns + start + lasted


def test_memory_is_bounded_however_many_iterations_a_slice_holds(tmp_path: Path) -> None:
    journal = RollingJournal(tmp_path, 3600, 0)
    many = 5 * BUFFERED_ROWS + 7
    for row in range(many):
        journal.append(row * 1000, row * 1000 + 900, 2)
    assert len(journal.iterations()) <= BUFFERED_ROWS
    journal.close()
    (only,) = read_slices(tmp_path)
    assert (only.latency.count, only.latency.sum_ns, only.units) == (many, many * 900, 2 * many)
    assert [len(excerpt.start_ns) for excerpt in only.excerpts] == [EXCERPT_ROWS]


def test_moments_of_tokens_are_rolled_up_beside_the_iterations(tmp_path: Path) -> None:
    with RollingJournal(tmp_path, 60, 0) as journal:
        for row in range(100):
            start = row * SECOND // 10
            journal.append_marks([start + 3_000_000, start + 8_000_000, start + 15_000_000])
            journal.append(start, start + 20_000_000, 3)
    (only,) = read_slices(tmp_path)
    assert only.durations["time-to-first-token"].count == 100
    assert only.durations["time-to-first-token"].most_ns == 3_000_000
    between = only.durations["time-per-token"]
    assert (between.count, between.least_ns, between.most_ns) == (200, 5_000_000, 7_000_000)


def test_a_standstill_between_iterations_is_kept_and_a_harness_of_microseconds_is_none(tmp_path: Path) -> None:
    with RollingJournal(tmp_path, 60, 0) as journal:
        for row in range(100):
            start_ns = row * 1_000_000 + (7 * SECOND if row >= 50 else 0)
            journal.append(start_ns, start_ns + 900_000, 1)
    (only,) = read_slices(tmp_path)
    assert only.paused_ns == 7 * SECOND + 100_000


def test_what_is_read_beside_a_slice_stands_in_it(tmp_path: Path) -> None:
    told = []
    with RollingJournal(tmp_path, 1, 5, lambda: SliceReadings(7, 8, 21.5), told.append) as journal:
        journal.append(0, SECOND, 1)
        journal.append(SECOND, 2 * SECOND, 1)
    slices = read_slices(tmp_path)
    assert tuple(told) == slices
    assert [(each.resident_bytes, each.harness_resident_bytes, each.inlet_c) for each in slices] == [(7, 8, 21.5)] * 2
    assert [each.unix_offset_ns for each in slices] == [5, 5]


def test_kill_9_leaves_whole_slices_and_nothing_else(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(tmp_path)])
    deadline = time.monotonic() + 300
    while len(list((tmp_path / SLICES_FOLDER).glob("*.json"))) < 5:
        assert time.monotonic() < deadline, "the writer does not write"
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    slices = read_slices(tmp_path)
    assert len(slices) >= 5
    assert count_rolled(tmp_path) == sum(each.latency.count for each in slices)


Lie = Callable[[dict[str, Any]], object]
LIES: dict[str, Lie] = {
    "faster in all": lambda s: s["durations"]["latency"].update(sum_ns=s["durations"]["latency"]["sum_ns"] // 2),
    "more iterations": lambda s: s["durations"]["latency"].update(count=s["durations"]["latency"]["count"] + 50),
    "a shorter longest": lambda s: s["durations"]["latency"].update(most_ns=s["durations"]["latency"]["most_ns"] // 2),
    "a longer shortest": lambda s: s["durations"]["latency"].update(least_ns=s["durations"]["latency"]["least_ns"] * 2),
    "another distribution": lambda s: s["durations"]["latency"]["buckets"].pop(),
    "no iterations": lambda s: s["durations"].clear(),
    "an excerpt of another run": lambda s: s["excerpts"][0]["lasted_ns"].__setitem__(0, 1),
    "an excerpt out of order": lambda s: s["excerpts"].reverse(),
    "an excerpt with more work": lambda s: s["excerpts"][0]["units"].__setitem__(0, 10**6),
    "an excerpt with a column less": lambda s: s["excerpts"][0]["units"].pop(),
    "an excerpt beyond the slice": lambda s: s["excerpts"][1]["start_ns"].__setitem__(-1, 10**12),
    "longer than the slice lasts": lambda s: s.update(end_ns=s["start_ns"] + SECOND),
    "a number that is taken": lambda s: s.update(number=0),
    "iterations that nobody counted": lambda s: s.update(before=10**6),
    "another process": lambda s: s.update(unix_offset_ns=17),
    "an unknown key": lambda s: s.update(colour="red"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_slice_that_contradicts_itself_or_its_neighbours_is_refused(tmp_path: Path, lie: str) -> None:
    roll_up(tmp_path, made_iterations(20, seed=3))
    file = tmp_path / SLICES_FOLDER / "00002.json"
    document = json.loads(file.read_text())
    LIES[lie](document)
    file.write_text(json.dumps(document))
    with pytest.raises(BadResult, match=r"slices"):
        read_slices(tmp_path)


def test_a_slice_that_was_taken_away_is_missed(tmp_path: Path) -> None:
    roll_up(tmp_path, made_iterations(20, seed=4))
    (tmp_path / SLICES_FOLDER / "00001.json").unlink()
    with pytest.raises(BadResult, match="another slice is missing"):
        read_slices(tmp_path)


def test_slices_lie_on_a_grid_also_where_iterations_are_longer_than_one(tmp_path: Path) -> None:
    with RollingJournal(tmp_path, 1, 0) as journal:
        journal.append(0, 3 * SECOND, 1)
        journal.append(3 * SECOND, 3 * SECOND + 400_000_000, 1)
        journal.append(3 * SECOND + 500_000_000, 4 * SECOND, 1)
    assert [each.latency.count for each in read_slices(tmp_path)] == [1, 2]


def test_disk_of_two_hours_at_several_hundred_a_second_is_a_few_megabytes(tmp_path: Path) -> None:
    """One of 720 slices of ten seconds at 400 a second; the bound of 100 MB leaves 145 kB for each."""
    rng = np.random.default_rng(5)
    lasted = (2.4e6 * np.exp(rng.normal(0, 0.3, 4000))).astype(np.int64)
    ends = np.cumsum(lasted + 1000)
    with RollingJournal(tmp_path, 100, 0) as journal:
        for start, end in zip((ends - lasted).tolist(), ends.tolist(), strict=True):
            journal.append(start, end, 1)
    assert (tmp_path / SLICES_FOLDER / "00000.json").stat().st_size < 20_000
