"""Signing in by a real OpenID provider in a process of its own: the whole way, and what groups come to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from browsers import Look, launched_browser
from companies import BACK, PORT, Company, refused, rights_shown
from hosted import Caller, World, hidden, hosted
from lynxbench.server.administration import COMMAND_LINE
from lynxbench.server.provider import Provider
from lynxbench.server.rights import AccessScope
from lynxbench.server.server_state import RETURN_PATH, Server
from lynxbench.watch.store import store_url
from openid_provider import CLIENT, SECRET
from recording_teams import make_team

READ, SUBMIT, CONTEST, ADMINISTER = AccessScope

# --- the whole way ----------------------------------------------------------------------------------------------------


def test_the_whole_way_in_and_out(company: Company) -> None:
    caller, server = company.caller(), company.world.server
    assert caller.get("/results").headers["location"] == "/signin?next=%2Fresults"
    page = caller.get("/signin?next=%2Fresults").text
    assert 'href="/signin/oidc?next=%2Fresults"' in page
    assert "Sign in with Example &amp; Co" in page
    assert 'name="password"' in page

    address = company.begin(caller)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert address.startswith(f"{company.provider.issuer}/authorize?")
    assert asked["response_type"] == "code"
    assert (asked["client_id"], asked["redirect_uri"]) == (CLIENT, BACK)
    assert asked["code_challenge_method"] == "S256"
    assert "openid" in asked["scope"].split()
    assert min(len(asked[name]) for name in ("state", "nonce")) == 64
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    sealed = caller.cookies["lynx_signin"]
    assert not any(asked[name] in sealed for name in ("state", "nonce"))

    back = caller.get(company.provider.log_in(address, "u-1001").removeprefix(f"http://127.0.0.1:{PORT}"))
    assert (back.status, back.headers["location"]) == (303, "/results")
    session = next(line for line in back.set_cookies if line.startswith("lynx_session="))
    assert "HttpOnly" in session
    assert "SameSite=lax" in session
    assert next(line for line in back.set_cookies if line.startswith("lynx_signin=")).startswith('lynx_signin="";')

    assert rights_shown(caller) == ("grace", "ml-platform", {"read"})
    assert caller.get("/results").status == 200
    assert caller.get("/admin").status == 403
    account = caller.get("/account").text
    assert company.provider.issuer in account
    assert "Change the password" not in account
    newest = server.audit.list()[1]  # the refusal of /admin is newer
    assert (newest.who, newest.action, newest.subject, newest.outcome) == (
        "grace", "sign in", company.provider.issuer, "ok",
    )  # fmt: skip
    left = caller.form("/signout", {"csrf": hidden(account)})
    assert (left.status, left.headers["location"]) == (303, "/signin/left")
    assert f'href="{company.provider.issuer}/leave"' in caller.get("/signin/left").text
    assert caller.get("/results").status == 303


def test_passwords_stay_beside_it(company: Company) -> None:
    caller = company.caller()
    assert caller.sign_in("ada").status == 303
    page = caller.get("/account").text
    assert "Change the password" in page
    assert caller.form("/signout", {"csrf": hidden(page)}).headers["location"] == "/signin"
    assert company.caller().sign_in("grace", "").status == 403, "an account of the provider has no password"


def test_a_machine_with_a_provider_is_not_open_while_nobody_is_registered(tmp_path: Path, company: Company) -> None:
    team = make_team("alone", tmp_path)
    settings = replace(company.world.server.settings, upload_folder=tmp_path / "u", environment=team.environment)
    server = Server(settings, team.location, store_url(None, team.location))
    with hosted(World(server, team, team, {}, [], [])) as alone:
        assert Caller(alone.port).get("/").status == 303


# --- groups and accounts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "team", "scopes"),
    [
        (["bench-readers"], "ml-platform", {READ}),
        (["bench-operators", "bench-submitters"], "infrastructure", {READ, SUBMIT, ADMINISTER}),
        (["bench-submitters", "bench-readers"], "ml-platform", {READ}),  # one team; a right of another is not carried
        ("bench-readers", "ml-platform", {READ}),
    ],
)
def test_groups_come_to_a_team_and_scopes(
    company: Company, groups: object, team: str, scopes: set[AccessScope]
) -> None:
    caller, answer = company.sign_in(company.person(groups=groups))
    assert answer.status == 303
    assert rights_shown(caller)[1:] == (team, scopes)


@pytest.mark.parametrize(
    "groups",
    [
        [], ["staff"], ["Bench-Readers"], ["bench-readers "], [" bench-readers"], ["bench-readers\n"],
        ["bench-readers bench-operators"], "bench-readers bench-operators", "bench-readers,bench-operators",
        ["bench-readers,bench-operators"], ["bеnch-readers"], ["/bench-readers"],
        ["bench-operators"], ["bench-guests"],  # rights without a team to speak for
    ],
)  # fmt: skip
def test_groups_that_are_not_mapped_letter_by_letter_give_nothing(company: Company, groups: object) -> None:
    users = company.world.server.access.users()
    caller, answer = company.sign_in(company.person(groups=groups))
    refused(answer, 403, "None of your groups may do anything here")
    assert caller.get("/results").status == 303
    assert company.world.server.access.users() == users


@pytest.mark.parametrize(
    "groups", [{"bench-readers": True}, [["bench-readers"]], [{"name": "bench-readers"}], 7, [None], None, True]
)
def test_a_claim_that_is_no_list_of_groups_is_refused(company: Company, groups: object) -> None:
    refused(company.sign_in(company.person(groups=groups))[1], 403, "is no list of groups")


def test_groups_are_taken_from_the_signed_token_alone(company: Company) -> None:
    spoofs = {"groups": "bench-operators", "roles": "administer", "team": "ml-platform", "scope": "administer"}
    company.provider.tell("/planted", {"answer": spoofs, "token": {"groups": ["bench-readers"], "scope": "administer"}})
    caller = company.caller()
    refused(company.sign_in("u-1003", caller)[1], 403, "None of your groups")
    sub = company.person(
        groups=["bench-readers"], roles=["bench-operators"], resource_access={"groups": ["bench-operators"]}
    )
    caller, answer = company.sign_in(sub)
    assert answer.status == 303
    assert rights_shown(caller)[2] == {"read"}


def test_groups_that_were_left_out_because_they_are_many_are_told(company: Company) -> None:
    sub = company.person(_claim_names={"groups": "src1"}, _claim_sources={"src1": {"endpoint": "https://x.example"}})
    refused(company.sign_in(sub)[1], 403, "because they are too many")


def test_whoever_loses_the_groups_loses_everything_at_the_next_sign_in(company: Company) -> None:
    server, sub = company.world.server, company.person(groups=["bench-readers"], preferred_username="leaving")
    caller, _ = company.sign_in(sub)
    token = Caller(company.world.port, server.access.make_token("leaving", "ci", "read").text)
    assert (caller.get("/results").status, token.get("/api/v1/results").status) == (200, 200)
    company.provider.tell("/people", {sub: {"preferred_username": "leaving", "groups": ["staff"]}})
    refused(company.sign_in(sub)[1], 403, "None of your groups")
    assert caller.get("/results").status == 303
    assert token.get("/api/v1/results").status == 403
    company.provider.tell("/people", {sub: {"preferred_username": "other-name-now", "groups": ["bench-submitters"]}})
    again, _ = company.sign_in(sub)
    assert rights_shown(again) == ("leaving", "infrastructure", {"read", "submit"}), "known by subject, not by name"


def test_a_disabled_account_stays_out(company: Company) -> None:
    sub = company.person(groups=["bench-readers"], preferred_username="barred")
    caller, _ = company.sign_in(sub)
    company.world.server.administration.disable_user(COMMAND_LINE, "barred")
    assert caller.get("/results").status == 303
    refused(company.sign_in(sub)[1], 403, "The account barred was disabled here")


def test_nobody_becomes_a_local_user_by_being_called_alike(company: Company) -> None:
    for wished in ("ada", "ADA@evil.example", "Ada"):
        caller, answer = company.sign_in(company.person(groups=["bench-readers"], preferred_username=wished))
        assert answer.status == 303
        name, _, scopes = rights_shown(caller)
        assert name.startswith("ada-")
        assert scopes == {"read"}
    ada = company.world.server.access.user("ada")
    assert (ada.team, set(ada.scopes)) == ("alone", set(AccessScope))


@pytest.mark.parametrize("wished", ["", "anonymous", "../../x", "<script>x</script>", "名前", "9" * 500, 7, None])
def test_odd_names_become_plain_ones(company: Company, wished: object) -> None:
    caller, answer = company.sign_in(company.person(groups=["bench-readers"], preferred_username=wished))
    assert answer.status == 303
    name = rights_shown(caller)[0]
    assert name.replace("-", "").isalnum()
    assert name != "anonymous"


# --- in a real browser ------------------------------------------------------------------------------------------------


def test_a_browser_goes_to_another_site_and_comes_back(company: Company) -> None:
    """The provider is another site to the browser: cookies and the page's own policy let it go there and back."""
    server, sound = company.world.server, company.world.server.provider
    assert sound is not None
    here = f"http://127.0.0.1:{company.world.port}"
    elsewhere = company.provider.issuer.replace("127.0.0.1", "localhost")
    company.provider.tell("/clients", {CLIENT: [SECRET, [BACK, here + RETURN_PATH]]})
    company.provider.tell("/planted", {"about": {"authorization_endpoint": f"{elsewhere}/authorize"}})
    server.provider = Provider(sound.settings, SECRET, here + RETURN_PATH)
    try:
        with launched_browser("localhost") as browser:
            look = Look(browser, 1280)
            look.page.goto(f"{here}/results")
            look.page.get_by_role("link", name="Sign in with Example & Co").click()
            look.page.wait_for_url(f"{elsewhere}/**")
            look.page.get_by_role("link", name="u-1001").click()
            look.page.wait_for_url(f"{here}/results")
            assert look.page.get_by_label("Account of grace").is_visible()
            look.page.get_by_role("button", name="Sign out").click()
            look.page.wait_for_url(f"{here}/signin/left")
            look.page.goto(f"{here}/results")
            assert look.page.url == f"{here}/signin?next=%2Fresults"
            assert look.said == []
            look.close()
    finally:
        server.provider = sound
