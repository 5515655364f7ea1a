"""The benchmark of closed notices: what it counts of planted nights and planted rules, whose truth is known."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lynxbench.watch.level_rules import is_recovered

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
try:
    watch_recovery: Any = import_module("watch_recovery")
finally:
    sys.path.remove(FOLDER)

TOLD, UNDONE, NIGHTS = watch_recovery.TOLD, watch_recovery.UNDONE, watch_recovery.NIGHTS
SHAPE = watch_recovery.LossShape(14, "normal", 0.0, 0.5, 0.01)
FEW = 6


def lossy(shape: Any = SHAPE, streams: int = FEW) -> np.ndarray:
    values = np.asarray(watch_recovery.draw(np.random.default_rng(3), shape, streams))
    values[:, shape.window :] -= shape.loss
    return values


def truth(shape: Any = SHAPE, streams: int = FEW) -> Any:
    return watch_recovery.OpenNotices(
        np.full(streams, shape.loss), np.full(streams, shape.window), np.full(streams, TOLD)
    )


def never(streams: Any, told: np.ndarray, sessions: np.ndarray, budget: float) -> np.ndarray:
    return np.zeros(len(told), dtype=bool)


def at_once(streams: Any, told: np.ndarray, sessions: np.ndarray, budget: float) -> np.ndarray:
    return np.ones(len(told), dtype=bool)


def by_newest(streams: Any, told: np.ndarray, sessions: np.ndarray, budget: float) -> np.ndarray:
    return np.asarray(streams.values[:, -1] > -told / 2)


def test_a_closing_has_the_night_on_which_the_rule_first_said_so() -> None:
    values = lossy()
    values[1, SHAPE.window + 9 - 1] = 0.0  # one good night, the ninth
    values[2, SHAPE.window + 5 - 1] = 0.0  # before three sessions came after the notice
    closed = watch_recovery.closing_nights(values, truth(), SHAPE.window, rule=by_newest)
    assert closed.tolist() == [0, 9, 0, 0, 0, 0]
    assert watch_recovery.closing_nights(values, truth(), SHAPE.window, rule=at_once).tolist() == [TOLD + 3] * FEW


def test_a_loss_without_a_doubt_stays_open_and_is_closed_once_it_is_undone() -> None:
    counts = watch_recovery.count(lossy(), truth(), SHAPE)
    assert (counts.streams, counts.wrongly, counts.by_mean, counts.undone, counts.closed) == (FEW, 0, 0, FEW, FEW)
    assert counts.median == 2, "two good nights of three leave a third of the loss"


def test_a_stream_that_was_closed_while_the_loss_lasted_is_not_closed_well_later() -> None:
    values = lossy()
    values[0, SHAPE.window + 4 : SHAPE.window + 8] = 0.0  # four good nights, and the loss is back: closed wrongly
    counts = watch_recovery.count(values, truth(), SHAPE)
    assert (counts.wrongly, counts.by_mean, counts.undone, counts.closed) == (1, 1, FEW - 1, FEW - 1)


def test_neither_a_rule_that_never_closes_nor_one_that_closes_at_once_looks_good() -> None:
    deaf = watch_recovery.count(lossy(), truth(), SHAPE, never)
    assert (deaf.wrongly, deaf.undone, deaf.closed, deaf.median) == (0, FEW, 0, None)
    rash = watch_recovery.count(lossy(), truth(), SHAPE, at_once)
    assert (rash.wrongly, rash.undone, rash.closed) == (FEW, 0, 0)
    prompt = watch_recovery.count(lossy(), truth(), SHAPE, by_newest)
    assert prompt.nights == (FEW, *[0] * (NIGHTS - UNDONE - 1))


def test_the_watch_tells_a_plain_loss_on_its_third_night_with_its_size_and_beginning() -> None:
    shape = watch_recovery.LossShape(40, "normal", 0.0, 0.5, 0.01)
    told, notices = watch_recovery.told_by_watch(lossy(shape), shape.window)
    assert told.tolist() == list(range(FEW))
    assert notices.opened.tolist() == [3] * FEW
    assert notices.ends.tolist() == [shape.window] * FEW
    assert notices.loss == pytest.approx(np.full(FEW, 0.5), abs=0.03)
    borne = watch_recovery.LossShape(40, "normal", 0.0, 0.0, 0.01)
    told, notices = watch_recovery.told_by_watch(lossy(borne), borne.window)
    assert (len(told), len(notices.loss)) == (0, 0)
    assert watch_recovery.count(lossy(borne)[told], notices, borne).streams == 0


@pytest.mark.parametrize("law", watch_recovery.LAWS)
def test_nights_scatter_and_remember_as_they_are_said_to(law: str) -> None:
    shape = watch_recovery.LossShape(40, law, 0.6, 0.0, 0.02)
    nights = watch_recovery.draw(np.random.default_rng(5), shape, 4000)
    wider = 1 + watch_recovery.OUTLIERS * watch_recovery.OUTLYING**2 if law == "outliers" else 1.0
    assert nights.std() == pytest.approx(0.02 * wider**0.5, rel=0.05)
    assert (nights[:, 1:] * nights[:, :-1]).mean() / (nights**2).mean() == pytest.approx(0.6, abs=0.03)


def test_the_mean_alone_closes_nothing_that_the_rule_leaves_open() -> None:
    shape = watch_recovery.LossShape(14, "t3", 0.6, 0.03, 0.01)
    values, notices = lossy(shape, 300), truth(shape, 300)
    whole, part = (
        watch_recovery.closing_nights(values, notices, shape.window, rule=rule)
        for rule in (is_recovered, watch_recovery.by_mean)
    )
    assert ((part == 0) | ((whole > 0) & (whole <= part))).all()
    assert (whole > 0).sum() > (part > 0).sum() > 0


def test_every_share_has_its_interval(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["watch_recovery.py", "--streams", "20", "--only", "14 normal 0 0.86"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert watch_recovery.main() == 0
    assert "0.0% [0.0%,  16.1%]" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*arguments, "--json"])
    assert watch_recovery.main() == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["truth"]["wrongly_share"] == pytest.approx({"low": 0.0, "estimate": 0.0, "high": 0.1611}, abs=1e-3)
    assert row["truth"]["closed_share"]["estimate"] == 1.0
    assert row["watch"]["streams"] <= row["truth"]["streams"] == 20
