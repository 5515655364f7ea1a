"""The reference for accuracy is the highest precision measured."""

from __future__ import annotations

import itertools

import pytest

from lynxbench.model.precision import HIGHEST_FIRST, Precision, reference_of


def test_every_precision_has_its_place_once() -> None:
    assert sorted(HIGHEST_FIRST) == sorted(Precision)


@pytest.mark.parametrize(
    ("precisions", "reference"),
    [
        ((Precision.INT8, Precision.BF16, Precision.FP32), Precision.FP32),
        ((Precision.BF16, Precision.FP16), Precision.FP16),
        ((Precision.INT8, Precision.INT8_WEIGHT_ONLY), Precision.INT8_WEIGHT_ONLY),
        ((Precision.FP8,), Precision.FP8),
        ((Precision.INT4_WEIGHT_ONLY, Precision.FP8, Precision.FP8_WEIGHT_ONLY), Precision.FP8_WEIGHT_ONLY),
    ],
)
def test_the_highest_is_the_reference(precisions: tuple[Precision, ...], reference: Precision) -> None:
    for order in itertools.permutations(precisions):
        assert reference_of(order) is reference
