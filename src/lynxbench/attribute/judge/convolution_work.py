"""What a convolution of PyTorch has to do: its operators name kernel, stride, padding and dilation in different orders.

Forward, an element of the result is a product of as many numbers as a filter has; transposed, an element of the operand
is multiplied with each number of its filters. Backward, either gradient that is asked for takes as much again.
"""

import math
import re
from itertools import zip_longest

from lynxbench.attribute.judge.roofline import OperatorWork
from lynxbench.attribute.read.operands import OperatorCall

WRAPPERS = frozenset({"convolution", "_convolution"})
"""They call another operator, but for some back ends, which work inside them."""
_TRANSPOSED_PLACE, _WANTED_PLACE = {True: 7, False: 6}, 10
"""Where those that can do either say so, backward and forward; where the former say which gradients are asked for."""
_ORDERS = {
    "_slow_conv2d_forward": "ksp", "thnn_conv2d": "ksp", "slow_conv3d": "ksp", "slow_conv3d_forward": "ksp",
    "slow_conv_dilated2d": "kspd", "slow_conv_dilated3d": "kspd", "_conv_depthwise2d": "kspd",
    "conv_depthwise3d": "kspd", "slow_conv_transpose2d": "kspod", "slow_conv_transpose3d": "kspod",
    "mkldnn_convolution": "psd", "_convolution_pointwise": "psd", "cudnn_convolution": "psd",
    "miopen_convolution": "psd", "miopen_depthwise_convolution": "psd", "_nnpack_spatial_convolution": "ps",
    "cudnn_convolution_transpose": "posd", "miopen_convolution_transpose": "posd",
    "_convolution_transpose_pointwise": "posd", "convolution_overrideable": "spdo",
    "convolution": "spdo", "_convolution": "spdo",
}  # fmt: skip
"""The lists of an operator, in order: kernel, stride, padding, dilation, output padding; others have `spd`."""
_INTEGERS = re.compile(r"\[(\s*-?\d+\s*(?:,\s*-?\d+\s*)*)\]")


def estimate_convolution(short: str, call: OperatorCall) -> OperatorWork | None:
    """The work of one call; None where its operands or lists are unlike any seen."""
    if "backward" in short:
        return _estimate_backward(call)
    x, weight = call.tensor(0), call.tensor(1)
    spatial = len(x.sizes) - 2
    if spatial < 1 or len(weight.sizes) != spatial + 2:
        return None
    places = [place for place, text in enumerate(call.concrete) if len(_numbers(text)) in (1, spatial)]
    lists = {
        letter: _numbers(call.concrete[place]) for letter, place in zip(_ORDERS.get(short, "spd"), places, strict=False)
    }
    if "s" not in lists or "p" not in lists:
        return None
    filters = math.prod(weight.sizes[1:])
    if "transpose" in short or _is_transposed(call, backward=False, short=short):
        groups = next((int(text) for text in call.concrete[places[-1] + 1 :] if text.isdigit()), 1)
        written = x.sizes[0] * weight.sizes[1] * groups * math.prod(_lengths(x.sizes, weight.sizes, lists, whole=True))
        flops = 2.0 * x.elements * filters
    else:
        written = x.sizes[0] * weight.sizes[0] * math.prod(_lengths(x.sizes, weight.sizes, lists, whole=False))
        flops = 2.0 * written * filters
    if written <= 0:
        return None
    return OperatorWork(flops, x.footprint + weight.footprint, float(written * x.item_bytes), x.dtype)


def _estimate_backward(call: OperatorCall) -> OperatorWork:
    grad, x, weight = (call.tensor(i) for i in range(3))
    mask = call.concrete[_WANTED_PLACE] if len(call.concrete) > _WANTED_PLACE else ""
    words = [word.strip() for word in mask.strip("[]").split(",")] if mask.startswith("[") else []
    of_x, of_weight = (word != "False" for word in (words[:2] if len(words) == 3 else ["", ""]))
    turned = x if _is_transposed(call, backward=True) else grad
    flops = 2.0 * (of_x + of_weight) * turned.elements * math.prod(weight.sizes[1:])
    read = of_x * (grad.footprint + weight.footprint) + of_weight * (grad.footprint + x.footprint)
    return OperatorWork(flops, read, of_x * x.footprint + of_weight * weight.footprint, x.dtype)


def _is_transposed(call: OperatorCall, *, backward: bool, short: str = "") -> bool:
    place = _TRANSPOSED_PLACE[backward]
    says = backward or short in WRAPPERS or short == "convolution_overrideable"
    return says and len(call.concrete) > place and call.concrete[place] == "True"


def _lengths(x: tuple[int, ...], weight: tuple[int, ...], lists: dict[str, list[int]], *, whole: bool) -> list[int]:
    """The result's sides; `whole`: of a transposed one."""
    lengths = []
    for axis, (side, kernel) in enumerate(zip_longest(x[2:], weight[2:], fillvalue=1)):
        s, p, d, o = (
            numbers[axis % len(numbers)] if (numbers := lists.get(letter)) else default
            for letter, default in (("s", 1), ("p", 0), ("d", 1), ("o", 0))
        )
        reach = d * (kernel - 1) + 1
        lengths.append((side - 1) * s - 2 * p + reach + o if whole else (side + 2 * p - reach) // max(1, s) + 1)
    return [max(0, length) for length in lengths]


def _numbers(text: str) -> list[int]:
    match = _INTEGERS.fullmatch(text)
    return [int(part) for part in match[1].split(",")] if match else []
