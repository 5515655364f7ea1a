from __future__ import annotations

import pytest

from lynxbench.attribute.judge.roofline import Ceilings, OperatorWork, attain, is_tiny
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.precision import Precision


def make(*, read: float | None = None, precision: Precision = Precision.FP32) -> Ceilings:
    found = [
        Ceiling(name="matmul", precision=Precision.FP32, per_s=100e9, unit="operations/s", how=""),
        Ceiling(name="matmul", precision=Precision.TF32, per_s=800e9, unit="operations/s", how=""),
        Ceiling(name="copy", precision=None, per_s=20e9, unit="bytes/s", how=""),
    ]
    if read is not None:
        found.append(Ceiling(name="read", precision=None, per_s=read, unit="bytes/s", how=""))
    return Ceilings(tuple(found), precision)


def test_the_slower_side_binds() -> None:
    compute = attain(OperatorWork(1e9, 1e6, 1e6, "float"), make())
    memory = attain(OperatorWork(1e6, 2e8, 2e8, "float"), make())
    assert compute is not None
    assert compute.bound is Category.COMPUTE
    assert compute.ns == pytest.approx(1e7)
    assert memory is not None
    assert memory.bound is Category.MEMORY_BANDWIDTH
    assert memory.ns == pytest.approx(2e7)


def test_reading_alone_is_held_against_the_read_ceiling() -> None:
    product = OperatorWork(2e6, 4e8, 1e3, "float")
    with_read, without = attain(product, make(read=40e9)), attain(product, make())
    assert with_read is not None
    assert without is not None
    assert without.ns == pytest.approx(2 * with_read.ns)


def test_tf32_is_the_executed_precision_of_float_products() -> None:
    work = OperatorWork(1e9, 1e6, 1e6, "float")
    wide, narrow = attain(work, make()), attain(work, make(precision=Precision.TF32))
    assert wide is not None
    assert narrow is not None
    assert wide.ns == pytest.approx(8 * narrow.ns)


def test_a_missing_ceiling_is_said_not_guessed() -> None:
    found = attain(OperatorWork(1e9, 1e3, 1e3, "c10::Half"), make())
    assert found is not None
    assert not found.exact
    assert attain(OperatorWork(1e9, 1e3, 1e3, "float"), Ceilings((), Precision.FP32)) is None


@pytest.mark.parametrize(
    ("took", "best", "tiny"),
    [(20_000, 100, True), (20_000, 15_000, False), (200_000, 100, False), (8_000, None, True), (40_000, None, False)],
)
def test_tiny_operators(took: float, best: float | None, tiny: bool) -> None:
    assert is_tiny(took, best) is tiny
