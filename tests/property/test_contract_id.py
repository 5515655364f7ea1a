"""A contract's id is its meaning: order, comments and spelling do not change it, any other meaning does."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lynxbench.contract.diff import compare_contracts
from lynxbench.contract.loader import parse_contract
from lynxbench.contract.writer import Explained, Marked, render_contract, render_scalar
from lynxbench.model.contract import Contract
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

COMMON = settings(max_examples=60, deadline=None)
words = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FFFF, exclude_categories=("Cs", "Cc", "Zl", "Zp")),
    min_size=1,
    max_size=40,
).filter(lambda text: text.strip() != "")
names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,12}", fullmatch=True)
counts = st.integers(1, 1_000_000)
thousandths = st.integers(1, 10_000_000)
"""Milliseconds, so that each duration has exact spellings in several units."""


@st.composite
def lengths(draw: st.DrawFn) -> dict[str, Any]:
    low, high = sorted((draw(counts), draw(counts)))
    return draw(
        st.sampled_from(
            [
                {"distribution": "fixed", "value": low},
                {"distribution": "uniform", "low": low, "high": high},
                {"distribution": "lognormal", "median": low, "sigma": 0.5, "low": low, "high": high},
                {"distribution": "empirical", "values": [low, high]},
            ]
        )
    )


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    window, more, extra = draw(st.integers(1, 5000)), draw(thousandths), draw(thousandths)
    precisions = draw(st.lists(st.sampled_from([p.value for p in Precision]), min_size=1, unique=True))
    return {
        "lynxbench": 1,
        "name": draw(names),
        "question": draw(words),
        "regime": draw(st.sampled_from(["latency", "throughput", "cost"])),
        "agreed": [{"team": team} for team in draw(st.lists(words, max_size=3))],
        "workload": {
            "task": "generate",
            "model": {"source": "hub", "id": draw(words)},
            "precisions": precisions,
            "batch": draw(counts),
            "input_tokens": draw(lengths()),
            "output_tokens": draw(lengths()),
            "seed": draw(st.integers(0, 2**32 - 1)),
        },
        "engine": {"name": "torch", "graph": draw(st.sampled_from(["eager", "compile"]))},
        "protocol": {
            "restarts": draw(st.integers(1, 1000)),
            "steady": {"drift": f"{draw(st.integers(1, 20))} %", "window": f"{window} ms"},
            "min_duration": f"{window * 4 + more} ms",
            "limit": f"{window * 4 + more + extra} ms",
        },
        "owners": draw(st.dictionaries(st.sampled_from([layer.value for layer in Layer]), words)),
    }


def contract_of(document: dict[str, Any]) -> Contract:
    return Contract.model_validate_json(json.dumps(document))


def write(value: Any, random: Any, indent: int = 0) -> str:
    """YAML text of a document in one of its many spellings: shuffled keys, comments, blank lines, flow or block."""
    pad = " " * indent
    keys = list(value)
    random.shuffle(keys)
    lines = []
    for key in keys:
        item = value[key]
        if random.random() < 0.3:
            lines.append(f"{pad}# {random.choice(['why', 'a: b', '- x', '[', 'ünï'])}")
        if isinstance(item, dict) and item and random.random() < 0.7:
            lines += [f"{pad}{key}:", write(item, random, indent + random.choice([1, 2, 4]))]
        else:
            lines.append(f"{pad}{key}: {flow(item, random)}" + random.choice(["", "  # said", "\n"]))
    return "\n".join(lines)


def flow(value: Any, random: Any) -> str:
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return "{" + ", ".join(f"{key}: {flow(value[key], random)}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item, random) for item in value) + "]"
    if isinstance(value, str) and value.endswith(" ms"):
        number = int(value.removesuffix(" ms"))
        spellings = [value, f"{number}ms", f"{number / 1000!r} s", f"{number}000 us", f'"{number / 60000!r} min"']
        return str(random.choice(spellings))
    if isinstance(value, str):
        return '"' + render_scalar(f"{value}:").removeprefix('"').removesuffix('"').removesuffix(":") + '"'
    return json.dumps(value)


@COMMON
@given(documents(), st.randoms(use_true_random=False))
def test_order_comments_and_spelling_do_not_change_the_id(document: dict[str, Any], random: Any) -> None:
    expected = contract_of(document)
    written = parse_contract(write(document, random))
    assert written.contract_id == expected.contract_id
    assert written == expected


@COMMON
@given(documents())
def test_the_canonical_form_is_a_fixed_point(document: dict[str, Any]) -> None:
    contract = contract_of(document)
    again = contract_of(contract.canonical())
    assert again == contract
    assert again.contract_id == contract.contract_id


@COMMON
@given(documents())
def test_what_is_shown_reads_back_as_the_same_contract(document: dict[str, Any]) -> None:
    contract = contract_of(document)
    assert parse_contract(render_contract(contract, Marked())) == contract
    assert parse_contract(render_contract(contract, Explained())) == contract


@COMMON
@given(documents(), documents())
def test_equal_ids_and_equal_meaning_are_the_same_thing(one: dict[str, Any], two: dict[str, Any]) -> None:
    left, right = contract_of(one), contract_of(two)
    comparison = compare_contracts(left, right)
    assert (left.contract_id == right.contract_id) == (left == right) == (comparison.differences == ())
    assert comparison.verdict == compare_contracts(right, left).verdict


@COMMON
@given(documents(), documents(), st.data())
def test_a_change_of_any_one_value_changes_the_id(
    document: dict[str, Any], donor: dict[str, Any], data: st.DataObject
) -> None:
    section = data.draw(
        st.sampled_from(["name", "question", "regime", "agreed", "workload", "engine", "protocol", "owners"])
    )
    changed = dict(document)
    if section in ("workload", "protocol"):
        keys = sorted(document[section]) if section == "workload" else ["restarts"]
        key = data.draw(st.sampled_from(keys))
        assume(document[section][key] != donor[section][key])
        changed[section] = {**document[section], key: donor[section][key]}
    else:
        changed[section] = donor[section]
    before, after = contract_of(document), contract_of(changed)
    assume(before.canonical()[section] != after.canonical()[section])
    assert before.contract_id != after.contract_id
    assert all(difference.key.startswith(section) for difference in compare_contracts(before, after).differences)
