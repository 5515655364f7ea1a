"""Results, contracts, executors, analyses and the log: the same documents as the command line's `--json`."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

from fastapi import Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic_core import to_json
from sqlalchemy import insert
from starlette.responses import Response

from lynxbench.errors import NotFound
from lynxbench.evidence.envelope import check_signatures
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.checkpoints import Signed, stored_checkpoints
from lynxbench.ledger.log import Logged, TreeHead
from lynxbench.ledger.names import find_analysis, machine_letters
from lynxbench.ledger.queries import OpenRun, open_runs
from lynxbench.ledger.remarks import remarks_of
from lynxbench.model.canonical import short
from lynxbench.model.claims import ClaimReport
from lynxbench.model.comparison import Comparison
from lynxbench.model.contract import Contract
from lynxbench.model.entries import ANALYSES, EntryKind
from lynxbench.model.executor import Executor
from lynxbench.model.history import History, Signals
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.record import listing
from lynxbench.record.executor_differences import compared_fields, difference_document
from lynxbench.record.recalling_analyses import analysis_document, body_of
from lynxbench.server import ledger_views as reading
from lynxbench.server.api import answer_models as answers
from lynxbench.server.api.request_models import MOST_NUMBER, Analysis, Asked, Claim, Limit, Named, Seq, Word
from lynxbench.server.pages import claims_page as claim_pages
from lynxbench.server.pages.compare_page import comparison_of, diff_names
from lynxbench.server.pages.contracts_page import signals_of
from lynxbench.server.rights import API
from lynxbench.server.routing import READ, SUBMIT, Routes, TheAuthor, TheServer, answer
from lynxbench.server.server_state import Server
from lynxbench.server.witnessing import own_splits, witnesses_of
from lynxbench.watch.store import now_text
from lynxbench.watch.store_tables import likenesses
from lynxbench.workload.representative import Likeness, hold_against
from lynxbench.workload.request_log import parse_log

BUNDLE_TYPE = "application/x-tar"
AnalysisAnswer = answers.ExperimentAnswer | answers.TuningAnswer | answers.FleetAnswer

STATE = {"tree_size": int, "root_hash": str}
PROVEN = {**STATE, "path": list[str]}
RESULTS = {**STATE, "results": list[answers.ListedResult], "unfinished": list[OpenRun]}
RESULT = {
    "result": Result,
    "standing": answers.StandingAnswer,
    "recomputed": answers.RecomputedAnswer,
    "tags": list[answers.TagAnswer],
    "notes": list[answers.NoteAnswer],
    "entries": list[answers.EntryAbout],
}
LIKENESS = {
    "contract_id": str,
    "requests": int,
    "log": str,
    "verdict": Likeness,
    "sentence": str,
    "dimensions": list[answers.LikenessDimension],
}
EXECUTOR = {"executor_id": str, "instance_id": str, "result_id": str, "executor": Executor}
DIFFERENCE = {
    "a": answers.ExecutorName,
    "b": answers.ExecutorName,
    "same": bool,
    "layers": list[Layer],
    "changes": list[answers.ChangedField],
}
LOG = {
    "ledger": str,
    "origin": str,
    **STATE,
    "verified": str | None,
    "checkpoints": list[answers.CheckpointLine],
    "witnesses": list[answers.WitnessLine],
    "split_views": list[answers.SplitLine],
}

route = Routes(API, "evidence")


class AnalysisKind(StrEnum):
    """Which analyses are asked for."""

    EXPERIMENT = "experiment"
    TUNING = "tuning"
    FLEET = "fleet"


@route("GET", "/results", READ, RESULTS)
def list_results_(
    server: TheServer,
    contract: Word = None,
    executor: Word = None,
    precision: Word = None,
    valid: Word = None,
    since: Word = None,
    tag: Word = None,
    limit: Limit = 20,
) -> Response:
    """Results, newest first: the document of `lynxbench results list --json`, and what this server recomputed."""
    fields = {"contract": contract, "executor": executor, "precision": precision, "valid": valid, "since": since}
    fields["tag"] = tag
    wanted = reading.wanted_of(server, {name: text for name, text in fields.items() if text}, limit)
    listed, standing = reading.list_page(server, wanted)
    unfinished = open_runs(server.ledger.log, wanted.contract)
    outcomes = reading.recomputed_of(server, [result.result_id for result in listed])
    log = server.ledger.log
    remarks = remarks_of(log, list(outcomes), server.trust)
    document = listing.list_document(listed, standing, unfinished, log.head(), machine_letters(log), remarks)
    rows = cast(list[dict[str, object]], document["results"])
    told = [{**row, "recomputed": answers.recomputed_answer(outcomes[str(row["result_id"])])} for row in rows]
    return answer({**document, "results": told})


@route("GET", "/results/{result}", READ, RESULT)
def result(server: TheServer, result: Named) -> Response:
    """One result with all that was said about it: `lynxbench results show --json`, and what this server recomputed."""
    name = reading.named(server, result, "result")
    document = reading.document(server, name)
    about = reading.spoken_of(server, [name, document.run_id])
    standing = reading.standings_of(server, [name])[name]
    recomputed = answers.recomputed_answer(reading.recomputed_of(server, [name])[name])
    remarks = remarks_of(server.ledger.log, [name], server.trust)[name]
    return answer({"result": document, "recomputed": recomputed, **listing.about_document(about, standing, remarks)})


@route("GET", "/results/{result}/bundle", READ, media=BUNDLE_TYPE)
def bundle(server: TheServer, result: Named) -> Response:
    """The result with all its documents, entries and proofs: what `lynxbench pull` takes in."""
    name = reading.named(server, result, "result")
    return _bundle(server, [name], name)


@route("GET", "/contracts", READ, {"contracts": list[answers.ContractLineAnswer]})
def contracts(server: TheServer) -> Response:
    """Every contract, by its newest result."""
    rows = []
    for name, count in reading.contract_ids(server):
        contract = reading.contract_of(server, name)
        rows.append({"contract_id": name, "name": contract.name if contract else None, "results": count})
    return answer({"contracts": rows})


@route("GET", "/contracts/{contract}", READ, {"contract_id": str, "contract": Contract | None})
def contract(server: TheServer, contract: Named) -> Response:
    """A contract's text in its canonical form."""
    name = reading.named(server, contract, "contract")
    return answer({"contract_id": name, "contract": reading.contract_of(server, name)})


