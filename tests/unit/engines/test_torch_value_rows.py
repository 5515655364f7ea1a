"""Rows that a product had multiplied before: counted where they come again, and told from rows that look alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from followed_steps import ROWS, SIDE, Parts, follow  # noqa: E402

pytestmark = pytest.mark.usefixtures("nothing_compiled", "seeded")

Step = Callable[[Parts], Any]
QUARTER = ROWS // 4


def repeated(step: Step) -> list[tuple[float, float]]:
    """Of each product: the shares of rows that come again, and that surely are no accident."""
    parts = Parts()
    parts.net.requires_grad_(False)
    flow = follow(lambda _: step(parts))
    assert flow.whole, flow.why
    return [
        (round(one.repeated, 2), round(one.surely_repeated, 2))
        for one in flow.operators
        if one.repeated > 0.0 and one.name.endswith("mm")
    ]


def padded(p: Parts, *, filler: float = 0.5) -> torch.Tensor:
    return torch.cat((p.x[:QUARTER], torch.full((ROWS - QUARTER, SIDE), filler)))


REST = 1.0 - 0.25 - 1 / ROWS


def test_what_fills_up_a_batch_is_surely_needless() -> None:
    assert repeated(lambda p: padded(p) @ p.w) == [(pytest.approx(REST, abs=0.01),) * 2]
    assert repeated(lambda p: p.w @ padded(p).T) == [(pytest.approx(REST, abs=0.01),) * 2], "columns as well"
    assert repeated(lambda p: padded(p, filler=0.0) @ p.w) == [], "zeros are counted as such"


def test_zeros_that_a_bias_makes_alike_are_counted_from_there_on() -> None:
    found = repeated(lambda p: p.net(padded(p, filler=0.0)))
    halved = pytest.approx(REST / 2, abs=0.01)
    assert found == [(halved, halved), (pytest.approx(REST, abs=0.01),) * 2], "of two that are alike the second"


def test_what_a_function_of_each_element_makes_of_them_is_made_again_too() -> None:
    parts = Parts()
    parts.net.requires_grad_(False)
    flow = {one.name: one for one in follow(lambda _: parts.net(padded(parts))).operators}
    assert flow["aten::gelu"].surely_repeated == pytest.approx(REST, abs=0.01)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_in_other_formats(dtype: Any) -> None:
    found = repeated(lambda p: padded(p).to(dtype) @ p.w.to(dtype))
    assert found == [(pytest.approx(REST, abs=0.01),) * 2]


def drawn_from_few(x: Any) -> Any:
    return x[:16][torch.arange(ROWS) % 16]


def all_alike(x: Any) -> Any:
    return x[:1].repeat(ROWS, 1)


@pytest.mark.parametrize(("draw", "share"), [(drawn_from_few, 1.0 - 16 / ROWS), (all_alike, 1.0 - 1 / ROWS)])
def test_inputs_that_are_alike_may_stand_for_others_unless_the_step_repeats_them(
    draw: Callable[[Any], Any], share: float
) -> None:
    outside = draw(torch.randn(ROWS, SIDE))
    assert repeated(lambda p: outside @ p.w) == [(pytest.approx(share, abs=0.01), 0.0)]
    assert repeated(lambda p: draw(p.x) @ p.w) == [(pytest.approx(share, abs=0.01),) * 2]


def test_what_is_made_of_rows_that_the_step_repeats_is_repeated_by_it() -> None:
    parts = Parts()
    parts.net.requires_grad_(False)
    found = follow(lambda _: parts.net(drawn_from_few(parts.x))).operators
    assert {round(one.surely_repeated, 2) for one in found if one.repeated} == {0.88}
    assert sum(one.calls for one in found if one.name == "aten::addmm") == 3


def test_words_from_a_table_that_is_no_smaller_are_repeated_by_the_text() -> None:
    table, words = torch.randn(200, SIDE), torch.arange(ROWS) % 40
    assert repeated(lambda p: table[words] @ p.w) == [(pytest.approx(1.0 - 40 / ROWS, abs=0.01), 0.0)]


def test_a_prefix_taken_up_again_for_each_token_is_surely_needless() -> None:
    def step(p: Parts) -> Any:
        x = p.x[:64]
        for _ in range(3):
            x = torch.cat((x, (x @ p.w)[-1:].tanh()))
        return x

    assert repeated(step) == [(pytest.approx(64 / 65, abs=0.01),) * 2, (pytest.approx(65 / 66, abs=0.01),) * 2]


def test_also_where_it_differs_by_rounding() -> None:
    def step(p: Parts) -> Any:
        return [p.x[:rows] * (1.0 + rows * 1e-8) @ p.w for rows in (64, 80, 96)]

    assert [round(one, 1) for _, one in repeated(step)] == [0.8, 0.8]


def test_windows_that_slide() -> None:
    def step(p: Parts) -> Any:
        return [p.x[start : start + 64] @ p.w for start in range(0, 64, 16)]

    assert repeated(step) == [(pytest.approx(0.75 * 3 / 4, abs=0.01),) * 2], "three of four calls"


def test_the_same_row_of_another_matrix_is_another_row() -> None:
    shared = torch.randn(1, 16, SIDE)
    assert repeated(lambda p: torch.bmm(shared.repeat(8, 1, 1), torch.randn(8, SIDE, SIDE))) == []
    one = repeated(lambda p: torch.bmm(shared.repeat(8, 1, 1), p.w.expand(8, SIDE, SIDE)))
    assert one == [(pytest.approx(7 / 8, abs=0.01),) * 2]


def settling(p: Parts) -> Any:
    x = p.x
    for _ in range(200):
        x = functional.normalize(x @ (p.w @ p.w.T), dim=1)
    return x


def nearly_alike(p: Parts) -> Any:
    """Within what marks are rounded to, and yet each another."""
    return (p.x[:1] * (1.0 + torch.arange(ROWS)[:, None] * 1e-6)) @ p.w


def growing_of_others(p: Parts) -> Any:
    return [torch.randn(rows, SIDE) @ p.w for rows in (64, 96, 128)]


def the_same_rows_with_other_weights(p: Parts) -> Any:
    return [p.x[:rows] @ p.w.mul(rows) for rows in (64, 96, 128)]


def a_few_alike(p: Parts) -> Any:
    return torch.cat((p.x[:1], p.x[:1], p.x)) @ p.w


def what_a_loss_hands_back(p: Parts) -> Any:
    p.net.requires_grad_(True)
    p.net.zero_grad()
    p.net(p.x).sum().backward()
    return [one.grad.clone() for one in p.net.parameters()]


@pytest.mark.parametrize(
    "step",
    [settling, nearly_alike, growing_of_others, the_same_rows_with_other_weights, a_few_alike, what_a_loss_hands_back],
)
def test_nothing_is_said_of_rows_that_only_look_alike(step: Step) -> None:
    assert repeated(step) == []


# --- samples, and rows of the step before ---


def sampled(step: Step) -> dict[str, tuple[float, float]]:
    parts = Parts()
    flow = follow(lambda _: step(parts))
    assert flow.whole, flow.why
    return {
        one.name.removeprefix("aten::"): (round(one.repeated, 2), round(one.surely_repeated, 2))
        for one in flow.operators
        if one.repeated > 0.0
    }


def test_samples_that_a_convolution_has_several_times() -> None:
    photos, weights = torch.randn(4, 3, 24, 24), torch.randn(8, 3, 3, 3)
    many = photos[torch.arange(16) % 4]
    assert sampled(lambda _: functional.conv2d(photos.repeat(4, 1, 1, 1), weights)) == {"convolution": (0.75, 0.75)}
    assert sampled(lambda _: functional.conv2d(many, weights)) == {"convolution": (0.75, 0.0)}
    assert sampled(lambda _: functional.conv2d(photos, weights)) == {}


def same_rows(*, share: float, dtype: Any = torch.float32) -> dict[str, float]:
    """Of a batch whose first part stays as it is from step to step."""
    still, parts = torch.randn(ROWS, SIDE, dtype=dtype), Parts()
    first = torch.arange(ROWS)[:, None] < share * ROWS
    drawn = [torch.where(first, still, torch.randn(ROWS, SIDE, dtype=dtype)) for _ in range(4)]
    flow = follow(lambda index: (drawn[index] @ parts.w.to(dtype)).relu())
    return {one.name.removeprefix("aten::"): round(one.same_rows, 2) for one in flow.operators if one.same_rows}


def test_rows_that_are_the_same_in_each_step() -> None:
    assert same_rows(share=0.75) == {"mm": 0.75, "relu": 0.75}
    assert same_rows(share=0.75, dtype=torch.bfloat16) == {"mm": 0.75, "relu": 0.75}
    assert same_rows(share=0.0) == {}


def test_a_table_of_which_a_part_is_changed_in_each_step() -> None:
    table, parts = torch.randn(ROWS, SIDE), Parts()
    changed = torch.randperm(ROWS)[: ROWS // 8]

    def step(_: int) -> Any:
        table[changed] = torch.randn(len(changed), SIDE)
        return table @ parts.w

    assert [round(one.same_rows, 2) for one in follow(step).operators if one.same_rows] == [0.88]


def test_words_that_come_again_in_another_order_are_an_accident() -> None:
    table, parts = torch.randn(200, SIDE), Parts()
    texts = [torch.randint(0, 200, (ROWS,)) for _ in range(4)]
    assert not any(one.same_rows for one in follow(lambda index: table[texts[index]] @ parts.w).operators)


def test_a_state_that_hardly_changes_is_another_one() -> None:
    parts = Parts()

    def step(_: int) -> Any:
        parts.x = parts.x + 1e-6
        return parts.x @ parts.w

    assert not any(one.same_rows for one in follow(step).operators)


def test_no_random_number_is_drawn_from_the_steps_own() -> None:
    def step(p: Parts) -> Any:
        return torch.rand(3), padded(p) @ p.w

    torch.manual_seed(11)
    wanted = [step(Parts())[0] for _ in range(1)]
    torch.manual_seed(11)
    parts = Parts()
    drawn: list[Any] = []
    follow(lambda _: drawn.append(step(parts)[0]))
    assert torch.equal(drawn[0], wanted[0])
