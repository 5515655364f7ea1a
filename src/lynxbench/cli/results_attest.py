"""`lynxbench results attest`: a result as files that stock tools verify."""

import os
from dataclasses import asdict
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.naming import named_result
from lynxbench.cli.options import AS_JSON, LEDGER, RESULT
from lynxbench.errors import BadInput
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import opened
from lynxbench.model.canonical import short
from lynxbench.record.stock_statements import Attested, attest_result


def attest(
    result: str = RESULT,
    out: Path = typer.Option(..., "--out", "-o", help="Folder that receives envelopes, keys and documents."),
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Write a result's signed entry so that in-toto, DSSE and Sigstore tools verify it without lynxbench.

    Beside the entry stand an in-toto test result and a SLSA provenance of the run, where the key that signed the entry
    is here to sign them.
    """
    if out.is_file():
        raise BadInput(f"{out}: a file; name a folder with --out")
    with opened(ledger, os.environ) as open_:
        attested = attest_result(open_, named_result(open_, result), out, Keyring())
    answer(as_json, lambda: {"folder": str(out), **asdict(attested)}, lambda: _line(out, attested))


def _line(out: Path, attested: Attested) -> str:
    teams = ", ".join(attested.signed_by)
    signed = f"{out}: {len(attested.files)} files on {short(attested.result_id)}, signed by {teams}"
    missing = f"  no test result and no provenance: {attested.not_derived}\n" if attested.not_derived else ""
    return f"{signed}\n{missing}"