@route("GET", "/contracts/{contract}/history", READ, History)
def history(
    server: TheServer,
    contract: Named,
    precision: Word = None,
    newest: Annotated[int | None, Query(ge=1, le=10**6)] = None,
    machine: Word = None,
) -> Response:
    """The series of each machine, its changes and the layer that changed with each: `lynxbench history --json`."""
    name = reading.named(server, contract, "contract")
    return answer(reading.history(server, name, reading.precision_of(precision), newest, machine or ""))


@route("GET", "/contracts/{contract}/signals", READ, Signals)
def signals(server: TheServer, contract: Named) -> Response:
    """The five signs of a whole-stack problem: `lynxbench signals --json`."""
    return answer(signals_of(server, reading.named(server, contract, "contract")))


@route("POST", "/contracts/{contract}/likeness", SUBMIT, LIKENESS, status=201, takes="text/plain")
async def likeness(request: Request, server: TheServer, by: TheAuthor, contract: Named) -> Response:
    """Hold a production log (JSONL or CSV, as the body) against a contract; its page shows what came of it."""
    data = await request.body()

    def work() -> dict[str, object]:
        name = reading.named(server, contract, "contract")
        text = reading.contract_of(server, name)
        if text is None:
            raise NotFound(f"contract {short(name)}: its text is not in this ledger")
        log = parse_log(data.decode("utf-8", "replace"), "the log")
        document = hold_against(text, log).document()
        row = {
            "contract_id": name,
            "at": now_text(),
            "by": by.label,
            "requests": len(log.input_tokens),
            "report": to_json(document, inf_nan_mode="null").decode(),
        }
        server.store.change(insert(likenesses).values(row))
        server.changed()
        return {"contract_id": name, **document}

    carry_out = server.audit.carry_out
    return answer(await run_in_threadpool(carry_out, by, "hold a log against a contract", contract, work), 201)


