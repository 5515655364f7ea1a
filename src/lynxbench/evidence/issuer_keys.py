"""Signing keys of an OpenID Connect issuer: RS256 and ES256 out of its key set (RFC 7517), and nothing else.

A symmetric key is never taken: a token that its reader could have made itself proves nothing.
"""

import base64
import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator
from pydantic import Field as Bound_

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_base64
from lynxbench.model.canonical import JsonValue
from lynxbench.model.document import Document
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

MAX_KEY_SET_BYTES: Final = 1 << 20
MAX_ISSUER_KEYS: Final = 256
SHORTEST_RSA_BITS, LONGEST_RSA_BITS = 2048, 8192
"""NIST SP 800-131A: shorter ones are disallowed. Longer ones cost seconds."""
RSA_EXPONENT: Final = 65537
P256_BYTES: Final = 32
DISCOVERY_TIMEOUT_S: Final = 15.0

_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*")
_ISSUER = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?")


def _as_issuer(text: str) -> str:
    if len(text) > 300 or not _ISSUER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no issuer; it is an address such as https://token.example.org")
    return text


Issuer = Annotated[str, AfterValidator(_as_issuer)]
KeyName = Annotated[str, Bound_(min_length=1, max_length=200)]


class IssuerKey(Document):
    """One public key of an issuer, for one algorithm."""

    kid: KeyName
    alg: Literal["RS256", "ES256"]
    public_key: Annotated[str, Bound_(max_length=4000)]
    """SubjectPublicKeyInfo (DER) in standard base64."""

    def verify(self, message: bytes, signature: bytes) -> bool:
        """Whether this key signed the message, by its own algorithm alone."""
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import load_der_public_key

        try:
            public = load_der_public_key(parse_base64(self.public_key, "issuer's key"))
            if self.alg == "RS256" and isinstance(public, rsa.RSAPublicKey):
                public.verify(signature, message, padding.PKCS1v15(), SHA256())
                return True
            if self.alg == "ES256" and isinstance(public, ec.EllipticCurvePublicKey):
                if len(signature) != 2 * P256_BYTES or not isinstance(public.curve, ec.SECP256R1):
                    return False
                r, s = (int.from_bytes(half, "big") for half in (signature[:P256_BYTES], signature[P256_BYTES:]))
                public.verify(encode_dss_signature(r, s), message, ec.ECDSA(SHA256()))
                return True
        except (InvalidSignature, UnsupportedAlgorithm, ValueError, EvidenceInvalid):
            return False
        return False


def parse_url_safe(value: JsonValue, what: str) -> bytes:
    """Base64 for addresses without padding (RFC 7515), in its only spelling."""
    if not isinstance(value, str) or not _URL_SAFE.fullmatch(value):
        raise EvidenceInvalid(f"{what}: not base64url")
    try:
        data = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        raise EvidenceInvalid(f"{what}: not base64url") from None
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii") != value:
        raise EvidenceInvalid(f"{what}: base64url in another spelling than the standard one")
    return data


def parse_key_set(data: bytes, file: str) -> tuple[IssuerKey, ...]:
    """The RS256 and ES256 keys of a key set; EvidenceInvalid where one of them is unsound, or where there is none."""
    if len(data) > MAX_KEY_SET_BYTES:
        raise EvidenceInvalid(f"{file}: more than {MAX_KEY_SET_BYTES} bytes; not a key set")
    members = _object(data, file).get("keys")
    if not isinstance(members, list) or len(members) > MAX_ISSUER_KEYS:
        raise EvidenceInvalid(f'{file}: not a key set: {{"keys": […]}} with at most {MAX_ISSUER_KEYS} of them')
    keys = [key for key in (_issuer_key(member, file) for member in members) if key is not None]
    if len({key.kid for key in keys}) != len(keys):
        raise EvidenceInvalid(f"{file}: two keys have one kid; which one is meant is anybody's guess")
    if not keys:
        raise EvidenceInvalid(f"{file}: holds no key for RS256 or ES256")
    return tuple(keys)


def fetch_key_set(issuer: str) -> tuple[IssuerKey, ...]:
    """The keys that an issuer publishes now (OpenID Connect Discovery), over HTTPS alone."""
    place = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
    stated = _object(_fetched(place), place)
    if stated.get("issuer") != issuer:
        raise EvidenceInvalid(f"{place}: speaks for {str(stated.get('issuer'))[:80]!r}, not for {issuer}")
    address = stated.get("jwks_uri")
    if not isinstance(address, str) or urlsplit(address).scheme != "https":
        raise EvidenceInvalid(f"{place}: jwks_uri is no https address")
    return parse_key_set(_fetched(address), address[:200])


def _fetched(address: str) -> bytes:
    from lynxbench.https import request  # every command reads a trust list; hardly one asks an issuer

    try:
        reply = request("GET", address, timeout_s=DISCOVERY_TIMEOUT_S, most_bytes=MAX_KEY_SET_BYTES + 1)
    except (OSError, ValueError) as error:
        raise BadInput(f"{address[:200]}: {error}; give the issuer's keys as a file with --jwks") from None
    if not reply.is_good:
        raise BadInput(f"{address[:200]}: answered {reply.status}; give the issuer's keys as a file with --jwks")
    return reply.body


def _object(data: bytes, file: str) -> dict[str, JsonValue]:
    try:
        value = parse_strict_json(data.decode("utf-8"))
    except (UnicodeDecodeError, NotStrictJson) as error:
        raise EvidenceInvalid(f"{file}: {error}") from None
    if not isinstance(value, dict):
        raise EvidenceInvalid(f"{file}: not a JSON object")
    return value


def _issuer_key(member: JsonValue, file: str) -> IssuerKey | None:
    """A key that signs by an algorithm known here; None for one of another kind or use."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if not isinstance(member, dict):
        raise EvidenceInvalid(f"{file}: a key is no JSON object")
    kind, kid = member.get("kty"), member.get("kid")
    algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(kind))
    if algorithm is None or member.get("use", "sig") != "sig" or member.get("alg", algorithm) != algorithm:
        return None
    if kind == "EC" and member.get("crv") != "P-256":
        return None
    if not isinstance(kid, str) or not 0 < len(kid) <= 200:
        raise EvidenceInvalid(f"{file}: a key has no kid")
    names = ("n", "e") if kind == "RSA" else ("x", "y")
    parts = [parse_url_safe(member.get(name), f"{file}: {kid}: {name}") for name in names]
    first, second = (int.from_bytes(part, "big") for part in parts)
    try:
        if kind == "RSA":
            if not SHORTEST_RSA_BITS <= first.bit_length() <= LONGEST_RSA_BITS or second != RSA_EXPONENT:
                bits = f"{SHORTEST_RSA_BITS} to {LONGEST_RSA_BITS} bits"
                raise EvidenceInvalid(f"{file}: {kid}: an RSA key has {bits} here, and the exponent {RSA_EXPONENT}")
            public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey = rsa.RSAPublicNumbers(second, first).public_key()
        else:
            public = ec.EllipticCurvePublicNumbers(first, second, ec.SECP256R1()).public_key()
    except ValueError as error:
        raise EvidenceInvalid(f"{file}: {kid}: not a public key ({error})") from None
    der = public.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    encoded = base64.b64encode(der).decode("ascii")
    return IssuerKey(kid=kid, alg="RS256" if kind == "RSA" else "ES256", public_key=encoded)
