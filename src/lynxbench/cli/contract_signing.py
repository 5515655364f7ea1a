"""`lynxbench contract sign`, `agreement` and `collect`: each team signs a contract with its own key; who has yet to."""

import os
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from lynxbench.cli.answers import answer, tell
from lynxbench.cli.options import AS_JSON, CONTRACT, LEDGER, SERVER, TOKEN
from lynxbench.errors import BadInput, ExitCode
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.location import opened
from lynxbench.ledger.names import looks_like_id
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.reading import read_text
from lynxbench.record import agreeing
from lynxbench.record.remote import remote_from

SIGNED_FILE = "a file that `lynxbench contract sign --out` wrote"
AGREEMENTS = "/api/v1/agreements"


def sign(
    contract: str = CONTRACT,
    out: Path | None = typer.Option(None, "--out", help="Write the signed entry to this file instead of a ledger."),
    server: str | None = typer.Option(None, "--server", help="Send the signed entry to this server instead."),
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Sign a contract with your team's key: your team agrees to what is measured and how, before it is measured."""
    if out is not None and server is not None:
        raise BadInput("--out and --server exclude each other: into a file, or to a server")
    keyring = Keyring()
    key = keyring.signing_key(datetime.now(UTC)).key
    if out is None and server is None:
        with opened(ledger, os.environ, create=True) as open_:
            chosen = agreeing.named_contract(contract, open_)
            seq, new = agreeing.sign_into(open_, chosen, key, keyring.trust)
            open_.seen.check(open_.log)
            report = agreeing.agreement_now(open_, chosen, keyring.trust)
        done = f"signed by {key.team} as entry {seq}" if new else f"was signed by {key.team} already, as entry {seq}"
        _say(chosen, key, done, {"seq": seq, "new": new, "agreement": report.document()}, report.render(), as_json)
        return
    by_id = looks_like_id(contract) and not Path(contract).exists()
    with opened(ledger, os.environ) if by_id else nullcontext() as known:
        chosen = agreeing.named_contract(contract, known)
    data = agreeing.render_signed(agreeing.seal_agreement(chosen, key))
    if out is not None:
        _write(out, data)
        hint = f"hand it on: lynxbench contract collect {out}, or on the page of the shared ledger\n"
        _say(chosen, key, f"signed by {key.team} into {out}", {"file": str(out)}, hint, as_json)
        return
    remote = remote_from(server, token, os.environ)
    taken = remote.ask("POST", AGREEMENTS, {"entries": data.decode("ascii").splitlines()})
    _say(chosen, key, f"signed by {key.team} at {remote.url}", taken, f"{taken['words']}\n", as_json)


def agreement(
    contract: str = CONTRACT,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Say who has signed a contract, when, who is missing, and what it amends.

    Exit code 1 while somebody is missing.
    """
    with opened(ledger, os.environ) as open_:
        chosen = agreeing.named_contract(contract, open_)
        report = agreeing.agreement_now(open_, chosen, Keyring().trust)
    answer(as_json, report.document, report.render)
    if chosen.teams and not report.agreement.full:
        raise typer.Exit(ExitCode.VERDICT_NO)


def collect(
    files: list[Path] = typer.Argument(None, help="Files that `contract sign --out` wrote.", show_default=False),
    contract: str | None = typer.Option(
        None, "--contract", help="With --server: fetch the signatures under this contract, a file or an id."
    ),
    server: str | None = SERVER,
    token: str | None = TOKEN,
    ledger: str | None = LEDGER,
    as_json: bool = AS_JSON,
) -> None:
    """Take in signatures of other teams: from files, or from a server, each held against your own trust list."""
    if bool(files) == (contract is not None):
        raise BadInput("give files of `contract sign --out`, or --contract with a server to fetch its signatures from")
    trust, problems = Keyring().trust, list[str]()
    with opened(ledger, os.environ, create=True) as open_:
        if contract is not None:
            by_id = looks_like_id(contract) and not Path(contract).exists()
            name = contract if by_id else agreeing.named_contract(contract, None).contract_id
            fetched = remote_from(server, token, os.environ).ask("GET", f"/api/v1/contracts/{name}/agreement")
            taken, problems = agreeing.collect_known(open_, [str(line) for line in fetched.get("entries", ())], trust)
        else:
            missing = f"no such file; give {SIGNED_FILE}"
            texts = [read_text(file, SIGNED_FILE, missing=missing) for file in files]
            taken = [agreeing.collect(open_, text.encode(), trust) for text in texts]
        open_.seen.check(open_.log)
    for problem in problems:
        tell(f"lynxbench: not taken: {problem}")
    answer(
        as_json,
        lambda: {"collected": [asdict(part) for part in taken], "not_taken": problems},
        lambda: "".join(f"{part.line}\n" for part in taken) or "nothing is signed yet by a key that you trust\n",
    )


def _say(contract: Contract, key: SigningKey, done: str, document: dict[str, object], more: str, as_json: bool) -> None:
    name = contract.contract_id
    answer(
        as_json,
        lambda: {"contract_id": name, "team": key.team, **document},
        lambda: f"{contract.name} {short(name)}: {done}\n{more}",
    )


def _write(out: Path, data: bytes) -> None:
    try:
        with out.open("xb") as stream:
            stream.write(data)
    except FileExistsError:
        raise BadInput(f"{out}: exists already; name another file") from None
    except OSError as error:
        raise BadInput(f"{out}: cannot be written: {error.strerror or error}") from None
