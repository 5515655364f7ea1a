"""Canonical bytes follow RFC 8785; ids are their SHA-256."""

from __future__ import annotations

import hashlib
import math

import pytest

from lynxbench.model.canonical import SHORT_ID, canonical_bytes, content_id, short


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": 2}, b'{"a":2,"b":1}'),
        ([1.0, 0.1, 1e21, 1e-7], b"[1,0.1,1e+21,1e-7]"),
        ({"\u20ac": "\u00e9", "a": "\n"}, '{"a":"\\n","\u20ac":"\u00e9"}'.encode()),
        ([None, True, False], b"[null,true,false]"),
        ((1, 2), b"[1,2]"),
        (-0.0, b"0"),
    ],
)
def test_canonical_form(value: object, expected: bytes) -> None:
    assert canonical_bytes(value) == expected  # type: ignore[arg-type]


def test_keys_are_sorted_by_utf_16_as_the_rfc_asks() -> None:
    assert canonical_bytes({"\ufb33": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\ufb33":1}'.encode()


def test_numbers_without_a_json_form_become_null() -> None:
    assert canonical_bytes({"a": [math.nan, math.inf, -math.inf]}) == b'{"a":[null,null,null]}'


def test_the_id_is_the_hash_of_the_bytes_and_ignores_key_order() -> None:
    assert content_id({"a": 1, "b": 2}) == hashlib.sha256(b'{"a":1,"b":2}').hexdigest()
    assert content_id({"a": 1, "b": 2}) == content_id({"b": 2, "a": 1})
    assert content_id({"a": 1}) != content_id({"a": 2})


def test_people_see_a_prefix() -> None:
    identifier = content_id({})
    assert identifier.startswith(short(identifier))
    assert len(short(identifier)) == SHORT_ID
