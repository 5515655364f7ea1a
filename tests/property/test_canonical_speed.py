"""The quick canonical encoder spells every value as the reference implementation of RFC 8785 does."""

from __future__ import annotations

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from lynxbench.model.canonical import JsonValue, canonical_bytes, strict_canonical_bytes

NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1e-4, 9.999e-5, 1e-6, 1e-7, 1e15, 1e16, 1e21, 2.0**53, 2.0**60, 123456.789, 5e-324]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


MARKED = st.lists(st.sampled_from(["\0", '"', "\\", "\\u0000", "1e-7", "5", ":", ",", "x"]), max_size=6).map("".join)
"""Texts that look like what the quick encoder marks odd fractions with."""


@given(
    st.recursive(MARKED | st.just(1e-7) | st.just(3e22), lambda inner: st.lists(inner) | st.dictionaries(MARKED, inner))
)
@example(["\0" + "1e-7", 1e-7])
@example({"\0" + "1e-7": "\0" + "5", "a": 1e-7})
@example(['x"\0' + "5", 1e-7, "\\\0" + "5"])
def test_texts_that_look_like_marked_fractions_stay_texts(value: JsonValue) -> None:
    assert strict_canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(VALUES)
@example(9007199254740992.0)
@example({"a": 0.1, "b": [1, 2.0, -0.0], '\x7f\x1f\n"\\': "é€\U0001f600"})
def test_equals_the_reference(value: JsonValue) -> None:
    assert strict_canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(VALUES)
def test_what_is_not_a_number_is_null_and_nothing_else_changes(value: JsonValue) -> None:
    nan = float("nan")
    assert canonical_bytes(value) == strict_canonical_bytes(value)
    assert canonical_bytes({"a": [nan, value]}) == strict_canonical_bytes({"a": [None, value]})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, -(2**60), {"a": [float("-inf")]}, "\ud800"])
def test_what_has_no_canonical_form_is_refused(value: JsonValue) -> None:
    with pytest.raises((rfc8785.CanonicalizationError, UnicodeEncodeError)):
        strict_canonical_bytes(value)
