"""Agreement on a contract: each team signs its id with its own key, into a ledger or a file that a ledger takes in."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lynxbench.contract.amendments import Amendment, amended_by
from lynxbench.contract.loader import bundled_names, read_contract
from lynxbench.errors import BadInput, EvidenceInvalid, NotFound, Refused
from lynxbench.evidence.envelope import Envelope, check_signatures, parse_envelope
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.statement import parse_time, verify_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.names import find_id, looks_like_id
from lynxbench.ledger.queries import agreed_contract, entries_of_contract
from lynxbench.ledger.result_standings import signatures_under
from lynxbench.model.agreement import SignedBy, TeamAgreement, agreement_of
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.model.entries import ContractAgreed, ContractSigned, Entry, EntryKind
from lynxbench.model.team_names import looks_like
from lynxbench.record.recording import seal

MOST_FILE_BYTES = 16 << 20
AHEAD = timedelta(minutes=10)
"""A signer's clock may run ahead by so much: a date far in the future would outlive the revocation of its key."""


@dataclass(frozen=True, slots=True)
class AgreementReport:
    """Who has signed a contract by now, who has not, and what it replaces."""

    contract_id: str
    name: str
    agreement: TeamAgreement
    amends: tuple[Amendment, ...]

    @property
    def words(self) -> str:
        """`agreed (3 of 3)`, `not agreed (2 of 3; missing: x)`, or that it asks nobody."""
        return self.agreement.words if self.agreement.teams else "names no teams: nobody is asked to sign it"

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "contract_id": self.contract_id,
            "name": self.name,
            "agreed": bool(self.agreement.teams) and self.agreement.full,
            "words": self.words,
            "teams": list(self.agreement.teams),
            "missing": list(self.agreement.missing),
            "signatures": [
                {"team": signature.team, "at": signature.at, "seq": signature.seq, "revoked": signature.revoked}
                for signature in self.agreement.signatures
            ],
            "amends": [asdict(step) for step in self.amends],
        }

    def render(self) -> str:
        """For people: the word, a line a team, a line a contract that it replaces, and what is to be done."""
        signed = {signature.team: signature for signature in self.agreement.signatures}
        lines = [f"{self.name} · contract {self.contract_id}: {self.words}"]
        for team in self.agreement.teams:
            signature = signed.get(team)
            said = "missing" if signature is None else f"signed {signature.at} as entry {signature.seq}"
            revoked = "; the key was revoked since" if signature is not None and signature.revoked else ""
            lines.append(f"  {team:<{max(map(len, self.agreement.teams))}}  {said}{revoked}")
        lines += [f"  amends {step.line}" for step in self.amends]
        if self.agreement.missing:
            missing = ", ".join(self.agreement.missing)
            lines.append(f"next: {missing}: lynxbench contract sign {short(self.contract_id)}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Collected:
    """Signatures that a ledger took in from a file."""

    contract_id: str
    teams: tuple[str, ...]
    new: int

    @property
    def line(self) -> str:
        """For people."""
        word = "new here" if self.new else "known here already"
        return f"contract {short(self.contract_id)}: signed by {', '.join(self.teams)}, {word}"


def named_contract(named: str, ledger: OpenLedger | None) -> Contract:
    """A contract by file, bundled name, id or its unique beginning."""
    if ledger is not None and looks_like_id(named) and named not in bundled_names() and not Path(named).exists():
        contract = agreed_contract(ledger.log, find_id(ledger.log, named, "contract"))
        if contract is None:
            raise NotFound(f"{named}: the ledger does not hold the text of this contract; give its file")
        return contract
    return read_contract(named)


def refuse_signing(contract: Contract, team: str) -> None:
    """Only a team that the contract asks for signs it."""
    name = f"contract {short(contract.contract_id)}"
    if not contract.teams:
        raise BadInput(f"{name} names no teams; list those that must sign it, such as teams: [{team}, infrastructure]")
    if team not in contract.teams:
        twin = next((asked for asked in contract.teams if looks_like(asked, team)), None)
        beside = f" ({twin} is another team)" if twin else ""
        raise Refused(f"{name} asks {', '.join(contract.teams)} to sign it, not {team}{beside}")


def seal_agreement(contract: Contract, key: SigningKey) -> tuple[Envelope, Envelope]:
    """The contract's text and the signature under its id, each an entry that a ledger can take in."""
    refuse_signing(contract, key.team)
    text = ContractAgreed(contract_id=contract.contract_id, contract=contract)
    return seal(text, key), seal(ContractSigned(contract_id=contract.contract_id), key)


def sign_into(ledger: OpenLedger, contract: Contract, key: SigningKey, trust: TrustList) -> tuple[int, bool]:
    """Append a team's signature; its number, and whether it is new. A team signs a contract once."""
    text, signature = seal_agreement(contract, key)
    known = agreement_now(ledger, contract, trust).agreement
    earlier = next((signed for signed in known.signatures if signed.team == key.team), None)
    if earlier is not None:
        return earlier.seq, False
    has_text = entries_of_contract(ledger.log, contract.contract_id, [EntryKind.CONTRACT])
    return ledger.log.append_all([signature] if has_text else [text, signature])[-1], True


def agreement_now(ledger: OpenLedger, contract: Contract, trust: TrustList) -> AgreementReport:
    """Who has signed a contract by now, whatever was measured under it."""
    name = contract.contract_id
    signed = [
        SignedBy(entry.seq, entry.entry, entry.voice.teams, entry.voice.revoked)
        for entry in signatures_under(ledger.log, name, trust)
    ]
    state = agreement_of(name, contract.teams, signed, None)
    return AgreementReport(name, contract.name, state, amended_by(contract, _finder(ledger)))


def render_signed(envelopes: Sequence[Envelope]) -> bytes:
    """Signed entries as a file: one a line."""
    return b"".join(envelope.to_bytes() + b"\n" for envelope in envelopes)


def collect(
    ledger: OpenLedger, data: bytes, trust: TrustList, *, of: str | None = None, now: datetime | None = None
) -> Collected:
    """Take in what `contract sign --out` wrote: checked whole, all of it or nothing; nothing in it is executed.

    `of` is the team that hands it in, where it may hand in its own signature alone.
    """
    moment = now or datetime.now(UTC)
    lines = [line for line in data.splitlines() if line.strip()]
    if not lines or len(data) > MOST_FILE_BYTES:
        raise BadInput("holds no signed entry; give a file that `lynxbench contract sign --out` wrote")
    envelopes = [parse_envelope(line.strip()) for line in lines]
    entries = [_checked(envelope, trust, moment) for envelope in envelopes]
    bodies = [entry.body for entry, _ in entries]
    texts = {body.contract_id: body.contract for body in bodies if isinstance(body, ContractAgreed)}
    signed = [(entry.body, teams) for entry, teams in entries if isinstance(entry.body, ContractSigned)]
    names = {body.contract_id for body, _ in signed}
    if len(names) != 1 or not texts.keys() <= names:
        raise EvidenceInvalid("the file must hold signatures under one contract, and of contracts its text alone")
    name = names.pop()
    contract = texts.get(name) or agreed_contract(ledger.log, name)
    if contract is None:
        raise NotFound(f"contract {short(name)}: its text is neither in the file nor in this ledger")
    signers = tuple(dict.fromkeys(team for _, teams in signed for team in teams))
    for _, teams in signed:
        if not set(teams) & set(contract.teams):
            refuse_signing(contract, teams[0])
    if of is not None and any(of not in teams for _, teams in signed):
        raise Refused(f"signed by {', '.join(signers)}; {of} hands in its own signature")
    known = entries_of_contract(ledger.log, name, [EntryKind.CONTRACT])
    fresh = [
        envelope
        for envelope, (entry, _) in zip(envelopes, entries, strict=True)
        if isinstance(entry.body, ContractSigned) or not known
    ]
    before = ledger.log.head().size
    numbers = ledger.log.append_all(fresh)
    return Collected(name, signers, sum(number >= before for number in set(numbers)))


def collect_known(ledger: OpenLedger, lines: Sequence[str], trust: TrustList) -> tuple[list[Collected], list[str]]:
    """The same line by line, as a server gives them: those of trusted keys, and why the rest is not taken."""
    taken: list[Collected] = []
    problems: list[str] = []
    texts: list[bytes] = []
    for line in lines:
        data = line.encode()
        try:
            envelope = parse_envelope(data)
            if isinstance(_checked(envelope, trust, datetime.now(UTC))[0].body, ContractAgreed):
                texts = [data]
                continue
            taken.append(collect(ledger, b"\n".join([*texts, data]), trust))
        except (EvidenceInvalid, NotFound, Refused) as error:
            problems.append(str(error))
    return taken, problems


def _checked(envelope: Envelope, trust: TrustList, now: datetime) -> tuple[Entry, tuple[str, ...]]:
    """An entry that a known key signed, which is still valid, and the teams whose it is."""
    entry = verify_entry(envelope, trust).entry
    if not isinstance(entry.body, ContractAgreed | ContractSigned) or entry.blobs:
        raise EvidenceInvalid(f"a {entry.body.kind} has no place among signatures under a contract")
    if parse_time(entry.made_at) > now + AHEAD:
        raise EvidenceInvalid(f"the signature says it was made at {entry.made_at}, which is still to come")
    # a key that was revoked by now signs nothing new, whatever date the entry bears
    signers = check_signatures(envelope, trust, at=now).signers
    if not signers:
        raise EvidenceInvalid("signed by no key that is trusted here and still valid")
    return entry, tuple(dict.fromkeys(signer.team for signer in signers))


def _finder(ledger: OpenLedger) -> Callable[[str], Contract | None]:
    return lambda name: agreed_contract(ledger.log, name)
