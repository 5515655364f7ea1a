"""The journal keeps every whole sample, whatever happens to the process that writes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lynxbench.errors import BadResult
from lynxbench.load.journal import ITERATIONS_FILE, MARKS_FILE, Journal, count_journal, read_journal

_ENDLESS = """
import sys
from pathlib import Path
from lynxbench.load.journal import Journal
journal = Journal(Path(sys.argv[1]))
i = 0
while True:
    journal.append_marks([i + 1, i + 2])
    journal.append(i + 1, i + 5, 3)
    i += 1
"""


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_marks([11, 12])
        journal.append(10, 13, 2)
        journal.append(20, 24, 1)
        journal.append_marks([31])
        journal.append(30, 35, 1)
        assert len(journal.iterations()) == 3
    iterations, marks = read_journal(tmp_path)
    assert iterations.start_ns.tolist() == [10, 20, 30]
    assert iterations.end_ns.tolist() == [13, 24, 35]
    assert iterations.units.tolist() == [2, 1, 1]
    assert marks.iteration.tolist() == [0, 0, 2]
    assert marks.at_ns.tolist() == [11, 12, 31]
    assert count_journal(tmp_path) == 3


def test_it_grows_beyond_its_first_size(tmp_path: Path) -> None:
    many = 150_000
    with Journal(tmp_path) as journal:
        for i in range(many):
            journal.append_marks([i + 1])
            journal.append(i + 1, i + 2, 1)
    iterations, marks = read_journal(tmp_path)
    assert np.array_equal(iterations.start_ns, np.arange(1, many + 1))
    assert np.array_equal(marks.iteration, np.arange(many))


def test_marks_of_an_iteration_that_never_ended_are_dropped(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append_marks([11])
        journal.append(10, 13, 1)
        journal.append_marks([21, 22])
    iterations, marks = read_journal(tmp_path)
    assert len(iterations) == 1
    assert marks.at_ns.tolist() == [11]


def test_kill_9_loses_at_most_the_sample_in_flight(tmp_path: Path) -> None:
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        child = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(folder)])
        deadline = time.monotonic() + 300
        while count_journal(folder) < 1000:
            assert time.monotonic() < deadline, "the writer does not write"
            time.sleep(0.01)
        seen = count_journal(folder)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        iterations, marks = read_journal(folder)
        kept = len(iterations)
        assert kept >= seen
        assert np.array_equal(iterations.start_ns, np.arange(1, kept + 1))
        assert len(marks.at_ns) == 2 * kept


_ENDING_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from lynxbench.load.journal import Journal
while True:
    with Journal(Path(sys.argv[1])) as journal:
        for i in range(50):
            journal.append(i + 1, i + 5, 3)
"""


def test_it_is_counted_from_beside_while_its_writer_cuts_it_to_size(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _ENDING_AGAIN_AND_AGAIN, str(tmp_path)]) as writer:
        until = time.monotonic() + 300
        counts: set[int] = set()
        try:
            while len(counts) < 10 and time.monotonic() < until:
                counts.add(count_journal(tmp_path))
        finally:
            writer.kill()
    assert counts <= set(range(51))
    assert len(counts) >= 10


def test_a_torn_row_ends_the_prefix(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for i in range(10):
            journal.append(10 * i + 1, 10 * i + 5, 1)
    path = tmp_path / ITERATIONS_FILE
    data = bytearray(path.read_bytes())
    data[7 * 32 + 24] ^= 0xFF  # the sequence number of row 7
    path.write_bytes(data[:-5])
    assert len(read_journal(tmp_path)[0]) == 7


def test_time_that_runs_backwards_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(20, 10, 1)
    with pytest.raises(BadResult, match="ends before it starts"):
        read_journal(tmp_path)


def test_an_empty_folder_holds_no_samples(tmp_path: Path) -> None:
    iterations, marks = read_journal(tmp_path)
    assert len(iterations) == 0
    assert len(marks.at_ns) == 0
    assert count_journal(tmp_path) == 0
    (tmp_path / ITERATIONS_FILE).touch()
    (tmp_path / MARKS_FILE).touch()
    assert count_journal(tmp_path) == 0
