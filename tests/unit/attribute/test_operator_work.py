from __future__ import annotations

import pytest

from lynxbench.attribute.judge.operator_work import estimate_work
from lynxbench.attribute.judge.roofline import OperatorWork
from lynxbench.attribute.read.operands import OperandTensor, OperatorCall
from lynxbench.attribute.read.operator_names import GIVEN_RESULTS, OperatorKind, operator_kind


def tensor(*sizes: int, dtype: str = "float", strides: tuple[int, ...] | None = None) -> OperandTensor:
    return OperandTensor(sizes, strides, dtype)


def work(name: str, *tensors: OperandTensor, concrete: tuple[str, ...] = ()) -> OperatorWork:
    found = estimate_work(name, operator_kind(name), OperatorCall(tuple((t,) for t in tensors), concrete))
    assert found is not None
    return found


def test_products() -> None:
    assert work("aten::mm", tensor(3, 5), tensor(5, 7)).flops == 2 * 3 * 5 * 7
    assert work("aten::addmm", tensor(7), tensor(3, 5), tensor(5, 7)).total_bytes == 4 * (7 + 15 + 35 + 21)
    batched = work("aten::bmm", tensor(4, 3, 5, dtype="c10::BFloat16"), tensor(4, 5, 7, dtype="c10::BFloat16"))
    assert (batched.flops, batched.total_bytes) == (4 * 2 * 3 * 5 * 7, 2 * 4 * (15 + 35 + 21))
    assert work("aten::linear", tensor(2, 6, 64), tensor(32, 64)).flops == 2 * 12 * 64 * 32
    assert work("aten::mv", tensor(8, 9), tensor(9)).flops == 2 * 8 * 9


def test_attention_counts_both_products_and_the_causal_half() -> None:
    q = tensor(1, 4, 16, 32)
    full = work("aten::_scaled_dot_product_flash_attention_for_cpu", q, q, q, concrete=("", "", "", "0.", "False"))
    half = work("aten::_scaled_dot_product_flash_attention_for_cpu", q, q, q, concrete=("", "", "", "0.", "True"))
    assert full.flops == 4 * 4 * 16 * 16 * 32
    assert half.flops == full.flops / 2


