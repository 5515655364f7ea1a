"""What a fix leaves of a step on a device, on traces written by hand whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attributed import attribute_by
from launched_operators import LAYERS, awaited_layers
from lynxbench.attribute.say.evidence_lines import say_plainly
from lynxbench.model.attribution import Attribution, Bound, Category, Ceiling
from lynxbench.model.layers import Layer

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def attribute(write_trace: Write, ceilings: tuple[Ceiling, ...]) -> Callable[..., Attribution]:
    def judged(events: list[dict[str, Any]], step_ms: float, rules: int = 4) -> Attribution:
        return attribute_by(rules, write_trace(events), ceilings, step_ms)

    return judged


def test_dispatch_that_shows_only_behind_waits_is_theirs(
    make_event: Make, attribute: Callable[..., Attribution]
) -> None:
    """Each layer: 10 µs of dispatch, 12 of kernel, 8 until the host goes on. Unawaited, only kernels are left."""
    events = awaited_layers(make_event, 30.0, 12.0, wait=True)
    said = attribute(events, LAYERS * 30e-3)
    assert (said.bottleneck, said.bound, said.layer) == (
        Category.SYNCHRONIZATION,
        Bound.SOFTWARE,
        Layer.APPLICATION,
    )
    assert said.gain_if_removed.estimate == pytest.approx(30 / 12, rel=0.1)
    assert any("supposes: nothing read back inside the step" in line for line in said.evidence)
    earlier = attribute(events, LAYERS * 30e-3, rules=3)
    assert earlier.shares[Category.LAUNCH] > said.shares[Category.LAUNCH]
    assert not any("supposes" in line for line in earlier.evidence), "earlier editions say what they said"


def test_dispatch_that_nothing_holds_up_stays_dispatch(make_event: Make, attribute: Callable[..., Attribution]) -> None:
    """The same layers unawaited, with kernels of 2 µs: the host is the slower of the two, and no wait explains it."""
    said = attribute(awaited_layers(make_event, 10.0, 2.0, wait=False), LAYERS * 10e-3)
    assert said.bottleneck is Category.LAUNCH
    left_ms = LAYERS * (2.0 + 1.0) / 1e3
    assert said.gain_if_removed.estimate == pytest.approx(LAYERS * 10e-3 / left_ms, rel=0.2)


def fetched_step(make_event: Make, step: int, copied: int, name: str) -> list[dict[str, Any]]:
    """A kernel, a copy of its result to the host, and 40 ms of an operator on a processor."""
    at = step * 50_000.0
    return [
        make_event(f"step#{step}", at, 49_950.0, cat="user_annotation"),
        make_event("cudaLaunchKernel", at + 2, 4.0, cat="cuda_runtime", correlation=2 * step),
        make_event("elementwise", at + 10, 5_000.0, cat="kernel", tid=7, stream=7, correlation=2 * step),
        make_event("cudaMemcpyAsync", at + 10, 10_000.0, cat="cuda_runtime", correlation=2 * step + 1),
        make_event(
            "Memcpy DtoH (Device -> Pageable)",
            at + 5_010,
            5_000.0,
            cat="gpu_memcpy",
            tid=7,
            stream=7,
            correlation=2 * step + 1,
            bytes=copied,
        ),
        make_event(name, at + 10_020, 39_900.0),
    ]


@pytest.mark.parametrize(
    ("copied", "name", "category"),
    [
        pytest.param(1 << 28, "aten::argmax", Category.TRANSFER, id="work on what was fetched"),
        pytest.param(4, "aten::normal_", Category.INPUT, id="work on the next step's input"),
        pytest.param(1 << 28, "aten::view", Category.LAUNCH, id="no work: its time is the framework's"),
    ],
)
def test_an_operator_at_work_on_the_host_is_not_dispatch(
    make_event: Make, attribute: Callable[..., Attribution], copied: int, name: str, category: Category
) -> None:
    events = [event for step in range(5) for event in fetched_step(make_event, step, copied, name)]
    said = attribute(events, 50.0)
    assert said.shares[category] >= 0.79
    assert attribute(events, 50.0, rules=3).shares[Category.LAUNCH] >= 0.79


def test_what_the_host_did_with_fetched_data_goes_with_the_copy(
    make_event: Make, attribute: Callable[..., Attribution]
) -> None:
    said = attribute([e for step in range(5) for e in fetched_step(make_event, step, 1 << 28, "aten::argmax")], 50.0)
    assert (said.bottleneck, said.layer) == (Category.TRANSFER, Layer.APPLICATION)
    assert said.gain_if_removed.low <= 50.0 / 5.0 <= said.gain_if_removed.high, "the kernel alone is left"


def device_steps(make_event: Make, *kernels: tuple[str, float, dict[str, Any]]) -> list[dict[str, Any]]:
    """Steps of operators with their operands, each with a kernel of so many milliseconds; the host is far ahead."""
    events, number = [], 0
    whole_us = sum(ms for _, ms, _ in kernels) * 1e3
    for step in range(5):
        at = device = step * (whole_us + 100.0)
        events.append(make_event(f"step#{step}", at, whole_us + 90.0, cat="user_annotation"))
        device += 20.0
        for name, ms, args in kernels:
            number += 1
            outer = {"External id": number}
            events += [
                make_event(name, at, 8.0, **args, **outer),
                make_event("cudaLaunchKernel", at + 2, 4.0, cat="cuda_runtime", correlation=number, **outer),
                make_event(
                    f"{name}_kernel", device, ms * 1e3, cat="kernel", tid=7, stream=7, correlation=number, **outer
                ),
            ]
            at, device = at + 10.0, device + ms * 1e3
    return events


def test_rows_picked_by_a_product_are_softwares_however_near_the_ceiling(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """1e9 operations on 100e9 a second take 10 ms at the least: a look-up takes none."""
    made = {"Input Dims": [[500], []], "Input type": ["long int", "Scalar"], "Concrete Inputs": ["", "1000"]}
    product = make_operands((500, 1000), (1000, 1000))
    picked = device_steps(make_event, ("aten::one_hot", 0.2, made), ("aten::mm", 11.0, product))
    said = attribute(picked, 11.2)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
    assert "ones and zeros" in said.sentence
    assert said.gain_if_removed.high > 10
    assert attribute(picked, 11.2, rules=3).bound is Bound.HARDWARE
    plain = attribute(device_steps(make_event, ("aten::relu", 0.2, {}), ("aten::mm", 11.0, product)), 11.2)
    assert plain.bound is Bound.HARDWARE, "the same product without one-hot rows"


def test_a_copy_that_repeats_costs_its_readers_too(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """Rows repeated four times: the copy goes, and who read it reads a quarter."""
    shape, strides = [4, 1000, 1000], [[1_000_000, 1000, 1], [0, 1000, 1]]
    copied = {"Input Dims": [shape, shape], "Input type": ["float"] * 2, "Input Strides": strides}
    plain = {"Input Dims": [shape, shape], "Input type": ["float"] * 2, "Input Strides": [strides[0]] * 2}
    reader = ("aten::sum", 1.0, make_operands(shape))
    repeated = attribute(device_steps(make_event, ("aten::copy_", 2.0, copied), reader), 3.0)
    moved = attribute(device_steps(make_event, ("aten::copy_", 2.0, plain), reader), 3.0)
    assert (repeated.bound, moved.bound) == (Bound.SOFTWARE, Bound.SOFTWARE)
    assert moved.gain_if_removed.estimate == pytest.approx(3.0, rel=0.1)
    assert repeated.gain_if_removed.estimate == pytest.approx(3.0 / 0.25, rel=0.15)


def gathered(source: list[int], rows: int, *, whole: bool = True) -> dict[str, Any]:
    """Rows picked by index, as PyTorch does it on a device: the index is spread over whole rows, or has them all."""
    picked = [rows, *source[1:]]
    dense, spread = [source[1], 1], [1, 0]
    return {
        "Input Dims": [source, picked, picked],
        "Input type": ["float", "long int", "float"],
        "Input Strides": [dense, spread if whole else dense, dense],
    }


@pytest.mark.parametrize(
    ("picking", "is_copy"),
    [
        (gathered([32, 31_250], 32), True),
        (gathered([32, 31_250], 16), True),
        (gathered([32, 31_250], 8), False),
        (gathered([32, 31_250], 32, whole=False), False),
        (gathered([10_000, 100], 10_000), False),
    ],
    ids=["all of them", "half of them", "few are looked up", "each number by itself", "rows of a small table"],
)
def test_large_rows_that_are_only_written_in_another_order_are_copies(
    make_event: Make,
    make_operands: Make,
    attribute: Callable[..., Attribution],
    picking: dict[str, Any],
    is_copy: bool,
) -> None:
    reader = ("aten::sum", 1.0, make_operands([1000, 1000]))
    steps = device_steps(make_event, ("aten::gather", 2.0, picking), reader)
    said = attribute(steps, 3.0, rules=9)
    assert ("only to copy" in said.sentence) is is_copy
    assert "only to copy" not in attribute(steps, 3.0, rules=8).sentence
    if is_copy:
        assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.APPLICATION)
        assert said.gain_if_removed.estimate == pytest.approx(3.0, rel=0.1)
        assert any("8 of 21 gains" in line for line in said.evidence)
    alone = attribute(device_steps(make_event, ("aten::gather", 2.0, picking)), 2.0, rules=9)
    assert "only to copy" not in alone.sentence, "a step that does nothing else is taken at its word"


def test_a_mask_that_is_written_out_is_named_and_a_word_is_not(
    make_event: Make, attribute: Callable[..., Attribution]
) -> None:
    """2 · 2 · 1 · 4 · 500² · 64 operations: 2.6 ms at the least, 8 taken."""
    heads = [[1, 4, 500, 64]] * 3
    name = "aten::_cudnn_attention_forward"
    masked = {"Input Dims": [*heads, [1, 4, 500, 500]], "Input type": ["float"] * 4}
    said = attribute(device_steps(make_event, (name, 5.0, masked)), 5.0)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.RUNTIME)
    assert "is_causal" in said.next_step
    assert said.gain_if_removed.low < 5.0 / (2.56 / 0.75 / 2) < said.gain_if_removed.high
    word = attribute(device_steps(make_event, (name, 5.0, {"Input Dims": heads, "Input type": ["float"] * 3})), 5.0)
    assert "is_causal" not in word.next_step


def test_a_step_that_only_copies_may_have_nothing_else_to_do(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    copy = ("aten::copy_", 0.8, make_operands((1000, 2000), (1000, 2000)))
    assert attribute(device_steps(make_event, copy), 0.8).bound is Bound.HARDWARE
    used = attribute(device_steps(make_event, copy, ("aten::sum", 0.01, make_operands((10, 10)))), 0.81)
    assert (used.bound, used.weak) == (Bound.SOFTWARE, True), "something reads the copy, however briefly"


PRODUCT = {"Input Dims": [[500, 1000], [1000, 1000]], "Input type": ["float"] * 2}
WIDE, ROW = (1000, 2000), (1000, 1)
"""Eight megabytes: 0.4 ms to read or to write at the ceiling of 20 GB/s; and a factor for each row."""


def test_a_pass_and_the_reduction_of_its_result_are_one(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """Both run at their ceilings, and yet two thirds of the bytes are a result that nobody else reads."""
    weighed, summed = make_operands(WIDE, ROW), make_operands(WIDE)
    steps = device_steps(make_event, ("aten::mul", 0.8, weighed), ("aten::sum", 0.4, summed))
    said = attribute(steps, 1.2, rules=10)
    assert (said.bound, said.bottleneck, said.layer) == (Bound.SOFTWARE, Category.MEMORY_BANDWIDTH, Layer.RUNTIME)
    assert "fused operators avoid" in said.sentence
    assert said.gain_if_removed.estimate == pytest.approx(3.0, rel=0.05)
    assert attribute(steps, 1.2, rules=9).bound is Bound.HARDWARE, "what the edition before said stays"


@pytest.mark.parametrize(
    ("first", "behind"),
    [
        ("aten::mul", [("aten::mm", 0.5, (WIDE, (2000, 5)))]),
        ("aten::mul", [("aten::relu", 0.8, (WIDE,))]),
        ("aten::mul_", []),
    ],
    ids=["a product may read it", "a pass may read it", "written in place"],
)
def test_where_others_may_want_the_result_only_reading_it_back_is_saved(
    make_event: Make,
    make_operands: Make,
    attribute: Callable[..., Attribution],
    first: str,
    behind: list[tuple[str, float, tuple[tuple[int, int], ...]]],
) -> None:
    later = [(name, took, make_operands(*shapes)) for name, took, shapes in behind]
    steps = device_steps(
        make_event, (first, 0.8, make_operands(WIDE, ROW)), ("aten::sum", 0.4, make_operands(WIDE)), *later
    )
    step_ms = 1.2 + sum(took for _, took, _ in behind)
    said = attribute(steps, step_ms, rules=10)
    left = step_ms / (step_ms - 0.4)
    if said.bound is Bound.SOFTWARE:
        assert said.gain_if_removed.estimate == pytest.approx(left, rel=0.03)
    else:
        assert left < 1 / (1 - 0.25), "too little to be called the cause"


@pytest.mark.parametrize(
    ("pass_name", "behind", "reads"),
    [
        ("aten::mul", "aten::sort", WIDE),
        ("aten::mul", "aten::sum", (1000, 500)),
        ("aten::_softmax", "aten::sum", WIDE),
        ("aten::mm", "aten::sum", WIDE),
    ],
    ids=["a sort goes over it again and again", "another size", "rows are normed in several passes", "a product"],
)
def test_what_is_no_pass_with_its_reduction_stays_as_it_was(
    make_event: Make,
    make_operands: Make,
    attribute: Callable[..., Attribution],
    pass_name: str,
    behind: str,
    reads: tuple[int, int],
) -> None:
    operands = make_operands((1000, 1000), (1000, 2000)) if pass_name == "aten::mm" else make_operands(WIDE)
    steps = device_steps(make_event, (pass_name, 0.8, operands), (behind, 0.4, make_operands(reads)))
    after, before = (attribute(steps, 1.2, rules=rules) for rules in (10, 9))
    assert (after.bound, after.layer, after.sentence) == (before.bound, before.layer, before.sentence)
    assert after.gain_if_removed == before.gain_if_removed


def test_rows_against_columns_make_a_table(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution]
) -> None:
    """Differences of all pairs: eight megabytes come of two thousand numbers, and are written at the ceiling."""
    pairs = ("aten::sub", 0.4, make_operands((1000, 1), (1, 2000)))
    table = device_steps(make_event, pairs, ("aten::relu", 0.8, make_operands(WIDE)))
    said = attribute(table, 1.2, rules=10)
    assert (said.bound, said.layer) == (Bound.SOFTWARE, Layer.RUNTIME)
    assert "fused operators avoid" in said.sentence
    assert said.gain_if_removed.low <= 3.0 <= said.gain_if_removed.high, "only the last result is written"
    alone = device_steps(make_event, pairs)
    assert attribute(alone, 0.4, rules=10).bound is Bound.HARDWARE
    assert attribute(alone, 0.4, rules=9).bound is not Bound.HARDWARE, "as if next to nothing had been written"


@pytest.mark.parametrize("operator", ["aten::sort", "aten::topk", "aten::_unique2", "aten::kthvalue"])
def test_a_step_that_mostly_sorts_says_so_and_what_to_try(
    make_event: Make, make_operands: Make, attribute: Callable[..., Attribution], operator: str
) -> None:
    """Nobody is blamed: the whole order may be needed. But fewer bits of weights would help nobody."""
    ordering = (operator, 3.0, make_operands(WIDE))
    steps = device_steps(make_event, ordering, ("aten::mul", 0.8, make_operands(WIDE, ROW)))
    said = attribute(steps, 3.8, rules=10)
    assert (said.bound, said.layer, said.owner) == (Bound.UNDETERMINED, None, None)
    assert "sorts and the like take 79% of it" in said.sentence
    assert "topk" in said.next_step
    assert "shapes or ceilings are missing" in attribute(steps, 3.8, rules=9).sentence
    few = device_steps(make_event, (operator, 0.3, make_operands((1000, 200))), ("aten::mm", 11.0, PRODUCT))
    assert "sorts" not in attribute(few, 11.3, rules=10).sentence


# --- what is said beside it -------------------------------------------------------------------------------------------


def wrapped_products(make_event: Make, took_ms: float, pause_ms: float) -> list[dict[str, Any]]:
    """Steps of one layer on a CPU, whose product (10 ms at the ceiling) stands inside two wrappers, and a pause."""
    events = []
    for step in range(5):
        at = step * (took_ms + pause_ms + 1.0) * 1e3
        events += [
            make_event(f"step#{step}", at, (took_ms + pause_ms) * 1e3, cat="user_annotation"),
            make_event("aten::linear", at, took_ms * 1e3, **PRODUCT),
            make_event("aten::matmul", at + 10, took_ms * 1e3 - 20, **PRODUCT),
            make_event("aten::mm", at + 20, took_ms * 1e3 - 40, **PRODUCT),
        ]
    return events


def test_the_bytes_of_a_product_inside_wrappers_move_once(
    make_event: Make, attribute: Callable[..., Attribution]
) -> None:
    """0.5 + 1 + 0.5 million numbers of four bytes in 20 ms: 0.4 GB/s, and not twice that."""
    steps = wrapped_products(make_event, 20.0, 0.0)
    (said,) = [line for line in attribute(steps, 20.0, rules=10).evidence if "over the whole step" in line]
    assert "at least 0.4 GB/s move of 20 measured" in said
    (arithmetic,) = [line for line in attribute(steps, 20.0, rules=10).evidence if "model arithmetic" in line]
    assert "model arithmetic 50 GFLOP/s of 100 measured" in arithmetic
    (before,) = [line for line in attribute(steps, 20.0, rules=9).evidence if "over the whole step" in line]
    assert "at least 0.8 GB/s" in before, "what the edition before said stays"


def test_far_below_is_said_of_what_is_far_below(make_event: Make, attribute: Callable[..., Attribution]) -> None:
    """At half of the ceiling a product is neither near nor far, though most of the step is the software's."""
    between = attribute(wrapped_products(make_event, 20.0, 8.0), 28.0, rules=10)
    assert (between.bound, between.layer, between.weak) == (Bound.SOFTWARE, Layer.RUNTIME, True)
    assert "neither near it nor far" in between.sentence
    assert "far below" not in between.sentence
    assert not any("many times faster" in line for line in between.evidence)
    far = attribute(wrapped_products(make_event, 50.0, 8.0), 58.0, rules=10)
    assert "by operators far below the ceiling" in far.sentence
    before = attribute(wrapped_products(make_event, 20.0, 8.0), 28.0, rules=9)
    assert before.gain_if_removed == between.gain_if_removed


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("2.91e+03 GB/s of 4.28e+03 measured", "2,910 GB/s of 4,280 measured"),
        ("a step takes 1e+03 ms", "a step takes 1,000 ms"),
        ("makes 6.55e+06 elements", "makes 6,550,000 elements"),
        ("do 3.4e+15 operations, 2.1e-05 of them", "do 3.4e+15 operations, 2.1e-05 of them"),
        ("kernel_1e+03_x and 0.5 ms", "kernel_1e+03_x and 0.5 ms"),
    ],
)
def test_figures_in_thousands_are_written_out(written: str, said: str) -> None:
    assert say_plainly(written) == said


def test_evidence_of_a_large_device_shows_no_exponent(
    write_trace: Write, make_event: Make, make_operands: Make
) -> None:
    copy = Ceiling(name="copy", precision=None, per_s=4280e9, unit="bytes/s", how="declared")
    step = ("aten::add", 2.0, make_operands((40_000, 20_000), (40_000, 20_000)))
    path = write_trace(device_steps(make_event, step))
    (said,) = [line for line in attribute_by(10, path, (copy,), 2.0).evidence if "over the whole step" in line]
    assert "at least 4,800 GB/s move of 4,280" in said
    assert any("4.8e+03 GB/s" in line for line in attribute_by(9, path, (copy,), 2.0).evidence)
