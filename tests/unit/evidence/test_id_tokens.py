"""ID tokens: what is ambiguous, unsigned, unbound or made for others is refused."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import pytest

from issued import ISSUER, LIFE_S, NOW, SUBJECT, FakeIssuer, packed, url_safe
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.id_tokens import MAX_TOKEN_BYTES, parse_id_token

KEYID, OTHER = "ab" * 32, "cd" * 32
ISSUERS = (FakeIssuer(), FakeIssuer("second", "ES256"))


@pytest.mark.parametrize("issuer", ISSUERS, ids=["RS256", "ES256"])
def test_a_token_is_read_and_verified(issuer: FakeIssuer) -> None:
    token = parse_id_token(issuer.token(KEYID))
    assert (token.issuer, token.subject, token.issued_at) == (ISSUER, SUBJECT, NOW)
    assert token.life.total_seconds() == LIFE_S
    assert token.is_signed_by(issuer.keys)
    token.refuse_unbound(KEYID)
    assert "eyJ" not in repr(token), "a live token is not printed by accident"


@pytest.mark.parametrize("issuer", ISSUERS, ids=["RS256", "ES256"])
def test_every_changed_part_breaks_the_signature(issuer: FakeIssuer) -> None:
    head, claims, signature = issuer.token(KEYID).split(".")
    _, other, _ = issuer.token(OTHER).split(".")
    assert not parse_id_token(f"{head}.{other}.{signature}").is_signed_by(issuer.keys)
    longer = packed({"alg": issuer.algorithm, "kid": issuer.kid, "typ": "jwt"})
    assert not parse_id_token(f"{longer}.{claims}.{signature}").is_signed_by(issuer.keys)
    assert not parse_id_token(f"{head}.{claims}.").is_signed_by(issuer.keys)


def test_a_key_counts_by_name_and_algorithm() -> None:
    first, renamed, other = FakeIssuer(), FakeIssuer("renamed"), FakeIssuer("first", which=1)
    token = parse_id_token(first.token(KEYID))
    assert not token.is_signed_by(renamed.keys), "the same key under another name"
    assert not token.is_signed_by(other.keys), "another key under the same name"
    assert not token.is_signed_by(())
    assert not token.is_signed_by((*first.keys, *first.keys)), "one name for two"


def test_neither_none_nor_a_shared_secret_is_a_signature() -> None:
    issuer = FakeIssuer()
    _, claims, _ = issuer.token(KEYID).split(".")
    public = issuer.keys[0].public_key.encode()
    wrong = ("none", "None", "NONE", "nOnE", "HS256", "HS512", "RS512", "PS256", "EdDSA", "", None, 1, ["RS256"])
    for algorithm in wrong:
        text = f"{packed({'alg': algorithm, 'kid': 'first'})}.{claims}"
        for signature in (b"", hmac.new(public, text.encode(), hashlib.sha256).digest()):
            with pytest.raises(EvidenceInvalid, match="algorithm"):
                parse_id_token(f"{text}.{url_safe(signature)}")


def test_an_hmac_under_the_name_of_rsa_does_not_hold() -> None:
    issuer = FakeIssuer()
    text = issuer.token(KEYID).rpartition(".")[0]
    digest = hmac.new(issuer.keys[0].public_key.encode(), text.encode(), hashlib.sha256).digest()
    assert not parse_id_token(f"{text}.{url_safe(digest)}").is_signed_by(issuer.keys)


@pytest.mark.parametrize("header", ["crit", "b64", "jwk", "jku", "x5u", "x5c"])
def test_a_token_that_brings_its_own_key_is_refused(header: str) -> None:
    issuer = FakeIssuer()
    with pytest.raises(EvidenceInvalid, match=header):
        parse_id_token(issuer.token(KEYID, {header: issuer.jwk}))


CLAIMS: dict[str, dict[str, Any]] = {
    "no issuer": {"iss": None},
    "an issuer that is no text": {"iss": [ISSUER]},
    "no subject": {"sub": None},
    "a subject of two lines": {"sub": f"{SUBJECT}\n{SUBJECT}"},
    "an empty subject": {"sub": ""},
    "no audience": {"aud": None},
    "two audiences": {"aud": [f"lynxbench:{KEYID}", "sts.example.org"]},
    "no audience in a list": {"aud": []},
    "no end": {"exp": None},
    "an end that is a text": {"exp": "1794733200"},
    "an end that is true": {"exp": True},
    "an end beyond all time": {"exp": 10**15},
    "no beginning": {"iat": None},
    "an end before its beginning": {"exp": int(NOW.timestamp())},
    "not before its end": {"nbf": int(NOW.timestamp()) + LIFE_S},
    "a nonce that is a number": {"nonce": 7},
}


@pytest.mark.parametrize("changed", CLAIMS.values(), ids=CLAIMS.keys())
def test_claims_that_say_nothing_sure_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(EvidenceInvalid, match="token"):
        parse_id_token(FakeIssuer().token(KEYID, **changed))


TWICE = url_safe(b'{"alg":"none","alg":"RS256","kid":"x"}')
TEXTS = {
    "two parts": "a.b",
    "five parts": "a.b.c.d.e",
    "a part twice": f"{TWICE}.{packed({})}.",
    "padding": FakeIssuer().token(KEYID) + "=",
    "white space": f" {FakeIssuer().token(KEYID)}",
    "no object": f"{packed([])}.{packed([])}.",
    "not UTF-8": f"{url_safe(bytes([255]))}.{packed({})}.",
    "too long": "a" * (MAX_TOKEN_BYTES + 1),
    "no kid": f"{packed({'alg': 'RS256'})}.{FakeIssuer().token(KEYID).split('.')[1]}.",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(EvidenceInvalid, match="token"):
        parse_id_token(text)


def test_a_token_is_made_out_to_one_key() -> None:
    issuer = FakeIssuer()
    parse_id_token(issuer.token(KEYID, aud=[f"lynxbench:{KEYID}"])).refuse_unbound(KEYID)
    parse_id_token(issuer.token(KEYID, aud="lynxbench", nonce=KEYID)).refuse_unbound(KEYID)
    for changed in (
        {},
        {"aud": "lynxbench"},
        {"aud": "lynxbench", "nonce": KEYID},
        {"aud": "https://github.com/acme", "nonce": OTHER},
        {"aud": f"lynxbench:{OTHER.upper()}"},
        {"aud": f"lynxbench:{OTHER} "},
        {"aud": OTHER},
        {"aud": f"lynxbench:{OTHER[:12]}"},
    ):
        with pytest.raises(EvidenceInvalid, match="made out to"):
            parse_id_token(issuer.token(KEYID, **changed)).refuse_unbound(OTHER)
