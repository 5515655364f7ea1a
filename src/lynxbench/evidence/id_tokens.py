"""ID tokens of OpenID Connect (RFC 7519), read with suspicion: one spelling, known algorithms, made out to one key.

A token is bound to a key where it was issued for it: its one audience is `lynxbench:KEYID`, or its audience is
`lynxbench` and its nonce the key's id. Whoever finds such a token can do nothing with it without the private key.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.issuer_keys import IssuerKey, parse_url_safe
from lynxbench.model.canonical import JsonValue, short
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

MAX_TOKEN_BYTES: Final = 16_384
AUDIENCE: Final = "lynxbench"
ALGORITHMS: Final = frozenset({"RS256", "ES256"})
"""`none` and the symmetric HS256 are no signatures of an issuer."""
OWN_KEY_HEADERS: Final = ("crit", "b64", "jwk", "jku", "x5u", "x5c")
"""A token that brings its own key, or asks for rules that are not known here."""
LONG_LIFE: Final = timedelta(hours=1)
"""Issuers of build systems give five to sixty minutes; a token that lives longer is no short-lived identity."""
CLOCK_SLACK: Final = timedelta(seconds=60)
"""How far the signer's clock may be behind the issuer's (RFC 7519, 4.1.5: a few minutes at most)."""

_LAST_S = 253_402_300_799  # the year 9999, where datetime ends
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class IdToken:
    """What a token claims; nobody's word until its signature is verified. Its repr does not hold it."""

    algorithm: str
    kid: str
    issuer: str
    subject: str
    audience: str
    nonce: str | None
    issued_at: datetime
    expires_at: datetime
    _signed: bytes = field(repr=False)
    _signature: bytes = field(repr=False)

    @property
    def life(self) -> timedelta:
        """From its beginning to its end."""
        return self.expires_at - self.issued_at

    def is_signed_by(self, keys: tuple[IssuerKey, ...]) -> bool:
        """Whether the key of this very name and algorithm, among those of its issuer, signed it."""
        named = [key for key in keys if key.kid == self.kid and key.alg == self.algorithm]
        return len(named) == 1 and named[0].verify(self._signed, self._signature)

    def refuse_unbound(self, keyid: str) -> None:
        """Refuse a token that was not made out to this key: somebody else could have used it."""
        bound = self.audience == audience_of(keyid) or (self.audience == AUDIENCE and self.nonce == keyid)
        if not bound:
            raise EvidenceInvalid(
                f"the token is made out to {self.audience[:80]!r}, not to key {short(keyid)}; "
                f"ask its issuer for the audience {audience_of(keyid)}"
            )


def audience_of(keyid: str) -> str:
    """The audience that binds a token to a key."""
    return f"{AUDIENCE}:{keyid}"


def parse_id_token(text: str) -> IdToken:
    """A token as RFC 7515 writes it in one line; EvidenceInvalid for anything else. Verifies no signature."""
    if len(text) > MAX_TOKEN_BYTES:
        raise EvidenceInvalid(f"token: longer than {MAX_TOKEN_BYTES} characters")
    parts = text.split(".")
    if len(parts) != 3:
        raise EvidenceInvalid("token: not three parts joined by '.'")
    header, claims = _object(parts[0], "token header"), _object(parts[1], "token")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise EvidenceInvalid(f"token: algorithm {str(algorithm)[:20]!r}; RS256 and ES256 are known here")
    odd = [name for name in OWN_KEY_HEADERS if name in header]
    if odd:
        raise EvidenceInvalid(f"token header: {odd[0]!r} has no place in it")
    issued, expires = _moment(claims, "iat"), _moment(claims, "exp")
    starts = max(issued, _moment(claims, "nbf")) if "nbf" in claims else issued
    if starts >= expires:
        raise EvidenceInvalid("token: ends before it begins")
    return IdToken(
        algorithm=algorithm,
        kid=_text(header, "kid"),
        issuer=_text(claims, "iss"),
        subject=_text(claims, "sub"),
        audience=_audience(claims),
        nonce=_text(claims, "nonce") if "nonce" in claims else None,
        issued_at=starts,
        expires_at=expires,
        _signed=f"{parts[0]}.{parts[1]}".encode("ascii"),
        _signature=parse_url_safe(parts[2], "token signature"),
    )


def _object(part: str, what: str) -> dict[str, JsonValue]:
    try:
        value = parse_strict_json(parse_url_safe(part, what).decode("utf-8"))
    except (UnicodeDecodeError, NotStrictJson) as error:
        raise EvidenceInvalid(f"{what}: {error}") from None
    if not isinstance(value, dict):
        raise EvidenceInvalid(f"{what}: not a JSON object")
    return value


def _text(claims: dict[str, JsonValue], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 1000 or _CONTROL.search(value):
        raise EvidenceInvalid(f"token: {name} is missing, or no plain text")
    return value


def _audience(claims: dict[str, JsonValue]) -> str:
    """One audience: a token for two of them is a credential at the other one while it lives."""
    value = claims.get("aud")
    if isinstance(value, list):
        if len(value) != 1:
            raise EvidenceInvalid(f"token: {len(value)} audiences; it must be made out to one alone")
        value = value[0]
    return _text({"aud": value}, "aud")


def _moment(claims: dict[str, JsonValue], name: str) -> datetime:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LAST_S:
        raise EvidenceInvalid(f"token: {name} is missing, or no time in seconds")
    return datetime.fromtimestamp(int(value), UTC)
