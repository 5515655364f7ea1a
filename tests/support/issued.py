"""An OpenID Connect issuer of a test: keys of its own, and tokens as a build system is given them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from lynxbench.evidence.issuer_keys import IssuerKey, parse_key_set

ISSUER = "https://token.example.org"
SUBJECT = "repo:acme/bench:ref:refs/heads/main"
NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)
LIFE_S = 300


def url_safe(data: bytes) -> str:
    """Base64 without padding, as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def packed(document: object) -> str:
    """A part of a token."""
    return url_safe(json.dumps(document).encode())


def number(value: int) -> str:
    """An integer of a key set."""
    return url_safe(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@cache
def rsa_key(bits: int = 2048, which: int = 0) -> rsa.RSAPrivateKey:
    """One of a few keys, made once: they are slow to make."""
    del which
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def elliptic_key(which: int = 0) -> ec.EllipticCurvePrivateKey:
    """The same for ES256."""
    del which
    return ec.generate_private_key(ec.SECP256R1())


@dataclass(frozen=True)
class FakeIssuer:
    """Signs what it is asked to."""

    kid: str = "first"
    algorithm: str = "RS256"
    which: int = 0

    @property
    def jwk(self) -> dict[str, Any]:
        if self.algorithm == "RS256":
            public = rsa_key(which=self.which).public_key().public_numbers()
            parts = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
        else:
            point = elliptic_key(self.which).public_key().public_numbers()
            x, y = (url_safe(value.to_bytes(32, "big")) for value in (point.x, point.y))
            parts = {"kty": "EC", "crv": "P-256", "x": x, "y": y}
        return {"kid": self.kid, "use": "sig", "alg": self.algorithm, **parts}

    @property
    def key_set(self) -> str:
        return json.dumps({"keys": [self.jwk]})

    @property
    def keys(self) -> tuple[IssuerKey, ...]:
        return parse_key_set(self.key_set.encode(), "jwks")

    def sign(self, message: bytes) -> bytes:
        if self.algorithm == "RS256":
            return rsa_key(which=self.which).sign(message, padding.PKCS1v15(), SHA256())
        r, s = decode_dss_signature(elliptic_key(self.which).sign(message, ec.ECDSA(SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def token(self, keyid: str, header: dict[str, Any] | None = None, **changed: Any) -> str:
        """A token that is made out to a key; `changed` claims are others, or left out where they are None."""
        claims = {
            "iss": ISSUER,
            "sub": SUBJECT,
            "aud": f"lynxbench:{keyid}",
            "iat": int(NOW.timestamp()),
            "exp": int(NOW.timestamp()) + LIFE_S,
            **changed,
        }
        head = {"alg": self.algorithm, "kid": self.kid, "typ": "JWT", **(header or {})}
        text = f"{packed(head)}.{packed({name: value for name, value in claims.items() if value is not None})}"
        return f"{text}.{url_safe(self.sign(text.encode()))}"
