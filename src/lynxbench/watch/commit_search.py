"""Which commit is looked at next between a good one and a bad one. Pure: it is told outcomes and says what comes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.model.branch_check import CommitVerdict


@dataclass(frozen=True, slots=True)
class OpenStretch:
    """Where the change lies: after `before` (−1 is the good commit itself), up to and with `last`."""

    before: int
    last: int
    next: int | None
    """The commit to look at; None where every one between was looked at."""


def narrow(commits: Sequence[str], verdicts: Mapping[str, CommitVerdict]) -> OpenStretch:
    """The stretch that is left; the last commit is bad. What could not be decided or run is passed over.

    The next one is the nearest to the middle that was not looked at; of two as near, the earlier.
    """
    last = next((at for at, sha in enumerate(commits) if verdicts.get(sha) is CommitVerdict.BAD), len(commits) - 1)
    good = [at for at in range(last) if verdicts.get(commits[at]) is CommitVerdict.GOOD]
    before = max(good, default=-1)
    inside = [at for at in range(before + 1, last) if commits[at] not in verdicts]
    middle = (before + last) / 2
    return OpenStretch(before, last, min(inside, key=lambda at: abs(at - middle), default=None))
