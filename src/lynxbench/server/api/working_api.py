"""Schedules, agents, runs as they happen, and notices of regressions."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from fastapi import Header, HTTPException, Query
from starlette.responses import Response, StreamingResponse

from lynxbench.contract.loader import parse_document
from lynxbench.errors import Refused
from lynxbench.model.canonical import short
from lynxbench.server import ledger_views as reading
from lynxbench.server.administration import ChangeAuthor
from lynxbench.server.api import answer_models as answers
from lynxbench.server.api.request_models import MOST_NUMBER, EndRun, Limit, Live, NewSchedule, Poll, Short, Word
from lynxbench.server.live import EVENT_STREAM, event_text
from lynxbench.server.page_cache import WORK
from lynxbench.server.rights import API, AccessScope, Principal
from lynxbench.server.routing import CONTEST, READ, SUBMIT, Routes, TheAuthor, TheCaller, TheServer, answer
from lynxbench.server.server_state import Server
from lynxbench.watch.regressions import Notice
from lynxbench.watch.schedules import LEASE_S, RegisteredAgent, RunState, ScheduledRun

route = Routes(API, "running")


@route("GET", "/schedules", READ, {"schedules": list[answers.ScheduleAnswer], "agents": list[RegisteredAgent]})
def schedules(server: TheServer) -> Response:
    """Every schedule, and the agents that came."""
    return answer({"schedules": server.scheduler.schedules(), "agents": server.scheduler.agents()})


@route("PUT", "/schedules/{schedule}", SUBMIT, answers.ScheduleAnswer)
def put_schedule(server: TheServer, who: TheCaller, by: TheAuthor, schedule: Short, body: NewSchedule) -> Response:
    """Put a contract on a timetable: `every 6 h`, or five fields of cron in UTC."""
    contract = parse_document(json.dumps(body.contract), "contract")
    put = server.administration.put_schedule
    return answer(put(by, schedule, who.team, body.timetable, contract, body.agents))


@route("DELETE", "/schedules/{schedule}", SUBMIT, {"removed": str})
def remove_schedule(server: TheServer, who: TheCaller, by: TheAuthor, schedule: Short) -> Response:
    """Take a schedule away; what came of it stays in the book."""
    server.administration.remove_schedule(by, schedule, who.team)
    return answer({"removed": schedule})


@route("POST", "/agents/{agent}/poll", SUBMIT, answers.ClaimedRunAnswer)
def poll(server: TheServer, who: TheCaller, by: TheAuthor, agent: Short, body: Poll) -> Response:
    """What an agent is to do now; `run` is null where nothing is due."""
    claimed = server.scheduler.poll(agent, who.team, body.version, places=body.places)
    if claimed is None:
        return answer({"run": None})
    run, schedule = claimed
    server.pulse.bump(WORK)
    server.audit.note(by, "claim run", run.run, detail=schedule.name)
    last_node = server.scheduler.last_node(schedule.name, agent)
    return answer({"run": run, "contract": schedule.contract, "lease_s": LEASE_S, "last_node": last_node})


@route("GET", "/runs", READ, {"runs": list[ScheduledRun]})
def runs(server: TheServer, limit: Limit = 100, active: bool = False) -> Response:
    """Every time a schedule was due, newest first: run, missed, lost, or kept from overlapping."""
    return answer({"runs": server.scheduler.runs(limit=limit, active=active)})


@route("GET", "/runs/{run}", READ, ScheduledRun)
def run(server: TheServer, run: Short) -> Response:
    """One of them."""
    return answer(server.scheduler.run(run))


@route("POST", "/runs/{run}/live", SUBMIT, {"events": int})
def live(server: TheServer, who: TheCaller, run: Short, body: Live) -> Response:
    """What a run says while it runs; also keeps its claim."""
    server.scheduler.beat(run, who.team, node=body.node)
    events = [(event.at_s, event.phase, event.label, event.value, event.iterations) for event in body.events]
    return answer({"events": server.board.post(run, events)})


@route("POST", "/runs/{run}/end", SUBMIT, ScheduledRun)
def end(server: TheServer, who: TheCaller, by: TheAuthor, run: Short, body: EndRun) -> Response:
    """What came of a run."""

    def work() -> ScheduledRun:
        if body.result_id is not None and not reading.is_own(server, body.result_id, who.team):
            raise Refused(f"result {short(body.result_id)} is none of {who.team} here; push it first")
        return server.scheduler.end(run, who.team, RunState(body.state), body.said, body.result_id)

    ended = server.audit.carry_out(by, "end run", run, work)
    server.pulse.bump(WORK)
    server.board.end(run, ended.state)
    return answer(ended)


@route("GET", "/runs/{run}/events", READ, media=EVENT_STREAM)
async def events(
    server: TheServer,
    who: TheCaller,
    by: TheAuthor,
    run: Short,
    after: Annotated[int, Query(ge=-1, le=MOST_NUMBER)] = -1,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    follow: bool = True,
) -> Response:
    """A run in progress as server-sent events, from an event on; `follow=false` gives what is there and ends."""
    scheduled = server.scheduler.run(run)
    if last_event_id is not None and last_event_id.isdecimal():
        after = int(last_event_id)
    headers = {"Cache-Control": "no-store"}
    if not follow or scheduled.ended_at is not None:
        ended = scheduled.state if scheduled.ended_at is not None else None
        return Response(event_text(server.board.events(run, after)[0], ended), media_type=EVENT_STREAM, headers=headers)
    caller = who.credential or by.remote
    if not server.board.open_stream(caller):
        raise HTTPException(429, "too many pages follow runs already", {"Retry-After": "10"})
    return StreamingResponse(server.board.stream(run, after, caller), media_type=EVENT_STREAM, headers=headers)


@route("GET", "/notices", READ, {"notices": list[answers.ToldNotice]})
def notices(server: TheServer, contract: Word = None, still: bool = False, limit: Limit = 100) -> Response:
    """Regressions, the layer and owner that are suspected, and whether the owner was told."""
    contract_id = reading.named(server, contract, "contract") if contract else None
    listed = server.watch.notices(contract_id=contract_id, still=still, limit=limit)
    deliveries = server.watch.told([notice.notice for notice in listed])
    return answer({"notices": [{**asdict(notice), "told": deliveries[notice.notice]} for notice in listed]})


@route("POST", "/notices/{notice}/accept", CONTEST, Notice)
def accept(server: TheServer, who: TheCaller, by: TheAuthor, notice: Short) -> Response:
    """Accept the new level: later results are held against it. A team accepts what its own agents or machines found."""
    return answer(_settle(server, who, by, "accept level", notice, server.watch.accept))


@route("POST", "/notices/{notice}/acknowledge", CONTEST, Notice)
def acknowledge(server: TheServer, who: TheCaller, by: TheAuthor, notice: Short) -> Response:
    """Say that it is known, as the team whose result shows it, or as an administrator: the level stays, and nobody is
    told again until it has recovered."""
    return answer(_settle(server, who, by, "acknowledge", notice, server.watch.acknowledge))


def _settle(
    server: Server,
    who: Principal,
    by: ChangeAuthor,
    action: str,
    notice: str,
    settle: Callable[[str, str], Notice],
) -> Notice:
    """Close a notice in the name of whose result it is about; of another team's, administrators may."""

    def work() -> Notice:
        result_id = server.watch.notice(notice).result_id
        if not who.may(AccessScope.ADMINISTER) and not reading.is_own(server, result_id, who.team):
            raise Refused(f"the notice is about result {short(result_id)}, which is none of {who.team}")
        return settle(notice, who.name)

    settled = server.audit.carry_out(by, action, notice, work)
    server.changed()
    return settled
