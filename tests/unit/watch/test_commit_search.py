"""The search for a commit, against every place of the truth and every set that cannot be looked at."""

from __future__ import annotations

import itertools
import math

import pytest

from lynxbench.model.branch_check import CommitVerdict
from lynxbench.watch.commit_search import narrow


def _search(commits: list[str], culprit: int, blind: frozenset[int]) -> tuple[int, int, int]:
    """The stretch that is left at the end, and how many were looked at."""
    verdicts = {commits[-1]: CommitVerdict.BAD}
    looked = 0
    while True:
        stretch = narrow(commits, verdicts)
        if stretch.next is None:
            return stretch.before, stretch.last, looked
        looked += 1
        assert commits[stretch.next] not in verdicts
        blind_word = CommitVerdict.BROKEN if stretch.next % 2 else CommitVerdict.UNDECIDED
        truth = CommitVerdict.BAD if stretch.next >= culprit else CommitVerdict.GOOD
        verdicts[commits[stretch.next]] = blind_word if stretch.next in blind else truth


@pytest.mark.parametrize("many", range(1, 8))
def test_the_smallest_stretch_that_can_be_known_is_left(many: int) -> None:
    commits = [f"{at:040x}" for at in range(many)]
    for culprit in range(many):
        for size in range(many):
            for blind in map(frozenset, itertools.combinations(range(many - 1), size)):
                before, last, _ = _search(commits, culprit, blind)
                seen = [at for at in range(many) if at not in blind]
                assert last == min(at for at in seen if at >= culprit)
                assert before == max((at for at in seen if at < culprit), default=-1)


@pytest.mark.parametrize("many", [1, 2, 8, 100, 1000])
def test_it_halves(many: int) -> None:
    commits = [f"{at:040x}" for at in range(many)]
    for culprit in {0, many // 3, many // 2, many - 1}:
        before, last, looked = _search(commits, culprit, frozenset())
        assert (before, last) == (culprit - 1, culprit)
        assert looked <= math.ceil(math.log2(many)) + 1
