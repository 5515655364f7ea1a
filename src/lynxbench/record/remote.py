"""A server of lynxbench as a machine talks to it: JSON over HTTP(S), bundles by one request or in pieces."""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from lynxbench.errors import BadInput, EvidenceInvalid, ExitCode, LynxbenchError, Refused
from lynxbench.evidence.envelope import Envelope
from lynxbench.https import request

SERVER_VARIABLE = "LYNXBENCH_SERVER"
TOKEN_VARIABLE = "LYNXBENCH_TOKEN"
TIMEOUT_S = 60.0
CHUNK_BYTES = 4 << 20
MOST_PUSHED_BYTES = 8 << 20
"""A bundle that is sent by one request, as servers take it; larger ones go in pieces."""
ATTEMPTS = 6
WHOLE_ATTEMPTS = 2
"""Of them by one request: pieces get through where something between allows no more, and go on where they were."""
FIRST_WAIT_S = 0.5
WHOLE = "/api/v1/bundles"
_NO_SUCH_ROUTE = frozenset({404, 405, 411, 413, 415, 501})
"""What is answered where a whole bundle is not taken by one request, and nobody of ours says why."""
NOT_OURS = "no server of lynxbench answers so"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Unreachable(BadInput):
    """A server that does not answer; what was sent before is kept there."""


class Unusable(BadInput):
    """What a server could read and does not accept."""


class _NotTakenWhole(BadInput):
    """A server, or what stands before it, takes no bundle by one request: an earlier version, or a smaller limit."""


class Remote:
    """One server, and the token that opens it."""

    def __init__(self, url: str, token: str | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.rstrip("/"):
            raise BadInput(f"{url!r} is no server: write https://HOST or http://localhost:PORT")
        if token and parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise Refused(f"{url}: a token is sent over https alone; ask for the server's https address")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._token = token

    def ask(
        self, method: str, path: str, body: object | None = None, *, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """One question; the JSON document of the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        return self._parse(self._send(method, _address(path, query), data, headers), path)

    def tell(self, path: str, text: str) -> bytes:
        """Hand over a signed text; EvidenceInvalid where the server says that it does not hold."""
        try:
            return self._send("POST", _address(path, None), text.encode("utf-8"), {"Content-Type": "text/plain"})
        except Unusable as error:
            raise EvidenceInvalid(str(error)) from None

    def fetch(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """A file."""
        return self._send("GET", _address(path, query), None, {})

    def register(self, envelope: Envelope) -> int:
        """Announce a run, signed, before its first sample; its number in the server's log."""
        answer = self.ask("POST", "/api/v1/registrations", {"envelope": envelope.to_bytes().decode("ascii")})
        return int(answer["seq"])

    def push(
        self, bundle: Path, run: str | None = None, progress: Callable[[int, int], None] | None = None
    ) -> dict[str, Any]:
        """Send a bundle and have it taken in; what came of it.

        A small one goes by one request, whose bytes the server holds against the bundle's own manifest. Another one, or
        one that did not get through so, goes in pieces, from wherever an earlier attempt stopped.
        """
        size = bundle.stat().st_size
        wait_s, whole_attempts = FIRST_WAIT_S, WHOLE_ATTEMPTS if size <= MOST_PUSHED_BYTES else 0
        for attempt in range(ATTEMPTS):
            try:
                if attempt < whole_attempts:
                    try:
                        return self._push_whole(bundle.read_bytes(), run, progress)
                    except _NotTakenWhole:
                        whole_attempts = 0
                return self._push(bundle, size, _hash(bundle), run, progress)
            except (KeyError, TypeError, ValueError):
                raise BadInput(f"{self.url}: {NOT_OURS}") from None
            except Unreachable:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(wait_s)
                wait_s *= 2
        raise AssertionError("every attempt returns or raises")

    def _push_whole(self, data: bytes, run: str | None, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
        place = _address(WHOLE, None if run is None else {"run": run})
        answer = self._parse(self._send("POST", place, data, {"Content-Type": "application/octet-stream"}), WHOLE)
        if progress is not None:
            progress(len(data), len(data))
        outcome = answer["outcome"]
        return outcome if isinstance(outcome, dict) else {}

    def _push(
        self, bundle: Path, size: int, sha256: str, run: str | None, progress: Callable[[int, int], None] | None
    ) -> dict[str, Any]:
        upload = self.ask("POST", "/api/v1/uploads", {"sha256": sha256, "size_bytes": size})
        place = f"/api/v1/uploads/{upload['upload_id']}"
        with bundle.open("rb") as stream:
            while upload["state"] == "open" and upload["received_bytes"] < size:
                at = int(upload["received_bytes"])
                stream.seek(at)
                chunk = stream.read(CHUNK_BYTES)
                headers = {"Content-Type": "application/octet-stream", "Upload-Offset": str(at)}
                upload = self._parse(self._send("PATCH", place, chunk, headers), place)
                if progress is not None:
                    progress(int(upload["received_bytes"]), size)
        if upload["state"] == "open":
            upload = self.ask("POST", f"{place}/finish", {"run": run})
        outcome = upload["outcome"]
        return outcome if isinstance(outcome, dict) else {}

    def _parse(self, data: bytes, path: str) -> dict[str, Any]:
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise BadInput(f"{self.url}{path}: {NOT_OURS}")
        return document

    def _send(self, method: str, address: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        given = {"Accept": "application/json", **headers}
        if self._token:
            given["Authorization"] = f"Bearer {self._token}"
        try:
            answer = request(method, self.url + address, data, given, timeout_s=TIMEOUT_S)
        except OSError as error:
            raise Unreachable(f"{self.url}: {error or type(error).__name__}; is the server there?") from error
        if answer.is_good:
            return answer.body
        raise _error(self.url, answer.status, answer.body, whole=address.partition("?")[0] == WHOLE)


def remote_from(url: str | None, token: str | None, environment: Mapping[str, str]) -> Remote:
    """The server that is meant: by an option or by the environment. A token is best left to the environment."""
    named = url or environment.get(SERVER_VARIABLE)
    if not named:
        raise BadInput(f"which server? give --server URL, or set {SERVER_VARIABLE}")
    return Remote(named, token or environment.get(TOKEN_VARIABLE) or None)


def _address(path: str, query: Mapping[str, str] | None) -> str:
    if not query:
        return path
    return f"{path}?{urlencode(query, quote_via=quote, safe='')}"


def _hash(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _error(url: str, status: int, body: bytes, *, whole: bool = False) -> LynxbenchError:
    exit_code: object = None
    try:
        said = json.loads(body)["error"]
        line, exit_code = str(said["message"]), said.get("exit_code")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        line = f"answered {status}"
    words = f"{url}: {line}"
    if whole and exit_code is None and status in _NO_SUCH_ROUTE:
        return _NotTakenWhole(words)
    if status in (401, 403, 409):
        return Refused(words)
    if status in (429, 502, 503, 504):
        return Unreachable(words)
    if status == 422:
        return EvidenceInvalid(words) if _is_about_evidence(exit_code, line) else Unusable(words)
    return BadInput(words)


def _is_about_evidence(exit_code: object, line: str) -> bool:
    """Whether a server says that evidence does not hold; older servers say it in words alone."""
    if exit_code is not None:
        return exit_code == ExitCode.EVIDENCE_INVALID
    return "signature" in line or "two histories" in line
