"""The API against its own description, and the same documents as the command line; bundles resumed, pushed, pulled."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import jsonschema
import pytest
import schemathesis
from fastapi.routing import APIRoute
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import from_schema
from schemathesis.engine.events import FatalError, NonFatalError, ScenarioFinished

from command_line import lynxbench_here
from hosted import Caller, World, hosted, make_world, trust_all
from lynxbench.model.canonical import short
from lynxbench.server.app import make_app
from lynxbench.server.limits import Limiter
from lynxbench.server.rights import API
from recording_teams import made_result, make_team

CHECKS = ("not_a_server_error", "response_schema_conformance", "content_type_conformance", "status_code_conformance")
DEPLOY = Path(__file__).parents[2] / "deploy"
EXAMPLES = 24
"""Fuzzed requests an operation, besides examples and some 1,600 requests of the coverage phase: 40 s on two cores."""


@pytest.fixture(scope="module")
def description(world: World) -> dict:  # type: ignore[type-arg]
    found = world.caller("reader").get(f"{API}/openapi.json")
    assert found.status == 200
    document: dict = found.json()  # type: ignore[type-arg]
    return document


@pytest.fixture
def handed_over(tmp_path: Path) -> Iterator[World]:
    """A server of its own: whoever reads the description finds its keys and users, and takes them away."""
    with hosted(make_world(tmp_path)) as made:
        yield made


def test_every_operation_survives_whatever_is_sent(handed_over: World, description: dict) -> None:  # type: ignore[type-arg]
    """schemathesis makes requests from the OpenAPI document, right and wrong ones; none may end in a 5xx, and what is
    answered has the form that the document declares."""
    world = handed_over
    for limiter in ("reads", "submissions", "password_changes", "wrong_tokens", "failed_returns"):
        assert hasattr(world.server, limiter)
        setattr(world.server, limiter, Limiter(0))  # whoever is told to wait proves nothing
    config = SchemathesisConfig.from_dict(
        {
            "seed": 20261115,
            "base-url": f"http://127.0.0.1:{world.port}",
            "headers": {"Authorization": f"Bearer {world.tokens['administrator']}"},
            "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
            "generation": {"max-examples": EXAMPLES, "database": "none", "mode": "all", "no-shrink": True},
            "phases": {"stateful": {"enabled": False}},
            "continue-on-failure": True,
            "request-timeout": 30,
        }
    )
    schema = schemathesis.openapi.from_dict(with_examples(world, description), config=config)
    asked: Counter[str] = Counter()
    answered: Counter[int] = Counter()
    broken = []
    # the stream of a run never ends by itself; it has its own test
    for event in from_schema(schema.exclude(path=f"{API}/runs/{{run}}/events")).execute():
        assert not isinstance(event, (NonFatalError, FatalError)), event
        if not isinstance(event, ScenarioFinished):
            continue
        for checks in event.recorder.checks.values():
            broken += [
                (event.label, check.name, str(check.failure_info)[:600]) for check in checks if check.failure_info
            ]
        for one in event.recorder.interactions.values():
            asked[event.phase.value] += 1
            status = one.response.status_code if one.response is not None else 0
            answered[status] += 1
            if status == 0 or status >= 500:
                broken.append((event.label, one.request.method, one.request.uri[:200], status))
    assert broken == []
    assert asked["examples"] >= 10
    assert asked["coverage"] > 1000
    assert asked["fuzzing"] > 1000
    assert answered[200] > 100, "what only refuses proves little"
    assert answered[429] == 0


def with_examples(world: World, description: dict) -> dict:  # type: ignore[type-arg]
    """The description with ids that are there: requests then get past the door."""
    known = {
        "result": world.drawn[0],
        "a": world.results[0].result_id,
        "b": world.results[1].result_id,
        "contract": world.results[0].contract_id,
        "executor": world.results[0].executor_id,
        "analysis": world.analyses["experiment"],
        "seq": 3,
    }
    filled: dict = copy.deepcopy(description)  # type: ignore[type-arg]
    for methods in filled["paths"].values():
        for operation in methods.values():
            for one in operation.get("parameters", []):
                if one["name"] in known:
                    one["example"] = known[one["name"]]
    return filled


def test_the_description_names_every_route_of_the_api(world: World, description: dict) -> None:  # type: ignore[type-arg]
    app = make_app(world.server, looking=False)
    described = {(method.upper(), path) for path, methods in description["paths"].items() for method in methods}
    mine = {(next(iter(route.methods)), route.path) for route in app.routes if isinstance(route, APIRoute)}
    assert described == {one for one in mine if one[1].startswith(API)} - {("GET", f"{API}/openapi.json")}
    assert app.openapi() == description


def operations(description: dict) -> Iterator[tuple[str, str, dict]]:  # type: ignore[type-arg]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def is_named(schema: dict, description: dict) -> bool:  # type: ignore[type-arg]
    """Whether a schema is an object whose every key has a name and a form, or one of several such."""
    if "anyOf" in schema:
        return all(is_named(one, description) for one in schema["anyOf"])
    name = schema.get("$ref", "").removeprefix("#/components/schemas/")
    found = description["components"]["schemas"].get(name, {})
    closed = found.get("additionalProperties", False) is False
    return found.get("type") == "object" and closed and all(found.get("properties", {}).values())


def test_every_answer_has_a_form_in_the_description(description: dict) -> None:  # type: ignore[type-arg]
    untyped = []
    for method, path, operation in operations(description):
        assert any(code.startswith("2") for code in operation["responses"]), path
        for code, response in operation["responses"].items():
            assert response.get("content"), (method, path, code)
            for media, content in response["content"].items():
                schema = content.get("schema", {})
                fits = is_named(schema, description) if media == "application/json" else schema.get("type") == "string"
                if not fits:
                    untyped.append((method, path, code, media))
    assert untyped == []


def closed(schema: object) -> object:
    """A schema in which no object may hold what it does not name."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


