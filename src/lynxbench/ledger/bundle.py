"""Results with everything about them in one file: envelopes, documents, proofs, checkpoint, and the signers' keys.

manifest.json          the results, name, size and SHA-256 of every other member, and which traces were left out
checkpoint.json        the exporting ledger's signed state
proofs.json            for every entry, the path from it to the checkpoint's root
keys.json              public keys of everybody who signed, with the team they claim; the importer's trust list decides
entries/NUMBER.json    the signed envelopes, by their number in the exporting ledger
blobs/SHA256           the documents
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field as Bound_

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_document
from lynxbench.evidence.envelope import Envelope, parse_envelope
from lynxbench.evidence.identities import with_tokens
from lynxbench.evidence.keys import KeyCard, SigningKey
from lynxbench.evidence.statement import UPDATE, open_entry, verify_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.analysis_entries import cited_by
from lynxbench.ledger.archive import first_member, read_archive, write_archive
from lynxbench.ledger.blobs import BlobStore
from lynxbench.ledger.bundle_contents import (
    hash_contents,
    holds_contents,
    is_other_run,
    other_runs,
    refuse_false_name,
    runs_brought,
)
from lynxbench.ledger.bundled_runs import Brought, is_example, refuse_incomplete, trust_in
from lynxbench.ledger.checkpoints import Checkpoint, sign_checkpoint, verify_checkpoint
from lynxbench.ledger.key_log import tokens_beside
from lynxbench.ledger.left_out_traces import left_out_of, tell_of_traces, words_by_result
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.ledger.merkle import includes, leaf_hash
from lynxbench.ledger.queries import entries_of_contract, read_about
from lynxbench.ledger.result_standings import voice_of
from lynxbench.model.canonical import canonical_bytes, short
from lynxbench.model.document import Document
from lynxbench.model.entries import Concluded, Entry, EntryKind, ResultRecorded, ResultRerun
from lynxbench.model.fields import Sha256
from lynxbench.plain_files import open_plain

MANIFEST, CHECKPOINT, PROOFS, KEYS = "manifest.json", "checkpoint.json", "proofs.json", "keys.json"
MAX_LISTING_BYTES = 256 << 20
_DOCUMENT = "blobs/"


class Held(Document):
    """One member as the manifest has it."""

    name: str
    size_bytes: Annotated[int, Bound_(ge=0)]
    sha256: Sha256


class BundleManifest(Document):
    """What a bundle holds."""

    schema_version: Literal[1] = 1
    results: Annotated[tuple[Sha256, ...], Bound_(min_length=1)]
    members: tuple[Held, ...]
    left_out: tuple[Sha256, ...] = ()
    """Traces that do not come with it; an entry says who left them out. Not written where there are none."""


class Proofs(Document):
    """By entry number: the hashes that lead to the checkpoint's root."""

    paths: dict[str, tuple[Sha256, ...]]


class Keys(Document):
    """Public keys of the signers that the exporter knows."""

    cards: tuple[KeyCard, ...]


@dataclass(frozen=True, slots=True)
class Exported:
    """What went into a bundle."""

    results: tuple[str, ...]
    entries: int
    blobs: int
    checkpoint: Checkpoint
    left_out: int = 0
    """Traces that stayed where they are."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What came out of a bundle."""

    results: tuple[str, ...]
    entries: int
    new: int
    """Entries that the ledger did not have yet."""
    blobs: int
    origin: str
    teams: tuple[str, ...]
    left_out: int = 0
    """Traces that were left out of it."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose every byte was checked."""

    manifest: BundleManifest
    checkpoint: Checkpoint
    envelopes: tuple[Envelope, ...]
    blobs: dict[str, bytes]
    teams: tuple[str, ...]
    submitters: tuple[str, ...] = ()
    """Teams that signed the checkpoint: whoever made the bundle."""
    example: bool = False
    """Whether all of it is invented: a worked example, which nobody's key stands behind."""


