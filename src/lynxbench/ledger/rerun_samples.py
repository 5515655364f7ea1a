"""Reproductions that rest on the samples of what they reproduce: one measurement, read twice, is no second one.

A run mean is a hash of its process's durations that every signed entry bears, so samples are opened only where one is
shared. Clocks that were shifted and processes that were numbered anew change no duration.
"""

import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from lynxbench.errors import LynxbenchError
from lynxbench.evidence.sample_file import read_samples
from lynxbench.model.entries import Entry, RerunVerdict, ResultRecorded, ResultRerun
from lynxbench.model.samples import SAMPLES_BLOB, CountedProcess

FEWEST_DISTINCT: Final = 16
"""Fewer different durations than this may come again in the same order without anybody's doing …"""
COARSEST_NS: Final = 100
"""… and so may those of a clock in steps over this: a paced workload repeats itself to the millisecond, never to it."""
SAME_MEAN: Final = 1e-9

Durations = Mapping[int, bytes]
"""Counted durations of each process in their order, as bytes, by its number."""
Copies = Mapping[tuple[str, str], str]
"""By a result and its rerun: why the second is no measurement of its own."""


def copied_reruns(entries: Iterable[Entry], document: Callable[[str], bytes]) -> dict[tuple[str, str], str]:
    """Of reproductions among entries: those whose rerun shows the samples of the original, or none beside its means."""
    known = list(entries)
    recorded: dict[str, Entry] = {}
    for entry in known:
        if isinstance(entry.body, ResultRecorded):
            recorded.setdefault(entry.body.result_id, entry)
    said = [entry.body for entry in known if isinstance(entry.body, ResultRerun)]
    named = {(body.result_id, body.rerun_id) for body in said if body.verdict is RerunVerdict.REPRODUCED}
    copies = {}
    for original, rerun in named:
        if original == rerun or original not in recorded or rerun not in recorded:
            continue
        if not _shares_a_mean(recorded[original], recorded[rerun]):
            continue
        mine, theirs = (durations_in(recorded[name], document) for name in (rerun, original))
        if not mine or not theirs:
            copies[original, rerun] = "states its run means, and no samples here tell the two apart"
        elif shared_processes(mine, theirs):
            copies[original, rerun] = "has its samples: one measurement, shown as two"
    return copies


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


def means_of(body: ResultRecorded) -> list[float]:
    """The run means that an entry states."""
    return [mean for part in body.per_precision for mean in part.run_means if mean > 0]


def share_a_mean(mine: Iterable[float], theirs: Iterable[float]) -> bool:
    """Whether one of my run means is one of theirs."""
    others = list(theirs)
    return any(math.isclose(one, another, rel_tol=SAME_MEAN) for one in mine for another in others)


def _shares_a_mean(a: Entry, b: Entry) -> bool:
    bodies = [entry.body for entry in (a, b) if isinstance(entry.body, ResultRecorded)]
    return share_a_mean(means_of(bodies[0]), means_of(bodies[1]))
