"""The thread that looks after things: one round for all that woke it, and none lost."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from lynxbench.server.server_state import FLOOD_LOOK_S, LOOK_S, Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import store_url
from recording_teams import make_team

ROUNDS = 3


def test_a_flood_that_wakes_it_is_looked_at_a_few_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = make_team("ml", tmp_path)
    settings = ServerSettings(upload_folder=tmp_path / "uploads", environment=team.environment)
    server = Server(settings, team.location, store_url(None, team.location))
    began: list[float] = []

    def look(*, sweep: bool = True) -> None:
        began.append(time.monotonic())
        if len(began) == ROUNDS:
            server._stop.set()
        server.arrived()  # while it looks: the next round is for what came now

    monkeypatch.setattr(server, "look", look)
    server.arrived()
    server._look()  # ends with the last round
    server.stop()
    assert len(began) == ROUNDS, "what came while it looked is not forgotten"
    assert min(later - earlier for earlier, later in pairwise(began)) >= LOOK_S


def test_results_of_a_second_are_judged_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team = make_team("ml", tmp_path)
    settings = ServerSettings(upload_folder=tmp_path / "uploads", environment=team.environment)
    server = Server(settings, team.location, store_url(None, team.location))
    found, began = [True, True, False, False], list[float]()

    def look(*, sweep: bool = True) -> bool:
        began.append(time.monotonic())
        if len(began) == len(found):
            server._stop.set()
        server.arrived()
        return found[len(began) - 1]

    monkeypatch.setattr(server, "look", look)
    server.arrived()
    server._look()
    server.stop()
    rests = [later - earlier for earlier, later in pairwise(began)]
    assert min(rests[:2]) >= FLOOD_LOOK_S, "after a round that found some"
    assert rests[2] >= LOOK_S
