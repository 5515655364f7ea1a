"""Which cause bounds a contract over time: one that moved is told with its place, one odd result is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lynxbench.compare.leading_causes import find_cause_moves
from lynxbench.model.history import HistoryPoint
from lynxbench.model.layers import Layer

LAUNCH, BANDWIDTH = "launch", "memory_bandwidth"


def points_of(causes: Sequence[str], *, changed_at: int = 10**6, doubtful: Sequence[int] = ()) -> list[HistoryPoint]:
    return [
        HistoryPoint(
            result_id=f"{index:064x}",
            started_at=f"2026-01-{1 + index // 24:02d}T{index % 24:02d}:00:00+00:00",
            executor_id="ee" * 32,
            instance_id="aa" * 32,
            layer_ids={Layer.FRAMEWORK: "new" if index >= changed_at else "old", Layer.SYSTEM: "same"},
            weights="retrained" if index >= changed_at + 1 else "first",
            run_means=(1.0,),
            estimate=1.0,
            low=None,
            high=None,
            unit="tokens/s",
            doubtful=index in doubtful,
            cause=cause,
        )
        for index, cause in enumerate(causes)
    ]


def test_a_cause_that_moved_with_an_upgrade_is_told_with_it() -> None:
    causes = [LAUNCH] * 9 + [BANDWIDTH] + [LAUNCH] * 2 + [BANDWIDTH] * 8
    (move,) = find_cause_moves(points_of(causes, changed_at=12))
    assert (move.before, move.after, move.index) == (LAUNCH, BANDWIDTH, 12)
    assert (move.led, move.leads) == ((11, 12), (8, 8))
    assert move.layers_changed == (Layer.FRAMEWORK,)
    assert not move.model_changed
    assert move.p <= 0.05


def test_where_nothing_changed_in_the_record_no_layer_is_named() -> None:
    (move,) = find_cause_moves(points_of([LAUNCH] * 8 + [BANDWIDTH] * 8))
    assert move.layers_changed == ()


@pytest.mark.parametrize(
    "causes",
    [
        [LAUNCH] * 20,
        [LAUNCH] * 10 + [BANDWIDTH] + [LAUNCH] * 10,
        [LAUNCH, BANDWIDTH] * 12,
        [LAUNCH] * 20 + [BANDWIDTH] * 2,
        [LAUNCH] * 3 + [BANDWIDTH] * 3,
        [],
    ],
)
def test_odd_results_and_level_causes_are_no_move(causes: list[str]) -> None:
    assert find_cause_moves(points_of(causes)) == ()


def test_results_that_name_nothing_or_are_doubtful_say_nothing() -> None:
    causes = [LAUNCH] * 10 + [BANDWIDTH] * 10
    assert find_cause_moves(points_of(causes, doubtful=range(10, 20))) == ()
    blank = [LAUNCH] * 10 + ["", "unattributed"] * 6
    assert find_cause_moves(points_of(blank)) == ()
    (move,) = find_cause_moves(points_of([LAUNCH] * 6 + [""] * 3 + [BANDWIDTH] * 6))
    assert move.index == 9, "by the points of the series, not by those that name a cause"


def test_a_mixture_whose_leader_stays_did_not_move() -> None:
    causes = [LAUNCH] * 30 + [LAUNCH, LAUNCH, BANDWIDTH] * 10
    assert find_cause_moves(points_of(causes)) == ()
