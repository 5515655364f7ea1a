"""Schedules, agents, runs as they happen, and notices of regressions."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Query, Request
from starlette.responses import Response, StreamingResponse

from lynxbench.contract.loader import parse_document
from lynxbench.server.api.json_answers import answer, changed, found_id, noted, server_of, there, who_of
from lynxbench.server.api.request_models import MOST_NUMBER, EndRun, Limit, Live, NewSchedule, Poll, Short, Word
from lynxbench.server.guard import remote_of
from lynxbench.server.page_cache import WORK
from lynxbench.watch.schedules import LEASE_S, RunState, Schedule

router = APIRouter(tags=["running"])


@router.get("/schedules")
def schedules(request: Request) -> Response:
    """Every schedule, and the agents that came."""
    server = server_of(request)
    return answer(
        {
            "schedules": [_schedule(one) for one in server.scheduler.schedules()],
            "agents": [asdict(one) for one in server.scheduler.agents()],
        }
    )


@router.put("/schedules/{schedule}")
def put_schedule(request: Request, schedule: Short, asked: NewSchedule) -> Response:
    """Put a contract on a timetable: `every 6 h`, or five fields of cron in UTC."""
    server, who = server_of(request), who_of(request)

    def work() -> Schedule:
        contract = parse_document(json.dumps(asked.contract), "contract")
        return server.scheduler.put(schedule, who.team, asked.timetable, contract, who.label, asked.agents)

    return answer(_schedule(changed(request, "put schedule", schedule, work)))


@router.delete("/schedules/{schedule}")
def remove_schedule(request: Request, schedule: Short) -> Response:
    """Take a schedule away; what came of it stays in the book."""
    server, who = server_of(request), who_of(request)
    there(server, lambda: server.scheduler.get(schedule))
    changed(request, "remove schedule", schedule, lambda: server.scheduler.remove(schedule, who.team))
    return answer({"removed": schedule})


@router.post("/agents/{agent}/poll")
def poll(request: Request, agent: Short, asked: Poll) -> Response:
    """What an agent is to do now; `run` is null where nothing is due."""
    server, who = server_of(request), who_of(request)
    found = server.scheduler.poll(agent, who.team, asked.version, places=asked.places)
    if found is None:
        return answer({"run": None})
    run, schedule = found
    server.pulse.bump(WORK)
    server.audit.note(who.label, "claim run", run.run, remote=remote_of(request.scope, server), detail=schedule.name)
    last = server.scheduler.last_node(schedule.name, agent)
    return answer({"run": run.document(), "contract": schedule.contract, "lease_s": LEASE_S, "last_node": last})


@router.get("/runs")
def runs(request: Request, limit: Limit = 100, active: bool = False) -> Response:
    """Every time a schedule was due, newest first: run, missed, lost, or kept from overlapping."""
    found = server_of(request).scheduler.runs(limit=limit, active=active)
    return answer({"runs": [one.document() for one in found]})


@router.get("/runs/{run}")
def run(request: Request, run: Short) -> Response:
    """One of them."""
    server = server_of(request)
    return answer(there(server, lambda: server.scheduler.run(run)).document())


@router.post("/runs/{run}/live")
def live(request: Request, run: Short, asked: Live) -> Response:
    """What a run says while it runs; also keeps its claim."""
    server, who = server_of(request), who_of(request)
    there(server, lambda: server.scheduler.run(run))
    server.scheduler.beat(run, who.team, node=asked.node)
    events = [(one.at_s, one.phase, one.label, one.value, one.iterations) for one in asked.events]
    return answer({"events": server.board.post(run, events)})


@router.post("/runs/{run}/end")
def end(request: Request, run: Short, asked: EndRun) -> Response:
    """What came of a run."""
    server, who = server_of(request), who_of(request)
    there(server, lambda: server.scheduler.run(run))
    state = RunState(asked.state)
    found = noted(
        request, "end run", run, lambda: server.scheduler.end(run, who.team, state, asked.said, asked.result_id)
    )
    server.pulse.bump(WORK)
    server.board.end(run, found.state)
    return answer(found.document())


@router.get("/runs/{run}/events", response_class=StreamingResponse)
async def events(
    request: Request,
    run: Short,
    after: Annotated[int, Query(ge=-1, le=MOST_NUMBER)] = -1,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    follow: bool = True,
) -> Response:
    """A run in progress as server-sent events, from an event on; `follow=false` gives what is there and ends."""
    server, who = server_of(request), who_of(request)
    found = there(server, lambda: server.scheduler.run(run))
    if last_event_id is not None and last_event_id.isdecimal():
        after = int(last_event_id)
    if not follow or found.ended_at is not None:
        said, _ = server.board.events(run, after)
        lines = [f"id: {one.number}\nevent: sample\ndata: {json.dumps(one.document())}\n\n" for one in said]
        if found.ended_at is not None:
            lines.append(f"event: end\ndata: {json.dumps({'state': found.state})}\n\n")
        return Response("".join(lines), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
    caller = who.credential or remote_of(request.scope, server)
    if not server.board.open_stream(caller):
        raise HTTPException(429, "too many pages follow runs already", {"Retry-After": "10"})
    return StreamingResponse(
        server.board.stream(run, after, caller), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@router.get("/notices")
def notices(request: Request, contract: Word = None, still: bool = False, limit: Limit = 100) -> Response:
    """Regressions, the layer and owner that are suspected, and whether the owner was told."""
    server = server_of(request)
    name = found_id(server, contract, "contract") if contract else None
    found = server.watch.notices(contract_id=name, still=still, limit=limit)
    told = server.watch.told([one.notice for one in found])
    rows = [{**asdict(one), "told": [asdict(each) for each in told[one.notice]]} for one in found]
    return answer({"notices": rows})


@router.post("/notices/{notice}/accept")
def accept(request: Request, notice: Short) -> Response:
    """Accept the new level: later results are held against it. A team accepts what its own agents or machines found."""
    server, who = server_of(request), who_of(request)
    there(server, lambda: server.watch.notice(notice))
    found = changed(request, "accept level", notice, lambda: server.watch.accept(notice, who.name))
    return answer(asdict(found))


def _schedule(one: Schedule) -> dict[str, object]:
    return asdict(one)