def test_what_is_answered_has_the_form_that_is_declared(world: World, description: dict) -> None:  # type: ignore[type-arg]
    """Every document that can be read, held against the description as whoever generates a client from it would."""
    world.server.contacts.put("ops", "mail", "ops@example.org")
    world.server.scheduler.put("described", world.team.name, "every 1 s", world.results[0].contract, "test")
    time.sleep(1.1)
    claimed = world.caller("submitter").json("POST", f"{API}/agents/described/poll", {}).json()
    whole = closed(with_examples(world, description))
    assert isinstance(whole, dict)
    asked: dict[str, str] = {"run": claimed["run"]["run"]}
    analyses = list(world.analyses.values())
    administrator = world.caller("administrator")
    seen = []
    for method, path, operation in operations(whole):
        content = operation["responses"].get("200", {}).get("content", {})
        if method != "GET" or "application/json" not in content or "{upload}" in path:
            continue
        given = {one["name"]: one.get("example", asked.get(one["name"])) for one in operation.get("parameters", [])}
        for analysis in analyses if "analysis" in given else [None]:
            address = path.format(**{**given, **({"analysis": analysis} if analysis else {})})
            query = {name: value for name, value in given.items() if f"{{{name}}}" not in path and value is not None}
            answer = administrator.get(f"{address}?{urlencode(query)}")
            assert answer.status == 200, (address, answer.text)
            schema = {**content["application/json"]["schema"], "components": whole["components"]}
            jsonschema.Draft202012Validator(schema).validate(answer.json())
            seen.append(path)
    world.server.scheduler.remove("described", world.team.name)
    jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/ClaimedRunAnswer", "components": whole["components"]}
    ).validate(claimed)
    assert len(set(seen)) >= 25


