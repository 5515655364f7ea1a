"""Results, contracts, executors and the log: the same documents as the command line's `--json`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import insert
from starlette.responses import Response

from lynxbench.evidence.envelope import check_signatures
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.checkpoints import Signed, stored_checkpoints
from lynxbench.ledger.queries import list_foreign, open_runs, standings, voice_of
from lynxbench.model.entries import EntryKind
from lynxbench.record.listing import (
    about_document,
    compared_fields,
    difference_document,
    foreign_document,
    list_document,
    log_document,
)
from lynxbench.server import ledger_views as reading
from lynxbench.server.api.json_answers import answer, changed, found_id, server_of, there, who_of
from lynxbench.server.api.request_models import MOST_NUMBER, Claim, Limit, Named, Result, Seq, Word
from lynxbench.server.page_routes import precision_of, wanted_of
from lynxbench.server.pages import claims_page as claim_pages
from lynxbench.server.pages.compare_page import comparison_of, diff_names
from lynxbench.server.pages.contracts_page import signals_of
from lynxbench.watch.store import now_text
from lynxbench.watch.store_tables import likenesses
from lynxbench.workload.representative import distance
from lynxbench.workload.request_log import parse_log

router = APIRouter(tags=["evidence"])


@router.get("/results")
def list_results_(
    request: Request,
    contract: Word = None,
    executor: Word = None,
    precision: Word = None,
    valid: Word = None,
    since: Word = None,
    limit: Limit = 20,
) -> Response:
    """Results, newest first: the document of `lynxbench results list --json`."""
    server = server_of(request)
    given = {"contract": contract, "executor": executor, "precision": precision, "valid": valid, "since": since}
    wanted = wanted_of(server, {name: text for name, text in given.items() if text}, limit)
    listed, known = reading.list_page(server, wanted)
    unfinished = open_runs(server.ledger.log, wanted.contract)
    return answer(list_document(listed, known, unfinished, server.ledger.log.head()))


@router.get("/results/{result}")
def result(request: Request, result: Named) -> Response:
    """One result with everything that was said about it: `lynxbench results show --json`."""
    server = server_of(request)
    name = found_id(server, result, "result")
    document = reading.document(server, name)
    about = [(one.logged, one.voice) for one in reading.spoken_of(server, [name, document.run_id])]
    known = standings(server.ledger.log, [name], server.trust)[name]
    return answer({"result": document.document(), **about_document(about, known)})


@router.get("/results/{result}/bundle", response_class=Response)
def bundle(request: Request, result: Named) -> Response:
    """The result with all its documents, entries and proofs: what `lynxbench pull` takes in."""
    server = server_of(request)
    name = found_id(server, result, "result")
    now = datetime.now(UTC)
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as folder:
        path = FilePath(folder) / "bundle.lynx"
        export_bundle(server.ledger, [name], path, server.signing_key(), server.trust, now)
        data = path.read_bytes()
    headers = {"Content-Disposition": f'attachment; filename="{name[:12]}.lynx"'}
    return Response(data, media_type="application/x-tar", headers=headers)


@router.get("/contracts")
def contracts(request: Request) -> Response:
    """Every contract, by its newest result."""
    server = server_of(request)
    rows = []
    for name, count in reading.contract_ids(server):
        contract = reading.contract_of(server, name)
        rows.append({"contract_id": name, "name": contract.name if contract else None, "results": count})
    return answer({"contracts": rows})


@router.get("/contracts/{contract}")
def contract(request: Request, contract: Named) -> Response:
    """A contract's text in its canonical form."""
    server = server_of(request)
    name = found_id(server, contract, "contract")
    text = reading.contract_of(server, name)
    return answer({"contract_id": name, "contract": None if text is None else text.canonical()})


@router.get("/contracts/{contract}/history")
def history(
    request: Request,
    contract: Named,
    precision: Word = None,
    newest: Annotated[int | None, Query(ge=1, le=10**6)] = None,
) -> Response:
    """The series, its changes and the layer that changed with each: `lynxbench history --json`."""
    server = server_of(request)
    name = found_id(server, contract, "contract")
    return answer(reading.history(server, name, precision_of(precision), newest).model_dump(mode="json"))


@router.get("/contracts/{contract}/signals")
def signals(request: Request, contract: Named) -> Response:
    """The five signs of a whole-stack problem: `lynxbench signals --json`."""
    server = server_of(request)
    return answer(signals_of(server, found_id(server, contract, "contract")).model_dump(mode="json"))


@router.post(
    "/contracts/{contract}/likeness",
    openapi_extra={"requestBody": {"content": {"text/plain": {"schema": {"type": "string"}}}, "required": True}},
)
async def likeness(request: Request, contract: Named) -> Response:
    """Hold a production log (JSONL or CSV, as the body) against a contract; its page shows what came of it."""
    server, data = server_of(request), await request.body()

    def work() -> dict[str, object]:
        name = found_id(server, contract, "contract")
        text = reading.contract_of(server, name)
        assert text is not None
        log = parse_log(data.decode("utf-8", "replace"), "the log")
        found = distance(text.workload, log)
        document = reading.plain(found.document())
        row = {
            "contract_id": name,
            "at": now_text(),
            "by": who_of(request).label,
            "requests": len(log.input_tokens),
            "report": json.dumps(document, allow_nan=False),
        }
        server.store.change(insert(likenesses).values(row))
        return {"contract_id": name, "requests": len(log.input_tokens), **document}

    made = await run_in_threadpool(lambda: changed(request, "hold a log against a contract", contract, work))
    return answer(made, 201)