def test_convolution_positions_follow_padding_and_stride() -> None:
    found = work(
        "aten::mkldnn_convolution",
        tensor(2, 8, 32, 32),
        tensor(16, 8, 3, 3),
        tensor(16),
        concrete=("", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"),
    )
    assert found.flops == 2 * (2 * 16 * 16 * 16) * 8 * 9
    assert found.written_bytes == 2 * 16 * 16 * 16 * 4


def test_passes_count_distinct_bytes() -> None:
    assert work("aten::add", tensor(100), tensor(100)).total_bytes == 1200
    assert work("aten::copy_", tensor(32, 256), tensor(32, 256, strides=(0, 1))).total_bytes == 4 * (256 + 32 * 256)
    assert work("aten::fill_", tensor(10)).total_bytes == 40
    assert work("aten::sum", tensor(1000)).total_bytes == 4000
    assert (
        work("aten::index_select", tensor(50_000, 64), tensor(3, dtype="long int")).total_bytes == 2 * 3 * 64 * 4 + 24
    )


BF16 = "c10::BFloat16"


@pytest.mark.parametrize(
    ("name", "operands", "written"),
    [
        ("aten::sub", (tensor(30, 1), tensor(1, 50)), 30 * 50 * 4),
        ("aten::sub", (tensor(30, 1, 8, dtype=BF16), tensor(50, 8, dtype=BF16)), 30 * 50 * 8 * 2),
        ("aten::add", (tensor(7), tensor(3, 1)), 21 * 4),
        ("aten::mul", (tensor(40, 8, dtype=BF16), tensor(8)), 40 * 8 * 4),
        ("aten::mul", (tensor(40, 8, dtype=BF16), tensor()), 40 * 8 * 2),
        ("aten::mul_", (tensor(40, 8, dtype=BF16), tensor(8)), 40 * 8 * 2),
        ("aten::eq", (tensor(30, 1, dtype="long int"), tensor(64, dtype="long int")), 30 * 64),
        ("aten::isnan", (tensor(30, 40),), 30 * 40),
        ("aten::add", (tensor(100), tensor(100)), 400),
        ("aten::add", (tensor(3, 4), tensor(5, 6)), 30 * 4),
    ],
)
def test_a_pass_writes_what_its_operands_make_together(
    name: str, operands: tuple[OperandTensor, ...], written: int
) -> None:
    """Wider formats win, but not those of single numbers; operands that do not go together are taken as before."""
    assert work(name, *operands).written_bytes == written


def test_lists_of_tensors() -> None:
    cat = OperatorCall(((tensor(4, 8, dtype="list element"), tensor(4, 8, dtype="list element")), ()))
    found = estimate_work("aten::cat", OperatorKind.COPY, cat)
    assert found is not None
    assert found.total_bytes == 2 * 2 * 32 * 4


@pytest.mark.parametrize(
    "signature",
    [
        OperatorCall(),
        OperatorCall(((tensor(3),), (tensor(3),))),
        OperatorCall(((tensor(3, 4),), (tensor(5, 6),))),
        OperatorCall(((tensor(2, 3),),)),
    ],
)
def test_operands_that_do_not_fit_give_nothing(signature: OperatorCall) -> None:
    assert estimate_work("aten::mm", OperatorKind.PRODUCT, signature) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", OperatorKind.PRODUCT),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", OperatorKind.PRODUCT),
        ("aten::view", OperatorKind.DISPATCH),
        ("aten::normal_", OperatorKind.ELEMENTWISE),
        ("aten::native_layer_norm", OperatorKind.NORMALISATION),
        ("aten::empty", OperatorKind.ALLOCATION),
        ("aten::copy_", OperatorKind.COPY),
        ("aten::sum", OperatorKind.REDUCTION),
        ("aten::index_select", OperatorKind.GATHER),
        ("c10d::allreduce_", OperatorKind.COMMUNICATION),
        ("nccl:all_reduce", OperatorKind.COMMUNICATION),
        ("autograd::engine::evaluate_function: MmBackward0", OperatorKind.DISPATCH),
        ("AddmmBackward0", OperatorKind.DISPATCH),
        ("## Call CompiledFxGraph fabc ##", OperatorKind.COMPILED),
        ("Torch-Compiled Region: 0/0", OperatorKind.DISPATCH),
        ("mylib::fancy", OperatorKind.FOREIGN),
    ],
)
def test_kinds_by_name(name: str, kind: OperatorKind) -> None:
    assert operator_kind(name) is kind


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("aten::add", (tensor(100), tensor(100), None)),
        ("aten::exp", (tensor(100),)),
        ("aten::clamp", (tensor(100), None, None)),
        ("aten::addcmul", (tensor(100), tensor(100), tensor(100), None)),
        ("aten::add", (tensor(30, 1), tensor(50), None)),
    ],
)
def test_a_result_whose_place_was_handed_in_is_not_read(name: str, operands: tuple[OperandTensor | None, ...]) -> None:
    arguments = tuple(() if operand is None else (operand,) for operand in operands)
    kind = operator_kind(name)
    made = estimate_work(name, kind, OperatorCall(arguments))
    assert made is not None
    into = OperatorCall((*arguments, (tensor(int(made.written_bytes) // 4),)))
    assert estimate_work(name, kind, into) == made
    earlier = estimate_work(name, kind, into, given=False)
    assert earlier is not None
    assert earlier.read_bytes == made.read_bytes + made.written_bytes


def test_tensors_that_are_joined_into_one_that_is_there_are_read_and_it_is_written() -> None:
    parts, into = (tensor(30, 8), tensor(70, 8)), tensor(100, 8)
    found = estimate_work("aten::cat", OperatorKind.COPY, OperatorCall((parts, (), (into,))))
    assert found is not None
    assert (found.read_bytes, found.written_bytes) == (3200, 3200)


def test_places_of_results_are_those_of_pytorchs_own_signatures() -> None:
    torch = pytest.importorskip("torch")
    for short, place in GIVEN_RESULTS.items():
        packet = getattr(torch.ops.aten, short)
        signatures = [getattr(packet, overload)._schema.arguments for overload in packet.overloads()]
        assert any(len(one) == place + 1 and one[place].is_out for one in signatures), short
        for one in signatures:
            at = one[place:]
            assert not at or at[0].is_out or "Tensor" not in str(at[0].type), (short, one)
