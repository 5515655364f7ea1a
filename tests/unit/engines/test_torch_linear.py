"""Quantised layers of a CPU, and what its units leave of the bits."""

import pytest

torch = pytest.importorskip("torch")

from lynxbench.engines.torch import linear  # noqa: E402


@pytest.mark.parametrize(
    ("engine", "vnni", "named"),
    [
        ("x86", False, "x86, 7-bit activations (no VNNI)"),
        ("fbgemm", False, "fbgemm, 7-bit activations (no VNNI)"),
        ("x86", True, "x86"),
        ("onednn", False, "onednn"),
    ],
)
def test_bits_that_the_units_leave_are_said(
    monkeypatch: pytest.MonkeyPatch, engine: str, vnni: bool, named: str
) -> None:
    class Backend:
        pass

    backend = Backend()
    backend.engine = engine  # type: ignore[attr-defined]
    monkeypatch.setattr(torch.backends, "quantized", backend)
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: vnni)
    assert linear.name_quantised_engine() == named
