"""Thirty and more ways in that are closed. Each test says what is tried; what must not happen is what is asserted."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import re
import socket
import time
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hosted import OTHER, PASSWORD, TEAM, Caller, Team, World, hidden, made_result, make_team, record
from lynxbench.evidence.envelope import parse_envelope
from lynxbench.evidence.keys import new_signing_key
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.statement import seal_entry
from lynxbench.ledger.archive import read_archive, write_archive
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.summary import summary_of
from lynxbench.model.entries import Entry, ResultContested, Role
from lynxbench.recording import keep_files, seal
from lynxbench.server.rights import API, Scope

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
    made = world.server.access.make_token("reader", "soon gone", frozenset({Scope.READ}))
    caller = Caller(world.port, made.text)
    assert caller.get(f"{API}/results").status == 200
    gone = world.caller("administrator").ask("DELETE", f"{API}/tokens/{made.token_id}")
    assert gone.status == 200
    assert caller.get(f"{API}/results").status == 401


def test_07_an_expired_token_opens_nothing(world: World) -> None:
    made = world.server.access.make_token("reader", "short", frozenset({Scope.READ}), days=1e-9)
    assert Caller(world.port, made.text).get(f"{API}/results").status == 401


def test_08_a_token_with_one_letter_changed_opens_nothing(world: World) -> None:
    good = world.tokens["reader"]
    for bad in (good[:-1] + ("A" if good[-1] != "A" else "B"), good[:-1], good + "A", good.upper(), "lynx_", ""):
        assert Caller(world.port).get(f"{API}/results", Authorization=f"Bearer {bad}").status == 401
    assert Caller(world.port).get(f"{API}/results", Authorization=f"Basic {good}").status == 401


def test_09_a_disabled_users_sessions_and_tokens_end(world: World) -> None:
    world.server.access.add_user("leaver", TEAM, frozenset({Scope.READ}), PASSWORD)
    token = world.server.access.make_token("leaver", "x", frozenset({Scope.READ})).text
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
    assert submitter.ask("POST", f"{API}/uploads", b"x", {"Content-Length": str(10**9)}, timeout_s=5).status == 413


def test_20_too_much_is_refused_although_nobody_said_how_much(world: World) -> None:
    """Chunked, so that no length is announced."""
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=20)
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


def test_22_nothing_packed_is_unpacked(world: World, unchanged: None) -> None:
    submitter = world.caller("submitter")
    bomb = gzip.compress(b"0" * (1 << 20))
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert submitter.ask("POST", f"{API}/uploads", bomb, headers).status == 415
    assert submitter.submit(gzip.compress(world.team.bundle(made_result(BASE + 22)))).status == 422


def test_23_a_document_that_unfolds_to_more_than_was_sent_is_not_taken(world: World, unchanged: None) -> None:
    """A zip bomb in place of samples.npz, in a bundle that is otherwise signed and in order."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("start_ns.npy", b"\0" * (8 << 20))
    answer = world.caller("submitter").submit(bundle_with(world.team, BASE + 23, packed.getvalue()))
    assert answer.status == 422
    assert "unfolds" in answer.text


def test_24_a_tar_member_that_claims_gigabytes_is_refused(world: World, unchanged: None) -> None:
    data = bytearray(world.team.bundle(made_result(BASE + 24)))
    data[124:136] = b"77777777777\0"
    assert world.caller("submitter").submit(bytes(data)).status == 422


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


# --- forged, stolen and replayed submissions --------------------------------------------------------------------------


def bundle_with(team: Team, number: int, samples: bytes) -> bytes:
    """A signed bundle whose samples are these bytes."""
    import tempfile

    from lynxbench.evidence.documents import write_result

    result = made_result(number)
    with team.open() as ledger, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "samples.npz").write_bytes(samples)
        update = {"sha256": hashlib.sha256(samples).hexdigest()}
        result = result.model_copy(update={"samples": result.samples.model_copy(update=update)}).sealed()
        write_result(folder / "result.json", result)
        write_manifest(folder)
        blobs = keep_files(ledger.blobs, folder)
        (folder / "out").mkdir()
        ledger.log.append(seal(summary_of(result, nonce="n" * 32, attempts=5), team.key, blobs))
        path = folder / "out" / "b.lynx"
        export_bundle(ledger, [result.result_id], path, team.key, team.keyring.trust, datetime.now(UTC))
        return path.read_bytes()


