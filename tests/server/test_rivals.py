"""A rival with a team, a key and a token of its own: what others measured, run and announced is not its to settle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from hosted import Caller, World, hosted, make_world, plant_notice, trust_all
from lynxbench.ledger.bundle import import_bundle
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import RerunVerdict, ResultRerun, RunRegistered
from lynxbench.record.recording import seal
from lynxbench.server.rights import API, AccessScope
from lynxbench.watch.store_tables import notices
from recording_teams import OTHER, TEAM, made_result, record


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A server of this module's own: runs and notices are made here."""
    with hosted(make_world(tmp_path_factory.mktemp("rivals"), shapes=(), decisions=False)) as listening:
        yield listening


def claimed(world: World, caller: Caller, team: str, agent: str) -> str:
    """A run that an agent of a team has claimed."""
    world.server.scheduler.put(agent, team, "every 1 s", made_result(0).contract, "test")
    time.sleep(1.1)
    run = caller.json("POST", f"{API}/agents/{agent}/poll", {}).json()["run"]
    world.server.scheduler.remove(agent, team)
    return str(run["run"])


@pytest.mark.parametrize("way", ["accept", "acknowledge"])
def test_a_regression_is_settled_by_the_team_that_measured_it(place: World, way: str) -> None:
    plant_notice(place, way, place.results[5])
    address = f"{API}/notices/{way}/{way}"
    refused = place.caller("stranger").json("POST", address, {})
    assert refused.status == 409
    assert "none of infrastructure" in refused.json()["error"]["message"]
    row = place.server.store.row(select(notices).where(notices.c.notice == way))
    assert row.closed_at is None
    assert place.caller("contester").json("POST", address, {}).json()["closed_by"].endswith(" contester")


def test_an_administrator_settles_what_nobody_else_is_left_to(place: World) -> None:
    plant_notice(place, "left", place.results[6])
    place.server.access.add_user("keeper", OTHER, frozenset({AccessScope.CONTEST, AccessScope.ADMINISTER}))
    token = place.server.access.make_token("keeper", "test", frozenset({AccessScope.CONTEST, AccessScope.ADMINISTER}))
    answer = Caller(place.port, token.text).json("POST", f"{API}/notices/left/acknowledge", {})
    assert answer.json()["closed_by"] == "acknowledged by keeper"


def test_nobody_says_that_another_teams_result_ran_at_their_place(place: World) -> None:
    rival, victim = place.caller("stranger"), place.results[7].result_id
    run = claimed(place, rival, OTHER, "rivals-agent")
    for result_id in (victim, "0" * 64):
        refused = rival.json("POST", f"{API}/runs/{run}/end", {"state": "done", "result_id": result_id})
        assert refused.status == 409
    assert place.server.scheduler.place_of(victim) is None
    assert rival.json("POST", f"{API}/runs/{run}/end", {"state": "failed", "said": "no result"}).status == 200


def test_a_bundle_says_where_the_teams_own_results_ran_alone(place: World, tmp_path: Path) -> None:
    theirs, own = made_result(300), made_result(301)
    assert place.caller("submitter").submit(place.team.bundle(theirs)).status == 200
    rival = place.caller("stranger")
    run = claimed(place, rival, OTHER, "second-agent")
    trust_all(place, place.other)
    (tmp_path / "theirs.lynx").write_bytes(rival.get(f"{API}/results/{theirs.result_id}/bundle").body)
    with place.other.open() as ledger:
        import_bundle(ledger, tmp_path / "theirs.lynx", place.other.keyring.trust)
    assert rival.submit(place.other.bundle(theirs), run).status == 200, "known already"
    assert place.server.scheduler.place_of(theirs.result_id) is None
    assert rival.submit(place.other.bundle(own), run).status == 200
    assert place.server.scheduler.place_of(own.result_id) == "second-agent"


def test_another_teams_run_is_refused_before_anything_is_taken_in(place: World) -> None:
    run = claimed(place, place.caller("submitter"), TEAM, "our-agent")
    before = place.server.ledger.log.head().size
    assert place.caller("stranger").submit(place.other.bundle(made_result(302)), run).status == 409
    assert place.server.ledger.log.head().size == before


def test_a_schedule_does_not_name_another_teams_agent(place: World) -> None:
    claimed(place, place.caller("submitter"), TEAM, "named-agent")
    body = {"timetable": "every 6 h", "contract": made_result(0).contract.canonical(), "agents": ["named-agent"]}
    refused = place.caller("stranger").json("PUT", f"{API}/schedules/framing", body)
    assert (refused.status, "named-agent is of team ml-platform" in refused.text) == (409, True)
    assert place.caller("submitter").json("PUT", f"{API}/schedules/framing", body).status == 200


def test_a_result_that_is_still_to_be_measured_is_nobodys_latest(place: World) -> None:
    """Otherwise it stands as the latest of a contract that others share, for years."""
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="seconds")
    result = made_result(303).model_copy(update={"started_at": ahead, "finished_at": ahead}).sealed()
    before = place.server.ledger.log.head().size
    refused = place.caller("stranger").submit(place.other.bundle(result))
    assert (refused.status, "still to come" in refused.text) == (422, True)
    assert place.server.ledger.log.head().size == before


def test_a_log_is_held_against_no_contract_whose_text_is_not_here(place: World) -> None:
    result = made_result(304, name="without-its-text")
    summary = summary_of(result, nonce="n" * 32, attempts=5)
    place.server.ledger.log.append(seal(summary, place.team.key))
    answer = place.caller("submitter").ask("POST", f"{API}/contracts/{result.contract_id}/likeness", b"{}")
    assert (answer.status, "its text is not in this ledger" in answer.text) == (404, True)


def test_whoever_speaks_of_an_id_that_is_not_here_makes_no_other_ambiguous(place: World) -> None:
    victim, own = place.results[8], made_result(305)
    result_id, contract_id = (name[:20] + "0" * 44 for name in (victim.result_id, victim.contract_id))
    with place.other.open() as ledger:
        record(ledger, own, place.other.key)
        again = ResultRerun(result_id=own.result_id, rerun_id=result_id, verdict=RerunVerdict.REPRODUCED, effects={})
        ledger.log.append(seal(again, place.other.key))
    token = place.server.access.make_token("stranger", "all", place.server.access.user("stranger").scopes).text
    rival = Caller(place.port, token)
    assert rival.submit(place.other.bundle(own)).status == 200
    begun = RunRegistered(
        run_id="of-nothing", nonce="n" * 32, contract_id=contract_id, executor_id=contract_id, processes_planned=5
    )
    envelope = seal(begun, place.other.key).to_bytes().decode()
    assert rival.json("POST", f"{API}/registrations", {"envelope": envelope}).status == 200
    caller = place.caller("reader")
    assert caller.get(f"/results/{victim.result_id[:12]}").status == 200
    assert caller.get(f"{API}/contracts/{victim.contract_id[:12]}").json()["contract_id"] == victim.contract_id