def export_bundle(
    ledger: OpenLedger,
    results: Sequence[str],
    path: Path,
    key: SigningKey,
    trust: TrustList,
    now: datetime,
    *,
    keep: bool = True,
    without_traces: bool = False,
) -> Exported:
    """Write results with everything that was said about them; the ledger's state is signed by `key`, and kept.

    Traces are left out where that is asked for, or where the ledger got the result without them; entries say so.
    """
    about = _that_count(_everything_about(ledger.log, results, trust), trust)
    if without_traces:
        ledger.log.append_all(tell_of_traces(about, ledger.blobs, key, now))
        about = _that_count(_everything_about(ledger.log, results, trust), trust)
    contents = hash_contents(results, (logged.seq for logged in about))
    checkpoint = sign_checkpoint(ledger.log, key, now, contents, keep=keep)
    size = checkpoint.checkpoint.tree_size
    runs = runs_brought(logged.entry for logged in about)
    brought = [logged for logged in about if not is_other_run(logged.entry, runs)]
    left_out = left_out_of(brought, about, ledger.blobs, asked=without_traces)
    blobs = sorted({blob.sha256 for logged in brought for blob in logged.entry.blobs} - left_out)
    signers = {signature.keyid for logged in about for signature in logged.envelope.signatures} | {key.keyid}
    proofs = ledger.log.prove_all([logged.seq for logged in about], size)
    paths = {str(proof.seq): tuple(step.hex() for step in proof.path) for proof in proofs}
    small: list[tuple[str, bytes]] = [
        (CHECKPOINT, checkpoint.envelope.to_bytes()),
        (PROOFS, _bytes_of(Proofs(paths=paths))),
        (KEYS, _bytes_of(Keys(cards=_cards(signers, trust, key)))),
        *((f"entries/{logged.seq:010d}.json", logged.envelope.to_bytes()) for logged in about),
    ]
    held = [Held(name=name, size_bytes=len(data), sha256=_sha256(data)) for name, data in small]
    held += [Held(name=f"blobs/{name}", size_bytes=len(ledger.blobs.get(name)), sha256=name) for name in blobs]
    names = tuple(sorted(set(results)))
    manifest = BundleManifest(results=names, members=tuple(held), left_out=tuple(sorted(left_out)))

    def members() -> Iterable[tuple[str, bytes]]:
        unsaid = set() if left_out else {"left_out"}  # as earlier versions write and read it
        yield MANIFEST, canonical_bytes(manifest.model_dump(mode="json", exclude=unsaid))
        yield from small
        for name in blobs:  # one at a time: samples can be large
            yield f"blobs/{name}", ledger.blobs.get(name)

    write_archive(path, members())
    return Exported(manifest.results, len(about), len(blobs), checkpoint.checkpoint, len(left_out))


def read_bundle(path: Path, trust: TrustList, *, example: bool = False) -> Bundle:
    """Read a bundle and check everything in it against the reader's own trust list; EvidenceInvalid otherwise.

    A worked example is refused unless it is asked for; then its bytes are checked, by the keys that it brings itself.
    """
    try:
        with open_plain(path) as stream:
            members = read_archive(stream, str(path))
            manifest = _open_manifest(members, str(path))
            contents = _checked_members(members, manifest, str(path))
    except OSError as error:
        raise BadInput(
            f"{path}: {error.strerror or error}; give a bundle of `results export`, or a run folder"
        ) from error
    numbered = [
        (name.removeprefix("entries/").removesuffix(".json"), parse_envelope(data))
        for name, data in sorted(contents.items())
        if name.startswith("entries/")
    ]
    envelopes = tuple(envelope for _, envelope in numbered)
    cards = parse_document(contents.pop(KEYS), KEYS, MAX_LISTING_BYTES, Keys)
    invented = is_example([open_entry(envelope) for envelope in envelopes], str(path), asked=example)
    trust = trust_in(cards.cards) if invented else with_tokens(trust, envelopes)
    signed = verify_checkpoint(parse_envelope(contents.pop(CHECKPOINT)), trust)
    proofs = parse_document(contents.pop(PROOFS), PROOFS, MAX_LISTING_BYTES, Proofs)
    blobs = {name.removeprefix(_DOCUMENT): data for name, data in contents.items() if name.startswith(_DOCUMENT)}
    teams: dict[str, None] = {}
    entries: list[Entry] = []
    numbers: list[int] = []
    for number, envelope in numbered:
        _prove(envelope, number, proofs, signed.checkpoint)
        try:
            verified = verify_entry(envelope, trust)
        except EvidenceInvalid as error:
            raise EvidenceInvalid(f"{path}: entry {int(number)}: {error}{_who(envelope, cards, trust)}") from None
        teams |= dict.fromkeys(signer.team for signer in verified.signers)
        numbers.append(int(number))
        entries.append(verified.entry)
    if len(proofs.paths) != len(envelopes):
        raise EvidenceInvalid(f"{path}: holds {len(envelopes)} entries and {len(proofs.paths)} proofs")
    if not holds_contents(signed.checkpoint, manifest.results, numbers):
        raise EvidenceInvalid(f"{path}: entries were left out, or put in, after the bundle was signed")
    brought = Brought(entries, words_by_result(zip(entries, envelopes, strict=True)), blobs, str(path))
    refuse_incomplete(brought, manifest.results, manifest.left_out)
    submitters = () if invented else tuple(dict.fromkeys(signer.team for signer in signed.signers))
    known = () if invented else tuple(teams)
    return Bundle(manifest, signed.checkpoint, envelopes, blobs, known, submitters, example=invented)


