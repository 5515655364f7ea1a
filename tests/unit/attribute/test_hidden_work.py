"""What operands do not tell: nobody is told how near its ceiling such work ran, and no passes are merged there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from launched_operators import Judge, Launched, dense, flow
from lynxbench.attribute.judge.hidden_work import is_hidden, times_shown
from lynxbench.attribute.judge.roofline import Ceilings
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.operator_names import is_measured, operator_kind
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

Event = dict[str, Any]
OnHost = Callable[..., Attribution]
LARGE = 1 << 20
PASS_MS = LARGE * 8 / 20e9 * 1e3
"""A pass over that many numbers at the ceiling of a copy."""


def call(*operands: tuple[tuple[int, ...], tuple[int, ...] | None]) -> OperatorCall:
    return OperatorCall(tuple((OperandTensor(sizes, strides, "float"),) for sizes, strides in operands))


@pytest.mark.parametrize(
    "name",
    [
        *("aten::mm", "aten::addmm", "aten::bmm", "onnx::MatMul", "onnx::Gemm"),
        *("aten::add", "aten::mul_", "aten::copy_", "aten::sum", "aten::mean", "onnx::Add", "onnx::ReduceSum"),
        *("aten::_slow_conv2d_forward", "aten::slow_conv3d_forward"),
    ],
)
def test_ceilings_are_measured_of_products_and_plain_passes_and_hold_of_what_is_slow_by_its_own_name(name: str) -> None:
    assert is_measured(name, operator_kind(name))


@pytest.mark.parametrize(
    "name",
    [
        *("aten::mkldnn_convolution", "aten::_scaled_dot_product_flash_attention_for_cpu", "onnx::Conv"),
        *("aten::exp", "aten::tanh_", "aten::gelu", "onnx::Exp", "onnx::Erf"),
        *("aten::max_pool2d_with_indices", "aten::cumsum", "aten::index_select", "aten::native_layer_norm"),
    ],
)
def test_no_ceiling_is_measured_of_functions_convolutions_attention_pooling_and_look_ups(name: str) -> None:
    assert not is_measured(name, operator_kind(name))


@pytest.fixture
def on_host(
    make_event: Callable[..., Event], write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]
) -> OnHost:
    """Steps of operators on the host, one after the other; `slow`: how much longer each step takes than the last."""

    def judge(
        *operators: Launched, rules: int = 15, slow: tuple[float, ...] = (1.0,) * 5, before_ms: float = 0.0
    ) -> Attribution:
        events, at = [], 100.0
        whole_ms = before_ms + sum(ms for _, _, ms in operators)
        for step, times in enumerate(slow):
            events.append(make_event(f"step#{step}", at - 5.0, whole_ms * times * 1e3 + 10.0, cat="user_annotation"))
            at += round(before_ms * times * 1e3)
            for name, operands, ms in operators:
                recorded = {
                    "Input Dims": [list(sizes) for sizes, _ in operands],
                    "Input Strides": [list(strides) for _, strides in operands],
                    "Input type": ["float"] * len(operands),
                }
                took_us = round(ms * times * 1e3)
                events.append(make_event(name, at, took_us, **recorded))
                at += took_us
            at += 40.0
        return attribute_by(rules, write_trace(events), ceilings, whole_ms)

    return judge


@pytest.mark.parametrize(
    ("name", "operands", "category"),
    [
        ("aten::_linalg_eigh", [dense(300, 300)], Category.COMPUTE),
        ("aten::_fft_r2c", [dense(64, 16384)], Category.COMPUTE),
        ("aten::normal_", [dense(LARGE)], Category.COMPUTE),
        ("aten::mkldnn_rnn_layer", [dense(32, 16, 256), dense(1024, 256)], Category.COMPUTE),
        ("aten::bincount", [dense(LARGE)], Category.COMPUTE),
        ("aten::sort", [dense(LARGE)], Category.MEMORY_BANDWIDTH),
        ("aten::addmm", [dense(4096, 64), ((4096, 4096), ()), dense(4096, 64)], Category.COMPUTE),
        ("aten::sum", [((16, 16_000, 128), (16_384, 1, 1))], Category.MEMORY_BANDWIDTH),
    ],
)
@pytest.mark.parametrize("ms", [0.05, 1.0, 40.0])
def test_nobody_is_blamed_for_work_that_operands_do_not_tell(
    on_host: OnHost, name: str, operands: list[Any], category: Category, ms: float
) -> None:
    """However long it takes: near what memory gives, or a hundredth of it."""
    found = on_host((name, operands, ms))
    assert (found.bound, found.layer) == (Bound.UNDETERMINED, None)
    assert found.bottleneck is category
    assert found.gain_if_removed.estimate == 1.0
    assert found.gain_if_removed.high > 1.3, "nor is it said that nothing could be gained"
    if category is Category.COMPUTE:
        assert f"100% of it goes to {name}, and what these read" in found.sentence
        assert any("do not tell the least work of: " + name in line for line in found.evidence)


@pytest.mark.parametrize(
    ("name", "operands"), [("aten::_linalg_eigh", [dense(300, 300)]), ("aten::normal_", [dense(LARGE)])]
)
def test_earlier_editions_blamed_the_runtime(on_host: OnHost, name: str, operands: list[Any]) -> None:
    found = on_host((name, operands, 40.0), rules=14)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.RUNTIME)


def test_passes_are_not_merged_with_what_they_surround(on_host: OnHost) -> None:
    decomposed: Launched = ("aten::_linalg_eigh", [dense(1024, 1024)], 30.0)
    scaled: Launched = ("aten::mul", [dense(1024, 1024)], 0.5)
    assert "fused operators avoid" in on_host(scaled, decomposed, scaled, rules=14).sentence
    found = on_host(scaled, decomposed, scaled)
    assert found.bound is Bound.UNDETERMINED
    assert not any("neighbouring passes" in line for line in found.evidence)


def test_a_little_of_it_beside_work_that_is_known_hides_as_much_as_it_takes(on_host: OnHost) -> None:
    product: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], 21.0)
    assert on_host(product, ("aten::sort", [dense(1000)], 1.0)).bound is Bound.HARDWARE
    found = on_host(product, ("aten::_fft_r2c", [dense(1000, 1000)], 9.0))
    assert found.bound is Bound.UNDETERMINED
    assert "30% of it runs in kernels whose work is not known" in found.sentence


def test_what_is_hidden_by_name_operands_or_place() -> None:
    plain = call(((64, 64), (64, 1)), ((64, 64), (64, 1)))

    def hidden(name: str, operands: OperatorCall | None = plain, *, on_device: bool = False) -> bool:
        return is_hidden(name, operator_kind(name), operands, on_device=on_device)

    assert not any(map(hidden, ("aten::mm", "aten::add", "aten::linalg_vector_norm", "aten::cat", "mine::svd")))
    assert all(map(hidden, ("aten::linalg_solve_triangular", "aten::_sparse_mm", "aten::uniform_", "aten::topk")))
    assert not hidden("aten::uniform_", on_device=True), "a device draws as fast as memory takes them"
    assert hidden("aten::mm", call(((64, 64), None), ((64, 64), (64, 1)))), "stored sparsely: it has no strides"
    assert not hidden("aten::mm", call(((64, 64), None), ((64, 64), None))), "a profiler that records none"
    assert not hidden("aten::mkldnn_linear", call(((64, 64), (64, 1)), ((64, 64), None))), "packed, and dense"
    windows = call(((900, 100), (1, 1)))
    assert hidden("aten::sum", windows)
    assert not hidden("aten::mul", windows), "it writes a result of that size"
    assert not hidden("aten::sum", call(((900, 100), (1, 0)))), "repeated, and read once"
    assert not hidden("aten::sum", None)


@pytest.mark.parametrize(
    ("sizes", "strides", "times"),
    [((8, 8), (8, 1), 1.0), ((900, 100), (1, 1), 90_000 / 999), ((10, 4), (2, 1), 40 / 22), ((5, 7), (0, 1), 1.0)],
)
def test_windows_show_their_values_so_often(sizes: tuple[int, ...], strides: tuple[int, ...], times: float) -> None:
    assert times_shown(OperandTensor(sizes, strides, "float")) == pytest.approx(times)


# --- figures that cannot both be right --------------------------------------------------------------------------------


def of_rates(**per_s: float) -> Ceilings:
    product = Ceiling(name="matmul", precision=Precision.FP32, per_s=100e9, unit="FLOP/s", how="measured")
    streams = (Ceiling(name=name, precision=None, per_s=r, unit="B/s", how="measured") for name, r in per_s.items())
    return Ceilings((product, *streams), Precision.FP32)


def test_a_copy_that_the_read_of_the_same_memory_contradicts_bounds_nothing() -> None:
    found = of_rates(copy=0.8e9, read=28e9).believed()
    assert (found.copy_bytes_per_s, found.read_bytes_per_s) == (None, 28e9)
    assert found.doubt == "the measured copy (0.8 GB/s) is not believed: the read of the same memory reached 28 GB/s"
    turned = of_rates(copy=40e9, read=2e9).believed()
    assert (turned.named("read", None), turned.copy_bytes_per_s) == (None, 40e9)


@pytest.mark.parametrize("per_s", [{"copy": 8e9, "read": 28e9}, {"copy": 40e9, "read": 28e9}, {"copy": 20e9}, {}])
def test_ceilings_that_go_together_stay(per_s: dict[str, float]) -> None:
    ceilings = of_rates(**per_s)
    assert ceilings.believed() is ceilings


@pytest.mark.parametrize("rules", [14, 15])
def test_a_step_that_moves_more_than_memory_gives_says_so_without_a_share(on_host: OnHost, rules: int) -> None:
    found = on_host(("aten::mul", [dense(LARGE)], PASS_MS / 3), rules=rules)
    (line,) = (line for line in found.evidence if line.startswith("over the whole step"))
    assert ("300.0%" in line) is (rules == 14)
    assert line.endswith("what is more comes from caches") is (rules == 15)


# --- steps that are not alike, and a host that is quick ---------------------------------------------------------------

CHAIN: tuple[Launched, ...] = tuple(("aten::mul", [dense(LARGE)], PASS_MS) for _ in range(3))


@pytest.mark.parametrize("slow", [(1.0,) * 5, (1.0, 9.0, 1.0, 1.0, 1.0), (1.0, 1.0, 4.0, 1.0, 1.0)])
def test_slow_steps_among_the_profiled_ones_change_no_gain(on_host: OnHost, slow: tuple[float, ...]) -> None:
    """Three passes as one move a third."""
    found = on_host(*CHAIN, slow=slow)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.RUNTIME)
    assert found.gain_if_removed.estimate == pytest.approx(3.0, rel=0.1)
    assert found.gain_if_removed.low > 1.05


def test_earlier_editions_took_more_off_the_usual_step_than_it_has(on_host: OnHost) -> None:
    assert on_host(*CHAIN, slow=(1.0, 9.0, 1.0, 1.0, 1.0), rules=14).gain_if_removed.estimate > 50.0


def test_merging_passes_that_memory_does_not_bound_may_gain_little(on_host: OnHost) -> None:
    """Ten times as long as moving what they move: what they compute may stay."""
    quick, heavy = (on_host(*((name, on, ms * times) for name, on, ms in CHAIN)) for times in (1.0, 10.0))
    assert heavy.gain_if_removed.low < 1.1 < 1.5 < quick.gain_if_removed.low
    assert heavy.gain_if_removed.high == pytest.approx(quick.gain_if_removed.high, rel=0.1)
    assert any("what they compute may stay" in line for line in heavy.evidence)


def test_results_of_which_little_is_read_are_seen_on_a_processor_too(on_host: OnHost) -> None:
    """All of 128 positions' scores, and only the last one's are read: by views that touch nothing."""
    product: Launched = ("aten::mm", [dense(512, 256), dense(256, 4096)], 11.0)
    bookkeeping: Launched = ("aten::resolve_conj", [dense(512, 4096)], 0.001)
    last: Launched = ("aten::_softmax", [((4, 4096), (128 * 4096, 1))], 0.1)
    found = on_host(product, bookkeeping, last)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "results of which little is read" in found.sentence
    assert found.gain_if_removed.estimate > 8.0
    assert on_host(product, bookkeeping, last, rules=14).bound is Bound.HARDWARE
    assert on_host(product, ("aten::_softmax", [dense(512, 4096)], 0.1)).bound is Bound.HARDWARE, "all are read"


def test_host_code_before_a_short_step_is_not_dispatch(on_host: OnHost) -> None:
    """0.8 ms of a step of 2: less than a millisecond, and far more than starting an operator takes."""
    product: Launched = ("aten::mm", [dense(400, 400), dense(400, 400)], 1.3)
    assert on_host(product, before_ms=0.8).shares[Category.INPUT] == pytest.approx(0.38, abs=0.02)
    assert Category.INPUT not in on_host(product, before_ms=0.8, rules=14).shares
    assert Category.INPUT not in on_host(product, before_ms=0.08).shares, "a slow host's dispatch takes as long"


def test_starting_operators_never_costs_compiled_code_more_than_half_of_what_it_did(on_host: OnHost) -> None:
    """A host that starts an operator in 1 µs: the 2 µs of the rule are those of another."""
    tiny: tuple[Launched, ...] = tuple(("aten::add", [dense(16)], 0.001) for _ in range(600))
    before, now = (on_host(*tiny, rules=rules).gain_if_removed for rules in (14, 15))
    assert before.estimate == 1.0
    assert now.estimate == pytest.approx(2.0, rel=0.1)


# --- results that a mask drops ----------------------------------------------------------------------------------------

MASKED: Launched = ("aten::mm", [dense(4096, 1024), dense(1024, 1024)], 86.0)


@pytest.mark.parametrize(("rows", "bound"), [(0.75, Bound.SOFTWARE), (0.0, Bound.UNDETERMINED)])
def test_results_that_a_mask_drops_are_not_the_hardwares(followed: Judge, rows: float, bound: Bound) -> None:
    """Whole rows need not be made; here and there no dense product leaves elements out, and nothing is promised."""
    found = followed([MASKED], flow(MASKED, 1, masked=0.75, masked_rows=rows), rules=15)
    assert found.bound is bound
    assert found.layer is (Layer.APPLICATION if rows else None)
    assert found.gain_if_removed.high >= 3.9
    assert any("of which their only reader drops most" in line for line in found.evidence)
    if rows:
        assert "much of it for results of products that a mask drops" in found.sentence
        assert found.gain_if_removed.estimate == pytest.approx(4.0, rel=0.1)
    assert followed([MASKED], flow(MASKED, 1, masked=0.75, masked_rows=rows), rules=14).bound is Bound.HARDWARE


def test_kernels_far_below_their_ceilings_promise_no_faster_ones(on_host: OnHost) -> None:
    """Nothing shows that anybody has written them."""
    slow: Launched = ("aten::mm", [dense(1000, 1000), dense(1000, 1000)], 100.0)
    before, now = (on_host(slow, rules=rules) for rules in (14, 15))
    assert before.bound is now.bound is Bound.SOFTWARE
    assert before.gain_if_removed.low > 1.5
    assert now.gain_if_removed.low == 1.0
    assert now.gain_if_removed.estimate == before.gain_if_removed.estimate


# --- results that are read in part, and rows that come again ----------------------------------------------------------

LAYERED: Launched = ("aten::mm", [dense(4096, 1024), dense(1024, 1000)], 86.0)
HEAD: Launched = ("aten::mm", [dense(64, 1024), dense(1024, 8000)], 10.5)
"""Of its 10.5 ms, reading its weights alone takes 1.6."""


@pytest.mark.parametrize(
    ("seen", "said", "told"),
    [
        ({"partly": 0.75}, "of which only a part is read or returned", "of which only a part is read"),
        ({"repeated": 0.75, "surely_repeated": 0.75}, "rows that it had multiplied before", "multiply rows"),
    ],
)
def test_rows_that_nobody_needs_are_not_the_hardwares(
    followed: Judge, seen: dict[str, float], said: str, told: str
) -> None:
    found = followed([MASKED], flow(MASKED, 1, **seen), rules=15)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert said in found.sentence
    assert found.gain_if_removed.estimate == pytest.approx(4.0, rel=0.1)
    assert any(told in line for line in found.evidence)
    assert followed([MASKED], flow(MASKED, 1, **seen), rules=14).bound is Bound.HARDWARE


def test_rows_that_are_alike_by_accident_are_a_doubt_and_blame_nobody(followed: Judge) -> None:
    found = followed([MASKED], flow(MASKED, 1, repeated=0.75), rules=15)
    assert (found.bound, found.layer) == (Bound.UNDETERMINED, None)
    assert found.gain_if_removed.estimate == pytest.approx(1.0, abs=0.01)
    assert "products of rows that they had multiplied before" in found.sentence
    assert found.gain_if_removed.high >= 3.9
    all_alike = followed([MASKED], flow(MASKED, 1, repeated=0.9998), rules=15)
    assert "e+0" not in all_alike.sentence


def test_rows_that_stay_from_step_to_step_are_the_applications_where_others_change(followed: Judge) -> None:
    """Three quarters of one product, which is a half of the kernels' time."""
    operators, flows = [MASKED, LAYERED], (flow(MASKED, 1, same_rows=0.75),)
    found = followed(operators, *flows, rules=15)
    assert (found.bound, found.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "what is the same in each step" in found.sentence
    assert found.gain_if_removed.estimate == pytest.approx(1.0 / (1.0 - 0.375), rel=0.1)
    assert followed(operators, *flows, rules=14).bound is Bound.HARDWARE
    still = followed([MASKED], flow(MASKED, 1, same_rows=0.999), rules=15)
    assert still.bound is Bound.HARDWARE, "inputs that stand still for the sake of a measurement"


def test_what_may_be_needed_in_part_is_a_doubt(followed: Judge) -> None:
    found = followed([MASKED], flow(MASKED, 1, perhaps=0.75), rules=15)
    assert (found.bound, found.layer) == (Bound.UNDETERMINED, None)
    assert found.gain_if_removed.high >= 3.9
    assert followed([MASKED], flow(MASKED, 1, perhaps=0.75), rules=14).bound is Bound.HARDWARE


def test_weights_are_read_however_few_rows_are_left(followed: Judge) -> None:
    """One row of 64 is no gain of 64."""
    found = followed([HEAD], flow(HEAD, 1, partly=1.0 - 1 / 64), rules=15)
    assert found.gain_if_removed.low <= 10.5 / 1.6 <= found.gain_if_removed.high
    assert found.gain_if_removed.estimate < 7.0


def test_rows_that_are_dropped_and_come_again_may_be_the_same_rows(followed: Judge) -> None:
    """Padding is alike, and in the end a mask drops it: it is left out once."""
    seen = {"masked": 0.75, "masked_rows": 0.75, "repeated": 0.75, "surely_repeated": 0.75}
    found = followed([MASKED], flow(MASKED, 1, **seen), rules=15)
    assert found.gain_if_removed.estimate == pytest.approx(4.0, rel=0.1)
    assert found.gain_if_removed.high >= 15.0


def test_what_a_product_copies_for_itself_is_no_table_that_others_read(
    make_event: Callable[..., Event], write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]
) -> None:
    """Its bias, written out over all rows, is as large as its weights by accident: a gain of 96 was said of it."""
    x, weights, bias = dense(256, 256), ((256, 8000), (1, 256)), ((256, 8000), (0, 1))
    events: list[Event] = []
    for step in range(5):
        at = 100.0 + step * 20_000.0
        events.append(make_event(f"step#{step}", at - 5.0, 19_000.0, cat="user_annotation"))
        product, copied = (dense(8000), x, weights), (dense(256, 8000), bias)
        for name, given, begins, ms in (("aten::addmm", product, at, 18.0), ("aten::copy_", copied, at + 1.0, 6.0)):
            recorded = {
                "Input Dims": [list(sizes) for sizes, _ in given],
                "Input Strides": [list(strides) for _, strides in given],
                "Input type": ["float"] * len(given),
            }
            events.append(make_event(name, begins, ms * 1e3, **recorded))
    before, now = (attribute_by(rules, write_trace(events), ceilings, 18.0) for rules in (14, 15))
    assert before.gain_if_removed.high > 50.0
    assert now.gain_if_removed.high < 2.0
    assert now.bound is not Bound.SOFTWARE or now.layer is not Layer.APPLICATION
