"""Whatever the text, the loader answers with a contract or with one line; it never crashes and never hangs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lynxbench.contract.loader import parse_contract, parse_document
from lynxbench.errors import BadFile
from lynxbench.model.contract import Contract

SOUND = (Path(__file__).parents[1] / "data" / "contracts" / "sound.yaml").read_text(encoding="utf-8")
COMMON = settings(max_examples=250, deadline=None)
anything = st.text(st.characters(codec="utf-8"), max_size=60)
MARKS = (
    *("a", "b: ", "- ", "? ", ": ", "[", "]", "{", "}", ", ", "\n", "  ", "\t", "&x ", "*x", "!t ", "!!str "),
    *("|\n", ">-\n", "'", '"', "#", "%YAML 1.2\n", "%TAG ! x\n", "---\n", "...\n", "<<: ", "\\x", "\\u12"),
    *("1", "1e999", "~", "@", "`", "\ufeff"),
)
yaml_like = st.lists(st.sampled_from(MARKS), max_size=30).map("".join)


def answer(text: str) -> str | Contract:
    try:
        return parse_contract(text, "fuzz.yaml")
    except BadFile as error:
        line = str(error)
        assert line.startswith("fuzz.yaml:")
        assert len(line.splitlines()) == 1
        assert line.isprintable()
        assert len(line) < 500
        return line


@COMMON
@given(anything)
@example('a: "\\U00FFFFFF"')
@example("%YAML 9.9\n---\na: 1")
@example("%TAG\n---\na: 1")
@example("!<")
@example("&")
@example("\x85a: 1")
def test_any_text(text: str) -> None:
    assert isinstance(answer(text), str)


@COMMON
@given(yaml_like)
@example("? &x\n: *x")
@example("*x : 1")
@example("&x *x")
@example("? - a\n: b")
def test_any_arrangement_of_yaml_marks(text: str) -> None:
    assert isinstance(answer(text), str)


@COMMON
@given(st.integers(0, len(SOUND)), st.integers(0, 12), st.one_of(anything, yaml_like))
def test_any_damage_to_a_sound_contract(at: int, cut: int, more: str) -> None:
    assert answer(SOUND[:at] + more + SOUND[at + cut :])


@COMMON
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | anything,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["contract", "name", "workload", "\x1b"]), inner)
        ),
        max_leaves=8,
    )
)
def test_any_stored_document(value: object) -> None:
    with pytest.raises(BadFile) as caught:
        parse_document(json.dumps({"contract": value}), "stored.json")
    assert str(caught.value).isprintable()
