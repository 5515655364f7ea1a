"""Bundles in: small ones by one request, others in pieces that can be resumed; taking one in twice changes nothing."""

import asyncio
import time
from functools import partial
from threading import Lock
from typing import Annotated

from anyio import to_thread
from fastapi import Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from lynxbench.server import ledger_views as reading
from lynxbench.server.administration import ChangeAuthor
from lynxbench.server.api.request_models import (
    MOST_NUMBER,
    FinishUpload,
    NewRegistration,
    NewRemark,
    NewUpload,
    PushedRun,
    Short,
)
from lynxbench.server.ingest import announce, remark
from lynxbench.server.rights import API, Principal
from lynxbench.server.routing import CONTEST, SUBMIT, Routes, TheAuthor, TheCaller, TheServer, answer
from lynxbench.server.server_state import Server
from lynxbench.server.uploads import DONE, Taken, Upload

route = Routes(API, "submitting")
_finishing: dict[str, Lock] = {}
_finishing_lock = Lock()


@route("POST", "/registrations", SUBMIT, {"seq": int})
def register(server: TheServer, who: TheCaller, by: TheAuthor, body: NewRegistration) -> Response:
    """Announce a run before its first sample, by its signed registration: logged at once, by the server's clock."""
    _refuse_hurry(server, who)
    given = (server.ledger, body.envelope.encode(), server.keys.trust(), who, time.time())
    seq = server.audit.carry_out(by, "announce run", who.team, announce, *given)
    server.arrived()
    return answer({"seq": seq})


@route("POST", "/remarks", CONTEST, {"result_id": str, "seq": int})
def remark_(server: TheServer, who: TheCaller, by: TheAuthor, body: NewRemark) -> Response:
    """Put a tag or a note beside a result, by its entry, signed by a key that the caller's team registered."""
    _refuse_hurry(server, who)
    given = (server.ledger, body.envelope.encode(), server.keys.trust(), who, time.time())
    result_id, seq = server.audit.carry_out(by, "remark", who.team, remark, *given)
    server.arrived()
    return answer({"result_id": result_id, "seq": seq})


@route("POST", "/bundles", SUBMIT, Upload, takes="application/octet-stream")
async def push(request: Request, server: TheServer, who: TheCaller, by: TheAuthor, run: PushedRun = None) -> Response:
    """Send a whole bundle of 8 MiB at most, as one body; it is verified, and what is new is appended.

    It must be signed by a key that the submitting team registered. A larger one is announced as an upload.
    """
    _refuse_hurry(server, who)
    receive = partial(server.uploads.receive, who.team, await request.body(), who.label)
    pushed = await run_in_threadpool(receive)
    if isinstance(pushed, Upload):
        return answer(pushed)
    upload = await asyncio.wrap_future(server.intake.submit(pushed, who, by, run))
    return answer(upload)


@route("POST", "/uploads", SUBMIT, Upload, status=201, or_status=200)
def begin(server: TheServer, who: TheCaller, by: TheAuthor, body: NewUpload) -> Response:
    """Announce a bundle. The answer says how much of it is here already; the same bundle is always the same upload."""
    _refuse_hurry(server, who)
    given = (who.team, body.sha256, body.size_bytes, who.label)
    upload = server.audit.carry_out(by, "announce bundle", body.sha256[:12], server.uploads.begin, *given)
    return answer(upload, 200 if upload.received_bytes else 201)


@route("GET", "/uploads/{upload}", SUBMIT, Upload)
def look(server: TheServer, who: TheCaller, upload: Short) -> Response:
    """How much of a bundle is here."""
    return answer(server.uploads.get(upload, who.team))


@route("PATCH", "/uploads/{upload}", SUBMIT, Upload, takes="application/octet-stream")
async def append(
    request: Request,
    server: TheServer,
    who: TheCaller,
    upload: Short,
    upload_offset: Annotated[int, Header(ge=0, le=MOST_NUMBER)],
) -> Response:
    """Send bytes from `Upload-Offset` on; 409 says where to go on."""
    pieces = [piece async for piece in request.stream()]

    def work() -> Upload:
        with _lock_of(upload):
            return server.uploads.append(server.uploads.get(upload, who.team), upload_offset, *pieces)

    return answer(await run_in_threadpool(work))


@route("POST", "/uploads/{upload}/finish", SUBMIT, Upload)
async def finish(
    server: TheServer, who: TheCaller, by: TheAuthor, upload: Short, body: FinishUpload | None = None
) -> Response:
    """Verify the bundle and append what is new. It must be signed by a key that the submitting team registered."""
    run = body.run if body is not None else None
    return await to_thread.run_sync(partial(_finish, server, who, by, upload, run), limiter=server.taking)


def _finish(server: Server, who: Principal, by: ChangeAuthor, upload: str, run: str | None) -> Response:
    with _lock_of(upload):
        held = server.uploads.get(upload, who.team)
        if held.state == DONE:
            return answer(held)
        taken = server.audit.carry_out(by, "submit", held.sha256[:12], _take, server, held, who, run)
        server.arrived()
        server.metrics.submissions.inc()
        server.metrics.entries_added.inc(taken.new)
        return answer(server.uploads.finish(held, taken))


@route("DELETE", "/uploads/{upload}", SUBMIT, {"discarded": str})
def discard(server: TheServer, who: TheCaller, by: TheAuthor, upload: Short) -> Response:
    """Forget a bundle that is on its way."""
    held = server.uploads.get(upload, who.team)
    server.audit.carry_out(by, "discard bundle", held.sha256[:12], server.uploads.discard, held.upload_id)
    return answer({"discarded": held.upload_id})


def _refuse_hurry(server: Server, who: Principal) -> None:
    """Refuse a caller who announces more than the server keeps up with."""
    wait_s = server.submissions.wait_s(who.credential or who.name)
    if wait_s > 0:
        raise HTTPException(429, "too many bundles; wait a little", {"Retry-After": str(int(wait_s) + 1)})


def _take(server: Server, upload: Upload, who: Principal, run: str | None) -> Taken:
    path = server.uploads.whole(upload)
    if run is None:
        return server.take_in(path, who)
    server.scheduler.own(run, who.team)  # says so before anything is taken in
    with server.judging:  # a result is judged once it is known where it ran
        taken = server.take_in(path, who)
        for result_id in taken.results:
            if reading.is_own(server, result_id, who.team):  # others' may come along, and did not run here
                server.scheduler.attach(run, who.team, result_id)
    return taken


def _lock_of(upload: str) -> Lock:
    with _finishing_lock:
        if len(_finishing) > 1000:
            for name in [name for name, lock in _finishing.items() if not lock.locked()]:
                del _finishing[name]
        return _finishing.setdefault(upload, Lock())
