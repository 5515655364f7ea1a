"""The JSON Schema that editors use says what the loader does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lynxbench.contract.explain import explained_keys
from lynxbench.contract.loader import bundled_names, read_bundled
from lynxbench.contract.schema import contract_schema, render_schema
from lynxbench.model.quantities import parse_duration, parse_ratio


def _objects() -> dict[str, dict[str, Any]]:
    schema = contract_schema()
    return {"Contract": schema, **{n: part for n, part in schema["$defs"].items() if "properties" in part}}


def test_every_key_is_explained_and_nothing_else_is() -> None:
    assert {f"{name}.{key}" for name, part in _objects().items() for key in part["properties"]} == set(explained_keys())


def test_explanations_fit_on_one_line() -> None:
    assert all(0 < len(key.says) <= 100 and key.says.isprintable() for key in explained_keys().values())


def test_every_object_refuses_unknown_keys_and_has_a_description() -> None:
    for name, part in _objects().items():
        assert part["additionalProperties"] is False, name
        assert part["description"], name


def test_defaults_are_written_as_people_write_them() -> None:
    protocol = contract_schema()["$defs"]["Protocol"]["properties"]
    assert parse_duration(protocol["min_duration"]["default"]) == 60
    assert protocol["limit"]["default"] == "600 s"
    assert parse_ratio(protocol["confidence"]["default"]) == 0.95
    assert contract_schema()["$defs"]["Policy"]["properties"]["regression"]["default"] == "0.5 %"


def test_the_text_is_the_value() -> None:
    assert json.loads(render_schema()) == contract_schema()
    assert contract_schema()["$id"] == "urn:lynxbench:contract:1"
    assert contract_schema()["$schema"].endswith("2020-12/schema")


class TestAgainstAnotherValidator:
    """An independent implementation of JSON Schema agrees with the loader."""

    def test_the_schema_is_valid(self) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.Draft202012Validator.check_schema(contract_schema())

    @pytest.mark.parametrize("name", bundled_names())
    def test_bundled_contracts_pass(self, name: str) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        jsonschema.Draft202012Validator(contract_schema()).validate(read_bundled(name).canonical())

    @pytest.mark.parametrize(
        ("key", "value"),
        [("batch", 0), ("precisions", []), ("precisions", ["int4"]), ("unknown", 1), ("input_tokens", {"value": 3})],
    )
    def test_wrong_workloads_fail(self, key: str, value: object) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        document = read_bundled("quickstart").canonical()
        workload = document["workload"]
        assert isinstance(workload, dict)
        workload[key] = value
        assert list(jsonschema.Draft202012Validator(contract_schema()).iter_errors(document))
