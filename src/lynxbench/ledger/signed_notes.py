"""Checkpoints as signed notes, which standard witnesses read, and the timestamped co-signatures that they add.

https://c2sp.org/signed-note · https://c2sp.org/tlog-checkpoint · https://c2sp.org/tlog-cosignature
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Self

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_base64
from lynxbench.evidence.envelope import MAX_SIGNATURES, SIGNATURE_BYTES
from lynxbench.evidence.keys import PublicKey, SigningKey
from lynxbench.evidence.trust import TrustedKey, TrustList
from lynxbench.ledger.log import TreeHead
from lynxbench.ledger.merkle import HASH_BYTES
from lynxbench.model.canonical import short

LOG_KEY: Final = 0x01
"""Signature type of a log's own Ed25519 signature, part of the hash that names its key."""
WITNESS_KEY: Final = 0x04
"""Signature type of a witness's timestamped Ed25519 co-signature."""
KEY_HASH_BYTES: Final = 4
STAMP_BYTES: Final = 8
MAX_NOTE_BYTES: Final = 1 << 16
MAX_ORIGIN: Final = 200
MAX_STAMP: Final = 253_402_300_799
"""The last second of the year 9999; no later date can be written."""

_DASH = "\N{EM DASH}"
_ORIGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
"""Neither spaces nor '+': what a log signs can never be read as anything else that its key signs."""
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_COSIGNED = "cosignature/v1\ntime {}\n{}"


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One line below a note: who signed, the hash that names the key, and the signature's bytes."""

    name: str
    key_hash: bytes
    signature: bytes

    def to_line(self) -> str:
        """The line with its end."""
        return f"{_DASH} {self.name} {base64.b64encode(self.key_hash + self.signature).decode('ascii')}\n"


@dataclass(frozen=True, slots=True)
class CheckpointNote:
    """A checkpoint: its text, what the text says, and the signatures below it."""

    text: str
    origin: str
    head: TreeHead
    signatures: tuple[NoteSignature, ...]

    def to_text(self) -> str:
        """The whole note."""
        return f"{self.text}\n{''.join(signature.to_line() for signature in self.signatures)}"

    def adding(self, more: Iterable[NoteSignature]) -> Self:
        """The same with more signatures; a key's newer one takes the place of its older one."""
        lines = {(line.name, line.key_hash): line for line in (*self.signatures, *more)}
        return replace(self, signatures=tuple(lines.values()))


@dataclass(frozen=True, slots=True)
class Cosignature:
    """A witness's statement that this was the largest state it had seen of the log at that time."""

    witness: TrustedKey
    stamp: int
    """Seconds since 1970, UTC."""
    line: NoteSignature

    @property
    def at(self) -> datetime:
        """When, by the witness's clock."""
        return datetime.fromtimestamp(self.stamp, UTC)


def sign_note(origin: str, head: TreeHead, key: SigningKey) -> CheckpointNote:
    """A log's state as a note that its keeper signed."""
    if not _ORIGIN.fullmatch(origin):
        raise EvidenceInvalid(f"{origin[:80]!r} is no origin of a log: letters, digits, '.', '_', '/' and '-' alone")
    text = f"{origin}\n{head.size}\n{base64.b64encode(head.root).decode('ascii')}\n"
    public = key.card.public
    line = NoteSignature(origin, key_hash(origin, LOG_KEY, public), key.sign(text.encode("utf-8")))
    return CheckpointNote(text, origin, head, (line,))


def cosign_note(note: CheckpointNote, key: SigningKey, now: datetime) -> NoteSignature:
    """A witness's co-signature; whoever makes one has held the note against everything it saw of that log."""
    stamp, name = int(now.timestamp()), witness_name(key.team)
    signature = key.sign(_COSIGNED.format(stamp, note.text).encode("utf-8"))
    public = key.card.public
    return NoteSignature(name, key_hash(name, WITNESS_KEY, public), stamp.to_bytes(STAMP_BYTES, "big") + signature)


def cosignature_of(note: CheckpointNote, key: SigningKey) -> NoteSignature:
    """The line by which a key co-signed."""
    name = witness_name(key.team)
    wanted = (name, key_hash(name, WITNESS_KEY, key.card.public))
    return next(line for line in note.signatures if (line.name, line.key_hash) == wanted)


def log_signer(note: CheckpointNote, trust: TrustList) -> TrustedKey:
    """The trusted key that signed as the log itself; EvidenceInvalid where none did."""
    signer = find_log_signer(note, trust)
    if signer is None:
        raise EvidenceInvalid(
            f"no trusted signature: nobody in the trust list signed as ledger {note.origin}; "
            "ask its keeper for the card of its key (lynxbench key export)"
        )
    return signer


def find_log_signer(note: CheckpointNote, trust: TrustList) -> TrustedKey | None:
    """The same, None where none did; EvidenceInvalid where a signature in a trusted key's name is wrong."""
    signer: TrustedKey | None = None
    for line in note.signatures:
        if line.name == note.origin:
            named = [key for key in trust.keys if key_hash(line.name, LOG_KEY, key.public) == line.key_hash]
            holder = _holder(named, note.text, line.signature)
            signer = signer or holder
    return signer


