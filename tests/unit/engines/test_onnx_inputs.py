"""What a model's inputs say of their axes, and what is made for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lynxbench.engines.onnx.onnx_inputs import GraphInput, axis_kinds, make_feed
from lynxbench.errors import CannotRun


@pytest.mark.parametrize(
    ("axes", "kind", "expected"),
    [
        (("batch_size", "sequence_length"), "tensor(int64)", ("batch", "sequence")),
        ((None, None), "tensor(int64)", ("batch", "sequence")),
        ((None, 3, None, None), "tensor(float)", ("batch", 3, "image", "image")),
        (("seq_len",), "tensor(int64)", ("sequence",)),
        ((), "tensor(float)", ()),
        (("unk__12", 7), "tensor(float)", ("batch", 7)),
    ],
)
def test_axes_are_told_by_name_and_place(axes: tuple[Any, ...], kind: str, expected: tuple[Any, ...]) -> None:
    assert axis_kinds(GraphInput("x", kind, axes)) == expected


@pytest.mark.parametrize(
    ("name", "kind", "axes", "said"),
    [
        ("past_key_values.0.key", "tensor(float)", ("batch", 3, "past_sequence_length", 64), "runs no decoders"),
        ("x", "tensor(float)", ("batch", "features"), r"axis 1 \(features\) has no size"),
        ("x", "tensor(string)", ("batch", None), r"is tensor\(string\)"),
    ],
)
def test_axes_and_types_that_say_nothing_are_refused(name: str, kind: str, axes: tuple[Any, ...], said: str) -> None:
    with pytest.raises(CannotRun, match=said):
        make_feed([GraphInput(name, kind, axes)], 1, 4, {}, np.random.default_rng(0))


def test_made_values_by_type() -> None:
    kinds = ["float", "float16", "double", "int8", "uint8", "int32", "bool"]
    signatures = [GraphInput(f"x_{k}", f"tensor({k})", ("batch", 6)) for k in kinds]
    signatures += [
        GraphInput("token_type_ids", "tensor(int64)", ("batch", "sequence")),
        GraphInput("position_ids", "tensor(int64)", ("batch", "sequence")),
        GraphInput("float_mask", "tensor(float)", ("batch", "sequence")),
    ]
    feed = make_feed(signatures, 3, 5, {"token_type_ids": 2}, np.random.default_rng(1))
    assert all(feed[f"x_{k}"].any() for k in kinds)
    assert set(np.unique(feed["token_type_ids"])) <= {0, 1}
    np.testing.assert_array_equal(feed["position_ids"][2], np.arange(5))
    assert (feed["float_mask"] == 1).all()
