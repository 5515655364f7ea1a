"""Pages that nobody waits for are made outside the serving process: the same pages, and one that dies is replaced."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compared import make_contract, make_executor, make_result
from lynxbench.errors import BadInput
from lynxbench.model.result import Result
from lynxbench.server.page_cache import OLDEST_S, WORK
from lynxbench.server.page_process import document_of, page_of
from lynxbench.server.pages.compare_page import compare_form_page, compare_page
from lynxbench.server.pages.contracts_page import contract_page
from lynxbench.server.pages.executors_page import executor_page, executors_page
from lynxbench.server.pages.ledger_page import ledger_page
from lynxbench.server.pages.overview_page import contracts_page, overview_page
from lynxbench.server.pages.results_page import result_page, results_page
from lynxbench.server.pages.runs_page import runs_page
from lynxbench.server.server_state import INTAKE, SCRATCH, Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import store_url
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


def recorded(server: Server, team: Team, number: int) -> Result:
    made = make_result(contract=make_contract(name="a"), executor=make_executor())
    result = record(server.ledger, made.model_copy(update={"run_id": f"run-{number}"}).sealed(), team.key)
    server.arrived()
    return result


def test_it_makes_the_pages_that_the_server_itself_makes(server: Server, team: Team) -> None:
    first, second = recorded(server, team, 1), recorded(server, team, 2)
    calls = [
        (overview_page, (), {}),
        (contracts_page, (1,), {}),
        (contract_page, (first.contract_id, None), {"signs": True}),
        (contract_page, (first.contract_id, first.per_precision[0].precision), {"signs": False}),
        (results_page, ((("precision", "fp32"),),), {}),
        (result_page, (first.result_id,), {}),
        (executors_page, (1,), {}),
        (executor_page, (first.executor_id,), {}),
        (compare_page, (first.result_id, second.result_id, None), {}),
        (compare_form_page, ("", ""), {}),
        (ledger_page, (None,), {}),
        (runs_page, (), {}),
    ]
    for make, given, named in calls:
        page = server.page_process.make(make, given, named)
        assert page is not None
        assert replace(page) == replace(make(server, *given, **named)), make.__name__
        assert "<script>" not in page.main
    with pytest.raises(BadInput, match=r"f{12}: no such result") as there:
        server.page_process.make(result_page, ("f" * 64,), {})
    with pytest.raises(BadInput) as here:
        result_page(server, "f" * 64)
    assert str(there.value) == str(here.value)


def test_it_knows_what_came_since(server: Server, team: Team) -> None:
    """At once, or it says that what it shows is older: parts that took long to make are kept, ten seconds at most."""
    recorded(server, team, 1)
    before = server.page_process.make(overview_page, (), {})
    begun = time.monotonic()
    result = recorded(server, team, 2)
    after, wrong_at = server.cache.made(lambda: server.page_process.make(overview_page, (), {}))
    assert before is not None
    assert after is not None
    assert result.result_id not in before.main
    if result.result_id not in after.main:
        assert wrong_at < math.inf
        time.sleep(max(0.0, begun + OLDEST_S - time.monotonic()))
        after = server.page_process.make(overview_page, (), {})
        assert after is not None
    assert result.result_id in after.main
    server.pulse.bump(WORK, result.contract_id)
    assert server.page_process.make(overview_page, (), {}) == after
    assert not server.pulse.take_bumped(), "it was told"


def test_where_it_ends_the_server_makes_pages_itself_for_a_while(server: Server, team: Team) -> None:
    recorded(server, team, 1)
    process = server.page_process
    assert process.make(runs_page, (), {}) is not None
    child = process._process
    assert child is not None
    assert os.getpgid(child.pid) == child.pid, "Ctrl-C is for the server"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert process.make(runs_page, (), {}) is None
    assert process.make(runs_page, (), {}) is None
    assert process._process is None, "not started again at once"
    process._rests_until = 0.0
    assert process.make(runs_page, (), {}) is not None


def test_when_its_server_is_gone_it_ends_and_takes_nothing_away(server: Server, team: Team) -> None:
    """Another server may have begun by then, and its processes have laid something out."""
    recorded(server, team, 1)
    assert server.page_process.make(runs_page, (), {}) is not None
    laid_out = [server.settings.upload_folder / name for name in (SCRATCH, INTAKE)]
    for folder in laid_out:
        (folder / "run").mkdir(parents=True)
    child = server.page_process._process
    assert child is not None
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(300) == 0
    assert all((folder / "run").is_dir() for folder in laid_out)


def test_a_page_that_it_cannot_make_is_made_here(server: Server) -> None:
    assert server.page_process.make(broken_page, (), {}) is None
    server.page_process.close()
    server.page_process._rests_until = 0.0
    server.page_process._module = "lynxbench.server.no_such_module"
    assert server.page_process.make(runs_page, (), {}) is None


def broken_page(server: Server) -> object:
    """Something that no page does."""
    raise ZeroDivisionError


def test_a_page_comes_back_as_it_was(server: Server) -> None:
    page = runs_page(server)
    assert page_of(document_of(page)) == page
