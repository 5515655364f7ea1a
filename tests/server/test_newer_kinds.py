"""The ledger's page beside entries of kinds that this version does not know: it says what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compared import make_result
from lynxbench.server.pages.ledger_page import PER_PAGE, ledger_page
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import store_url
from newer_entries import append_as_newer, newer
from recording_teams import TEAM, Team, make_team, record


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return make_team(TEAM, tmp_path)


@pytest.fixture
def server(team: Team, tmp_path: Path) -> Iterator[Server]:
    settings = ServerSettings(upload_folder=tmp_path / "uploads", environment=team.environment)
    made = Server(settings, team.location, store_url(None, team.location))
    yield made
    made.stop()


def page(server: Server, before: int | None = None) -> str:
    server.arrived()
    return ledger_page(server, before).main


def test_a_ledger_of_known_kinds_has_no_such_line(server: Server, team: Team) -> None:
    record(server.ledger, make_result(), team.key)
    assert "a newer lynxbench" not in page(server)


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["endorsement"], "1 entry of kinds that a newer lynxbench knows (1 endorsement)"),
        (
            ["withdrawal", "endorsement", "endorsement"],
            "3 entries of kinds that a newer lynxbench knows (2 endorsement, 1 withdrawal)",
        ),
    ],
)
def test_how_many_and_of_which_kinds_is_said(
    server: Server, team: Team, monkeypatch: pytest.MonkeyPatch, kinds: list[str], told: str
) -> None:
    result = record(server.ledger, make_result(), team.key)
    for number, kind in enumerate(kinds):
        append_as_newer(server.ledger, newer(team, result.result_id, kind, warmth=number), monkeypatch)
    assert told in page(server)


def test_a_page_of_nothing_else_still_leads_to_the_older_ones(
    server: Server, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: where all that a page would list was of newer kinds, it had no way to the entries before them."""
    result = record(server.ledger, make_result(), team.key)
    held = server.ledger.log.head().size
    for number in range(PER_PAGE):
        append_as_newer(server.ledger, newer(team, result.result_id, warmth=number), monkeypatch)
    newest = page(server)
    assert f"/ledger?before={held}" in newest
    assert "50 entries of kinds" in newest
    assert "Older entries" not in page(server, held)
    assert "/ledger/0" in page(server, held)