@router.get("/compare")
def compare(request: Request, a: Result, b: Result, precision: Word = None) -> Response:
    """B held against A: `lynxbench compare --json`; an unsound pair gets no ratio."""
    server = server_of(request)
    left, right = (found_id(server, one, "result") for one in (a, b))
    return answer(comparison_of(server, left, right, precision_of(precision)).model_dump(mode="json"))


@router.get("/executors/{executor}")
def executor(request: Request, executor: Named) -> Response:
    """An executor as its newest result recorded it."""
    server = server_of(request)
    name = found_id(server, executor, "executor")
    found = there(server, lambda: reading.result_with_executor(server, name))
    return answer(
        {
            "executor_id": name,
            "instance_id": found.instance_id,
            "result_id": found.result_id,
            "executor": found.executor.model_dump(mode="json"),
        }
    )


@router.get("/executors-diff")
def executors_diff(request: Request, a: Result, b: Result, all_tiers: bool = False) -> Response:
    """Two executors, field by field, each named by itself or by a result: `lynxbench executor diff --json`."""
    server = server_of(request)
    left, right = (there(server, lambda one=one: diff_names(server, one)) for one in (a, b))  # type: ignore[misc]
    first, second = (reading.document(server, one).executor for one in (left, right))
    return answer(difference_document(first, second, compared_fields(first, second, all_tiers=all_tiers)))


@router.get("/foreign")
def foreign(request: Request, limit: Limit = 20) -> Response:
    """Results of other tools, with what each fails to state: `lynxbench results foreign --json`."""
    server = server_of(request)
    trust = server.trust
    return answer(foreign_document([(one, voice_of(one, trust)) for one in list_foreign(server.ledger.log, limit)]))


@router.get("/decisions")
def decisions(request: Request, limit: Limit = 20) -> Response:
    """Decisions with the results they cite, newest first."""
    found = reading.entries_of_kind(server_of(request), [EntryKind.DECISION.value], limit)
    return answer({"decisions": [_entry(one) for one in found]})


@router.post("/claims")
def claim(asked: Claim) -> Response:
    """What a claim fails to state: `lynxbench claim --json`. Nothing is kept."""
    return answer(claim_pages.lint(asked.text, "the API").model_dump(mode="json"))


@router.get("/ledger")
def ledger(request: Request) -> Response:
    """The log's size, root and checkpoints: `lynxbench results log --json`."""
    server = server_of(request)
    trust, log = server.trust, server.ledger.log
    signed = [
        Signed(
            one.checkpoint,
            one.envelope,
            check_signatures(one.envelope, trust, payload_type=one.envelope.payload_type).signers,
        )
        for one in stored_checkpoints(log)
    ]
    return answer(log_document("this server", log.origin, log.head(), signed))


@router.get("/ledger/entries")
def entries(
    request: Request, before: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None, limit: Limit = 50
) -> Response:
    """The end of the log, newest first."""
    server = server_of(request)
    found = reading.newest_entries(
        server, limit, before if before is None else min(before, server.ledger.log.head().size)
    )
    return answer({"entries": [_entry(one) for one in found]})


@router.get("/ledger/entries/{seq}", response_class=Response)
def entry(request: Request, seq: Seq) -> Response:
    """One signed envelope, byte by byte as it was hashed."""
    server = server_of(request)
    logged = there(server, lambda: server.ledger.log.read(seq))
    return Response(logged.envelope.to_bytes(), media_type="application/json")


@router.get("/ledger/proofs/{seq}")
def proof(request: Request, seq: Seq, size: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None) -> Response:
    """The path from an entry to the root (RFC 9162)."""
    server = server_of(request)
    found = there(server, lambda: server.ledger.log.prove(seq, size))
    return answer(
        {
            "seq": found.seq,
            "leaf": found.leaf.hex(),
            "tree_size": found.head.size,
            "root_hash": found.head.root.hex(),
            "path": [step.hex() for step in found.path],
        }
    )


@router.get("/ledger/consistency")
def consistency(request: Request, earlier: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0) -> Response:
    """The proof that the log begins with what it was when it held so many entries (RFC 9162)."""
    head, path = server_of(request).ledger.log.prove_extends(earlier)
    return answer(
        {
            "earlier": min(earlier, head.size),
            "tree_size": head.size,
            "root_hash": head.root.hex(),
            "path": [step.hex() for step in path],
        }
    )


def _entry(one: reading.Spoken) -> dict[str, object]:
    return {
        "seq": one.logged.seq,
        "logged_at": one.logged.logged_at,
        "voice": asdict(one.voice),
        "entry": one.logged.entry.model_dump(mode="json", by_alias=True),
    }
