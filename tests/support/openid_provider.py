"""A real OpenID provider in a process of its own: discovery, keys, codes with PKCE, signed ID tokens.

What it does by itself is what a sound provider does: a code is taken once, by the client it was made for, with the
verifier it was asked with. `POST /planted` makes it lie from then on, in the ways that the tests name.
"""

from __future__ import annotations

import base64
import hmac
import html
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core.util import create_half_hash
from joserfc import jwt
from joserfc.jwk import RSAKey

from lynxbench.https import request

CLIENT, SECRET = "lynxbench", "the client's own secret"
PEOPLE: dict[str, dict[str, Any]] = {
    "u-1001": {"preferred_username": "grace", "groups": ["staff", "bench-readers"]},
    "u-1002": {"preferred_username": "Alan.Kay@corp.example", "groups": ["bench-submitters", "bench-operators"]},
    "u-1003": {"preferred_username": "mallory", "groups": ["staff"]},
    "u-1004": {"preferred_username": "edsger"},
}


class Book:
    """Everything that the provider knows."""

    def __init__(self) -> None:
        self.issuer = ""
        self.keys = [RSAKey.generate_key(2048, auto_kid=True)]
        self.clients: dict[str, tuple[str | None, set[str]]] = {}
        self.people: dict[str, dict[str, Any]] = {sub: dict(claims) for sub, claims in PEOPLE.items()}
        self.tickets: dict[str, dict[str, str]] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.planted: dict[str, Any] = {}

    def about(self) -> dict[str, Any]:
        place = self.issuer
        described = {
            "issuer": place,
            "authorization_endpoint": f"{place}/authorize",
            "token_endpoint": f"{place}/token",
            "jwks_uri": f"{place}/keys",
            "end_session_endpoint": f"{place}/leave",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
        }
        return described | self.planted.get("about", {})

    def id_token(self, asked: dict[str, str], access_token: str) -> str:
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.issuer,
            "sub": asked["sub"],
            "aud": asked["client_id"],
            "iat": now,
            "exp": now + 300,
            "nonce": asked.get("nonce"),
            "at_hash": create_half_hash(access_token, "RS256").decode(),
            **self.people[asked["sub"]],
        }
        for name, value in self.planted.get("claims", {}).items():
            claims[name] = now + value["now"] if isinstance(value, dict) and "now" in value else value
        for name in self.planted.get("without", ()):
            claims.pop(name)
        return self._signed(claims)

    def _signed(self, claims: dict[str, Any]) -> str:
        key, how = self.keys[-1], self.planted.get("signed", "well")
        header = {"alg": "RS256", "kid": key.kid}
        if how == "well":
            return jwt.encode(header, claims, key)
        if how == "by nobody":
            parts = ({"alg": "none", "typ": "JWT", "kid": key.kid}, claims)
            return ".".join(_encoded(json.dumps(part).encode()) for part in parts) + "."
        if how == "and changed":
            head, _, signature = jwt.encode(header, claims, key).split(".")
            changed = claims | {"groups": ["bench-operators", "bench-readers"]}
            return ".".join((head, _encoded(json.dumps(changed).encode()), signature))
        if how == "by a stranger":
            foreign = RSAKey.generate_key(2048)
            return jwt.encode(header | {"jwk": foreign.as_dict(private=False)}, claims, foreign)
        if how == "by a key that it does not show":
            foreign = RSAKey.generate_key(2048, auto_kid=True)
            return jwt.encode(header | {"kid": foreign.kid}, claims, foreign)
        # what only asymmetric keys are for, with something that others know as the shared secret
        shared = SECRET.encode() if how == "with the client's secret" else key.as_pem(private=False)
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in (header | {"alg": "HS256"}, claims))
        return f"{signed}.{_encoded(hmac.digest(shared, signed.encode(), 'sha256'))}"


