"""Whose run it is: a run id belongs to whoever registered it here first, with that nonce, for that contract.

Nobody else registers it again, brings its result or ends it. A run that was never registered here belongs to nobody:
whoever records a copy of its result first does not keep its own team from doing the same.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import Envelope, check_signatures, parse_envelope
from lynxbench.evidence.statement import open_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.ledger_tables import entries
from lynxbench.model.canonical import short
from lynxbench.model.entries import Entry, EntryKind, ResultRecorded, RunAbandoned, RunRegistered
from lynxbench.model.team_names import LOCAL_TEAM

AboutRun = RunRegistered | ResultRecorded | RunAbandoned

_REGISTRATION = (
    select(entries.c.envelope)
    .where(entries.c.run_id == bindparam("run"), entries.c.kind == EntryKind.REGISTRATION.value)
    .order_by(entries.c.seq)
    .limit(1)
)
_RESULTS = select(entries.c.result_id, entries.c.signers).where(
    entries.c.run_id == bindparam("run"), entries.c.kind == EntryKind.RESULT.value
)


@dataclass(frozen=True, slots=True)
class SignedEntry:
    """An entry with the envelope it was read from."""

    envelope: Envelope
    entry: Entry


def refuse_foreign_run(
    connection: Connection, incoming: SignedEntry, pending: Sequence[SignedEntry], trust: TrustList
) -> None:
    """Refuse an entry about a run that is somebody else's, and a second result of one's own.

    `pending` are the entries about the same run that are about to be appended before it.
    """
    body = incoming.entry.body
    if not isinstance(body, AboutRun):
        return
    signatures = incoming.envelope.signatures
    if isinstance(body, RunRegistered) and len(signatures) != 1:
        raise EvidenceInvalid(
            f"the registration of run {body.run_id} bears {len(signatures)} signatures; "
            "the one key that will measure it signs"
        )
    mine = _signers(incoming.envelope, trust)
    registration = _registration(connection, body.run_id, pending)
    if registration is not None:
        _refuse_another(body, mine, registration, trust)
        if why := announced_otherwise(registration.entry, incoming.entry):
            raise EvidenceInvalid(f"run {body.run_id} {why}")
    if isinstance(body, ResultRecorded):
        _refuse_second_result(connection, body, mine, pending, trust)


def announced_otherwise(registration: Entry, recorded: Entry) -> str:
    """How a result's plan, machine or surroundings are not those that its run was announced with; empty: they are.

    What was announced is a document, named by its hash in an entry from before the first sample. Of an announcement
    without one, or an entry of anything but a result, nothing can be said.
    """
    from lynxbench.evidence.run_folder import REGISTRATION_FILE  # a list of results needs nothing of runs

    announced, brought = (
        next((blob.sha256 for blob in entry.blobs if blob.name == REGISTRATION_FILE), None)
        for entry in (registration, recorded)
    )
    if announced is None or not isinstance(recorded.body, ResultRecorded) or announced == brought:
        return ""
    found = "none" if brought is None else short(brought)
    return f"was announced with {REGISTRATION_FILE} {short(announced)}, and its result comes with {found}"


def _refuse_another(body: AboutRun, mine: frozenset[str], registration: SignedEntry, trust: TrustList) -> None:
    registered = registration.entry.body
    assert isinstance(registered, RunRegistered)
    keys = [signature.keyid for signature in registration.envelope.signatures]
    if not mine & identities(keys, trust):
        known = trust.find(keys[0])
        by = known.team if known is not None else f"key {short(keys[0])}"
        raise EvidenceInvalid(
            f"run {body.run_id} was registered by {by}, who alone can say what became of it; "
            f"this {body.kind.value} is signed by somebody else"
        )
    for what, stated, announced in (
        ("nonce", body.nonce, registered.nonce),
        ("contract", body.contract_id, registered.contract_id),
    ):
        if stated != announced:
            raise EvidenceInvalid(
                f"run {body.run_id} was registered with {what} {short(announced)}, "
                f"and this {body.kind.value} says {short(stated)}"
            )


def _refuse_second_result(
    connection: Connection,
    body: ResultRecorded,
    mine: frozenset[str],
    pending: Sequence[SignedEntry],
    trust: TrustList,
) -> None:
    """A run has one result: measuring until the figure pleases needs a run, and a registration, for each time."""
    if len({summary.precision for summary in body.per_precision}) != len(body.per_precision):
        raise EvidenceInvalid(f"result {short(body.result_id)}: a precision is listed twice")
    earlier = [
        (str(row.result_id), str(row.signers).split()) for row in connection.execute(_RESULTS, {"run": body.run_id})
    ]
    for other in pending:
        if isinstance(other.entry.body, ResultRecorded):
            earlier.append((other.entry.body.result_id, [sig.keyid for sig in other.envelope.signatures]))
    for result_id, keys in earlier:
        if result_id != body.result_id and mine & identities(keys, trust):
            raise EvidenceInvalid(f"run {body.run_id} already has result {short(result_id)}; a run has one result")


def _registration(connection: Connection, run_id: str, pending: Sequence[SignedEntry]) -> SignedEntry | None:
    row = connection.execute(_REGISTRATION, {"run": run_id}).first()
    if row is not None:
        if not isinstance(row.envelope, bytes):
            raise EvidenceInvalid(f"the registration of run {run_id} was changed after it was recorded")
        envelope = parse_envelope(row.envelope)
        return SignedEntry(envelope, open_entry(envelope))
    return next((other for other in pending if isinstance(other.entry.body, RunRegistered)), None)


def _signers(envelope: Envelope, trust: TrustList) -> frozenset[str]:
    """Who stands behind an entry. Beside a signature that can be checked, one that cannot proves nothing."""
    keys = [signature.keyid for signature in envelope.signatures]
    known = [key for key in keys if trust.find(key) is not None]
    if known:
        check_signatures(envelope, trust)  # a wrong one in the name of a known key raises, whatever its time
    return identities(known or keys, trust)


def identities(keys: Collection[str], trust: TrustList) -> frozenset[str]:
    """Keys, and the teams that the trust list gives them: a team that somebody named may go on with another key."""
    teams = {known.team for key in keys if (known := trust.find(key)) is not None}
    return frozenset(keys) | {f"team {team}" for team in teams - {LOCAL_TEAM}}
