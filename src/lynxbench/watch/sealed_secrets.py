"""Secrets that a program must use again, and so cannot keep as hashes: encrypted, with the key in a file of its own.

Whoever reads the tables, a backup of them or the PostgreSQL server's disk reads none of them.
"""

import base64
import os
import secrets
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from lynxbench.errors import BadInput

KEY_FILE = "server-secrets.key"
KEY_BYTES, NONCE_BYTES = 32, 12
MARK = "sealed:"


class SecretSealer:
    """Seals under the key in one file, made when it is first needed; what is sealed belongs to one place alone."""

    def __init__(self, home: Path) -> None:
        self._file = home / KEY_FILE

    def seal(self, text: str, place: str) -> str:
        """What may be written where others can read it."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = ChaCha20Poly1305(self._key()).encrypt(nonce, text.encode(), place.encode())
        return MARK + base64.b64encode(nonce + sealed).decode("ascii")

    def open(self, sealed: str, place: str) -> str:
        """The secret; BadInput where another key sealed it, or where it was moved or changed."""
        try:
            data = base64.b64decode(sealed.removeprefix(MARK), validate=True)
            opened = ChaCha20Poly1305(self._key()).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], place.encode())
        except (InvalidTag, ValueError):
            raise BadInput(f"another key sealed the secret of {place}; give the contact its secret again") from None
        return opened.decode()

    def _key(self) -> bytes:
        try:
            if not self._file.exists():
                self._make_key()
            key = self._file.read_bytes()
        except OSError as error:
            raise BadInput(f"{KEY_FILE}, the key of webhooks' secrets: {error.strerror or error}") from None
        if len(key) != KEY_BYTES:
            raise BadInput(f"{KEY_FILE} is no key of {KEY_BYTES} bytes; bring it back from a backup, or remove it")
        return key

    def _make_key(self) -> None:
        """Written whole before it has its name: of two programs that make one at once, both then use the first."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_name(f".{secrets.token_hex(8)}.part")
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(secrets.token_bytes(KEY_BYTES))
                stream.flush()
                os.fsync(stream.fileno())
            with suppress(FileExistsError):
                os.link(part, self._file)
        finally:
            part.unlink(missing_ok=True)
