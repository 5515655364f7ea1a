"""What is recomputed next: while results come, their figures go before the whole of those that came."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest

from lynxbench.server import recompute_queue
from lynxbench.server.recompute_queue import CALM_S, LONGEST_WAIT_S, Outcome, RecomputeProcess, RecomputeQueue
from lynxbench.watch.recomputations import DueResult, Recomputations, RecomputationState
from lynxbench.watch.store import Store
from recording_teams import made_result, make_team, record


class Answers:
    """In place of the process: every result holds, unless its samples alone cannot say."""

    def __init__(self) -> None:
        self.undecided = False

    def ask_all(self, names: Sequence[str], *, whole: bool) -> Iterator[Outcome]:
        state = RecomputationState.CANNOT if self.undecided and not whole else RecomputationState.HOLDS
        return ((state, ["said"]) for _ in names)


class Scene:
    """A ledger that results come into, a queue, and a clock that stands still unless it is moved."""

    def __init__(self, folder: Path) -> None:
        self.team, self.now, self.answers, self.arrived = make_team("alpha", folder), 1000.0, Answers(), 0
        self.ledger = self.team.open()
        self.store = Store(f"sqlite:///{folder}/server.sqlite")
        self.recomputations = Recomputations(self.store, self.ledger.log)
        process = cast("RecomputeProcess", self.answers)
        told: list[tuple[DueResult, RecomputationState]] = []
        log = logging.getLogger("test")
        self.queue = RecomputeQueue(self.recomputations, process, lambda *one: told.append(one), log, lambda: self.now)

    def arrive(self) -> None:
        record(self.ledger, made_result(self.arrived), self.team.key)
        self.arrived += 1

    def taken(self) -> str | None:
        due = self.queue.take_due()
        return None if due is None else "whole" if due.whole else "figures"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.store.close()
    made.ledger.log.close()


def test_the_whole_waits_until_no_more_come(scene: Scene) -> None:
    scene.arrive()
    assert scene.taken() == "figures"
    assert scene.taken() is None
    scene.now += CALM_S / 2
    scene.arrive()
    assert scene.taken() == "figures"
    scene.now += CALM_S / 2
    assert scene.taken() is None
    scene.now += CALM_S / 2
    assert [scene.taken() for _ in range(3)] == ["whole", "whole", None]


def test_where_they_never_stop_coming_the_whole_is_taken_all_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recompute_queue, "CALM_S", LONGEST_WAIT_S / 3)
    seen: list[str | None] = []
    for _ in range(7):
        scene.arrive()
        seen += [scene.taken(), scene.taken()]
        scene.now += LONGEST_WAIT_S / 4  # never calm
    assert seen[0::2] == ["figures"] * 7
    assert [what == "whole" for what in seen[1::2]] == [False, False, False, False, True, False, False]


def test_what_samples_alone_do_not_decide_is_taken_whole_at_once(scene: Scene) -> None:
    scene.answers.undecided = True
    scene.arrive()
    assert [scene.taken() for _ in range(3)] == ["figures", "whole", None]
    scene.answers.undecided = False
    scene.arrive()
    assert [scene.taken() for _ in range(2)] == ["figures", None]


def test_what_waited_when_it_ended_is_decided_first_when_it_starts_again(scene: Scene) -> None:
    scene.arrive()
    assert scene.taken() == "figures"
    again = RecomputeQueue(
        scene.recomputations,
        cast("RecomputeProcess", scene.answers),
        lambda *_: None,
        logging.getLogger("test"),
        lambda: scene.now,
    )
    scene.arrive()
    found = [again.take_due() for _ in range(3)]
    assert [None if due is None else due.whole for due in found] == [False, True, None]
