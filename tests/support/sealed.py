"""Keys, entries and a trust list for tests of evidence."""

from __future__ import annotations

from datetime import UTC, datetime

from lynxbench.contract.loader import read_contract
from lynxbench.evidence.keys import SigningKey, new_signing_key
from lynxbench.evidence.trust import TrustList
from lynxbench.model.entries import Blob, ContractAgreed, Entry, ResultContested, Role

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def key_of(team: str = "ml-platform", *roles: Role) -> SigningKey:
    """A fresh key."""
    return new_signing_key(team, roles or (Role.RUNNER,), LONG_AGO)


def trusting(*keys: SigningKey) -> TrustList:
    """A list that trusts these keys, and nothing else."""
    trust = TrustList()
    for key in keys:
        trust = trust.adding(key.card, LONG_AGO)
    return trust


def contest(reason: str = "the driver was another one") -> Entry:
    """A small entry."""
    return Entry(
        made_at=NOON.isoformat(),
        body=ResultContested(result_id="ab" * 32, reason=reason, cites=("cd" * 32,)),
        blobs=(Blob(name="notes.txt", sha256="ef" * 32, size_bytes=7),),
    )


def agreed(name: str = "quickstart") -> Entry:
    """An entry that holds a whole contract."""
    contract = read_contract(name)
    return Entry(made_at=NOON.isoformat(), body=ContractAgreed(contract_id=contract.contract_id, contract=contract))
