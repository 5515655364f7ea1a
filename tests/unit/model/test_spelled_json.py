"""One reading of a text and its canonical bytes: the same as two, or none at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.model import canonical, spelled_json
from lynxbench.model.canonical import EXACT_INTEGER, NotQuick, canonical_bytes, strict_canonical_bytes
from lynxbench.model.spelled_json import SpelledJson, parse_spelled
from lynxbench.model.strict_json import DEEPEST, NotStrictJson, parse_strict_json, refuse_depth

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(1e-5, 1e17),
    st.sampled_from([0.0, -0.0, 1.0, 1e16, 1e-4, 9.999e-5, 123456.0, float(EXACT_INTEGER), float(2**53), 5e-324]),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 0, 1]), st.booleans())
def test_a_text_is_read_as_the_strict_reader_reads_it_or_not_at_all(
    value: Any, indent: int | None, ascii_alone: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_alone)
    try:
        written = parse_spelled(text.encode()).canonical_bytes()
    except NotQuick:
        return
    assert written == rfc8785.dumps(parse_strict_json(text))  # type: ignore[arg-type]


def long(text: str) -> bytes:
    """The same inside a text that is long enough for the quicker reader."""
    return f'[{text}, "{"x" * canonical.LONG_TEXT}"]'.encode()


def by_json(data: bytes) -> SpelledJson:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spelled_json, "LONG_TEXT", len(data) + 1)
        return parse_spelled(data)


@given(VALUES, st.sampled_from([None, 0, 1]))
def test_a_long_text_is_read_as_a_short_one(value: Any, indent: int | None) -> None:
    data = long(json.dumps(value, indent=indent, ensure_ascii=False))
    try:
        written = parse_spelled(data).canonical_bytes()
    except NotQuick:
        with pytest.raises(NotQuick):
            by_json(data)
        return
    assert written == by_json(data).canonical_bytes() == rfc8785.dumps(parse_strict_json(data.decode()))  # type: ignore[arg-type]


@given(st.text(st.sampled_from('{}[]",:\\ab01.eE+- \n\t'), max_size=14))
def test_a_long_text_of_any_signs_is_read_as_a_short_one_or_not_at_all(text: str) -> None:
    data = long(text)
    try:
        written = parse_spelled(data).canonical_bytes()
    except NotQuick:
        return
    assert written == by_json(data).canonical_bytes()


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.decimals(allow_nan=False, allow_infinity=False)))
def test_fractions_of_a_long_text_are_rounded_alike(number: Any) -> None:
    data = long(str(number))
    try:
        written = parse_spelled(data).canonical_bytes()
    except NotQuick:
        return
    assert written == by_json(data).canonical_bytes()


@pytest.mark.parametrize(
    "text", ['{"a": ":b"}', '{"a\\\\": 1}', '{"a": "b\\":"}', '{"a": "\\\\\\":"}', '"a : b"', '{":": ":"}']
)
def test_what_looks_like_a_key_is_none(text: str) -> None:
    data = long(text)
    assert spelled_json._parse_long(data) is None or ":b" not in text
    assert parse_spelled(data).value == by_json(data).value == json.loads(data)


def test_the_quicker_reader_reads_usual_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelled_json.json, "loads", None)
    value = {"a": [1, 2.5, 1e-9, "× wide", None, True, {"b": 1.0, "a": -0.0}], "b": "x" * canonical.LONG_TEXT}
    assert parse_spelled(json.dumps(value, indent=1, ensure_ascii=False).encode()).canonical_bytes() == rfc8785.dumps(
        value
    )  # type: ignore[arg-type]


@given(st.dictionaries(st.sampled_from(["a", "b", "result_id", "é"]), VALUES, max_size=4))
def test_a_key_is_left_out_as_if_it_had_not_been_there(value: dict[str, Any]) -> None:
    try:
        written = parse_spelled(json.dumps(value, ensure_ascii=False).encode()).canonical_without("result_id")
    except NotQuick:
        return
    value.pop("result_id", None)
    assert written == rfc8785.dumps(value)


def test_a_usual_document_is_read_quickly() -> None:
    text = '{"é": [1, 2.5, 1e-9, "× wide", null, true, {"b": 1.0, "a": -0.0}], "a": 9007199254740991}'
    with pytest.raises(NotQuick):  # whether keys are in order is not seen at a glance
        parse_spelled(text.encode())
    found = parse_spelled(text.replace("é", "e").encode())
    assert (
        found.canonical_bytes() == '{"a":9007199254740991,"e":[1,2.5,1e-9,"× wide",null,true,{"a":0,"b":1}]}'.encode()
    )


@pytest.mark.parametrize(
    "text",
    [
        *('{"a": 1, "a": 1}', '{"a": {"b": 1, "b": 2}}', '[{"a": 1}, {"b": 2, "b": 2}]', "NaN", "[-Infinity]", "1e999"),
        *(
            '"\\ud800"',
            '{"\\u0061": 1, "a": 2}',
            '"\\u00001"',
            str(2**53),
            str(-(2**53)),
            "9" * 5000,
            "",
            "[1",
            "[1] 2",
        ),
        *("[" * 300 + "]" * 300, "[" * 100_000, "[" * DEEPEST + "1" + "]" * DEEPEST),
    ],
)
def test_what_is_in_doubt_is_left_to_those_who_say_why(text: str) -> None:
    with pytest.raises(NotQuick):
        parse_spelled(text.encode())
    with pytest.raises(NotQuick):
        parse_spelled(long(text))


@pytest.mark.parametrize("data", [b"\xff", b'"\xed\xa0\x80"', b"\xef\xbb\xbf{}"])
def test_bytes_that_are_no_text_are_left_to_them_too(data: bytes) -> None:
    with pytest.raises(NotQuick):
        parse_spelled(data)


@pytest.mark.parametrize("data", [b"\xff", b"\xed\xa0\x80", b"\x01", b"\n"])
def test_nor_are_they_text_in_a_long_one(data: bytes) -> None:
    with pytest.raises(NotQuick):
        parse_spelled(long("1").replace(b"x", data, 1))
    with pytest.raises(NotQuick):
        parse_spelled(b"\xef\xbb\xbf" + long("1"))


def test_no_object_has_no_key_to_leave_out() -> None:
    with pytest.raises(NotQuick):
        parse_spelled(b"[1]").canonical_without("result_id")


@given(VALUES)
def test_both_encoders_write_the_same_bytes(value: Any) -> None:
    spelled: list[str] = []
    try:
        quick = canonical._quickly(value, spelled)
    except NotQuick:
        return
    assert canonical._quick.encode(quick).encode("utf-8") == canonical._quicker()(quick)


def test_both_encoders_write_every_character_alike() -> None:
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x11000), 0x1F600, 0x10FFFF)))
    assert canonical._quick.encode(every).encode("utf-8") == canonical._quicker()(every)


def test_a_long_text_is_followed_by_the_quicker_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(canonical, "_seen_long", seen)
    value = {"b": ["é" * canonical.LONG_TEXT, 0.1], "a": 1e-7}
    first = canonical_bytes(value)
    assert len(seen) == 1
    assert first == strict_canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("inside", ["", "1", "{}", "[]", '{"a": 1}'])
@pytest.mark.parametrize("levels", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1])
def test_depth_is_what_lies_in_what(inside: str, levels: int) -> None:
    value = json.loads("[" * levels + inside + "]" * levels)
    lies, level = 0, [value]
    while level := [item for holder in level if isinstance(holder, (dict, list)) for item in _items(holder)]:
        lies += 1
    if lies < DEEPEST:
        refuse_depth(value)
    else:
        with pytest.raises(NotStrictJson, match="deep"):
            refuse_depth(value)


def _items(holder: Any) -> list[Any]:
    return list(holder.values() if isinstance(holder, dict) else holder)
