"""Reproductions that rest on the samples of what they reproduce: one measurement, read twice, is no second one.

A run mean is a hash of its process's durations that every signed entry bears, so samples are opened only where one is
shared. Clocks that were shifted and processes that were numbered anew change no duration.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from lynxbench.model.entries import Entry, RerunVerdict, ResultRecorded, ResultRerun

SAME_MEAN: Final = 1e-9

Copies = Mapping[tuple[str, str], str]
"""By a result and its rerun: why the second is no measurement of its own, or cannot be looked at."""


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
        from lynxbench.ledger.sample_durations import durations_in, shared_processes  # most lists open no samples

        mine, theirs = (durations_in(recorded[name], document) for name in (rerun, original))
        if not mine or not theirs:
            copies[original, rerun] = "states its run means, and no samples here tell the two apart"
        elif shared_processes(mine, theirs):
            copies[original, rerun] = "has its samples: one measurement, shown as two"
    return copies


def unheld_reruns(entries: Iterable[Entry]) -> dict[tuple[str, str], str]:
    """Of reproductions among entries: those whose rerun is not recorded among them, or of another contract."""
    known = list(entries)
    contracts: dict[str, set[str]] = {}
    for entry in known:
        if isinstance(entry.body, ResultRecorded):
            contracts.setdefault(entry.body.result_id, set()).add(entry.body.contract_id)
    unheld = {}
    for body in (entry.body for entry in known):
        if not isinstance(body, ResultRerun) or body.verdict is not RerunVerdict.REPRODUCED:
            continue
        mine, theirs = contracts.get(body.result_id, set()), contracts.get(body.rerun_id)
        if theirs is None:
            unheld[body.result_id, body.rerun_id] = "is not held here"
        elif mine and not mine & theirs:
            unheld[body.result_id, body.rerun_id] = "is of another contract"
    return unheld


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
