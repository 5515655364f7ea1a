"""Ceilings of known devices for traces that come without a measured result. Declared, and marked so."""

from __future__ import annotations

from lynxbench.model.attribution import Ceiling
from lynxbench.model.precision import Precision

TERA = 1e12

_H200 = "declared: bare products of 8192³ and a 4 GiB copy on another NVIDIA H200, PyTorch 2.11"


def _declared(how: str, products: dict[Precision, float], copy_tb_per_s: float) -> tuple[Ceiling, ...]:
    return (
        *(
            Ceiling(name="matmul", precision=precision, per_s=rate * TERA, unit="operations/s", how=how)
            for precision, rate in products.items()
        ),
        Ceiling(name="copy", precision=None, per_s=copy_tb_per_s * TERA, unit="bytes/s", how=how),
    )


DEVICES: dict[str, tuple[Ceiling, ...]] = {
    "h200": _declared(
        _H200,
        {
            Precision.FP32: 51,
            Precision.TF32: 408,
            Precision.FP16: 752,
            Precision.BF16: 783,
            Precision.FP8: 1420,
            Precision.INT8: 948,
        },
        4.27,
    ),
}


def ceilings_of(device: str) -> tuple[Ceiling, ...] | None:
    """Declared ceilings of a device by its short name; None where it is not in the table."""
    return DEVICES.get(device.lower().removeprefix("nvidia ").strip())
