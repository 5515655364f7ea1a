"""The contract as a value: frozen, strict, its id its meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from lynxbench.model.contract import Contract, Division, Optimisation, PluginEngine, Protocol, TorchEngine
from lynxbench.model.fields import EXACT_INTEGER
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.workload import Task


def document(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "lynxbench": 1,
        "name": "x",
        "question": "Why?",
        "regime": "latency",
        "workload": {
            "task": "embed",
            "model": {"source": "preset", "name": "bert-base"},
            "precisions": ["fp32"],
            "input_tokens": {"distribution": "fixed", "value": 8},
        },
        "engine": {"name": "torch"},
    }
    return {**base, **changes}


def contract(**changes: Any) -> Contract:
    return Contract.model_validate_json(json.dumps(document(**changes)))


def workload(**changes: Any) -> dict[str, Any]:
    return {"workload": {**document()["workload"], **changes}}


def test_defaults_are_those_of_the_method() -> None:
    protocol = contract().protocol
    assert protocol == Protocol()
    assert (protocol.restarts, protocol.steady.drift, protocol.steady.window_s) == (5, 0.01, 1.0)
    assert (protocol.min_duration_s, protocol.limit_s, protocol.confidence) == (60, 600, 0.95)
    assert contract().optimisation.division is Division.NONE
    assert isinstance(contract().engine, TorchEngine)


def test_stating_a_default_does_not_change_the_id() -> None:
    plain = contract()
    stated = contract(
        protocol={"restarts": 5, "steady": {"drift": "1 %"}}, owners={"runtime": DEFAULT_OWNERS[Layer.RUNTIME]}
    )
    assert stated.contract_id == plain.contract_id
    assert stated == plain


def test_the_canonical_form_is_a_contract_of_the_same_id() -> None:
    one = contract(objective={"slo": [{"metric": "latency", "percentile": 99.9, "at_most": "1.5 ms"}]})
    again = Contract.model_validate_json(json.dumps(one.canonical()))
    assert again == one
    assert again.contract_id == one.contract_id


def test_owners_are_complete_and_can_be_renamed() -> None:
    one = contract(owners={"runtime": "kernel team"})
    assert one.owner(Layer.RUNTIME) == "kernel team"
    assert one.owner(Layer.FACILITY) == DEFAULT_OWNERS[Layer.FACILITY]
    assert set(one.owners) == set(Layer)
    assert set(contract().owners) == set(Layer)


def test_the_usual_owners_cannot_be_changed_through_a_contract() -> None:
    before = dict(DEFAULT_OWNERS)
    contract().owners[Layer.RUNTIME] = "somebody"
    assert before == DEFAULT_OWNERS
    assert contract().owner(Layer.RUNTIME) == before[Layer.RUNTIME]


def test_it_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        contract().name = "y"  # type: ignore[misc]


@pytest.mark.parametrize("version", [True, 1.0, "1", 2, None])
def test_only_the_number_one_is_version_one(version: object) -> None:
    with pytest.raises(ValidationError, match="lynxbench"):
        contract(lynxbench=version)
    with pytest.raises(ValidationError, match="version"):
        contract(protocol={"version": version})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (workload(precisions=["fp32", "fp32"]), "twice"),
        (workload(task="generate"), "is missing; task generate needs"),
        (workload(output_tokens={"distribution": "fixed", "value": 3}), "has no effect on task embed"),
        (workload(task="callable"), "has no effect on task callable"),
        (workload(task="callable", input_tokens=None), "the two callables go together"),
        (workload(seed=2**32), "less than or equal"),
        (workload(batch=True), "valid integer"),
        ({"engine": {"name": "callable"}}, "callable cannot run task embed"),
        ({"policy": {"accuracy": {"metric": "perplexity", "largest_loss": "1 %"}}}, "has no perplexity"),
        ({"agreed": [{"team": "x", "date": "2026-13-01"}]}, "not a day of the calendar"),
        ({"question": "\u0007"}, "match pattern"),
        ({"optimisation": {"knobs": {"a": [1]}}}, "none allows no knobs"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        contract(**changes)


def test_refusals_name_the_key_to_look_at() -> None:
    with pytest.raises(ValidationError) as caught:
        contract(objective={"slo": [{"metric": "time-per-token", "percentile": 50, "at_most": "1 s"}]})
    (detail,) = caught.value.errors()
    assert detail["ctx"]["key"] == "objective.slo.0.metric"


def test_knobs_and_options_hold_plain_values_of_any_kind() -> None:
    knobs = Optimisation.model_validate_json(
        '{"division": "bounded", "trials": 2, "knobs": {"a": [1, 2.5, "x", true]}}'
    )
    assert knobs.knobs == {"a": (1, 2.5, "x", True)}
    assert [type(value) for value in knobs.knobs["a"]] == [int, float, str, bool]
    options = {"big": EXACT_INTEGER, "rate": 0.5, "on": False}
    engine = contract(engine={"name": "plugin", "plugin": "mine", "options": options}).engine
    assert isinstance(engine, PluginEngine)
    assert engine.options == options


def test_tasks_without_tokens_may_leave_lengths_out() -> None:
    one = contract(**workload(task="classify", input_tokens=None, model={"source": "preset", "name": "resnet-50"}))
    assert one.workload.task is Task.CLASSIFY
    assert one.workload.input_tokens is None


def test_a_number_beyond_exact_integers_is_held_as_a_float_and_has_an_id() -> None:
    engine = {"name": "plugin", "plugin": "p", "options": {"n": 2**60}}
    assert len(contract(engine=engine).contract_id) == 64
