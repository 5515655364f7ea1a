"""Checkpoints between ledgers: this log shown to its witnesses, theirs witnessed here, lies told to both sides.

Bodies and answers are those of https://c2sp.org/tlog-witness; whoever is refused is told why as everywhere in this API.
"""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from lynxbench.ledger.log_witnesses import Sighting, keep_cosignatures, witness_request
from lynxbench.ledger.signed_notes import cosignature_of, find_log_signer, parse_note
from lynxbench.ledger.witness_book import parse_request
from lynxbench.server.api import answer_models as answers
from lynxbench.server.api.request_models import MOST_NUMBER
from lynxbench.server.rights import API
from lynxbench.server.routing import READ, SUBMIT, Routes, TheAuthor, TheServer, answer
from lynxbench.server.witnessing import book_of, trust_with_own

NOTE_TYPE = "text/plain"
SEEN = {"witnesses": list[answers.WitnessLine], "split_views": list[answers.SplitLine]}
KNOWN = {"checkpoints": list[str], "split_views": list[answers.SplitLine]}

route = Routes(API, "witnessing")


@route("GET", "/ledger/checkpoint", READ, media=NOTE_TYPE)
def checkpoint(server: TheServer, old: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0) -> Response:
    """This log's state as a signed note, after the proof that it continues its first `old` entries."""
    now = datetime.now(UTC)
    request = witness_request(server.ledger.log, server.signing_key(), old, now, keep=False)  # readers change nothing
    return Response(request.to_text(), media_type=NOTE_TYPE)


@route("POST", "/ledger/add-checkpoint", SUBMIT, media=NOTE_TYPE, takes=NOTE_TYPE)
async def add_checkpoint(request: Request, server: TheServer, by: TheAuthor) -> Response:
    """Witness another team's log: its checkpoint with the proof since what was seen; the answer is a co-signature."""
    body = await request.body()

    def work() -> str:
        asked, key = parse_request(body), server.signing_key()
        trust = trust_with_own(server)
        if find_log_signer(asked.note, trust) is None:
            raise HTTPException(403, f"nobody that is registered here signs ledger {asked.note.origin}")
        cosigned = book_of(server).witness(asked, trust, key, datetime.now(UTC))
        return cosignature_of(cosigned, key).to_line()

    lines = await run_in_threadpool(server.audit.carry_out, by, "witness a log", "", work)
    return Response(lines, media_type=NOTE_TYPE)


@route("POST", "/ledger/witnessed", READ, SEEN, takes=NOTE_TYPE)
async def witnessed(request: Request, server: TheServer) -> Response:
    """A checkpoint as somebody saw it: of this log, with a co-signature, or of another one that was seen here too.

    A state that this log signed and does not contain, and two states of one size of another, are kept and shown.
    """
    body = await request.body()

    def work() -> dict[str, object]:
        note, log, key, now = parse_note(body), server.ledger.log, server.signing_key(), datetime.now(UTC)
        book, trust = book_of(server), trust_with_own(server)
        own, news, before = note.origin == log.origin, tuple[Sighting, ...](), book.splits()
        # what others registered speaks for them alone: only a key of the server's own home can have signed as its log
        mine = server.keyring.trust
        split = book.report(log, note, mine, key.team, now) if own else book.compare(note, trust, now)
        if split is None and own:
            news = keep_cosignatures(log, note, trust, now)
        lied = book.splits() != before
        if lied and split is not None:
            server.log.error("split view", extra={"origin": split.origin, "tree_size": split.tree_size})
        if news or lied:  # what was known already makes no page anew
            server.changed()
        return {"witnesses": news, "split_views": [split] if split is not None else []}

    return answer(await run_in_threadpool(work))


@route("GET", "/ledger/witnessed", READ, KNOWN)
def known_logs(server: TheServer) -> Response:
    """The last checkpoint of every log that was witnessed here, and every lie that was noticed."""
    book = book_of(server)
    return answer({"checkpoints": [log.note for log in book.logs().values()], "split_views": book.splits()})
