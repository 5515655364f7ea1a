"""Every way in which somebody could abuse a sign-in by the company's provider: none opens anything."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from companies import BACK, Company, refused
from hosted import Caller
from lynxbench.server.provider import Provider, SignInFailed
from lynxbench.server.server_state import RETURN_PATH
from openid_provider import CLIENT, SECRET

# --- tokens that must not be believed ---------------------------------------------------------------------------------

BAD_TOKENS: dict[str, tuple[dict[str, Any], str]] = {
    "wrong nonce": ({"claims": {"nonce": "x" * 64}}, "it belongs to another sign-in"),
    "no nonce": ({"without": ["nonce"]}, "it belongs to another sign-in"),
    "empty nonce": ({"claims": {"nonce": ""}}, "it belongs to another sign-in"),
    "wrong issuer": ({"claims": {"iss": "https://evil.example"}}, "another issuer made it"),
    "issuer with a slash": ({"claims": {"iss": "ISSUER/"}}, "another issuer made it"),
    "issuer as a list": ({"claims": {"iss": ["ISSUER"]}}, "another issuer made it"),
    "no issuer": ({"without": ["iss"]}, "another issuer made it"),
    "for another client": ({"claims": {"aud": "another"}}, "it is for another client"),
    "for no client": ({"without": ["aud"]}, "it is for another client"),
    "for an empty list": ({"claims": {"aud": []}}, "it is for another client"),
    "for several": ({"claims": {"aud": ["another", CLIENT]}}, "it is for another client"),
    "handed on by another": ({"claims": {"azp": "another"}}, "it is for another client"),
    "expired": ({"claims": {"exp": {"now": -61}}}, "it has expired"),
    "never expires": ({"without": ["exp"]}, "it does not say when it expires"),
    "expiry in words": ({"claims": {"exp": "tomorrow"}}, "it does not say when it expires"),
    "from the future": ({"claims": {"iat": {"now": 3600}}}, "that is in the future"),
    "from long ago": ({"claims": {"iat": {"now": -3600}}}, "it was issued long before this sign-in"),
    "not yet": ({"claims": {"nbf": {"now": 3600}}}, "it does not hold yet"),
    "about nobody": ({"without": ["sub"]}, "a claim is missing or wrong"),
    "about an empty name": ({"claims": {"sub": ""}}, "its subject is no name"),
    "about a number": ({"claims": {"sub": 1001}}, "a claim is missing or wrong"),
    "about a long name": ({"claims": {"sub": "x" * 256}}, "its subject is no name"),
    "with another access token": ({"token": {"access_token": "another"}}, "it does not belong to the access token"),
    "alg none": ({"signed": "by nobody"}, "it is not signed as it should be"),
    "groups changed after signing": ({"signed": "and changed"}, "it is not signed as it should be"),
    "stranger's key in the header": ({"signed": "by a stranger"}, "it is not signed as it should be"),
    "unknown key": ({"signed": "by a key that it does not show"}, "no key of the provider signed it"),
    "the client's secret as key": ({"signed": "with the client's secret"}, "it is not signed as it should be"),
    "the public key as secret": ({"signed": "with the public key"}, "it is not signed as it should be"),
    "allowed none": (
        {"signed": "by nobody", "about": {"id_token_signing_alg_values_supported": ["none", "HS256"]}},
        "it is not signed as it should be",
    ),
    "no token": ({"token": {"id_token": None}}, "sent no ID token"),
    "not a token": ({"token": {"id_token": "abc"}}, "it is not signed as it should be"),
}


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_token_that_does_not_hold_opens_nothing(company: Company, name: str) -> None:
    planted, words = BAD_TOKENS[name]
    if isinstance(issuer := planted.get("claims", {}).get("iss"), str | list):
        real = company.provider.issuer
        named = [real] if isinstance(issuer, list) else issuer.replace("ISSUER", real)
        planted = {"claims": {"iss": named}}
    company.provider.tell("/planted", planted)
    caller, answer = company.sign_in("u-1001")
    refused(answer, 502 if name == "no token" else 403, words)
    assert caller.get("/results").status == 303
    line = company.world.server.audit.list()[0]
    assert (line.action, line.outcome) == ("sign in", "refused")


def test_a_little_late_is_within_the_clocks_skew(company: Company) -> None:
    company.provider.tell("/planted", {"claims": {"exp": {"now": -20}, "iat": {"now": 20}}})
    assert company.sign_in("u-1001")[1].status == 303


def test_several_audiences_with_this_server_as_the_party_hold(company: Company) -> None:
    company.provider.tell("/planted", {"claims": {"aud": ["api", CLIENT], "azp": CLIENT}})
    assert company.sign_in("u-1001")[1].status == 303


def test_a_new_key_of_the_provider_is_found(company: Company) -> None:
    assert company.sign_in("u-1001")[1].status == 303
    company.provider.tell("/rotate")
    assert company.sign_in("u-1001")[1].status == 303


# --- answers that must not be believed --------------------------------------------------------------------------------

NOT_BEGUN = "This sign-in was not begun in this browser"


def test_an_answer_counts_once_and_in_one_browser(company: Company) -> None:
    company.provider.tell("/planted", {"codes_again": True})  # even where the provider takes a code twice
    caller = company.caller()
    place = company.returned(caller, "u-1001")
    kept = dict(caller.cookies)
    refused(company.caller().get(place), 400, NOT_BEGUN)  # a stolen address
    other = company.caller()
    company.begin(other)
    refused(other.get(place), 400, NOT_BEGUN)  # somebody else's answer in one's own browser
    assert caller.get(place).status == 303
    refused(Caller(company.world.port, cookies=kept).get(place), 400, "This sign-in was used already")


def test_a_code_of_another_sign_in_is_worth_nothing(company: Company) -> None:
    victim, thief = company.caller(), company.caller()
    code = dict(parse_qsl(urlsplit(company.returned(victim, "u-1002")).query))["code"]
    own = dict(parse_qsl(urlsplit(company.returned(thief, "u-1003")).query))
    injected = f"{RETURN_PATH}?{urlencode(own | {'code': code})}"
    refused(thief.get(injected), 403, "did not take the code: invalid_grant")
    company.provider.tell("/planted", {"no_pkce": True})  # and where the provider forgets PKCE, the nonce is another's
    victim, thief = company.caller(), company.caller()
    code = dict(parse_qsl(urlsplit(company.returned(victim, "u-1002")).query))["code"]
    own = dict(parse_qsl(urlsplit(company.returned(thief, "u-1003")).query))
    refused(thief.get(f"{RETURN_PATH}?{urlencode(own | {'code': code})}"), 403, "it belongs to another sign-in")


@pytest.mark.parametrize("change", ["missing", "empty", "another", "twice", "cut", "none begun", "forged cookie"])
def test_the_state_must_be_the_one_that_was_sent(company: Company, change: str) -> None:
    caller = company.caller()
    given = dict(parse_qsl(urlsplit(company.returned(caller, "u-1001")).query))
    state, words = given.pop("state"), NOT_BEGUN
    query: list[tuple[str, str]] = list(given.items())
    if change in ("empty", "another", "cut"):
        query.append(("state", {"empty": "", "another": "x" * 64, "cut": state[:-1]}[change]))
    elif change != "missing":
        query.append(("state", state))
    if change == "twice":
        query, words = [*query, ("state", "x")], "The answer says something twice"
    if change == "none begun":
        caller.cookies.clear()
    if change == "forged cookie":
        sealed = caller.cookies["lynx_signin"]
        caller.cookies["lynx_signin"] = sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]
    refused(caller.get(f"{RETURN_PATH}?{urlencode(query)}"), 400, words)


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example", "https://evil.example/", "/\\evil.example", "\\\\evil.example", "/\t/evil.example",
        "javascript:alert(1)", "///evil.example", "/%09/evil", "http:evil.example", "/results\r\nSet-Cookie: a=b",
    ],
)  # fmt: skip
def test_nobody_is_sent_elsewhere_after_signing_in(company: Company, target: str) -> None:
    _, answer = company.sign_in("u-1001", next_=target)
    assert answer.status == 303
    place = answer.headers["location"]
    assert place.startswith("/")
    assert not place.startswith(("//", "/\\"))
    assert "evil.example" not in place
    assert "\t" not in place
    assert "set-cookie: a" not in str(answer.headers).lower()


def test_another_providers_answer_is_not_mixed_in(company: Company) -> None:
    company.provider.tell("/planted", {"answer": {"iss": "https://evil.example"}})
    refused(company.sign_in("u-1001")[1], 400, "The answer is from another provider")
    company.provider.tell("/planted", {"answer": {"iss": company.provider.issuer}})
    assert company.sign_in("u-1001")[1].status == 303


@pytest.mark.parametrize(
    ("error", "shown"),
    [("access_denied", "access_denied"), ("<b>x</b>", "an error"), ("login_required",) * 2],
)
def test_the_providers_own_refusal_is_told(company: Company, error: str, shown: str) -> None:
    company.provider.tell("/planted", {"error": error})
    answer = company.sign_in("u-1001")[1]
    refused(answer, 403, f"Example &amp; Co did not let you in: {shown}")
    assert "<b>x" not in answer.text


def test_failed_returns_shut_out_the_address_that_makes_them(company: Company) -> None:
    caller = company.caller()
    statuses = [caller.get(f"{RETURN_PATH}?state=x").status for _ in range(40)]
    assert (statuses[0], statuses[-1]) == (400, 429)
    assert company.caller().sign_in("ada").status == 303
    assert Caller(company.world.port, source="127.0.0.9").get(f"{RETURN_PATH}?state=x").status == 400


# --- a provider that does not do its part -----------------------------------------------------------------------------


def asking(company: Company, **changes: Any) -> Provider:
    told = company.world.server.settings.provider
    assert told is not None
    return Provider(told.model_copy(update=changes), SECRET, BACK)


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"issuer": "https://evil.example"}, "does not describe itself as the issuer"),
        ({"token_endpoint": "http://evil.example/token"}, "without addresses that can be trusted"),
        ({"jwks_uri": "file:///etc/passwd"}, "without addresses that can be trusted"),
        ({"authorization_endpoint": None}, "without addresses that can be trusted"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "without addresses that can be trusted"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not offer PKCE with S256"),
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_not_used(
    company: Company, about: dict[str, object], words: str
) -> None:
    company.provider.tell("/planted", {"about": about})
    with pytest.raises(SignInFailed, match=words) as failed:
        asking(company).begin("/")
    assert failed.value.status == 502


def test_a_provider_that_does_not_answer_holds_up_nobody_else(company: Company) -> None:
    server, sound = company.world.server, company.world.server.provider
    server.provider = asking(company, issuer="http://127.0.0.1:9")  # the discard port: nobody listens there
    try:
        refused(company.caller().get("/signin/oidc"), 502, "does not answer; try again later, or use a password")
        assert company.caller().sign_in("ada").status == 303
    finally:
        server.provider = sound


def test_a_wrong_secret_is_refused_by_the_provider(company: Company) -> None:
    told, server, sound = company.world.server.settings.provider, company.world.server, company.world.server.provider
    assert told is not None
    server.provider = Provider(told, "another secret", BACK)
    try:
        refused(company.sign_in("u-1001")[1], 403, "did not take the code: invalid_client")
        server.provider = Provider(told.model_copy(update={"client_id": "another"}), None, BACK)
        assert company.sign_in("u-1001")[1].status == 303, "a client without a secret is held by PKCE"
    finally:
        server.provider = sound


def test_a_sign_in_ends_after_ten_minutes(company: Company) -> None:
    told = company.world.server.settings.provider
    assert told is not None
    shift = [0.0]
    provider = Provider(told, SECRET, BACK, lambda: time.time() + shift[0])
    address, sealed = provider.begin("/")
    given = dict(parse_qsl(urlsplit(company.provider.log_in(address, "u-1001")).query))
    shift[0] = 601.0
    with pytest.raises(SignInFailed, match="took longer than ten minutes"):
        provider.finish(sealed, given)
    shift[0] = 0.0
    assert provider.finish(sealed, given)[0].subject == "u-1001"
