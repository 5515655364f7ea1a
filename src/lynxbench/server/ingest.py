"""A submission into the ledger: signed by a key that its team registered, checked whole, all of it or nothing."""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

from lynxbench.errors import BadInput, EvidenceInvalid, LynxbenchError, NotFound, Refused
from lynxbench.evidence.envelope import Envelope, check_signatures, parse_envelope
from lynxbench.evidence.identities import with_tokens
from lynxbench.evidence.statement import open_entry, parse_time
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.bundle import Bundle, keep_blobs, read_bundle
from lynxbench.ledger.bundle_contents import is_other_run, refuse_false_name, runs_brought
from lynxbench.ledger.key_log import KEY_KINDS, NEWEST, logged_trust
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.queries import find_result
from lynxbench.model.canonical import short
from lynxbench.model.entries import ACTS, EntryKind, ResultNoted, ResultRecorded, ResultTagged, RunRegistered
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.uploads import Taken

REMARKS = frozenset({EntryKind.TAG, EntryKind.NOTE})
DOUBTS = REMARKS | {EntryKind.CONTEST, EntryKind.RETRACTION, EntryKind.VERIFICATION, EntryKind.RERUN}
"""What is said about somebody's result: asks for the scope `contest`."""
OWN = frozenset({EntryKind.REGISTRATION, EntryKind.RESULT, EntryKind.ABANDONED})
"""What a team says about its own runs: signed by that team, and pushed by it."""
AHEAD_S = 600.0
"""A signer's clock may run ahead by so much: a date far in the future would outlive the revocation of its key."""

_one_at_a_time = Lock()


@dataclass(frozen=True, slots=True)
class OfferedBundle:
    """A bundle in a file, and who submits it."""

    path: Path
    who: Principal


@dataclass(frozen=True, slots=True)
class _Checked:
    """An offered bundle that may be appended to the log as it was read."""

    bundle: Bundle
    offered: list[Envelope]
    fresh: list[Envelope]
    trust: TrustList


class _NotTogether(LynxbenchError):
    """Bundles that are taken in one after the other after all; nothing of them was appended."""


Outcome = Taken | LynxbenchError


def take_in(ledger: OpenLedger, path: Path, trust: TrustList, who: Principal, now_s: float) -> Taken:
    """Check a bundle and append what is new in it."""
    (outcome,) = take_in_all(ledger, [OfferedBundle(path, who)], trust, now_s)
    if isinstance(outcome, LynxbenchError):
        raise outcome
    return outcome


def take_in_all(ledger: OpenLedger, offers: Sequence[OfferedBundle], trust: TrustList, now_s: float) -> list[Outcome]:
    """The same of several, in this order, whose documents are flushed and whose entries are appended together.

    Each is refused for itself: what comes of one is what would have come of it alone, after those before it.
    """
    outcomes: dict[int, Outcome] = {}
    bundles: dict[int, Bundle] = {}
    for number, offer in enumerate(offers):
        try:
            bundles[number] = _read_own(offer, trust)
        except LynxbenchError as error:
            outcomes[number] = error
    with _one_at_a_time:
        for together in _apart(bundles):
            try:
                outcomes |= _append(ledger, together, offers, trust, now_s)
            except LynxbenchError as error:
                if len(together) == 1:
                    outcomes |= dict.fromkeys(together, error)
                    continue
                for number, bundle in together.items():
                    outcomes[number] = _alone(ledger, number, bundle, offers, trust, now_s)
    return [outcomes[number] for number in range(len(offers))]


def _read_own(offer: OfferedBundle, trust: TrustList) -> Bundle:
    bundle = read_bundle(offer.path, trust)
    if offer.who.team not in bundle.submitters:
        by = ", ".join(bundle.submitters) or "nobody known here"
        own = offer.who.team
        raise Refused(f"the bundle was made by {by}; a submission is signed by a key of its own team, {own}")
    return bundle


