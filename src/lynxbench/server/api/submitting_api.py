"""Bundles in, in pieces that can be resumed; taking one in twice changes nothing."""

from __future__ import annotations

import time
from threading import Lock
from typing import Annotated

from fastapi import APIRouter, Header, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from lynxbench.server.api.json_answers import answer, noted, server_of, there, who_of
from lynxbench.server.api.request_models import MOST_NUMBER, FinishUpload, NewUpload, Short
from lynxbench.server.ingest import Taken, take_in
from lynxbench.server.rights import Principal
from lynxbench.server.server_state import Server
from lynxbench.server.uploads import DONE, Upload

router = APIRouter(tags=["submitting"])
_finishing: dict[str, Lock] = {}
_finishing_lock = Lock()


@router.post("/uploads")
def begin(request: Request, asked: NewUpload) -> Response:
    """Announce a bundle. The answer says how much of it is here already; the same bundle is always the same upload."""
    server, who = server_of(request), who_of(request)
    _slow_down(server, who)
    made = noted(
        request,
        "announce bundle",
        asked.sha256[:12],
        lambda: server.uploads.begin(who.team, asked.sha256, asked.size_bytes, who.label),
    )
    return answer(made.document(), 200 if made.received_bytes else 201)


@router.get("/uploads/{upload}")
def look(request: Request, upload: Short) -> Response:
    """How much of a bundle is here."""
    return answer(_own(request, upload).document())


@router.patch(
    "/uploads/{upload}",
    openapi_extra={
        "requestBody": {
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "required": True,
        }
    },
)
async def append(
    request: Request, upload: Short, upload_offset: Annotated[int, Header(ge=0, le=MOST_NUMBER)]
) -> Response:
    """Send bytes from `Upload-Offset` on; 409 says where to go on."""
    data = await request.body()
    server = server_of(request)

    def work() -> Upload:
        with _lock_of(upload):
            return server.uploads.append(_own(request, upload), upload_offset, data)

    return answer((await run_in_threadpool(work)).document())


@router.post("/uploads/{upload}/finish")
def finish(request: Request, upload: Short, asked: FinishUpload | None = None) -> Response:
    """Verify the bundle and append what is new. It must be signed by a key that the submitting team registered."""
    server, who = server_of(request), who_of(request)
    run = asked.run if asked is not None else None
    with _lock_of(upload):
        held = _own(request, upload)
        if held.state == DONE:
            return answer(held.document())
        taken = noted(request, "submit", held.sha256[:12], lambda: _take(server, held, who, run))
        server.arrived()
        server.metrics.count("submissions", "Bundles that were taken in.")
        server.metrics.count("entries_added", "Entries that submissions added.", taken.new)
        return answer(server.uploads.finish(held, taken.document()).document())


@router.delete("/uploads/{upload}")
def discard(request: Request, upload: Short) -> Response:
    """Forget a bundle that is on its way."""
    server = server_of(request)
    held = _own(request, upload)
    noted(request, "discard bundle", held.sha256[:12], lambda: server.uploads.discard(held))
    return answer({"discarded": held.upload_id})


def _take(server: Server, held: Upload, who: Principal, run: str | None) -> Taken:
    if run is not None:
        server.scheduler.run(run)  # says so before anything is taken in
    path = server.uploads.whole(held)
    with server.judging:  # a result is judged once it is known where it ran
        taken = take_in(server.ledger, path, server.keys.trust(), who, time.time())
        if run is not None:
            for result_id in taken.results:
                server.scheduler.attach(run, who.team, result_id)
    return taken


def _own(request: Request, upload: str) -> Upload:
    server, who = server_of(request), who_of(request)
    return there(server, lambda: server.uploads.get(upload, who.team))


def _slow_down(server: Server, who: Principal) -> None:
    wait = server.submissions.wait_s(who.credential or who.name)
    if wait > 0:
        raise HTTPException(429, "too many bundles; wait a little", {"Retry-After": str(int(wait) + 1)})


def _lock_of(upload: str) -> Lock:
    with _finishing_lock:
        if len(_finishing) > 1000:
            for name in [name for name, lock in _finishing.items() if not lock.locked()]:
                del _finishing[name]
        return _finishing.setdefault(upload, Lock())