def edited(data: bytes, tmp_path: Path, change: Callable[[str, bytes], bytes]) -> bytes:
    """A bundle with members changed and its manifest set right again, as an attacker would."""
    source, target = tmp_path / "in.lynx", tmp_path / "out.lynx"
    source.write_bytes(data)
    with source.open("rb") as stream:
        members = dict(read_archive(stream, "in"))
    manifest = json.loads(members.pop("manifest.json"))
    members = {name: change(name, content) for name, content in members.items()}
    for held in manifest["members"]:
        content = members[held["name"]]
        held["size_bytes"], held["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    from lynxbench.model.canonical import canonical_bytes

    write_archive(target, [("manifest.json", canonical_bytes(manifest)), *members.items()])
    return target.read_bytes()


def test_27_an_unregistered_key_signs_nothing_here(world: World, tmp_path: Path, unchanged: None) -> None:
    stranger = make_team("outsider", tmp_path)
    assert world.caller("submitter").submit(stranger.bundle(made_result(BASE + 27))).status == 422


def test_28_a_key_that_only_claims_the_teams_name_signs_nothing(world: World, tmp_path: Path, unchanged: None) -> None:
    impostor = make_team(TEAM, tmp_path)
    assert impostor.key.keyid != world.team.key.keyid
    assert world.caller("submitter").submit(impostor.bundle(made_result(BASE + 28))).status == 422


def test_29_another_teams_bundle_is_not_submitted_as_ones_own(world: World, unchanged: None) -> None:
    theirs = world.other.bundle(made_result(BASE + 29))
    answer = world.caller("submitter").submit(theirs)
    assert answer.status == 409
    assert OTHER in answer.text
    assert world.caller("stranger").submit(world.team.bundle(made_result(BASE + 290))).status == 409


def test_30_a_changed_figure_does_not_pass(world: World, tmp_path: Path, unchanged: None) -> None:
    changed = []

    def faster(name: str, content: bytes) -> bytes:
        better = re.sub(rb'("estimate": ?)[0-9.]+', rb"\g<1>900.0", content) if name.startswith("blobs/") else content
        changed.append(better != content)
        return better

    data = edited(world.team.bundle(made_result(BASE + 30)), tmp_path, faster)
    assert any(changed)
    assert world.caller("submitter").submit(data).status == 422


def test_31_a_flipped_bit_anywhere_does_not_pass(world: World, unchanged: None) -> None:
    data = world.team.bundle(made_result(BASE + 31))
    for place in (600, len(data) // 3, len(data) // 2, len(data) - 700):
        broken = bytearray(data)
        broken[place] ^= 1
        assert world.caller("submitter").submit(bytes(broken)).status == 422


def test_32_a_replay_changes_nothing(world: World) -> None:
    data = world.team.bundle(made_result(BASE + 32))
    submitter = world.caller("submitter")
    assert submitter.submit(data).json()["outcome"]["new"] > 0
    before = size_of(world)
    again = submitter.submit(data)
    assert again.status == 200
    assert size_of(world) == before
    assert world.caller("stranger").submit(data).status == 409, "a replay by another team"


def test_33_the_same_result_in_another_wrapping_changes_nothing_more(world: World) -> None:
    result = made_result(BASE + 33)
    submitter = world.caller("submitter")
    assert submitter.submit(world.team.bundle(result)).json()["outcome"]["new"] > 0
    before = size_of(world)
    time.sleep(1.1)  # a checkpoint has its second
    fresh = submitter.submit(world.team.bundle(result))  # another checkpoint, other bytes
    assert fresh.status == 200
    assert fresh.json()["outcome"]["new"] == 0
    assert size_of(world) == before


def test_34_a_second_result_of_one_run_is_refused(world: World) -> None:
    first, second = made_result(BASE + 34), made_result(BASE + 340, level=140.0)
    second = second.model_copy(update={"run_id": first.run_id}).sealed()
    assert world.caller("submitter").submit(world.team.bundle(first)).status == 200
    before = size_of(world)
    other_home = Team(
        TEAM, world.team.home, {**world.team.environment, "LYNXBENCH_LEDGER": str(world.team.home / "l2")}
    )
    assert world.caller("submitter").submit(other_home.bundle(second)).status == 422
    assert size_of(world) == before


def test_35_a_contest_needs_its_own_scope(world: World) -> None:
    result = made_result(BASE + 35)
    assert world.caller("submitter").submit(world.team.bundle(result)).status == 200
    before = size_of(world)
    with world.team.open() as ledger:
        doubt = ResultContested(result_id=result.result_id, reason="I would rather not")
        ledger.log.append(seal(doubt, world.team.key))
    data = world.team.bundle(result)
    assert world.caller("submitter").submit(data).status == 409
    assert size_of(world) == before
    assert world.caller("administrator").submit(data).json()["outcome"]["new"] == 1


def test_36_a_revoked_key_signs_nothing_new_whatever_date_it_writes(world: World, tmp_path: Path) -> None:
    team = make_team("short-lived", tmp_path)
    world.server.access.add_team(team.name)
    world.server.access.add_user("short", team.name, frozenset({Scope.READ, Scope.SUBMIT}))
    token = world.server.access.make_token("short", "x", frozenset({Scope.READ, Scope.SUBMIT})).text
    from hosted import _canonical

    world.server.keys.register(_canonical(team.keyring.keys.card(team.name).model_dump_json().encode()), None, "test")
    world.server.changed()
    data = team.bundle(made_result(BASE + 36, name="short-lived"))
    administrator = world.caller("administrator")
    revoked = administrator.json("POST", f"{API}/keys/{team.key.keyid}/revoke", {"reason": "it was stolen"})
    assert revoked.status == 200
    before = size_of(world)
    assert Caller(world.port, token).submit(data).status == 422
    assert size_of(world) == before


def test_37_an_entry_from_the_future_is_refused(world: World, unchanged: None) -> None:
    result = made_result(BASE + 37)
    with world.team.open() as ledger:
        late = (datetime.now(UTC) + timedelta(days=400)).isoformat(timespec="milliseconds")
        record(ledger, result, world.team.key)
        doubt = ResultContested(result_id=result.result_id, reason="not yet")
        ledger.log.append(seal_entry(Entry(made_at=late, body=doubt), [world.team.key]))
    assert world.caller("administrator").submit(world.team.bundle(result)).status == 422


def test_38_a_low_order_or_foreign_key_card_is_not_registered(world: World) -> None:
    administrator = world.caller("administrator")
    key = new_signing_key(TEAM, (Role.RUNNER,), datetime.now(UTC))
    card = json.loads(key.card.model_dump_json())
    for change in (
        {"public_key": "A" * 43 + "="},
        {"keyid": "0" * 64},
        {"team": "Ml-Platform"},
        {"team": "rnl-platform"},
    ):
        text = json.dumps({**card, **change}, sort_keys=True, separators=(",", ":"))
        assert administrator.json("POST", f"{API}/keys", {"card": text}).status == 422


def test_39_an_upload_belongs_to_its_team(world: World) -> None:
    data = world.team.bundle(made_result(BASE + 39))
    document = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    begun = world.caller("submitter").json("POST", f"{API}/uploads", document).json()
    thief = world.caller("stranger")
    place = f"{API}/uploads/{begun['upload_id']}"
    assert thief.get(place).status == 404
    assert thief.ask("PATCH", place, b"evil", {"Upload-Offset": "0"}).status == 404
    assert thief.json("POST", f"{place}/finish", {}).status == 404
    assert thief.ask("DELETE", place).status == 404
    assert world.caller("submitter").ask("DELETE", place).status == 200


def test_40_a_run_of_another_team_takes_no_word_of_ours(world: World) -> None:
    contract = made_result(0).contract
    world.server.scheduler.put("theirs", OTHER, "every 1 s", contract, "test")
    time.sleep(1.1)
    claimed = world.caller("stranger").json("POST", f"{API}/agents/their-agent/poll", {}).json()["run"]
    world.server.scheduler.remove("theirs", OTHER)
    ours = world.caller("submitter")
    assert ours.json("POST", f"{API}/runs/{claimed['run']}/live", {"events": []}).status == 409
    assert ours.json("POST", f"{API}/runs/{claimed['run']}/end", {"state": "done"}).status == 409
    assert ours.json("POST", f"{API}/agents/their-agent/poll", {}).status == 409


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
