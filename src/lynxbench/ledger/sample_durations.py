"""How long each sample of a recorded result lasted: what stays the same whatever the clock showed."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from lynxbench.errors import LynxbenchError
from lynxbench.evidence.sample_file import read_samples
from lynxbench.model.entries import Entry
from lynxbench.model.samples import SAMPLES_BLOB, CountedProcess

FEWEST_DISTINCT: Final = 16
"""Fewer different durations than this may come again in the same order without anybody's doing …"""
COARSEST_NS: Final = 100
"""… and so may those of a clock in steps over this: a paced workload repeats itself to the millisecond, never to it."""

Durations = Mapping[int, bytes]
"""Counted durations of each process in their order, as bytes, by its number."""


def durations_of(processes: Iterable[CountedProcess]) -> Durations:
    """What of samples stays the same whatever the clock showed and however the processes are numbered."""
    by_process = {}
    for process in processes:
        rows, counted = process.samples.iterations, process.counted
        by_process[process.samples.process] = (rows.end_ns - rows.start_ns)[counted].astype("<i8").tobytes()
    return by_process


def shared_processes(mine: Durations, theirs: Durations) -> int:
    """How many of my processes lasted, sample by sample, exactly as one of theirs; 0 where chance may do that."""
    common = set(theirs.values()) & set(mine.values())
    durations = np.frombuffer(b"".join(sorted(common)), dtype="<i8")
    if np.unique(durations).size < FEWEST_DISTINCT or np.gcd.reduce(durations) > COARSEST_NS:
        return 0
    return sum(column in common for column in mine.values())


def durations_in(recorded: Entry, document: Callable[[str], bytes]) -> Durations:
    """Those of a recorded result; nothing where they cannot be read, which is told of the result whose they are."""
    named = next((blob.sha256 for blob in recorded.blobs if blob.name == SAMPLES_BLOB), None)
    if named is None:
        return {}
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        file = Path(temporary) / SAMPLES_BLOB
        try:
            file.write_bytes(document(named))
            return durations_of(read_samples(file))
        except (LynxbenchError, KeyError):
            return {}
