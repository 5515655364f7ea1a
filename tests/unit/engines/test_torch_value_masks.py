"""Results that a mask drops: counted where their only reader drops them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from followed_steps import ROWS, SIDE, Parts, follow  # noqa: E402

pytestmark = pytest.mark.usefixtures("nothing_compiled", "seeded")

QUARTER = torch.arange(ROWS) < ROWS // 4
"""Of the rows, those that are wanted."""


def dropped(step: Callable[[Parts], Any]) -> dict[str, tuple[float, float]]:
    """By product: the shares of elements and of rows that a mask drops."""
    parts = Parts()
    flow = follow(lambda _: step(parts))
    assert flow.whole, flow.why
    return {
        one.name.removeprefix("aten::"): (round(one.masked, 3), round(one.masked_rows, 3))
        for one in flow.operators
        if one.masked > 0.0
    }


def kept_by_a_column(p: Parts) -> Any:
    return (p.x @ p.w) * QUARTER.float()[:, None]


def turned_about(p: Parts) -> Any:
    return QUARTER.float()[:, None] * (p.x @ p.w)


def in_place(p: Parts) -> Any:
    return (p.x @ p.w).mul_(QUARTER[:, None])


def replaced(p: Parts) -> Any:
    return torch.where(QUARTER[:, None], p.x @ p.w, 0.0)


def replaced_elsewhere(p: Parts) -> Any:
    return torch.where(~QUARTER[:, None], p.other, p.x @ p.w)


def filled(p: Parts) -> Any:
    return (p.x @ p.w).masked_fill(~QUARTER[:, None], float("-inf"))


def with_its_bias(p: Parts) -> Any:
    return torch.addmm(p.w[0], p.x, p.w) * QUARTER.float()[:, None]


@pytest.mark.parametrize(
    "step", [kept_by_a_column, turned_about, in_place, replaced, replaced_elsewhere, filled, with_its_bias]
)
def test_rows_that_the_only_reader_drops_are_counted(step: Callable[[Parts], Any]) -> None:
    (found,) = dropped(step).values()
    assert found == (0.75, 0.75)


def test_of_every_expert_asked_all_but_one_is_dropped() -> None:
    experts, chosen = torch.randn(8, SIDE, SIDE), torch.nn.functional.one_hot(torch.arange(ROWS) % 8, 8).float()

    def routed(p: Parts) -> Any:
        return (torch.einsum("nd,edk->nek", p.x, experts) * chosen[:, :, None]).sum(1)

    (found,) = dropped(routed).values()
    assert found == (0.875, 0.875)


def test_elements_here_and_there_leave_rows_that_are_wanted() -> None:
    checks = (torch.arange(ROWS)[:, None] + torch.arange(SIDE)) % 2 == 0
    assert dropped(lambda p: (p.x @ p.w) * checks) == {"mm": (0.5, 0.0)}


def read_besides(p: Parts) -> Any:
    made = p.x @ p.w
    return made * QUARTER[:, None], made.sum()


def left(p: Parts) -> Any:
    p.kept = p.x @ p.w
    return p.kept * QUARTER[:, None]


def changed_before(p: Parts) -> Any:
    made = p.x @ p.w
    made += 1.0
    return made * QUARTER[:, None]


def scaled(p: Parts) -> Any:
    return (p.x @ p.w) * p.w[0]


def by_a_number(p: Parts) -> Any:
    return (p.x @ p.w) * torch.zeros(())


def no_product(p: Parts) -> Any:
    return (p.x + p.other) * QUARTER[:, None]


def trained(p: Parts) -> Any:
    p.train(lambda x: p.net[0](x) * QUARTER.float()[:, None], p.x)


@pytest.mark.parametrize("step", [read_besides, left, changed_before, scaled, by_a_number, no_product])
def test_what_somebody_may_want_is_not_counted(step: Callable[[Parts], Any]) -> None:
    assert dropped(step) == {}


def test_training_through_a_mask_is_followed() -> None:
    """The gradient of what is dropped is 0 as well; the forward product has the mask for its only reader."""
    assert set(dropped(trained)) <= {"addmm"}