def import_bundle(ledger: OpenLedger, path: Path, trust: TrustList) -> Imported:
    """Check a bundle and append what this ledger does not have yet, all of it or nothing."""
    bundle = read_bundle(path, trust)
    refuse_false_name(ledger.log, bundle.checkpoint)
    ledger.seen.check_bundle(bundle.checkpoint, bundle.submitters)
    keep_blobs(ledger.blobs, bundle.blobs)
    before = ledger.log.head().size
    numbers = ledger.log.append_all(bundle.envelopes, trust)
    ledger.seen.check(ledger.log)
    return Imported(
        results=bundle.manifest.results,
        entries=len(numbers),
        new=sum(number >= before for number in set(numbers)),
        blobs=len(bundle.blobs),
        origin=bundle.checkpoint.origin,
        teams=bundle.teams,
        left_out=len(bundle.manifest.left_out),
    )


def manifest_hash(data: bytes, file: str) -> str:
    """What stands for the whole of a bundle: its manifest names every other byte, and an archive has one form."""
    name, manifest = first_member(data, file)
    if name != MANIFEST:
        raise EvidenceInvalid(f"{file}: does not begin with {MANIFEST}; not a bundle of lynxbench")
    return _sha256(manifest)


def keep_blobs(store: BlobStore, blobs: dict[str, bytes]) -> None:
    """Documents of a bundle that was read, so that each has the name of its bytes.

    Documents first, entries after: an entry never speaks of what is not there.
    """
    store.put_named(blobs)


def _everything_about(ledger: Ledger, results: Sequence[str], trust: TrustList) -> list[Logged]:
    """Entries about results, about their runs, and about the results those entries cite in turn."""
    known: dict[int, Logged] = {}
    names, read = set(results), set[str]()
    while names - read:
        fresh = names - read
        read |= fresh
        found, newer = read_about(ledger, fresh)
        if newer:
            raise BadInput(
                f"{short(next(iter(newer)))}: an entry about it is of a kind that is not known here; {UPDATE}"
            )
        for logged in found:
            known[logged.seq] = logged
            body = logged.entry.body
            if isinstance(body, ResultRecorded):
                names |= {body.run_id, body.result_id}
            elif isinstance(body, ResultRerun):
                names |= {body.rerun_id, body.result_id}
            elif isinstance(body, Concluded) and cited_by(body) <= names:
                names |= set(body.without_result)
    # an experiment travels with all its cells or not at all: without them nobody could make its analysis again
    known = {seq: logged for seq, logged in known.items() if cited_by(logged.entry.body) <= names}
    results_there = [
        body for body in (logged.entry.body for logged in known.values()) if isinstance(body, ResultRecorded)
    ]
    for contract_id in {body.contract_id for body in results_there}:
        kinds = [EntryKind.CONTRACT, EntryKind.AGREEMENT]
        known |= {logged.seq: logged for logged in entries_of_contract(ledger, contract_id, kinds)}
    known |= {logged.seq: logged for logged in other_runs(ledger, list(known.values()), trust)}
    known |= {logged.seq: logged for logged in tokens_beside(ledger, list(known.values()))}
    missing = set(results) - {body.result_id for body in results_there}
    if missing:
        raise BadInput(f"{short(missing.pop())}: no such result in {ledger.database.name}")
    return [known[seq] for seq in sorted(known)]


