"""Experiments, tunings and fleet runs: the same documents as the command line's `--json`, and their bundles."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from lynxbench.errors import BadInput
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.log import Logged
from lynxbench.ledger.names import find_analysis
from lynxbench.model.entries import ANALYSES
from lynxbench.record.recalling_analyses import analysis_document, body_of
from lynxbench.server import ledger_views as reading
from lynxbench.server.api.json_answers import answer, server_of, there
from lynxbench.server.api.request_models import Limit

Analysis = Annotated[str, Path(min_length=4, max_length=200)]

router = APIRouter(tags=["analyses"])


class AskedAnalyses(StrEnum):
    """Which analyses are asked for."""

    EXPERIMENT = "experiment"
    TUNING = "tuning"
    FLEET = "fleet"


@router.get("/analyses")
def analyses(request: Request, kind: AskedAnalyses | None = None, limit: Limit = 20) -> Response:
    """Experiments, tunings and fleet runs, newest first, with the results that each is made from."""
    kinds = [one.value for one in ANALYSES if kind is None or one.value == kind.value]
    found = reading.entries_of_kind(server_of(request), kinds, limit)
    rows = [
        {
            "seq": one.logged.seq,
            "made_at": one.logged.entry.made_at,
            "teams": list(one.voice.teams),
            **body_of(one.logged).model_dump(mode="json"),
        }
        for one in found
    ]
    return answer({"analyses": rows})


@router.get("/analyses/{analysis}")
def analysis(request: Request, analysis: Analysis) -> Response:
    """One of them, whole: `lynxbench experiment run --json`, `tune --json`, `fleet run --json`."""
    server = server_of(request)
    logged = _found(request, analysis)
    document = analysis_document(server.ledger, logged)
    return answer({"analysis_id": body_of(logged).analysis_id, **document.model_dump(mode="json")})


@router.get("/analyses/{analysis}/bundle", response_class=Response)
def analysis_bundle(request: Request, analysis: Analysis) -> Response:
    """An analysis with every result that it is made from, entries and proofs: what `lynxbench pull` takes in."""
    server = server_of(request)
    body = body_of(_found(request, analysis))
    if not body.cites:
        there(server, lambda: _none(body.name))
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as folder:
        path = FilePath(folder) / "bundle.lynx"
        export_bundle(server.ledger, body.cites, path, server.signing_key(), server.trust, datetime.now(UTC))
        data = path.read_bytes()
    headers = {"Content-Disposition": f'attachment; filename="{body.analysis_id[:12]}.lynx"'}
    return Response(data, media_type="application/x-tar", headers=headers)


def _found(request: Request, text: str) -> Logged:
    server = server_of(request)

    def ask() -> Logged:
        found = find_analysis(server.ledger.log, text)
        if found is None:
            raise BadInput(f"{text[:80]}: no experiment, tuning or fleet run of this ledger is called so")
        return found

    return there(server, ask)


def _none(name: str) -> None:
    raise BadInput(f"{name}: rests on no result, and there is nothing to take along")
