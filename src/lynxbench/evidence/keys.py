"""Ed25519 keys of a team: made here, kept in files that only their owner can read, named by their SHA-256.

HOME/keys/NAME.pem     the private key (PKCS #8), mode 0600, encrypted when a passphrase is given
HOME/keys/NAME.json    its card: the public key, whose it is, for which roles; this is what others are given

HOME is $LYNXBENCH_HOME, else $XDG_CONFIG_HOME/lynxbench, else ~/.config/lynxbench.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, ValidationError
from pydantic import Field as Bound_

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_base64, parse_document
from lynxbench.evidence.ed25519_points import public_key_problem
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.canonical import canonical_bytes, short
from lynxbench.model.document import Document, first_problem
from lynxbench.model.entries import Role
from lynxbench.model.fields import Sha256
from lynxbench.model.team_names import Team
from lynxbench.plain_files import read_plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

HOME_VARIABLE: Final = "LYNXBENCH_HOME"
PASSPHRASE_VARIABLE: Final = "LYNXBENCH_KEY_PASSPHRASE"
MAX_CARD_BYTES: Final = 1 << 16
MAX_KEY_BYTES: Final = 1 << 16

MOST_REMEMBERED: Final = 1 << 14
"""Signatures that were found to hold; the oldest is forgotten first."""
_known_to_hold: dict[bytes, None] = {}
_remembering = Lock()

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """32 bytes that are an honest Ed25519 public key; anything else cannot be built."""

    raw: bytes

    def __post_init__(self) -> None:
        problem = public_key_problem(self.raw)
        if problem is not None:
            raise EvidenceInvalid(f"public key {self.raw.hex()[:12]}… refused: {problem}")

    @property
    def keyid(self) -> str:
        """SHA-256 of the raw key, in hex."""
        return hashlib.sha256(self.raw).hexdigest()

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed the message.

        What holds once holds always, and a ledger's entries come again with every bundle about the same contract: a
        signature that was found to hold is known again by the hash of all three.
        """
        named = hashlib.sha256(b"%b%b%b" % (self.raw, hashlib.sha512(signature).digest(), message)).digest()
        if named in _known_to_hold:
            return True
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        with _remembering:
            if len(_known_to_hold) >= MOST_REMEMBERED:
                del _known_to_hold[next(iter(_known_to_hold))]
            _known_to_hold[named] = None
        return True


@lru_cache(maxsize=256)  # pure
def parse_public_key(text: str) -> PublicKey:
    """A public key from standard base64; EvidenceInvalid for any other spelling."""
    return PublicKey(parse_base64(text, "public key"))


def _honest(text: str) -> str:
    try:
        parse_public_key(text)
    except EvidenceInvalid as error:
        raise ValueError(str(error)) from None
    return text


PublicKeyText = Annotated[str, AfterValidator(_honest)]
Roles = Annotated[tuple[Role, ...], Bound_(min_length=1, max_length=len(Role))]


class KeyCard(Document):
    """What others are given of a key."""

    schema_version: Literal[1] = 1
    keyid: Sha256
    public_key: PublicKeyText
    team: Team
    roles: Roles
    made_at: str

    @property
    def public(self) -> PublicKey:
        """The key itself."""
        return parse_public_key(self.public_key)


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with the card that says whose it is. Never printed: its repr holds the card alone."""

    card: KeyCard
    _private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"SigningKey({short(self.card.keyid)}, {self.card.team})"

    @property
    def keyid(self) -> str:
        """SHA-256 of the public key."""
        return self.card.keyid

    @property
    def team(self) -> str:
        """Whose key it is."""
        return self.card.team

    def sign(self, message: bytes) -> bytes:
        """64 bytes of Ed25519 signature."""
        return self._private.sign(message)


def new_signing_key(team: str, roles: tuple[Role, ...], now: datetime) -> SigningKey:
    """A fresh key in memory."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    public = PublicKey(private.public_key().public_bytes_raw())
    try:
        card = KeyCard(
            keyid=public.keyid,
            public_key=base64.b64encode(public.raw).decode("ascii"),
            team=team,
            roles=tuple(dict.fromkeys(roles)),
            made_at=now.astimezone(UTC).isoformat(timespec="seconds"),
        )
    except ValidationError as error:
        raise BadInput(first_problem(error)) from None
    return SigningKey(card, private)