def _that_count(about: list[Logged], trust: TrustList) -> list[Logged]:
    """Without signatures under a contract that nobody known made: one such would keep a bundle out of every ledger."""
    return [
        logged for logged in about if logged.entry.body.kind is not EntryKind.AGREEMENT or voice_of(logged, trust).teams
    ]


def _cards(keyids: set[str], trust: TrustList, key: SigningKey) -> tuple[KeyCard, ...]:
    cards = {key.keyid: key.card}
    for known in trust.keys:
        if known.keyid in keyids:
            keyid, public_key, team, roles = known.keyid, known.public_key, known.team, known.roles
            cards[keyid] = KeyCard(keyid=keyid, public_key=public_key, team=team, roles=roles, made_at=known.valid_from)
    return tuple(cards[keyid] for keyid in sorted(cards))


def _open_manifest(members: Iterable[tuple[str, bytes]], file: str) -> BundleManifest:
    name, data = next(iter(members), ("", b""))
    if name != MANIFEST:
        raise EvidenceInvalid(f"{file}: does not begin with {MANIFEST}; not a bundle of lynxbench")
    return parse_document(data, MANIFEST, MAX_LISTING_BYTES, BundleManifest)


def _checked_members(members: Iterable[tuple[str, bytes]], manifest: BundleManifest, file: str) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    expected = iter(manifest.members)
    for name, data in members:
        held = next(expected, None)
        if held is None or (held.name, held.size_bytes, held.sha256) != (name, len(data), _sha256(data)):
            raise EvidenceInvalid(f"{file}: member {name!r} is not what the manifest says")
        if name.startswith(_DOCUMENT) and name != f"{_DOCUMENT}{held.sha256}":
            raise EvidenceInvalid(f"{file}: document {short(name.removeprefix(_DOCUMENT))} is not what its name says")
        contents[name] = data
    missing = next(expected, None)
    if missing is not None:
        raise EvidenceInvalid(f"{file}: member {missing.name[:80]!r} is missing")
    for name in (CHECKPOINT, PROOFS, KEYS):
        if name not in contents:
            raise EvidenceInvalid(f"{file}: member {name!r} is missing")
    strange = [
        name
        for name in contents
        if name not in (CHECKPOINT, PROOFS, KEYS) and not name.startswith(("entries/", "blobs/"))
    ]
    if strange:
        raise EvidenceInvalid(f"{file}: member {strange[0]!r} has no place in a bundle")
    return contents


def _prove(envelope: Envelope, number: str, proofs: Proofs, checkpoint: Checkpoint) -> None:
    path = proofs.paths.get(str(int(number))) if number.isdecimal() else None
    if path is None:
        raise EvidenceInvalid(f"entry {number} has no proof of inclusion")
    steps = [bytes.fromhex(step) for step in path]
    leaf = leaf_hash(envelope.to_bytes())
    if not includes(leaf, int(number), checkpoint.tree_size, steps, checkpoint.head.root):
        raise EvidenceInvalid(f"entry {int(number)} is not in the log that the checkpoint is of")


def _who(envelope: Envelope, cards: Keys, trust: TrustList) -> str:
    """What the bundle itself says about the keys that are not trusted: a claim, to be confirmed elsewhere."""
    claimed = {card.keyid: card for card in cards.cards}
    for signature in envelope.signatures:
        card = claimed.get(signature.keyid)
        if card is not None and trust.find(signature.keyid) is None:
            return (
                f"; the bundle says it is {card.team}'s key. Ask {card.team} for their card (lynxbench key export), "
                "compare, and trust it with: lynxbench key trust"
            )
    return ""


def _bytes_of(document: Document) -> bytes:
    return canonical_bytes(document.model_dump(mode="json"))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