def _apart(bundles: Mapping[int, Bundle]) -> Iterator[dict[int, Bundle]]:
    """Those that may be judged by one state of the log: what says whose a key is changes who is believed after it."""
    together: dict[int, Bundle] = {}
    for number, bundle in bundles.items():
        if any(open_entry(envelope).body.kind in KEY_KINDS for envelope in bundle.envelopes):
            if together:
                yield together
            yield {number: bundle}
            together = {}
        else:
            together[number] = bundle
    if together:
        yield together


def _alone(
    ledger: OpenLedger, number: int, bundle: Bundle, offers: Sequence[OfferedBundle], trust: TrustList, now_s: float
) -> Outcome:
    try:
        return _append(ledger, {number: bundle}, offers, trust, now_s)[number]
    except LynxbenchError as error:
        return error


def _append(
    ledger: OpenLedger, bundles: Mapping[int, Bundle], offers: Sequence[OfferedBundle], trust: TrustList, now_s: float
) -> dict[int, Outcome]:
    """Append what is new in bundles, all of it or nothing; those that are refused before anything is written apart."""
    outcomes: dict[int, Outcome] = {}
    checked: dict[int, _Checked] = {}
    with ledger.log.database.held():
        ledger.seen.check(ledger.log)  # a history that was rewritten takes nothing more
        known = ledger.log.known([envelope for bundle in bundles.values() for envelope in bundle.envelopes])
        for number, bundle in bundles.items():
            try:
                checked[number] = _check(ledger, bundle, known, trust, offers[number].who, now_s)
            except LynxbenchError as error:
                outcomes[number] = error
                continue
            known |= set(checked[number].fresh)
        shown = [(one.bundle.checkpoint, one.bundle.submitters) for one in checked.values()]
        for number, refusal in zip(list(checked), ledger.seen.check_bundles(shown), strict=True):
            if refusal is None:
                continue
            if len(bundles) > 1:  # those after it may have counted on what it brings
                raise _NotTogether
            outcomes[number] = refusal
            del checked[number]
    if not checked:
        return outcomes
    keep_blobs(ledger.blobs, {name: data for one in checked.values() for name, data in one.bundle.blobs.items()})
    (common, *others) = [one.trust for one in checked.values()]
    if any(other != common for other in others):
        raise _NotTogether
    numbers = iter(ledger.log.append_all([envelope for one in checked.values() for envelope in one.offered], common))
    ledger.seen.check(ledger.log)
    for number, one in checked.items():
        appended = len(list(islice(numbers, len(one.offered))))
        bodies = [open_entry(envelope).body for envelope in one.fresh]
        results = [body.result_id for body in bodies if isinstance(body, ResultRecorded)]
        outcomes[number] = Taken(list(one.bundle.manifest.results), appended, len(one.fresh), results)
    return outcomes


def _check(
    ledger: OpenLedger, bundle: Bundle, known: Set[Envelope], trust: TrustList, who: Principal, now_s: float
) -> _Checked:
    """Everything that is asked of a bundle before it is appended to the log."""
    signers = {signature.keyid for envelope in bundle.envelopes for signature in envelope.signatures}
    trust = logged_trust(ledger.log, with_tokens(trust, bundle.envelopes), signers).at(NEWEST)
    beside = _runs_of_others(bundle, trust, who)
    offered = [envelope for envelope in bundle.envelopes if envelope in known or envelope not in beside]
    fresh = [envelope for envelope in offered if envelope not in known]
    for envelope in fresh:
        _refuse(envelope, trust, who, now_s)
    _refuse_inflating(bundle)
    refuse_false_name(ledger.log, bundle.checkpoint)
    return _Checked(bundle, offered, fresh, trust)


def announce(ledger: OpenLedger, data: bytes, trust: TrustList, who: Principal, now_s: float) -> int:
    """Log the registration of a run by the server's own clock; its number. The result follows in a bundle."""
    envelope = parse_envelope(data)
    entry = open_entry(envelope)
    if not isinstance(entry.body, RunRegistered):
        raise BadInput(f"only a registration is announced by itself, not a {entry.body.kind}; push the result's bundle")
    with _one_at_a_time:
        ledger.seen.check(ledger.log)
        if envelope not in ledger.log.known([envelope]):
            _refuse(envelope, trust, who, now_s)
        (seq,) = ledger.log.append_all([envelope], trust)
        ledger.seen.check(ledger.log)
    return seq


