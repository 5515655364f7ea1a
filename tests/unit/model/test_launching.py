from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadFile, BadInput
from lynxbench.model.interventions import ArgumentChange, InterventionScope, parse_intervention
from lynxbench.model.launching import ServerLaunch, options_of, spell_arguments
from served import served_contract

URL = "http://127.0.0.1:8000/v1"


def test_flags_have_a_value_stand_bare_or_are_left_out() -> None:
    arguments = {"max-num-seqs": 64, "enforce-eager": True, "async": False, "dtype": "fp8", "share": 0.9, "v": 2}
    assert spell_arguments(arguments) == [
        *("--dtype", "fp8", "--enforce-eager", "--max-num-seqs", "64", "--share", "0.9", "-v", "2"),
    ]
    assert options_of(["serve", "--port", "8000", "--a=b", "-1", "-t"]) == {"port", "a", "t"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"max-num-seqs": "--trust-remote-code"},
        {"max-num-seqs": "-c"},
        {"--port": 1},
        {"Port": 1},
        {"a": "two\nlines"},
        {"a": ["list"]},
        {"a": None},
    ],
)
def test_a_value_cannot_be_another_argument(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ServerLaunch.model_validate({"server": "llama", "arguments": arguments})


def test_a_negative_number_is_a_value() -> None:
    launch = ServerLaunch.model_validate({"server": "llama", "arguments": {"seed": "-1", "n": -1}})
    assert spell_arguments(launch.arguments) == ["-n", "-1", "--seed", "-1"]


def test_a_contract_without_a_launch_keeps_its_id_and_one_with_it_has_another() -> None:
    plain = parse_contract(served_contract(URL))
    launched = parse_contract(served_contract(URL, engine="serve: {server: tiny}"))
    assert "serve" not in plain.canonical()["engine"]  # type: ignore[operator]
    assert plain.contract_id != launched.contract_id
    assert plain.contract_id == "639696ea4f6249bbe9b6ddb397c882a024f536150a942e848f2c07eec4b841bb"


@pytest.mark.parametrize(
    ("url", "engine", "says"),
    [
        ("http://127.0.0.1:0/v1", "", "no server listens on port 0"),
        (URL, "serve: {server: tiny, arguments: {api-key: abcdefgh}}", "looks like a secret"),
        (URL, "serve: {server: tiny, restart: always}", "not one of client, server"),
        (URL, "serve: {command: [rm]}", "command"),
    ],
)
def test_what_a_contract_may_not_say_of_a_server(url: str, engine: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        parse_contract(served_contract(url, engine=engine))


def test_any_free_port_goes_with_a_server_that_is_started() -> None:
    parse_contract(served_contract("http://127.0.0.1:0/v1", engine="serve: {server: tiny}"))


def test_an_intervention_is_a_scope_or_arguments() -> None:
    assert parse_intervention("all") is InterventionScope.ALL
    key = "engine.serve.arguments."
    named = parse_intervention(f"{key}a-b=256 {key}c=false {key}d=x")
    assert named == ArgumentChange({"a-b": 256, "c": False, "d": "x"})
    for wrong in ("some", "engine.threads=2", "engine.serve.arguments.a", "engine.serve.arguments.=2", "a=1"):
        with pytest.raises(BadInput, match="--intervene"):
            parse_intervention(wrong)