def test_documents_are_those_of_the_command_line(world: World, tmp_path: Path) -> None:
    reader = world.caller("reader")
    a, b = world.results[0].result_id, world.results[-1].result_id
    environment = dict(world.server.settings.environment)

    def command(*arguments: str) -> dict:  # type: ignore[type-arg]
        done = lynxbench_here(*arguments, "--json", cwd=tmp_path, **environment)
        found: dict = json.loads(done.out)  # type: ignore[type-arg]
        return found

    contract = world.results[0].contract_id
    listed = command("results", "list", "--contract", contract, "--limit", "5")["results"]
    found = reader.get(f"{API}/results?contract={contract}&limit=5").json()["results"]
    assert {one.pop("recomputed")["state"] for one in found} == {"pending"}, "the server adds its own word"
    assert found == listed
    compared, here = reader.get(f"{API}/compare?a={a}&b={b}").json(), command("compare", a, b)
    for side in ("a", "b"):  # each names the two as it was told
        compared[side].pop("name"), here[side].pop("name")
    assert compared == here
    assert reader.get(f"{API}/contracts/{contract}/history").json() == command("history", contract)
    shown = reader.get(f"{API}/results/{a}").json()
    assert shown.pop("recomputed")["state"] == "pending"
    assert shown == command("results", "show", a)
    for names in ((a, a), (a, a[:12])):
        refused = lynxbench_here("compare", *names, cwd=tmp_path, **environment)
        assert (refused.code, refused.out) == (2, "")
        assert f"A and B are one and the same result, {short(a)}: held against itself it shows nothing" in refused.err
        there = reader.get(f"{API}/compare?a={names[0]}&b={names[1]}")
        assert there.status == 422
        page = reader.get(f"/compare?a={names[0]}&b={names[1]}")
        assert page.status == 404
        assert all("one and the same result" in one.text for one in (there, page))
    claim = "It is 3x faster."
    linted = world.caller("reader").json("POST", f"{API}/claims", {"text": claim}).json()
    assert {**linted, "source": ""} == {**command("claim", "--text", claim), "source": ""}


def test_an_upload_goes_on_where_it_stopped(world: World) -> None:
    data = world.team.bundle(made_result(200))
    submitter = world.caller("submitter")
    announced = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    upload = submitter.json("POST", f"{API}/uploads", announced).json()
    place = f"{API}/uploads/{upload['upload_id']}"
    half = len(data) // 2
    assert submitter.ask("PATCH", place, data[:half], {"Upload-Offset": "0"}).json()["received_bytes"] == half
    assert submitter.json("POST", f"{place}/finish", {}).status == 409, "half a bundle is none"
    assert submitter.ask("PATCH", place, data[half:], {"Upload-Offset": "7"}).status == 409
    again = submitter.json("POST", f"{API}/uploads", announced).json()
    assert again["upload_id"] == upload["upload_id"]
    assert again["received_bytes"] == half
    assert submitter.ask("PATCH", place, data[half:], {"Upload-Offset": str(half)}).status == 200
    first = submitter.json("POST", f"{place}/finish", {}).json()
    second = submitter.json("POST", f"{place}/finish", {}).json()
    assert first["outcome"]["new"] > 0
    assert first == second


def test_push_and_pull_between_two_machines(world: World, tmp_path: Path) -> None:
    result = made_result(201)
    world.team.bundle(result)  # recorded in the team's own ledger
    address = {"LYNXBENCH_SERVER": f"http://127.0.0.1:{world.port}", "LYNXBENCH_TOKEN": world.tokens["submitter"]}
    pushed = lynxbench_here("push", result.result_id[:12], "--json", cwd=tmp_path, **world.team.environment, **address)
    assert pushed.code == 0, pushed.err
    assert json.loads(pushed.out)["new"] > 0
    again = lynxbench_here("push", result.result_id[:12], "--json", cwd=tmp_path, **world.team.environment, **address)
    assert again.code == 0, again.err
    assert world.caller("reader").get(f"{API}/results/{result.result_id}").status == 200

    puller = make_team("puller", tmp_path)
    reading = {**puller.environment, **address, "LYNXBENCH_TOKEN": world.tokens["reader"]}
    refused = lynxbench_here("pull", result.result_id[:12], cwd=tmp_path, **reading)
    assert refused.code == 5, "whom one does not trust one does not believe"
    trust_all(world, puller)
    pulled = lynxbench_here("pull", result.result_id[:12], cwd=tmp_path, **reading)
    assert pulled.code == 0, pulled.err
    shown = lynxbench_here("results", "show", result.result_id[:12], "--json", cwd=tmp_path, **puller.environment)
    assert json.loads(shown.out)["result"]["result_id"] == result.result_id


def test_a_token_never_leaves_over_plain_http_to_another_machine(tmp_path: Path, world: World) -> None:
    done = lynxbench_here(
        "pull",
        "abcd1234",
        "--server",
        "http://bench.example",
        "--token",
        "lynx_x",
        cwd=tmp_path,
        **world.team.environment,
    )
    assert done.code == 3
    assert "https" in done.err


