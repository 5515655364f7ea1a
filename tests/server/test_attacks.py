"""Thirty and more ways in that are closed. Each test says what is tried; what must not happen is what is asserted."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from hosted import PASSWORD, Caller, World, hidden
from lynxbench.evidence.envelope import parse_envelope
from lynxbench.model.entries import ResultContested
from lynxbench.record.recording import seal
from lynxbench.server.rights import API, AccessScope
from recording_teams import TEAM, made_result

BASE = 100


@pytest.fixture
def session(world: World) -> Caller:
    """A browser of an administrator, signed in."""
    caller = Caller(world.port)
    assert caller.sign_in("administrator").status == 303
    world.calm()
    return caller


def csrf_of(caller: Caller) -> str:
    return hidden(caller.get("/account").text)


def size_of(world: World) -> int:
    return world.server.ledger.log.head().size


@pytest.fixture
def unchanged(world: World):  # type: ignore[no-untyped-def]
    """Nothing that is tried here may reach the log."""
    before = size_of(world)
    yield
    assert size_of(world) == before, "an attack reached the log"


# --- forged forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("csrf", "headers"),
    [
        ("", {}),
        ("wrong", {}),
        ("own", {"Origin": "https://evil.example"}),
        ("own", {"Origin": "null"}),
        ("own", {"Sec-Fetch-Site": "cross-site"}),
        ("other session", {}),
    ],
)
def test_01_a_forged_form_adds_no_user(world: World, session: Caller, csrf: str, headers: dict[str, str]) -> None:
    values = {"own": csrf_of(session), "other session": ""}
    if csrf == "other session":
        other = Caller(world.port)
        other.sign_in("reader")
        values["other session"] = csrf_of(other)
    fields = {"csrf": values.get(csrf, csrf), "name": "mallory", "team": TEAM, "scope": "administer"}
    assert session.form("/admin/users", fields, **headers).status == 403
    assert "mallory" not in [one.name for one in world.server.access.users()]


def test_02_a_form_sent_as_json_or_plain_text_is_refused(world: World, session: Caller) -> None:
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
        body = json.dumps({"csrf": csrf_of(session), "name": "mallory"}).encode()
        assert session.ask("POST", "/admin/users", body, {"Content-Type": kind}).status == 415


def test_03_signing_in_is_tied_to_the_browser_that_asked(world: World) -> None:
    victim = Caller(world.port)
    page = Caller(world.port).get("/signin")
    forged = {"csrf": hidden(page.text), "name": "reader", "password": PASSWORD, "next": "/"}
    answer = victim.form("/signin", forged)
    assert answer.status == 403
    assert "lynx_session" not in answer.cookies


def test_04_the_api_is_not_changed_by_a_browsers_session(world: World, session: Caller) -> None:
    document = {"name": "mallory", "team": TEAM, "scopes": ["administer"]}
    assert session.json("POST", f"{API}/users", document).status == 403


def test_05_after_signing_in_nobody_is_sent_elsewhere(world: World) -> None:
    for target in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\r\nX: y"):
        caller = Caller(world.port)
        page = caller.get("/signin")
        fields = {"csrf": hidden(page.text), "name": "reader", "password": PASSWORD, "next": target}
        answer = caller.form("/signin", fields)
        world.calm()
        assert answer.status == 303
        assert answer.headers["location"] == "/"


# --- stolen and worn-out credentials ----------------------------------------------------------------------------------


def test_06_a_revoked_token_opens_nothing(world: World) -> None:
    made = world.server.access.make_token("reader", "soon gone", frozenset({AccessScope.READ}))
    caller = Caller(world.port, made.text)
    assert caller.get(f"{API}/results").status == 200
    gone = world.caller("administrator").ask("DELETE", f"{API}/tokens/{made.token_id}")
    assert gone.status == 200
    assert caller.get(f"{API}/results").status == 401


def test_07_an_expired_token_opens_nothing(world: World) -> None:
    made = world.server.access.make_token("reader", "short", frozenset({AccessScope.READ}), days=1e-9)
    assert Caller(world.port, made.text).get(f"{API}/results").status == 401


def test_08_a_token_with_one_letter_changed_opens_nothing(world: World) -> None:
    good = world.tokens["reader"]
    for bad in (good[:-1] + ("A" if good[-1] != "A" else "B"), good[:-1], good + "A", good.upper(), "lynx_", ""):
        assert Caller(world.port).get(f"{API}/results", Authorization=f"Bearer {bad}").status == 401
    assert Caller(world.port).get(f"{API}/results", Authorization=f"Basic {good}").status == 401


def test_09_a_disabled_users_sessions_and_tokens_end(world: World) -> None:
    world.server.access.add_user("leaver", TEAM, frozenset({AccessScope.READ}), PASSWORD)
    token = world.server.access.make_token("leaver", "x", frozenset({AccessScope.READ})).text
    browser = Caller(world.port)
    assert browser.sign_in("leaver").status == 303
    assert browser.get("/").status == 200
    assert world.caller("administrator").json("POST", f"{API}/users/leaver/disable", {}).status == 200
    assert browser.get("/").status == 303
    assert Caller(world.port, token).get(f"{API}/results").status == 401
    assert Caller(world.port).sign_in("leaver").status == 403
    world.calm()


def test_10_a_session_ends_with_signing_out(world: World) -> None:
    browser = Caller(world.port)
    browser.sign_in("reader")
    stolen = Caller(world.port, cookies=dict(browser.cookies))
    assert stolen.get("/account").status == 200
    assert browser.form("/signout", {"csrf": csrf_of(browser)}).status == 303
    assert stolen.get("/account").status == 303


def test_11_passwords_cannot_be_tried_through(world: World) -> None:
    statuses = []
    for attempt in range(14):
        caller = Caller(world.port)
        page = caller.get("/signin")
        fields = {"csrf": hidden(page.text), "name": "reader", "password": f"guess number {attempt}", "next": "/"}
        statuses.append(caller.form("/signin", fields).status)
    world.calm()
    assert statuses[0] == 403
    assert statuses[-1] == 429


def test_12_nobody_gives_a_token_more_than_they_have(world: World) -> None:
    browser = Caller(world.port)
    browser.sign_in("reader")
    fields = {"csrf": csrf_of(browser), "label": "more", "days": "9", "scope": ["read", "administer"]}
    assert browser.form("/account/tokens", fields).status == 422
    assert "more" not in [one.label for one in world.server.access.tokens("reader")]


def test_13_no_page_nor_answer_shows_a_secret(world: World, session: Caller) -> None:
    world.server.contacts.put("secretive", "webhook", "https://hooks.example/x", "very secret word")
    held = world.server.store.rows(__import__("sqlalchemy").text("SELECT password FROM server_users"))
    secrets = [*world.tokens.values(), "very secret word", *(str(row[0]) for row in held if row[0])]
    administrator = world.caller("administrator")
    shown = [session.get(path).text for path in ("/admin", "/admin/audit", "/account", "/")]
    shown += [administrator.get(f"{API}/{name}").text for name in ("users", "tokens", "contacts", "audit", "keys")]
    shown += [administrator.get("/metrics").text]
    for secret in secrets:
        assert not any(secret in text for text in shown)
    (cookie,) = [one for one in Caller(world.port).sign_in("reader").set_cookies if one.startswith("lynx_session=")]
    world.calm()
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()


# --- names and paths --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../../../etc/passwd",
        "/static/..%2f..%2fetc%2fpasswd",
        "/results/..%2f..%2fserver.sqlite",
        "/results/%2e%2e/%2e%2e/keys",
        "/decisions/1/../../pack.html",
        f"{API}/uploads/..%2f..%2fledger.sqlite",
        "/results/aaaa/plots/..%2f..%2fx.svg",
    ],
)
def test_14_no_path_leads_out(world: World, path: str) -> None:
    answer = world.caller("administrator").get(path)
    assert answer.status in (404, 405, 422)
    assert "root:" not in answer.text


def test_15_another_host_name_is_not_answered(world: World) -> None:
    """DNS rebinding: a browser that was told evil.example is 127.0.0.1."""
    for host in ("evil.example", "127.0.0.1.evil.example", "user@127.0.0.1", "", "localhost/evil"):
        assert world.caller("reader").get("/", Host=host).status in (400, 421)


def test_16_zero_bytes_and_broken_texts_are_refused(world: World) -> None:
    administrator = world.caller("administrator")
    assert administrator.get("/results?contract=%00").status == 400
    assert (
        administrator.json("PUT", f"{API}/contacts", {"owner": "a\x00b", "channel": "mail", "address": "a@b.c"}).status
        == 422
    )
    raw = b'{"owner": "\\ud800", "channel": "mail", "address": "a@b.c"}'
    assert administrator.ask("PUT", f"{API}/contacts", raw, {"Content-Type": "application/json"}).status == 422


def test_17_headers_cannot_be_split(world: World) -> None:
    answer = world.caller("reader").get("/compare?a=x%0d%0aSet-Cookie:%20evil=1&b=y")
    assert "evil" not in answer.headers.get("set-cookie", "")
    assert (
        Caller(world.port)
        .get("/?next=%0d%0aLocation:%20https://evil.example")
        .headers["location"]
        .startswith("/signin")
    )


def test_18_webhooks_go_to_web_addresses_alone(world: World) -> None:
    administrator = world.caller("administrator")
    for address in ("file:///etc/passwd", "ftp://x/y", "javascript:x", "http://user:pw@host/", "http://", "gopher://x"):
        document = {"owner": "o", "channel": "webhook", "address": address}
        assert administrator.json("PUT", f"{API}/contacts", document).status == 422
    for address in ("a@b.c\r\nBcc: all@example", "no address", "A <a@b.c>"):
        assert (
            administrator.json("PUT", f"{API}/contacts", {"owner": "o", "channel": "mail", "address": address}).status
            == 422
        )


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_19_too_much_is_refused_before_it_is_read(world: World) -> None:
    submitter = world.caller("submitter")
    assert submitter.ask("POST", f"{API}/uploads", b"x", {"Content-Length": str(10**9)}, timeout_s=600).status == 413


def test_20_too_much_is_refused_although_nobody_said_how_much(world: World) -> None:
    """Chunked, so that no length is announced."""
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=600)
    parts = (b"x" * 65536 for _ in range(40))
    headers = {"Authorization": f"Bearer {world.tokens['submitter']}", "Content-Type": "application/json"}
    try:
        connection.request("POST", f"{API}/uploads", parts, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused so early that the rest could not be sent
    finally:
        connection.close()


def test_21_a_bundle_larger_than_allowed_is_not_begun(world: World) -> None:
    document = {"sha256": "a" * 64, "size_bytes": world.server.settings.largest_bundle_bytes + 1}
    assert world.caller("submitter").json("POST", f"{API}/uploads", document).status == 422


def test_25_deeply_nested_json_is_refused(world: World) -> None:
    deep = b'{"timetable": "every 1 h", "contract": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
    headers = {"Content-Type": "application/json"}
    assert world.caller("submitter").ask("PUT", f"{API}/schedules/deep", deep, headers).status in (400, 422)


def test_26_a_reader_who_asks_too_much_is_slowed_down(world: World) -> None:
    from lynxbench.server.limits import Limiter

    before, world.server.reads = world.server.reads, Limiter(1.0, 5)
    try:
        statuses = [world.caller("reader").get(f"{API}/whoami").status for _ in range(8)]
    finally:
        world.server.reads = before
    assert statuses[:5] == [200] * 5
    assert statuses[-1] == 429


# --- script injection -------------------------------------------------------------------------------------------------

SCRIPT = "<script>document.title='HACKED'</script><img src=x onerror=alert(1)>\"'><svg/onload=alert(1)>"


def test_41_scripts_in_every_text_that_people_supply_stay_text(world: World, session: Caller) -> None:
    """Question, reason, label, claim, owner, audit: all of it is shown, none of it runs."""
    server = world.server
    result = made_result(BASE + 41, name="injected", question=SCRIPT[:90])
    submitted = world.caller("submitter").submit(world.team.bundle(result))
    assert submitted.status == 200
    with world.team.open() as ledger:
        ledger.log.append(seal(ResultContested(result_id=result.result_id, reason=SCRIPT), world.team.key))
    assert world.caller("administrator").submit(world.team.bundle(result)).status == 200
    csrf = csrf_of(session)
    session.form("/account/tokens", {"csrf": csrf, "label": SCRIPT[:100], "days": "1", "scope": "read"})
    kept = session.form("/claims", {"csrf": csrf, "text": f"Our model runs 10x faster {SCRIPT}"})
    assert kept.status == 303
    session.form("/admin/contacts", {"csrf": csrf, "owner": SCRIPT[:150], "channel": "mail", "address": "a@b.example"})
    session.form("/admin/users", {"csrf": csrf, "name": SCRIPT, "team": SCRIPT, "scope": SCRIPT})
    pages = ["/", "/ledger", "/admin", "/admin/audit", "/account", "/claims", kept.headers["location"], "/runs"]
    pages += [f"/contracts/{result.contract_id}", f"/results/{result.result_id}", f"/results/{world.drawn[2]}"]
    pages += [
        f"/compare?a={SCRIPT}&b=x".replace(" ", "%20").replace("'", "%27").replace('"', "%22"),
        f"/signin?next={'%3Cscript%3E'}",
    ]
    for page in pages:
        answer = session.get(page)
        text = answer.text
        assert "<script>document" not in text, page
        assert "<img src=x" not in text, page
        assert "<svg/onload" not in text, page
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe-inline" not in policy
    assert server.access.users()


def test_42_uploaded_pages_are_never_served(world: World) -> None:
    """A pack brings its own HTML; it is drawn again from its values, and even that may not run anything."""
    seqs = [
        seq for seq in range(size_of(world)) if world.caller("reader").get(f"/decisions/{seq}/pack.html").status == 200
    ][:1]
    assert seqs
    answer = world.caller("reader").get(f"/decisions/{seqs[0]}/pack.html")
    assert "sandbox" in answer.headers["content-security-policy"]


def test_43_downloads_are_downloads(world: World) -> None:
    for path in (f"/results/{world.drawn[2]}/report.html", f"/results/{world.drawn[2]}/result.json"):
        answer = world.caller("reader").get(path)
        assert answer.status == 200
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]


def test_44_half_a_request_does_not_hold_the_others_up(world: World) -> None:
    slow = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(30)]
    try:
        for one in slow:
            one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert world.caller("reader").get("/healthz").status == 200
    finally:
        for one in slow:
            one.close()


def test_45_an_envelope_is_given_back_as_it_was_signed(world: World) -> None:
    data = world.caller("reader").get(f"{API}/ledger/entries/0").body
    assert parse_envelope(data).signatures[0].keyid == world.team.key.keyid


@pytest.mark.parametrize("digits", [400, 5000])
def test_46_a_number_beyond_every_other_is_refused_in_a_line(world: World, session: Caller, digits: int) -> None:
    number = "9" * digits
    contract = f"{API}/contracts/{world.results[0].contract_id}/likeness"
    submitter, csrf = world.caller("submitter"), csrf_of(session)
    answers = [
        submitter.ask("POST", contract, f'{{"input_tokens": {number}}}'.encode()),
        submitter.ask("POST", contract, f'[{{"input_tokens": {number}}}]'.encode()),
        submitter.json("POST", f"{API}/registrations", {"envelope": number}),
        submitter.json("POST", f"{API}/agreements", {"entries": [number]}),
        session.form("/agree", {"csrf": csrf, "entry": number}),
        session.form("/admin/keys", {"csrf": csrf, "card": number[:15_000]}),
    ]
    assert [answer.status for answer in answers] == [422] * len(answers)


def test_47_a_request_that_names_two_hosts_is_refused(world: World) -> None:
    for hosts in (("evil.example", "localhost"), ("localhost", "evil.example"), ("localhost", "localhost")):
        with socket.create_connection(("127.0.0.1", world.port), timeout=30) as one:
            named = "".join(f"Host: {host}\r\n" for host in hosts)
            one.sendall(f"GET /signin HTTP/1.1\r\n{named}Connection: close\r\n\r\n".encode())
            assert one.recv(12) == b"HTTP/1.1 400"
