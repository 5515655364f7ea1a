"""Keys of an issuer: RS256 and ES256 are taken, everything else is left out or refused."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest

from issued import ISSUER, FakeIssuer, number, rsa_key
from lynxbench import https
from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence.issuer_keys import fetch_key_set, parse_key_set, parse_url_safe

RSA, EC = FakeIssuer(), FakeIssuer("second", "ES256")


def key_set(*members: object) -> bytes:
    return json.dumps({"keys": list(members)}).encode()


def test_both_algorithms_are_taken_and_verify() -> None:
    keys = parse_key_set(key_set(RSA.jwk, EC.jwk), "jwks")
    assert [(key.kid, key.alg) for key in keys] == [("first", "RS256"), ("second", "ES256")]
    for issuer, key in zip((RSA, EC), keys, strict=True):
        signature = issuer.sign(b"message")
        assert key.verify(b"message", signature)
        assert not key.verify(b"another", signature)
        assert not key.verify(b"message", signature[:-1])
        assert not key.verify(b"message", b"")
    assert not keys[1].verify(b"message", bytes(64)), "zero is no signature"


def test_a_key_verifies_by_its_own_algorithm_alone() -> None:
    (key,) = parse_key_set(key_set(RSA.jwk), "jwks")
    (other,) = parse_key_set(key_set(EC.jwk), "jwks")
    assert not other.model_copy(update={"alg": "RS256"}).verify(b"message", EC.sign(b"message"))
    assert not key.model_copy(update={"alg": "ES256"}).verify(b"message", RSA.sign(b"message"))
    assert not key.model_copy(update={"public_key": "AAAA"}).verify(b"message", RSA.sign(b"message"))


def test_other_kinds_and_uses_are_left_out() -> None:
    others = (
        {"kty": "oct", "kid": "symmetric", "k": "c2VjcmV0"},
        {"kty": "OKP", "kid": "edwards", "crv": "Ed25519", "x": "AAAA"},
        {**RSA.jwk, "kid": "encrypts", "use": "enc"},
        {**RSA.jwk, "kid": "longer", "alg": "RS512"},
        {**EC.jwk, "kid": "curve", "crv": "P-521"},
    )
    assert [key.kid for key in parse_key_set(key_set(*others, RSA.jwk), "jwks")] == ["first"]
    with pytest.raises(EvidenceInvalid, match="no key for RS256"):
        parse_key_set(key_set(*others), "jwks")


WRONG: dict[str, bytes] = {
    "no JSON": b"{",
    "a key twice": b'{"keys": [], "keys": []}',
    "a list": b"[]",
    "no keys": b"{}",
    "no object": key_set("text"),
    "no kid": key_set({**RSA.jwk, "kid": ""}),
    "one kid for two": key_set(RSA.jwk, {**EC.jwk, "kid": "first"}),
    "padding": key_set({**RSA.jwk, "e": "AQAB=="}),
    "no number": key_set({**RSA.jwk, "n": 5}),
    "small exponent": key_set({**RSA.jwk, "e": "Aw"}),
    "off the curve": key_set({**EC.jwk, "y": EC.jwk["x"]}),
    "too many": key_set(*({**RSA.jwk, "kid": str(which)} for which in range(257))),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_an_unsound_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(EvidenceInvalid, match="jwks"):
        parse_key_set(data, "jwks")


def test_a_short_rsa_key_is_refused() -> None:
    public = rsa_key(1024).public_key().public_numbers()
    with pytest.raises(EvidenceInvalid, match="2048"):
        parse_key_set(key_set({**RSA.jwk, "n": number(public.n)}), "jwks")


@pytest.mark.parametrize("text", ["AQAB=", "AQ+/", "AQ AB", "AQAB\n", "A", "AR"])
def test_base64url_has_one_spelling(text: str) -> None:
    with pytest.raises(EvidenceInvalid, match="base64url"):
        parse_url_safe(text, "part")


Answers = Callable[[dict[str, tuple[int, bytes]]], list[str]]


@pytest.fixture
def issuer_says(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Answers in place of the network, by address; gives the addresses that were asked."""
    asked: list[str] = []

    def set_answers(answers: dict[str, tuple[int, bytes]]) -> list[str]:
        def request(method: str, url: str, **_: Any) -> https.HttpAnswer:
            asked.append(url)
            if url not in answers:
                raise ssl.SSLError("certificate verify failed")
            status, body = answers[url]
            return https.HttpAnswer(status, Message(), body)

        monkeypatch.setattr(https, "request", request)
        return asked

    return set_answers


PLACE = f"{ISSUER}/.well-known/openid-configuration"


def test_keys_are_fetched_where_the_issuer_says(issuer_says: Answers) -> None:
    stated = json.dumps({"issuer": ISSUER, "jwks_uri": "https://keys.example.org/set"}).encode()
    asked = issuer_says({PLACE: (200, stated), "https://keys.example.org/set": (200, RSA.key_set.encode())})
    assert fetch_key_set(ISSUER) == RSA.keys
    assert asked == [PLACE, "https://keys.example.org/set"]


@pytest.mark.parametrize(
    "stated",
    [
        {"issuer": "https://token.example.com", "jwks_uri": "https://keys.example.org/set"},
        {"issuer": f"{ISSUER}/", "jwks_uri": "https://keys.example.org/set"},
        {"issuer": ISSUER, "jwks_uri": "http://keys.example.org/set"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER},
    ],
)
def test_another_issuer_or_an_open_line_is_refused(issuer_says: Answers, stated: dict[str, str]) -> None:
    asked = issuer_says({PLACE: (200, json.dumps(stated).encode())})
    with pytest.raises(EvidenceInvalid):
        fetch_key_set(ISSUER)
    assert asked == [PLACE], "nothing further was asked"


def test_an_issuer_that_does_not_answer_is_said_with_what_to_do(issuer_says: Answers) -> None:
    issuer_says({PLACE: (302, b"")})
    with pytest.raises(BadInput, match=r"302.*--jwks"):
        fetch_key_set(ISSUER)
    issuer_says({})
    with pytest.raises(BadInput, match=r"certificate.*--jwks"):
        fetch_key_set(ISSUER)
