"""A ledger to keep pages of, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.server import page_cache
from page_clock import PageClock
from recording_teams import TEAM, make_team


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> PageClock:
    made = PageClock()
    monkeypatch.setattr(page_cache, "time", made)
    return made


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[OpenLedger, SigningKey]]:
    team = make_team(TEAM, tmp_path)
    location = locate(None, team.environment)
    assert location is not None
    with open_ledger(location, team.environment, create=True) as ledger:
        yield ledger, team.key
