"""Products whose results are only added together are counted as one, and none whose parts somebody needs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from followed_steps import SIDE, Counts, Parts, counted

pytestmark = pytest.mark.usefixtures("nothing_compiled", "seeded")


def accumulated(p: Parts) -> None:
    p.adam.zero_grad()
    for part in p.x.split(32):
        p.net(part).square().mean().backward()
    p.adam.step()


def twice(p: Parts) -> object:
    return p.x @ p.w + p.x @ p.w


def trained(p: Parts) -> None:
    p.train(p.net, p.x)


def summed(p: Parts) -> object:
    total = torch.zeros(SIDE, SIDE)
    for one, other in zip(p.x.split(32), p.other.split(32), strict=True):
        total = total + one.t() @ other
    return total


def summed_in_place(p: Parts) -> object:
    total = torch.zeros(SIDE, SIDE)
    for one, other in zip(p.x.split(32), p.other.split(32), strict=True):
        total += one.t() @ other
    return total


def summed_in_a_tree(p: Parts) -> object:
    one, other, third, last = (part.t() @ p.other[:32] for part in p.x.split(32))
    return (one + other) + (third + last)


def parts_kept(p: Parts) -> object:
    p.kept = [one.t() @ other for one, other in zip(p.x.split(32), p.other.split(32), strict=True)]
    total = p.kept[0]
    for one in p.kept[1:]:
        total = total + one
    return total


def parts_looked_at(p: Parts) -> object:
    total, longest = torch.zeros(SIDE, SIDE), torch.zeros(())
    for one, other in zip(p.x.split(32), p.other.split(32), strict=True):
        part = one.t() @ other
        longest = torch.maximum(longest, part.norm())
        total = total + part
    return total, longest


def sums_on_the_way_read(p: Parts) -> object:
    total, seen = torch.zeros(SIDE, SIDE), torch.zeros(())
    for one, other in zip(p.x.split(32), p.other.split(32), strict=True):
        total = total + one.t() @ other
        seen = seen + total[0, 0]
    return total, seen


def each_needs_the_sum(p: Parts) -> object:
    total = p.w
    for _ in range(4):
        total = total + total @ p.v
    return total


def weighted(p: Parts) -> object:
    total = torch.zeros(SIDE, SIDE)
    for number, (one, other) in enumerate(zip(p.x.split(32), p.other.split(32), strict=True)):
        total = torch.add(total, one.t() @ other, alpha=0.5 + number)
    return total


def of_rows_of_the_sum(p: Parts) -> object:
    total = torch.zeros(2 * SIDE, SIDE)
    for number, (one, other) in enumerate(zip(p.x.split(32), p.other.split(32), strict=True)):
        total[number % 2 * SIDE :][:SIDE] += one.t() @ other
    return total


def looked_at_by_the_host_between(p: Parts) -> object:
    total = torch.zeros(SIDE, SIDE)
    for one, other in zip(p.x.split(32), p.other.split(32), strict=True):
        total = total + one.t() @ other
        if float(one.sum()) > 1e9:
            break
    return total


def clipped_one_by_one(p: Parts) -> object:
    total = torch.zeros(SIDE, SIDE)
    for one, other in zip(p.x.split(32), p.other.split(32), strict=True):
        total = total + (one.t() @ other).clamp(-1, 1)
    return total


def updated_between(p: Parts) -> None:
    for part in p.x.split(32):
        p.train(p.net, part)


def two_towers(p: Parts) -> object:
    return (p.x @ p.w).relu() + (p.other @ p.v).relu()


def residual_stream(p: Parts) -> object:
    hidden = p.x
    for weight in p.w, p.v:
        hidden = hidden + torch.tanh(hidden) @ weight
    return hidden


@pytest.mark.parametrize(
    ("step", "gone"),
    [
        (summed, {"mm": 3, "add": 3}),
        (summed_in_place, {"mm": 3, "add_": 3}),
        (summed_in_a_tree, {"mm": 3, "add": 3}),
        (accumulated, {"mm": 9, "add_": 9}),
        (parts_kept, {}),
        (parts_looked_at, {}),
        (sums_on_the_way_read, {}),
        (each_needs_the_sum, {}),
        (weighted, {}),
        (of_rows_of_the_sum, {}),
        (looked_at_by_the_host_between, {}),
        (clipped_one_by_one, {}),
        (updated_between, {}),
        (two_towers, {}),
        (residual_stream, {}),
        (twice, {}),
        (trained, {}),
    ],
)
def test_parts_that_are_only_summed(step: Callable[[Parts], object], gone: Counts) -> None:
    parts = Parts()
    assert counted(lambda _: step(parts), "summed") == gone
