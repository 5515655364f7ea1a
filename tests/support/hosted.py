"""A server with teams, users, results, doubts, decisions and runs in it, listening on a port of its own."""

from __future__ import annotations

import atexit
import hashlib
import http.client
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from sqlalchemy import insert

from analysed import fleet_results, plant
from lynxbench.decide.demonstrating import demonstrate
from lynxbench.evidence.keys import KeyCard, SigningKey
from lynxbench.ledger.location import OpenLedger, open_ledger
from lynxbench.model.entries import ResultContested
from lynxbench.model.result import Result
from lynxbench.record.recording import seal
from lynxbench.server.app import make_app
from lynxbench.server.limits import SIGN_INS_PER_MIN, Limiter, SignInLimits
from lynxbench.server.listening import configured
from lynxbench.server.page_cache import STALE_S
from lynxbench.server.rights import AccessScope
from lynxbench.server.server_state import Server
from lynxbench.server.settings import ServerSettings
from lynxbench.watch.store import now_text, store_url
from lynxbench.watch.store_tables import notices
from recording_teams import HOST, OTHER, TEAM, Team, canonical, made_result, make_team, record, team_in
from report_cases import SHAPES

PASSWORD = "correct horse battery"
ROLES: dict[str, frozenset[AccessScope]] = {
    "reader": frozenset({AccessScope.READ}),
    "submitter": frozenset({AccessScope.READ, AccessScope.SUBMIT}),
    "contester": frozenset({AccessScope.READ, AccessScope.CONTEST}),
    "administrator": frozenset(AccessScope),
}


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes
    cookies: dict[str, str]
    set_cookies: list[str]

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Caller:
    """Somebody who asks over real HTTP, with a token or a browser's cookies."""

    port: int
    token: str | None = None
    cookies: dict[str, str] = field(default_factory=dict)
    source: str | None = None
    """The address that is asked from; every 127.x.y.z is one of this machine."""

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 600,
    ) -> Answer:
        given = dict(headers or {})
        if self.token:
            given.setdefault("Authorization", f"Bearer {self.token}")
        if self.cookies:
            given.setdefault("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        source = None if self.source is None else (self.source, 0)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s, source_address=source)
        try:
            connection.request(method, path, body, given)
            found = connection.getresponse()
            data = found.read()
        finally:
            connection.close()
        set_: dict[str, str] = {}
        for name, value in found.getheaders():
            if name.lower() == "set-cookie":
                key, _, rest = value.partition("=")
                set_[key] = rest.split(";")[0]
        self.cookies |= {name: value for name, value in set_.items() if value.strip('"')}
        headers_ = {name.lower(): value for name, value in found.getheaders()}
        whole = [value for name, value in found.getheaders() if name.lower() == "set-cookie"]
        return Answer(found.status, headers_, data, set_, whole)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def json(self, method: str, path: str, document: object) -> Answer:
        return self.ask(method, path, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def form(self, path: str, fields: Mapping[str, str | list[str]], **headers: str) -> Answer:
        data = urlencode(fields, doseq=True).encode()
        return self.ask("POST", path, data, {"Content-Type": "application/x-www-form-urlencoded", **headers})

    def sign_in(self, name: str, password: str = PASSWORD) -> Answer:
        """Through the real form, as a browser would."""
        page = self.get("/signin")
        return self.form("/signin", {"csrf": hidden(page.text), "name": name, "password": password, "next": "/"})

    def submit(self, bundle: bytes, run: str | None = None) -> Answer:
        """A bundle in one piece."""
        digest = hashlib.sha256(bundle).hexdigest()
        begun = self.json("POST", "/api/v1/uploads", {"sha256": digest, "size_bytes": len(bundle)})
        if begun.status >= 300:
            return begun
        place = f"/api/v1/uploads/{begun.json()['upload_id']}"
        if begun.json()["state"] == "open":
            offset = begun.json()["received_bytes"]
            if offset < len(bundle):
                sent = self.ask("PATCH", place, bundle[offset:], {"Upload-Offset": str(offset)})
                if sent.status >= 300:
                    return sent
        return self.json("POST", f"{place}/finish", {"run": run})

    def push(self, bundle: bytes, run: str | None = None) -> Answer:
        """A bundle by one request."""
        place = "/api/v1/bundles" + (f"?{urlencode({'run': run})}" if run else "")
        return self.ask("POST", place, bundle, {"Content-Type": "application/octet-stream"})


def hidden(text: str, name: str = "csrf") -> str:
    """The value of a form's hidden field."""
    marks = text.split(f'name="{name}"')
    assert len(marks) > 1, f"no field {name}"
    return marks[1].split('value="')[1].split('"')[0]


@dataclass
class World:
    """A server with everybody in it."""

    server: Server
    team: Team
    other: Team
    tokens: dict[str, str]
    results: list[Result]
    drawn: list[str]
    """Ids of results with samples: their pages have plots."""
    analyses: dict[str, str] = field(default_factory=dict)
    """Ids of experiments, tunings and fleet runs."""
    port: int = 0

    def calm(self) -> None:
        """Forget who tried to sign in how often."""
        self.server.sign_ins = SignInLimits()
        self.server.password_changes = Limiter(SIGN_INS_PER_MIN / 60, SIGN_INS_PER_MIN)

    def caller(self, role: str | None = None) -> Caller:
        return Caller(self.port, self.tokens[role] if role else None)

    def shown(self, path: str, *words: str) -> str:
        """A page that somebody may have read before the log grew, once it holds these words: it may be shown as it was
        while it is made again, and no longer than a page may be wrong."""
        until = time.monotonic() + STALE_S
        while True:
            late, page = time.monotonic() > until, self.caller("reader").get(path).text
            lacking = [word for word in words if word not in page]
            if not lacking:
                return page
            assert not late, f"{path} lacks {lacking}"
            time.sleep(0.1)


def fill(ledger: OpenLedger, key: SigningKey, shapes: tuple[str, ...]) -> tuple[list[Result], list[str]]:
    """A series with a step, and golden cases with their samples and telemetry."""
    results = [made_result(number) for number in range(14)]
    results += [made_result(14 + n, 88.0, changes={"framework.torch": "2.6.0"}) for n in range(12)]
    results = [record(ledger, one, key) for one in results]
    drawn = []
    for shape in shapes:
        case = SHAPES[shape]()
        result = case.result.model_copy(update={"run_id": f"golden-{shape}"})
        drawn.append(record(ledger, result, key, case.processes, case.telemetry).result_id)
    return results, drawn


@dataclass(frozen=True)
class Filled:
    """A folder with teams, a ledger and a server's users; every world of its kind begins as a copy of it."""

    folder: Path
    tokens: dict[str, str]
    results: list[Result]
    drawn: list[str]
    analyses: dict[str, str]


@cache
def filled(shapes: tuple[str, ...], decisions: bool) -> Filled:
    """Made once in a process: signing, recording and hashing passwords take seconds, copying takes none."""
    folder = Path(tempfile.mkdtemp(prefix="lynxbench-filled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    team, other, host = (make_team(name, folder) for name in (TEAM, OTHER, HOST))
    for friend in (team, other):
        card = friend.keyring.keys.card(friend.name)
        host.keyring.change_trust(lambda trust, card=card: trust.adding(card, datetime.fromisoformat(card.made_at)))
    with open_ledger(host.location, host.environment, create=True, example=True) as ledger:
        results, drawn = fill(ledger, team.key, shapes)
        doubt = ResultContested(result_id=results[3].result_id, reason="the inlet air was 9 K warmer that night")
        ledger.log.append(seal(doubt, other.key))
        fleet = [record(ledger, one, team.key) for one in fleet_results()]
        analyses = plant(ledger, team.key, folder / "planted", results, fleet)
        if decisions:
            demonstrate(ledger, host.key, host.keyring.trust, folder, pdf=False)
    server = opened(folder, host)
    tokens = {}
    for role, scopes in ROLES.items():
        server.access.add_user(role, TEAM, scopes, PASSWORD)
        tokens[role] = server.access.make_token(role, "test", scopes).text
    server.access.add_user(
        "stranger", OTHER, frozenset({AccessScope.READ, AccessScope.SUBMIT, AccessScope.CONTEST}), PASSWORD
    )
    tokens["stranger"] = server.access.make_token("stranger", "test", server.access.user("stranger").scopes).text
    for friend in (team, other):
        card = friend.keyring.keys.card(friend.name)
        server.keys.register(canonical(card.model_dump_json().encode()), "test")
    server.stop()
    return Filled(folder, tokens, results, drawn, analyses)


def opened(folder: Path, host: Team, **settings: Any) -> Server:
    """A server over a host's ledger, with these settings."""
    wanted = {"host": "127.0.0.1", "reads_per_s": 0, "upload_folder": folder / "uploads"}
    wanted["environment"] = {**host.environment}
    return Server(ServerSettings(**{**wanted, **settings}), host.location, store_url(None, host.location))


def make_world(
    folder: Path, *, shapes: tuple[str, ...] = ("software-bound",), decisions: bool = True, **settings: Any
) -> World:
    """Everything but the port; `decisions` are those of the demonstration, which take as long as the rest."""
    made = filled(shapes, decisions)
    shutil.copytree(made.folder, folder, dirs_exist_ok=True)
    team, other, host = (team_in(name, folder) for name in (TEAM, OTHER, HOST))
    server = opened(folder, host, **settings)
    server.changed()
    return World(server, team, other, {**made.tokens}, [*made.results], [*made.drawn], {**made.analyses})


def plant_notice(world: World, name: str, result: Result, **more: str | None) -> None:
    """A regression as the watch writes it down, of this result."""
    row = {
        "notice": name,
        "contract_id": result.contract_id,
        "contract_name": result.contract.name,
        "place": f"machine {name}",
        "precision": "fp32",
        "baseline_id": world.results[0].result_id,
        "result_id": result.result_id,
        "owner": "platform SRE",
        "low": 0.7,
        "estimate": 0.8,
        "high": 0.9,
        "sentence": "",
        "opened_at": now_text(),
        "open_key": name,
    }
    world.server.store.change(insert(notices).values(row | more))


def trust_all(world: World, puller: Team) -> None:
    """Take over every key that the server knows, and the server's own."""
    found = world.caller("reader").get("/api/v1/keys").json()
    for text in [found["server"], *(one["card"] for one in found["keys"])]:
        card = KeyCard.model_validate_json(json.dumps(text))
        if puller.keyring.trust.find(card.keyid) is None:
            at = datetime.fromisoformat(card.made_at)
            puller.keyring.change_trust(lambda trust, card=card, at=at: trust.adding(card, at))


@contextmanager
def hosted(world: World, *, looking: bool = False) -> Iterator[World]:
    """The same, listening on a port of this machine."""
    config = configured(make_app(world.server, looking=looking), world.server.settings, grace_s=1)
    config.port = 0
    runner = uvicorn.Server(config)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    until = time.monotonic() + 300
    while not runner.started and time.monotonic() < until:
        time.sleep(0.01)
    assert runner.started, "the server did not start"
    world.port = runner.servers[0].sockets[0].getsockname()[1]
    try:
        yield world
    finally:
        runner.should_exit = True
        thread.join(timeout=300)
