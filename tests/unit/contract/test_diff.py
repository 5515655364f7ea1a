"""Which differences break comparability: rules as data, one for every key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lynxbench.contract.diff import RULES, compare_contracts, rule_of
from lynxbench.contract.loader import parse_contract
from lynxbench.contract.schema import contract_schema
from lynxbench.model.contract import Contract
from lynxbench.model.file_problems import resolved

SOUND = (Path(__file__).parents[2] / "data" / "contracts" / "sound.yaml").read_text(encoding="utf-8")
BOUNDED = "optimisation: {division: bounded, trials: 3, knobs: {threads: [1, 2]}}\n"


def changed(old: str, new: str, text: str = SOUND) -> Contract:
    assert text.count(old) == 1
    return parse_contract(text.replace(old, new))


def test_a_contract_and_another_spelling_of_it_are_the_same() -> None:
    comparison = compare_contracts(parse_contract(SOUND), changed("limit: 90 s", "limit: 1.5 min  # a comment"))
    assert comparison.verdict == "comparable"
    assert comparison.differences == ()
    assert comparison.before_id == comparison.after_id


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("batch: 1", "batch: 2", "workload.batch"),
        ("batch: 1", "seed: 3", "workload.seed"),
        ("value: 32", "value: 33", "workload.input_tokens.value"),
        ("{distribution: fixed, value: 32}", "{distribution: uniform, low: 1, high: 9}", "workload.input_tokens"),
        ("name: smollm2-135m-instruct", "name: other", "workload.model.name"),
        ("batch: 1", "arrival: {process: poisson, rate: 3 /s}", "workload.arrival"),
        ("[fp32, int8]", "[bf16]", "workload.precisions"),
        ("[fp32, int8]", "[bf16, int8]", "workload.precisions"),
        ("drift: 1 %", "drift: 2 %", "protocol.steady.drift"),
        ("window: 1 s", "window: 2 s", "protocol.steady.window"),
        ("min_duration: 60 s", "min_duration: 30 s", "protocol.min_duration"),
        ("restarts: 5", "foreign_load: 20 %", "protocol.foreign_load"),
        ("owners:", f"{BOUNDED}owners:", "optimisation.division"),
    ],
)
def test_other_work_other_time_or_other_tuning_breaks(old: str, new: str, key: str) -> None:
    comparison = compare_contracts(parse_contract(SOUND), changed(old, new))
    broken = {d.key for d in comparison.differences if d.breaks}
    assert key in broken
    assert comparison.verdict == "incomparable"
    assert all(d.reason and d.effect == "breaks comparability" for d in comparison.differences if d.breaks)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("name: sound", "name: renamed", "name"),
        ("Is every line right?", "Why?", "question"),
        ("regime: throughput", "regime: latency", "regime"),
        ("team: ML platform", "team: search", "agreed"),
        ("restarts: 5", "restarts: 3", "protocol.restarts"),
        ("limit: 90 s", "limit: 5 min", "protocol.limit"),
        ("restarts: 5", "confidence: 99 %", "protocol.confidence"),
        ("restarts: 5", "emulated_limit: 1 s", "protocol.emulated_limit"),
        ("  name: torch", "  name: torch\n  graph: compile", "engine.graph"),
        ("  name: torch", "  name: onnx", "engine"),
        ("runtime: ML platform", "runtime: kernels", "owners.runtime"),
        ("regression: 3 %", "regression: 5 %", "policy.regression"),
        ("percentile: 95", "percentile: 99", "objective.slo"),
        ("[fp32, int8]", "[fp32, bf16, int8]", "workload.precisions"),
        ("[fp32, int8]", "[int8, fp32]", "workload.precisions"),
    ],
)
def test_who_is_told_how_it_is_judged_and_which_stack_runs_it_do_not(old: str, new: str, key: str) -> None:
    comparison = compare_contracts(parse_contract(SOUND), changed(old, new))
    assert [d.key for d in comparison.differences] == [key]
    assert comparison.verdict == "comparable with differences"
    assert comparison.differences[0].effect == "does not"
    assert comparison.differences[0].reason


@pytest.mark.parametrize(("old", "new"), [("regime: throughput", "regime: cost"), ("percentile: 95", "percentile: 99")])
def test_what_a_tuner_aims_at_breaks_where_tuning_is_allowed(old: str, new: str) -> None:
    tuned = SOUND + BOUNDED
    comparison = compare_contracts(parse_contract(tuned), changed(old, new, tuned))
    assert [d.breaks for d in comparison.differences] == [True]
    assert "tuner" in comparison.differences[0].reason


def test_the_verdict_does_not_depend_on_the_order() -> None:
    one, two = parse_contract(SOUND), changed("[fp32, int8]", "[fp32, tf32]")
    assert compare_contracts(one, two).verdict == compare_contracts(two, one).verdict


def test_the_reason_names_the_references_that_differ() -> None:
    comparison = compare_contracts(parse_contract(SOUND), changed("[fp32, int8]", "[bf16, int8]"))
    assert comparison.differences[0].reason == "accuracy is held against fp32 in one and bf16 in the other"


def test_every_key_of_a_contract_has_a_rule_and_every_rule_a_key() -> None:
    keys = set(_keys(contract_schema(), "")) - {"workload", "protocol"}  # both sides always have these two
    for key in keys:
        assert rule_of(key).reason
    assert set(RULES) <= keys
    with pytest.raises(KeyError):
        rule_of("nothing")


def _keys(schema: dict[str, Any], path: str) -> Iterator[str]:
    inner = resolved(schema, contract_schema()["$defs"])
    for option in inner.get("oneOf") or [inner]:
        for key, value in resolved(option, contract_schema()["$defs"]).get("properties", {}).items():
            here = f"{path}.{key}" if path else key
            yield here
            yield from _keys(value, here)