@route("GET", "/compare", READ, Comparison)
def compare(server: TheServer, a: Asked, b: Asked, precision: Word = None) -> Response:
    """B held against A: `lynxbench compare --json`; an unsound pair gets no ratio."""
    left, right = (reading.named(server, text, "result") for text in (a, b))
    return answer(comparison_of(server, left, right, reading.precision_of(precision)))


@route("GET", "/executors/{executor}", READ, EXECUTOR)
def executor(server: TheServer, executor: Named) -> Response:
    """An executor as its newest result recorded it."""
    name = reading.named(server, executor, "executor")
    newest = reading.result_with_executor(server, name)
    names = {"executor_id": name, "instance_id": newest.instance_id, "result_id": newest.result_id}
    return answer({**names, "executor": newest.executor})


@route("GET", "/executors-diff", READ, DIFFERENCE)
def executors_diff(server: TheServer, a: Asked, b: Asked, all_tiers: bool = False) -> Response:
    """Two executors, field by field, each named by itself or by a result: `lynxbench executor diff --json`."""
    first, second = (reading.document(server, diff_names(server, text)).executor for text in (a, b))
    return answer(difference_document(first, second, compared_fields(first, second, all_tiers=all_tiers)))


@route("GET", "/foreign", READ, {"foreign": list[answers.ForeignLine]})
def foreign(server: TheServer, limit: Limit = 20) -> Response:
    """Results of other tools, with what each fails to state: `lynxbench results foreign --json`."""
    return answer(listing.foreign_document(reading.entries_of_kind(server, [EntryKind.FOREIGN.value], limit)))


@route("GET", "/decisions", READ, {"decisions": list[answers.EntryLine]})
def decisions(server: TheServer, limit: Limit = 20) -> Response:
    """Decisions with the results they cite, newest first."""
    return answer({"decisions": _lines(reading.entries_of_kind(server, [EntryKind.DECISION.value], limit))})


@route("POST", "/claims", READ, ClaimReport)
def claim(body: Claim) -> Response:
    """What a claim fails to state: `lynxbench claim --json`. Nothing is kept."""
    return answer(claim_pages.lint(body.text, "the API"))


@route("GET", "/analyses", READ, {"analyses": list[answers.AnalysisLine]})
def analyses(server: TheServer, kind: AnalysisKind | None = None, limit: Limit = 20) -> Response:
    """Experiments, tunings and fleet runs, newest first, with the results that each is made from."""
    kinds = [known.value for known in ANALYSES if kind is None or known.value == kind.value]
    rows = [
        {
            "seq": entry.logged.seq,
            "made_at": entry.logged.entry.made_at,
            "teams": entry.voice.teams,
            **body_of(entry.logged).model_dump(mode="json"),
        }
        for entry in reading.entries_of_kind(server, kinds, limit)
    ]
    return answer({"analyses": rows})


@route("GET", "/analyses/{analysis}", READ, AnalysisAnswer)
def analysis(server: TheServer, analysis: Analysis) -> Response:
    """One of them, whole: `lynxbench experiment run --json`, `tune --json`, `fleet run --json`."""
    logged = _analysis(server, analysis)
    document = analysis_document(server.ledger, logged)
    return answer({"analysis_id": body_of(logged).analysis_id, **document.model_dump(mode="json")})


