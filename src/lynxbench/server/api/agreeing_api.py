"""Signatures under contracts: who signed, and the signature of the caller's own team in."""

from fastapi import HTTPException
from starlette.responses import Response

from lynxbench.errors import NotFound
from lynxbench.ledger.queries import agreed_contract, entries_of_contract
from lynxbench.model.canonical import short
from lynxbench.model.entries import EntryKind
from lynxbench.server import ledger_views as reading
from lynxbench.server.api.answer_models import AmendmentLine, ContractSignature
from lynxbench.server.api.request_models import Named, SignedEntries
from lynxbench.server.pages.agreeing_page import hand_in, report_of
from lynxbench.server.rights import API
from lynxbench.server.routing import READ, SUBMIT, Routes, TheAuthor, TheCaller, TheServer, answer
from lynxbench.server.server_state import Server

AGREEMENT = {
    "contract_id": str,
    "name": str,
    "agreed": bool,
    "words": str,
    "teams": list[str],
    "missing": list[str],
    "signatures": list[ContractSignature],
    "amends": list[AmendmentLine],
    "entries": list[str],
}

route = Routes(API, "agreeing")


@route("GET", "/contracts/{contract}/agreement", READ, AGREEMENT)
def agreement(server: TheServer, contract: Named) -> Response:
    """Who has signed a contract, who is missing, and the signed entries, as `lynxbench contract collect` takes them."""
    return answer(_document(server, reading.named(server, contract, "contract")))


@route("POST", "/agreements", SUBMIT, AGREEMENT)
def sign(server: TheServer, who: TheCaller, by: TheAuthor, body: SignedEntries) -> Response:
    """Take in what `lynxbench contract sign` signed, with a key that the caller's team registered."""
    wait_s = server.submissions.wait_s(who.credential or who.name)
    if wait_s > 0:
        raise HTTPException(429, "too many submissions; wait a little", {"Retry-After": str(int(wait_s) + 1)})
    data = "\n".join(body.entries).encode()
    return answer(_document(server, server.audit.carry_out(by, "sign contract", "", hand_in, server, who, data)))


def _document(server: Server, contract_id: str) -> dict[str, object]:
    contract = agreed_contract(server.ledger.log, contract_id)  # as it is now: it may have come with this signature
    if contract is None:
        raise NotFound(f"contract {short(contract_id)}: its text is not in this ledger")
    kinds = [EntryKind.CONTRACT, EntryKind.AGREEMENT]
    entries = entries_of_contract(server.ledger.log, contract_id, kinds)
    texts = [logged.envelope.to_bytes().decode("ascii") for logged in entries]
    return {**report_of(server, contract).document(), "entries": texts}