def remark(ledger: OpenLedger, data: bytes, trust: TrustList, who: Principal, now_s: float) -> tuple[str, int]:
    """Log a tag or a note by itself, signed by a key of the caller's own team: the result, and the entry's number."""
    envelope = parse_envelope(data)
    body = open_entry(envelope).body
    if not isinstance(body, ResultTagged | ResultNoted):
        raise BadInput(f"only tags and notes are taken by themselves, not a {body.kind}; push the result's bundle")
    with _one_at_a_time:
        ledger.seen.check(ledger.log)
        if find_result(ledger.log, body.result_id) is None:
            raise NotFound(f"result {short(body.result_id)} is not here; push it first")
        if envelope not in ledger.log.known([envelope]):
            _refuse(envelope, trust, who, now_s)
            teams = {signer.team for signer in check_signatures(envelope, trust).signers}
            if who.team not in teams:
                raise Refused(f"the {body.kind} is signed by {', '.join(sorted(teams))}; {who.team} signs its own")
        (seq,) = ledger.log.append_all([envelope], trust)
        ledger.seen.check(ledger.log)
    return body.result_id, seq


def _refuse(envelope: Envelope, trust: TrustList, who: Principal, now_s: float) -> None:
    entry = open_entry(envelope)
    kind = entry.body.kind
    if _is_to_come(entry.made_at, now_s):
        raise EvidenceInvalid(f"an entry ({kind}) says it was made at {entry.made_at}, which is still to come")
    if isinstance(entry.body, ResultRecorded) and _is_to_come(entry.body.started_at, now_s):
        # it would stand before all that is measured until then as its contract's latest
        raise EvidenceInvalid(f"a result says it was begun at {entry.body.started_at}, which is still to come")
    if kind in DOUBTS and not who.may(AccessScope.CONTEST):
        raise Refused(f"the bundle holds a new {kind}, and {who.label} may not {AccessScope.CONTEST.value}")
    # a key that was revoked by now signs nothing new, whatever date the entry bears
    signers = check_signatures(envelope, trust, role=ACTS.get(kind)).signers
    if not signers:
        raise EvidenceInvalid(f"a new {kind} is signed by no key that is registered and still valid")
    if kind in OWN and who.team not in {signer.team for signer in signers}:
        by = ", ".join(dict.fromkeys(signer.team for signer in signers))
        raise Refused(f"a new {kind} is signed by {by}; {who.team} submits what it signed itself")


def _is_to_come(at: str, now_s: float) -> bool:
    return parse_time(at).timestamp() > now_s + AHEAD_S


def _runs_of_others(bundle: Bundle, trust: TrustList, who: Principal) -> set[Envelope]:
    """Another team's other runs, which travel with its results: that team tells of them itself, or not at all."""
    opened = {envelope: open_entry(envelope) for envelope in bundle.envelopes}
    runs = runs_brought(opened.values())
    return {
        envelope
        for envelope, entry in opened.items()
        if is_other_run(entry, runs)
        and who.team not in {signer.team for signer in check_signatures(envelope, trust).signers}
    }


def _refuse_inflating(bundle: Bundle) -> None:
    """Documents are read when somebody looks at a page: none may unfold to more than what was sent."""
    for name, data in bundle.blobs.items():
        if data[:4] != b"PK\x03\x04":
            continue
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                unfolded = sum(member.file_size for member in archive.infolist())
                packed = any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist())
        except (zipfile.BadZipFile, ValueError, EOFError) as error:
            raise EvidenceInvalid(f"document {short(name)} is a damaged archive ({error})") from None
        if packed or unfolded > len(data):
            raise EvidenceInvalid(f"document {short(name)} unfolds to {unfolded} bytes from {len(data)}; not taken")