def test_a_proof_holds_for_whoever_checks_it(world: World) -> None:
    from lynxbench.ledger.merkle import extends, includes

    reader = world.caller("reader")
    found = reader.get(f"{API}/ledger/proofs/5").json()
    path = [bytes.fromhex(step) for step in found["path"]]
    assert includes(bytes.fromhex(found["leaf"]), 5, found["tree_size"], path, bytes.fromhex(found["root_hash"]))
    earlier = reader.get(f"{API}/ledger").json()
    assert world.caller("submitter").submit(world.team.bundle(made_result(202))).status == 200
    later = reader.get(f"{API}/ledger/consistency?earlier={earlier['tree_size']}").json()
    steps = [bytes.fromhex(step) for step in later["path"]]
    old, new = bytes.fromhex(earlier["root_hash"]), bytes.fromhex(later["root_hash"])
    assert extends(earlier["tree_size"], old, later["tree_size"], new, steps)


def test_a_production_log_is_held_against_a_contract(world: World) -> None:
    contract = world.results[0].contract_id
    log = "\n".join(
        json.dumps({"arrival_s": n / 7, "input_tokens": 60 + n % 9, "output_tokens": 10}) for n in range(200)
    )
    submitter = world.caller("submitter")
    answer = submitter.ask("POST", f"{API}/contracts/{contract}/likeness", log.encode(), {"Content-Type": "text/plain"})
    assert answer.status == 201, answer.text
    assert answer.json()["requests"] == 200
    page = world.caller("reader").get(f"/contracts/{contract}").text
    assert "200 requests, held against it by submitter" in page


def test_what_the_server_says_of_itself(world: World) -> None:
    assert Caller(world.port).get("/healthz").text == "ok\n"
    assert Caller(world.port).get("/readyz").text == "ready\n"
    text = world.caller("reader").get("/metrics").text
    assert text.endswith("# EOF\n")
    assert f"lynxbench_ledger_entries {world.server.ledger.log.head().size}" in text
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))


def test_the_dashboard_asks_for_nothing_that_the_server_does_not_say(world: World) -> None:
    text = world.caller("reader").get("/metrics").text
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    endings = {"counter": ("_total",), "histogram": ("_bucket",), "gauge": ("",)}
    offered = {name + ending for name, kind in kinds.items() for ending in endings[kind]}
    labels = {"status", "state", "route", "le", "job"}
    dashboard = json.loads((DEPLOY / "grafana" / "lynxbench-server.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    for expression in asked:
        used = set(re.findall(r"lynxbench_\w+", expression))
        assert used, expression
        assert used <= offered, used - offered
        named = {name.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for name in group.split(",")}
        assert named <= labels, expression
        assert 'job=~"$job"' in expression
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))


def test_a_run_is_streamed_as_events(world: World) -> None:
    scheduler = world.server.scheduler
    scheduler.put("streamed", world.team.name, "every 1 s", world.results[0].contract, "test")
    time.sleep(1.1)
    submitter = world.caller("submitter")
    claimed = submitter.json("POST", f"{API}/agents/streamer/poll", {"version": "x"}).json()
    scheduler.remove("streamed", world.team.name)
    run = claimed["run"]["run"]
    sample = {"at_s": 1.0, "phase": "steady", "label": "fp32", "value": 12.5, "iterations": 12}
    assert submitter.json("POST", f"{API}/runs/{run}/live", {"events": [sample]}).json()["events"] == 1
    text = world.caller("reader").get(f"{API}/runs/{run}/events?follow=false").text
    assert 'event: sample\ndata: {"number": 0, "at_s": 1.0, "phase": "steady"' in text
    ended = submitter.json("POST", f"{API}/runs/{run}/end", {"state": "failed", "said": "no power"})
    assert ended.json()["state"] == "failed"
    assert submitter.json("POST", f"{API}/runs/{run}/live", {"events": [sample]}).status == 409
    answer = world.caller("reader").get(f"{API}/runs/{run}/events", **{"Last-Event-ID": "0"})
    assert "event: end" in answer.text
    assert "event: sample" not in answer.text