@route("GET", "/analyses/{analysis}/bundle", READ, media=BUNDLE_TYPE)
def analysis_bundle(server: TheServer, analysis: Analysis) -> Response:
    """An analysis with every result that it is made from, entries and proofs: what `lynxbench pull` takes in."""
    body = body_of(_analysis(server, analysis))
    if not body.cites:
        raise NotFound(f"{body.name}: rests on no result, and there is nothing to take along")
    return _bundle(server, body.cites, body.analysis_id)


@route("GET", "/ledger", READ, LOG)
def ledger(server: TheServer) -> Response:
    """The log's size, root and checkpoints: `lynxbench results log --json`."""
    trust, log = server.trust, server.ledger.log

    def checked(state: Signed) -> Signed:
        signatures = check_signatures(state.envelope, trust, payload_type=state.envelope.payload_type)
        return Signed(state.checkpoint, state.envelope, signatures.signers)

    states = list(map(checked, stored_checkpoints(log)))
    seen, splits = witnesses_of(server), own_splits(server)
    return answer(listing.log_document("this server", log.origin, log.head(), states, seen, splits))


@route("GET", "/ledger/entries", READ, {"entries": list[answers.EntryLine]})
def entries(
    server: TheServer, before: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None, limit: Limit = 50
) -> Response:
    """The end of the log, newest first."""
    end = before if before is None else min(before, server.ledger.log.head().size)
    return answer({"entries": _lines(reading.newest_entries(server, limit, end))})


@route("GET", "/ledger/entries/{seq}", READ, answers.EnvelopeAnswer)
def entry(server: TheServer, seq: Seq) -> Response:
    """One signed envelope, byte by byte as it was hashed."""
    return Response(server.ledger.log.read(seq).envelope.to_bytes(), media_type="application/json")


@route("GET", "/ledger/proofs/{seq}", READ, {"seq": int, "leaf": str, **PROVEN})
def proof(server: TheServer, seq: Seq, size: Annotated[int | None, Query(ge=1, le=MOST_NUMBER)] = None) -> Response:
    """The path from an entry to the root (RFC 9162)."""
    inclusion = server.ledger.log.prove(seq, size)
    return answer({"seq": seq, "leaf": inclusion.leaf.hex(), **_proven(inclusion.head, inclusion.path)})


@route("GET", "/ledger/consistency", READ, {"earlier": int, **PROVEN})
def consistency(server: TheServer, earlier: Annotated[int, Query(ge=0, le=MOST_NUMBER)] = 0) -> Response:
    """The proof that the log begins with what it was when it held so many entries (RFC 9162)."""
    head, path = server.ledger.log.prove_extends(earlier)
    return answer({"earlier": min(earlier, head.size), **_proven(head, path)})


def _lines(entries: Sequence[reading.Spoken]) -> list[answers.EntryLine]:
    return [
        answers.EntryLine(
            seq=entry.logged.seq, logged_at=entry.logged.logged_at, voice=entry.voice, entry=entry.logged.entry
        )
        for entry in entries
    ]


def _proven(head: TreeHead, path: Sequence[bytes]) -> dict[str, object]:
    return {"tree_size": head.size, "root_hash": head.root.hex(), "path": [step.hex() for step in path]}


def _analysis(server: Server, text: str) -> Logged:
    logged = find_analysis(server.ledger.log, text)
    if logged is None:
        raise NotFound(f"{text[:80]}: no experiment, tuning or fleet run of this ledger is called so")
    return logged


def _bundle(server: Server, results: Sequence[str], name: str) -> Response:
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as folder:
        path = Path(folder) / "bundle.lynx"
        key, now = server.signing_key(), datetime.now(UTC)
        export_bundle(server.ledger, results, path, key, server.trust, now, keep=False)  # whoever reads changes nothing
        data = path.read_bytes()
    headers = {"Content-Disposition": f'attachment; filename="{name[:12]}.lynx"'}
    return Response(data, media_type=BUNDLE_TYPE, headers=headers)