class Desk(BaseHTTPRequestHandler):
    """Answers one request."""

    book: Book

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = dict(parse_qsl(parts.query))
        if parts.path == "/.well-known/openid-configuration":
            self._json(self.book.about())
        elif parts.path == "/keys":
            self._json({"keys": [key.as_dict(private=False) for key in self.book.keys]})
        elif parts.path == "/authorize":
            self._authorize(asked)
        elif parts.path == "/login":
            self._login(asked)
        else:
            self._html("You have left.")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/token":
            self._token({name: values[0] for name, values in parse_qs(body.decode()).items()})
            return
        said, book = json.loads(body or b"{}"), self.book
        if self.path == "/planted":
            book.planted = said
        elif self.path == "/people":
            book.people |= said
        elif self.path == "/clients":
            book.clients |= {name: (secret, set(places)) for name, (secret, places) in said.items()}
        elif self.path == "/rotate":
            book.keys = [RSAKey.generate_key(2048, auto_kid=True)]
        self._json({})

    def _authorize(self, asked: dict[str, str]) -> None:
        client = self.book.clients.get(asked.get("client_id", ""))
        if client is None or asked.get("redirect_uri") not in client[1]:
            self._html("This client, or where it wants you to go, is not known.", 400)
            return
        sound = asked.get("response_type") == "code" and asked.get("code_challenge_method") == "S256"
        if not sound or "openid" not in asked.get("scope", "").split() or len(asked.get("code_challenge", "")) != 43:
            self._back(asked, {"error": "invalid_request"})
            return
        ticket = secrets.token_urlsafe(16)
        self.book.tickets[ticket] = asked
        links = [f'<a href="/login?ticket={ticket}&amp;sub={sub}">{html.escape(sub)}</a>' for sub in self.book.people]
        self._html(f"<h1>Who are you?</h1>{' '.join(links)}", ticket=ticket)

    def _login(self, asked: dict[str, str]) -> None:
        wanted = self.book.tickets.pop(asked["ticket"])
        if "error" in self.book.planted:
            self._back(wanted, {"error": self.book.planted["error"]})
            return
        code = secrets.token_urlsafe(24)
        self.book.codes[code] = wanted | {"sub": asked["sub"]}
        self._back(wanted, {"code": code} | self.book.planted.get("answer", {}))

    def _back(self, asked: dict[str, str], said: dict[str, str]) -> None:
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(said | {'state': asked.get('state', '')})}")
        self.end_headers()

    def _token(self, form: dict[str, str]) -> None:
        book = self.book
        name, secret = form.get("client_id"), form.get("client_secret")
        given = self.headers.get("authorization", "")
        if given.startswith("Basic "):
            name, _, secret = base64.b64decode(given[6:]).decode().partition(":")
        if book.clients.get(name or "", ("?", set()))[0] != secret:
            self._json({"error": "invalid_client"}, 401)
            return
        code = form.get("code", "")
        asked = book.codes.get(code) if book.planted.get("codes_again") else book.codes.pop(code, None)
        verifier = form.get("code_verifier", "")
        if (
            asked is None
            or form.get("grant_type") != "authorization_code"
            or (asked["client_id"], asked["redirect_uri"]) != (name, form.get("redirect_uri"))
            or (create_s256_code_challenge(verifier) != asked["code_challenge"] and not book.planted.get("no_pkce"))
        ):
            self._json({"error": "invalid_grant"}, 400)
            return
        access = secrets.token_urlsafe(24)
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        self._json(answer | {"id_token": book.id_token(asked, access)} | book.planted.get("token", {}))

    def _json(self, document: object, status: int = 200) -> None:
        self._send(json.dumps(document).encode(), "application/json", status)

    def _html(self, text: str, status: int = 200, ticket: str = "") -> None:
        page = f"<!doctype html><html lang=en><title>Provider</title>{text}"
        self._send(page.encode(), "text/html; charset=utf-8", status, {"X-Ticket": ticket})

    def _send(self, data: bytes, kind: str, status: int, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class RunningProvider:
    """A provider's process, from outside."""

    issuer: str

    def tell(self, path: str, document: object = None) -> None:
        said = json.dumps(document or {}).encode()
        assert request("POST", self.issuer + path, said, timeout_s=600).is_good

    def log_in(self, address: str, sub: str) -> str:
        """What a person does whom a browser brought to this address; where they are sent back to."""
        page = request("GET", address, timeout_s=600)
        assert page.status == 200, page.body
        sent = request("GET", f"{self.issuer}/login?ticket={page.headers['X-Ticket']}&sub={sub}", timeout_s=600)
        assert sent.status == 302
        return str(sent.headers["Location"])


@contextmanager
def running_provider() -> Iterator[RunningProvider]:
    """A provider on a port of its own, until the block ends."""
    places = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    with subprocess.Popen(
        [sys.executable, __file__], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield RunningProvider(process.stdout.readline().strip())
        finally:
            process.kill()


def main() -> None:
    """Serve until whoever started this is gone."""
    book = Book()
    desk = type("OneDesk", (Desk,), {"book": book})
    server = ThreadingHTTPServer(("127.0.0.1", 0), desk)
    book.issuer = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(book.issuer, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
