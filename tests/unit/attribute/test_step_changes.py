"""Two traces against each other: parts add up to the difference, a planted change is found, and doubt stays doubt."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from lynxbench.attribute.judge.step_changes import ChangePart, StepAccount, StepDifference, compare_steps
from lynxbench.attribute.say.change_lines import say_change
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category, OperatorTime
from lynxbench.model.layers import DEFAULT_OWNERS, Layer

KERNELS = (("gemm", Category.COMPUTE, 2.0, 4.0), ("norm", Category.MEMORY_BANDWIDTH, 4.0, 2.0))
"""Name, category, calls, milliseconds."""
WAITS = {Category.LAUNCH: 1.0, Category.INPUT: 1.0}


def account(
    kernels: tuple[tuple[str, Category, float, float], ...] = KERNELS,
    waits: dict[Category, float] = WAITS,
    *,
    half_width_ms: float | None = 0.05,
    device: str | None = "NVIDIA H200",
    doubt: str = "",
    unit: str = "step",
    whole: bool = True,
) -> StepAccount:
    spent = dict(waits)
    for _, category, _, ms in kernels:
        spent[category] = spent.get(category, 0.0) + ms
    total = sum(spent.values())
    operators = tuple(
        OperatorTime(name=name, category=category, calls_per_step=calls, ms_per_step=ms, share=ms / total)
        for name, category, calls, ms in kernels
    )
    return StepAccount(total, spent, operators, half_width_ms, device, unit, whole, doubt)


def leading(difference: StepDifference) -> ChangePart:
    assert difference.leading is not None, difference.reason
    assert math.fsum(part.ms for part in difference.parts) == pytest.approx(difference.ms)
    return difference.leading


def test_time_of_each_operator_before_and_after_what_is_new_and_what_is_gone() -> None:
    after = account((KERNELS[0], ("fused_norm", Category.MEMORY_BANDWIDTH, 1.0, 5.0)))
    difference = compare_steps(account(), after)
    rows = {one.name: (one.before_ms, one.after_ms, one.note) for one in difference.operators}
    assert rows == {"gemm": (4.0, 4.0, ""), "norm": (2.0, None, "gone"), "fused_norm": (None, 5.0, "new")}
    assert [one.name for one in difference.operators] == ["fused_norm", "norm", "gemm"], "the largest change first"
    part = leading(difference)
    assert (part.words, part.ms, part.certain) == ("operators that only one of the two runs", 3.0, False)
    said = say_change(difference, "old.json", owner=DEFAULT_OWNERS.__getitem__)
    assert (said.layer, said.owner) == (None, None), "kernels change with the runtime, and with the model"
    assert [suspect for suspect, _, _ in said.suspects] == [Layer.RUNTIME, Layer.APPLICATION]


@pytest.mark.parametrize(
    ("category", "layer"),
    [
        (Category.INPUT, Layer.APPLICATION),
        (Category.SYNCHRONIZATION, Layer.APPLICATION),
        (Category.LAUNCH, Layer.RUNTIME),
        (Category.ALLOCATOR, Layer.FRAMEWORK),
        (Category.COMMUNICATION, Layer.SYSTEM),
        (Category.TRANSFER, Layer.APPLICATION),
        (Category.QUEUEING, Layer.DEMAND),
    ],
)
def test_a_wait_that_grew_lies_in_the_layer_of_its_cause(category: Category, layer: Layer) -> None:
    after = account(waits={**WAITS, category: WAITS.get(category, 0.0) + 3.0})
    said = say_change(compare_steps(account(), after), "old", owner=DEFAULT_OWNERS.__getitem__)
    assert (said.layer, said.owner) == (layer, DEFAULT_OWNERS[layer])
    assert "+3 ms" in said.sentence


@pytest.mark.parametrize("category", [Category.TRANSFER, Category.COMMUNICATION, Category.LAUNCH])
def test_a_part_of_a_step_names_suspects_and_nobody_else(category: Category) -> None:
    after = account(waits={**WAITS, category: 5.0}, whole=False)
    for pair in ((account(), after), (after, account())):
        said = say_change(compare_steps(*pair), "old", owner=DEFAULT_OWNERS.__getitem__)
        assert (said.layer, said.owner) == (None, None)
        assert said.suspects


def test_what_a_server_receives_may_be_slow_at_the_other_end() -> None:
    said = say_change(compare_steps(account(), account(waits={**WAITS, Category.NETWORK: 5.0})), "old", owner=str)
    assert said.layer is None
    assert said.suspects[0][0] is Layer.SYSTEM


def test_a_wait_that_shrank_is_found_too() -> None:
    difference = compare_steps(account(waits={Category.LAUNCH: 6.0}), account(waits={Category.LAUNCH: 1.0}))
    assert leading(difference).ms == pytest.approx(-5.0)
    assert next(iter(difference.leading.layers)) is Layer.RUNTIME  # type: ignore[union-attr]


def test_more_calls_and_longer_calls_are_told_apart() -> None:
    more = compare_steps(account(), account((("gemm", Category.COMPUTE, 4.0, 8.0), KERNELS[1])))
    assert leading(more).words.startswith("calls of operators that both run")
    longer = compare_steps(account(), account((("gemm", Category.COMPUTE, 2.0, 8.0), KERNELS[1])))
    part = leading(longer)
    assert part.words == "the same operators at each call"
    assert not part.certain, "a clock, other shapes and another version look the same"


def test_the_same_kernels_on_another_device_are_the_accelerator_s() -> None:
    after = account(tuple((name, c, calls, 2 * ms) for name, c, calls, ms in KERNELS), device="NVIDIA A100")
    said = say_change(compare_steps(account(), after), "old", owner=DEFAULT_OWNERS.__getitem__)
    assert said.layer is Layer.ACCELERATOR
    unnamed = account(tuple((name, c, calls, 2 * ms) for name, c, calls, ms in KERNELS), device=None)
    assert say_change(compare_steps(account(), unnamed), "old", owner=DEFAULT_OWNERS.__getitem__).layer is None


def test_an_operator_that_changes_its_category_moves_no_time_to_nowhere() -> None:
    before = account((("tiny", Category.LAUNCH, 10.0, 1.0), KERNELS[0]), {})
    after = account((("tiny", Category.MEMORY_BANDWIDTH, 10.0, 5.0), KERNELS[0]), {})
    difference = compare_steps(before, after)
    assert [one.ms for one in difference.operators if one.name == "tiny"] == [4.0]
    assert math.fsum(part.ms for part in difference.parts) == pytest.approx(4.0)
    assert not any("does not account" in part.words for part in difference.parts if abs(part.ms) > 1e-9)


def test_time_that_no_operator_shows_stays_nobody_s() -> None:
    difference = compare_steps(account(), account(waits={**WAITS, Category.UNATTRIBUTED: 4.0}))
    part = leading(difference)
    assert part.words == "time that the record does not account for"
    assert say_change(difference, "old", owner=DEFAULT_OWNERS.__getitem__).suspects == ()


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (account(), "within what steps"),
        (account(waits={**WAITS, Category.INPUT: 1.05}), "within what steps"),
        (account(half_width_ms=None), "the same time"),
        (account(waits={Category.LAUNCH: 3.0, Category.INPUT: 3.0, Category.IDLE: 2.0}), "no single part"),
        (account(waits={**WAITS, Category.INPUT: 9.0}, doubt="is damaged or incomplete"), "the later trace is damaged"),
    ],
)
def test_where_nothing_stands_out_nobody_is_named(after: StepAccount, words: str) -> None:
    difference = compare_steps(account(), after)
    said = say_change(difference, "old", owner=DEFAULT_OWNERS.__getitem__)
    assert difference.leading is None
    assert (said.layer, said.owner, said.suspects) == (None, None, ())
    assert words in said.sentence


def test_a_spread_of_the_steps_that_covers_the_difference_is_no_difference() -> None:
    after = account(waits={**WAITS, Category.INPUT: 3.0}, half_width_ms=2.5)
    assert compare_steps(account(), after).leading is None


def test_two_gains_that_cancel_are_no_single_cause() -> None:
    after = account((("gemm", Category.COMPUTE, 2.0, 1.0), KERNELS[1]), {**WAITS, Category.INPUT: 4.5})
    assert compare_steps(account(), after).leading is None


def test_one_step_of_each_says_that_chance_is_not_known() -> None:
    after = account(waits={**WAITS, Category.INPUT: 5.0}, half_width_ms=None)
    said = say_change(compare_steps(account(half_width_ms=None), after), "old", owner=DEFAULT_OWNERS.__getitem__)
    assert "too few steps" in said.sentence


def test_requests_and_steps_cannot_be_compared() -> None:
    with pytest.raises(BadInput, match="a step cannot be held against a request"):
        compare_steps(account(), account(unit="request"))


def test_an_empty_earlier_step_divides_nothing(tmp_path: Path) -> None:
    said = say_change(compare_steps(StepAccount(0.0, {}), account()), "old", owner=DEFAULT_OWNERS.__getitem__)
    assert "0 before" in said.sentence
