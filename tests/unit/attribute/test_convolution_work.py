"""What convolutions have to do, as PyTorch's own operators record them, against PyTorch's own count."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from lynxbench.attribute.judge.operator_work import estimate_work
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall, parse_signature
from lynxbench.attribute.read.operator_names import OperatorKind, operator_kind

Run = Callable[[], Any]


def _drawn(*sizes: int, wide: bool = False) -> torch.Tensor:
    return torch.randn(*sizes, dtype=torch.float64 if wide else torch.float32)


def _weights(*sizes: int, wide: bool = False) -> torch.Tensor:
    return _drawn(*sizes, wide=wide).requires_grad_()


PLAIN: dict[str, Run] = {
    "1d": lambda: functional.conv1d(_drawn(2, 6, 40), _drawn(8, 6, 5), stride=2, padding=1),
    "2d": lambda: functional.conv2d(_drawn(2, 6, 20, 22), _drawn(8, 6, 3, 5), stride=(2, 1), padding=(1, 3)),
    "2d dilated": lambda: functional.conv2d(_drawn(2, 6, 20, 22), _drawn(8, 6, 3, 3), dilation=(2, 3)),
    "2d grouped": lambda: functional.conv2d(_drawn(2, 6, 20, 22), _drawn(9, 2, 3, 3), stride=2, groups=3),
    "depthwise": lambda: functional.conv2d(_drawn(2, 6, 20, 22), _drawn(6, 1, 7, 7), padding=3, groups=6),
    "3d": lambda: functional.conv3d(_drawn(1, 4, 9, 10, 11), _drawn(8, 4, 3, 3, 3), padding=1),
    "3d strided": lambda: functional.conv3d(_drawn(1, 4, 9, 10, 11), _drawn(8, 4, 3, 2, 1), stride=2),
    "3d dilated": lambda: functional.conv3d(_drawn(1, 4, 9, 10, 11), _drawn(8, 4, 3, 3, 3), dilation=2),
    "64 bits": lambda: functional.conv2d(_drawn(2, 6, 20, 22, wide=True), _drawn(8, 6, 3, 3, wide=True), stride=2),
    "64 bits dilated": lambda: functional.conv2d(
        _drawn(2, 6, 20, 22, wide=True), _drawn(8, 6, 3, 3, wide=True), dilation=2
    ),
}
TRANSPOSED: dict[str, Run] = {
    "1d": lambda: functional.conv_transpose1d(_drawn(2, 6, 40), _drawn(6, 8, 5), stride=3),
    "2d": lambda: functional.conv_transpose2d(_drawn(2, 6, 20, 22), _drawn(6, 8, 4, 4), stride=2, padding=1),
    "2d longer": lambda: functional.conv_transpose2d(
        _drawn(2, 6, 20, 22), _drawn(6, 8, 3, 3), stride=2, padding=1, output_padding=1
    ),
    "2d grouped": lambda: functional.conv_transpose2d(
        _drawn(2, 6, 20, 22), _drawn(6, 4, 3, 3), stride=2, groups=2, dilation=2
    ),
    "3d": lambda: functional.conv_transpose3d(_drawn(1, 4, 6, 6, 6), _drawn(4, 8, 3, 3, 3), stride=2),
    "64 bits": lambda: functional.conv_transpose2d(
        _drawn(2, 6, 20, 22, wide=True), _drawn(6, 8, 4, 4, wide=True), stride=2
    ),
}
BACKWARD: dict[str, Run] = {
    "both": lambda: functional.conv2d(_weights(2, 6, 20, 22), _weights(8, 6, 3, 3), stride=2),
    "of the filters": lambda: functional.conv2d(_drawn(2, 6, 20, 22), _weights(8, 6, 3, 3), padding=1),
    "of the operand": lambda: functional.conv2d(_weights(2, 6, 20, 22), _drawn(8, 6, 3, 3), padding=1),
    "transposed": lambda: functional.conv_transpose2d(_weights(2, 6, 20, 22), _weights(6, 8, 4, 4), stride=2),
    "transposed, of the filters": lambda: functional.conv_transpose2d(
        _drawn(2, 6, 20, 22), _weights(6, 8, 4, 4), stride=2
    ),
}


def _innermost(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Operators with "conv" in their names that call none."""
    named = [one for one in events if one.get("cat") == "cpu_op" and "conv" in one["name"]]

    def calls(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
        begin, end = outer["ts"], outer["ts"] + outer["dur"]
        return outer is not inner and begin <= inner["ts"] and inner["ts"] + inner["dur"] <= end

    return [one for one in named if not any(calls(one, other) for other in named)]


def _estimated(run: Run, folder: Path) -> list[tuple[str, float, float]]:
    """By convolution: its name, its operations and the bytes that it writes."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        run()
    profiled.export_chrome_trace(str(folder / "trace.json"))
    found = []
    for event in _innermost(json.loads((folder / "trace.json").read_text())["traceEvents"]):
        args = event["args"]
        texts = [
            json.dumps(args.get(key, [])).encode()
            for key in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
        ]
        work = estimate_work(event["name"], operator_kind(event["name"]), parse_signature(*texts))
        assert work is not None, event["name"]
        found.append((event["name"], work.flops, work.written_bytes))
    return found


@pytest.mark.parametrize(
    "run", [*PLAIN.values(), *TRANSPOSED.values()], ids=[*PLAIN, *(f"{n}, transposed" for n in TRANSPOSED)]
)
def test_operations_are_those_that_pytorch_counts(run: Run, tmp_path: Path) -> None:
    with FlopCounterMode(display=False) as counter:
        result = run()
    ((_, flops, written),) = _estimated(run, tmp_path)
    assert flops == counter.get_total_flops()
    assert written == result.numel() * result.element_size()


@pytest.mark.parametrize("run", BACKWARD.values(), ids=BACKWARD)
def test_backward_counts_what_is_asked_for(run: Run, tmp_path: Path) -> None:
    with FlopCounterMode(display=False) as counter:
        run().sum().backward()
    found = _estimated(lambda: run().sum().backward(), tmp_path)
    assert sum(flops for _, flops, _ in found) == counter.get_total_flops()


def _call(concrete: tuple[str, ...], *sizes: tuple[int, ...]) -> OperatorCall:
    return OperatorCall(tuple((OperandTensor(one, None, "float"),) for one in sizes), concrete)


@pytest.mark.parametrize(
    ("name", "concrete", "flops"),
    [
        ("aten::cudnn_convolution", ("", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"), 2 * 8 * 100 * 54),
        ("aten::cudnn_convolution_relu", ("", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"), 2 * 8 * 100 * 54),
        (
            "aten::cudnn_convolution_add_relu",
            ("", "", "", "1.", "", "[2, 2]", "[1, 1]", "[1, 1]", "1"),
            2 * 8 * 100 * 54,
        ),
        ("aten::miopen_convolution", ("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"), 2 * 8 * 100 * 54),
    ],
)
def test_operators_of_devices_name_their_lists_in_orders_of_their_own(
    name: str, concrete: tuple[str, ...], flops: float
) -> None:
    """Filters of 6 × 3 × 3 at every other place of 20 × 20, one row of padding around: 10 × 10."""
    work = estimate_work(name, OperatorKind.PRODUCT, _call(concrete, (1, 6, 20, 20), (8, 6, 3, 3)))
    assert work is not None
    assert work.flops == flops


def test_a_transposed_operator_of_a_device() -> None:
    concrete = ("", "", "[1, 1]", "[1, 1]", "[2, 2]", "[1, 1]", "2", "False")
    work = estimate_work(
        "aten::cudnn_convolution_transpose", OperatorKind.PRODUCT, _call(concrete, (1, 6, 20, 20), (6, 4, 3, 3))
    )
    assert work is not None
    assert work.flops == 2 * 6 * 400 * 36
    assert work.written_bytes == 4 * 8 * 40 * 40
