"""Products in full fp32 on a device that multiplies several times faster in TF32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from launched_operators import Launched, dense, launched_steps
from lynxbench.model.attribution import Bound, Ceiling
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision


@pytest.mark.parametrize(
    ("took_ms", "layer"),
    [
        pytest.param(22.0, Layer.FRAMEWORK, id="near its own ceiling"),
        pytest.param(50.0, Layer.FRAMEWORK, id="as a small product runs"),
        pytest.param(160.0, Layer.RUNTIME, id="far below it, for another reason"),
    ],
)
def test_a_format_is_blamed_only_for_products_that_its_ceiling_bounds(
    make_event: Callable[..., dict[str, Any]],
    write_trace: Callable[..., Path],
    ceilings: tuple[Ceiling, ...],
    took_ms: float,
    layer: Layer,
) -> None:
    """2 GFLOP at 100 GFLOP/s, or at 800 in TF32."""
    tf32 = Ceiling(name="matmul", precision=Precision.TF32, per_s=800e9, unit="operations/s", how="declared")
    product: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], took_ms)
    events, step_ms = launched_steps(make_event, [product])
    said, before = (attribute_by(rules, write_trace(events), (*ceilings, tf32), step_ms) for rules in (15, 14))
    assert (said.bound, said.layer) == (Bound.SOFTWARE, layer)
    assert ("TF32" in said.next_step) is (layer is Layer.FRAMEWORK)
    assert before.layer is Layer.FRAMEWORK, "earlier results keep their rules"