def log_line(note: CheckpointNote, signer: TrustedKey) -> NoteSignature:
    """The line by which a key signed as the log."""
    wanted = (note.origin, key_hash(note.origin, LOG_KEY, signer.public))
    return next(line for line in note.signatures if (line.name, line.key_hash) == wanted)


def cosignatures(note: CheckpointNote, trust: TrustList) -> tuple[Cosignature, ...]:
    """Those of trusted keys, each held against the note; keys that nobody trusts are passed over."""
    made: list[Cosignature] = []
    for line in note.signatures:
        team = [key for key in trust.keys if witness_name(key.team) == line.name]
        named = [key for key in team if key_hash(line.name, WITNESS_KEY, key.public) == line.key_hash]
        stamp = min(int.from_bytes(line.signature[:STAMP_BYTES], "big"), MAX_STAMP)
        witness = _holder(named, _COSIGNED.format(stamp, note.text), line.signature[STAMP_BYTES:])
        if witness is not None:
            made.append(Cosignature(witness, stamp, line))
    return tuple(made)


def parse_note(data: bytes) -> CheckpointNote:
    """A checkpoint from its bytes; EvidenceInvalid for anything else. Trusts no signature."""
    if len(data) > MAX_NOTE_BYTES:
        raise EvidenceInvalid(f"checkpoint: {len(data)} bytes, more than the {MAX_NOTE_BYTES} allowed")
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EvidenceInvalid(f"checkpoint: not UTF-8 (byte {error.start})") from None
    if any(letter < " " and letter != "\n" for letter in whole):
        raise EvidenceInvalid("checkpoint: a signed note holds no control characters")
    text, blank, lines = whole.rpartition("\n\n")
    if not blank or not lines:
        raise EvidenceInvalid("checkpoint: not a signed note: a text, an empty line, then a line for each signature")
    signatures = parse_signatures(lines)
    if len(signatures) > MAX_SIGNATURES:
        raise EvidenceInvalid(f"checkpoint: {len(signatures)} signatures, more than the {MAX_SIGNATURES} allowed")
    if len({(line.name, line.key_hash) for line in signatures}) != len(signatures):
        raise EvidenceInvalid("checkpoint: one key signs twice; a key counts once")
    origin, head = _body(text)
    return CheckpointNote(f"{text}\n", origin, head, signatures)


def parse_signatures(text: str) -> tuple[NoteSignature, ...]:
    """Signature lines, each with its end, as a witness answers them."""
    if not text.endswith("\n"):
        raise EvidenceInvalid("checkpoint: a signature line ends with a line break")
    return tuple(_signature(line) for line in text[:-1].split("\n"))


def key_hash(name: str, kind: int, public: PublicKey) -> bytes:
    """How a note names a key: by the first four bytes of a hash over name, signature type and key."""
    return hashlib.sha256(name.encode("utf-8") + b"\n" + bytes([kind]) + public.raw).digest()[:KEY_HASH_BYTES]


def verifier_key(name: str, kind: int, public: PublicKey) -> str:
    """The key as other programs are given it: name, hash, type and key in one word."""
    encoded = base64.b64encode(bytes([kind]) + public.raw).decode("ascii")
    return f"{name}+{key_hash(name, kind, public).hex()}+{encoded}"


def witness_name(team: str) -> str:
    """Under which name a team's keys co-sign."""
    return f"lynxbench-witness/{team}"


def _holder(named: Sequence[TrustedKey], message: str, signature: bytes) -> TrustedKey | None:
    """Which of the keys that a line names signed; EvidenceInvalid where it names a trusted one and none of them did."""
    for key in named:  # more than one: a name of four bytes can be met on purpose
        if len(signature) == SIGNATURE_BYTES and key.public.verify(message.encode("utf-8"), signature):
            return key
    if named:
        raise EvidenceInvalid(f"the signature of key {short(named[0].keyid)} ({named[0].team}) does not hold")
    return None


def _signature(line: str) -> NoteSignature:
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    if dash != _DASH or not name or "+" in name or any(letter.isspace() for letter in name):
        raise EvidenceInvalid("checkpoint: a signature line is a dash, the key's name and its signature in base64")
    data = parse_base64(encoded, "checkpoint: signature")
    if len(data) <= KEY_HASH_BYTES:
        raise EvidenceInvalid("checkpoint: a signature line holds no signature")
    return NoteSignature(name, data[:KEY_HASH_BYTES], data[KEY_HASH_BYTES:])


def _body(text: str) -> tuple[str, TreeHead]:
    lines = text.split("\n")
    if len(lines) < 3 or not all(lines):
        raise EvidenceInvalid("checkpoint: its text has three lines or more: origin, size and root hash")
    origin, size, root = lines[0], lines[1], parse_base64(lines[2], "checkpoint: root hash")
    if len(origin) > MAX_ORIGIN:
        raise EvidenceInvalid(f"checkpoint: an origin of {len(origin)} characters, more than {MAX_ORIGIN}")
    if not _NUMBER.fullmatch(size):
        raise EvidenceInvalid(f"checkpoint: {size[:40]!r} is no tree size")
    if len(root) != HASH_BYTES:
        raise EvidenceInvalid(f"checkpoint: a root hash of {len(root)} bytes; SHA-256 has {HASH_BYTES}")
    return origin, TreeHead(int(size), root)