def home(environment: Mapping[str, str]) -> Path:
    """The folder of this person's keys and trust list."""
    if environment.get(HOME_VARIABLE):
        return Path(environment[HOME_VARIABLE])
    config = environment.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "lynxbench"


class KeyFolder:
    """The private keys of one person on one machine."""

    def __init__(self, path: Path, passphrase: str | None = None) -> None:
        self.path = path
        self._passphrase = passphrase

    def store(self, name: str, key: SigningKey) -> None:
        """Keep a key. The private file appears last and whole: whoever sees it can use it."""
        from cryptography.hazmat.primitives import serialization as form

        self.refuse_taken(name)
        secret = self._passphrase
        encryption = form.BestAvailableEncryption(secret.encode("utf-8")) if secret else form.NoEncryption()
        pem = key._private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption)
        part = self.path / f".{name}.{os.getpid()}.part"
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.path.chmod(0o700)
            write_text(self.path / f"{name}.json", canonical_bytes(key.card.model_dump(mode="json")).decode("utf-8"))
            part.unlink(missing_ok=True)
            _write_new(part, pem, 0o600)
            os.link(part, self.path / f"{name}.pem")  # fails where one exists, as a rename would not
            part.unlink()
        except FileExistsError:
            raise BadInput(f"{self.path / name}: a key of that name exists; choose another name") from None
        except OSError as error:
            why = error.strerror or error
            raise BadInput(f"{self.path}: {why}; set {HOME_VARIABLE} to a folder of yours") from error

    def refuse_taken(self, name: str) -> None:
        """Refuse a name that is none, or that a key has already."""
        self._refuse_name(name)
        if (self.path / f"{name}.pem").exists():
            raise BadInput(f"{self.path / name}: a key of that name exists; choose another name")

    def names(self) -> tuple[str, ...]:
        """Every key that is here, by name."""
        return tuple(sorted(file.stem for file in self.path.glob("*.pem")))

    def card(self, name: str) -> KeyCard:
        """The public part of a key."""
        self._refuse_name(name)
        return read_card(self.path / f"{name}.json")

    def open(self, name: str) -> SigningKey:
        """A key ready to sign; refuses one that others could read, or that is not the one on its card."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        card = self.card(name)
        file = self.path / f"{name}.pem"
        secret = self._passphrase.encode("utf-8") if self._passphrase else None
        pem = _read_private(file)
        if secret is not None and b"ENCRYPTED" not in pem:
            secret = None  # a key without a passphrase opens without one
        try:
            private = load_pem_private_key(pem, secret)
        except TypeError:
            raise BadInput(f"{file}: encrypted; give its passphrase in {PASSPHRASE_VARIABLE}") from None
        except (ValueError, UnsupportedAlgorithm):
            raise BadInput(f"{file}: not a private key, or not its passphrase") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise BadInput(f"{file}: not an Ed25519 key")
        if private.public_key().public_bytes_raw() != card.public.raw:
            raise EvidenceInvalid(f"{file}: not the key on its card {name}.json")
        return SigningKey(card, private)

    def _refuse_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise BadInput(f"{name!r} is no name for a key; use a-z, 0-9, '.', '_' and '-', such as ml-platform")


def read_card(path: Path) -> KeyCard:
    """A key's card from its file."""
    try:
        data = read_plain(path, MAX_CARD_BYTES)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; give the card of a key (lynxbench key export)") from error
    return parse_card(data, str(path))


def parse_card(data: bytes, file: str) -> KeyCard:
    """A key's card, whose keyid is the one of its public key; EvidenceInvalid otherwise."""
    card = parse_document(data.rstrip(b"\n"), file, MAX_CARD_BYTES, KeyCard)
    if card.keyid != card.public.keyid:
        raise EvidenceInvalid(f"{file}: keyid is not the SHA-256 of the public key")
    return card


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(stream.fileno(), mode)  # whatever the umask says
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _read_private(path: Path) -> bytes:
    """The file's bytes; it must be a plain file of this user, closed to everybody else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; a private key is a plain file") from error
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(stream.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise BadInput(f"{path}: a private key is a plain file")
        if facts.st_mode & 0o177:
            raise BadInput(f"{path}: mode {stat.S_IMODE(facts.st_mode):04o} lets others in; run: chmod 600 {path}")
        if facts.st_uid != os.geteuid():
            raise BadInput(f"{path}: belongs to another user")
        return stream.read(MAX_KEY_BYTES)
