"""Operands that a step made of few numbers, work that is the same in each step, and places picked in even steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from followed_steps import SIDE, Parts, Step, follow
from lynxbench.attribute.read.dataflow import OperatorFlow

pytestmark = pytest.mark.usefixtures("nothing_compiled")

SMALL = 8
WIDE = 1024
SMALL_TIMES = SIDE // SMALL
Made = Callable[[Parts], torch.Tensor]


def flows(step: Step) -> dict[str, OperatorFlow]:
    flow = follow(step)
    assert flow.whole, flow.why
    return {one.name.removeprefix("aten::"): one for one in flow.operators}


def multiplied(made: Made) -> OperatorFlow | None:
    """Of a product with what is made in the step."""
    parts = Parts()
    return flows(lambda _: parts.x @ made(parts)).get("mm")


def places(size: int) -> torch.Tensor:
    return torch.arange(size)


FACTORED: dict[str, Made] = {
    "kron": lambda parts: torch.kron(parts.w[:SMALL, :SMALL], parts.v[:SMALL, :SMALL]),
    "kron of three": lambda parts: torch.kron(
        torch.kron(parts.w[:4, :4], parts.v[:4, :4]), parts.w[4:8, 4:8].contiguous()
    ),
    "by hand": lambda parts: (parts.w[:8, :8][:, None, :, None] * parts.v[:8, :8][None, :, None]).reshape(SIDE, SIDE),
    "scaled": lambda parts: torch.outer(parts.w[0], parts.v[0]) * 3.0 - 1.0,
    "divided": lambda parts: torch.outer(parts.w[0], parts.v[0]) / 3.0,
    "outer": lambda parts: torch.outer(parts.w[0], parts.v[0]) * 0.5,
    "rows and columns": lambda parts: parts.w[:, :1] + parts.v[:1],
    "repeated": lambda parts: parts.w[:1].repeat(SIDE, 1),
    "repeated in place": lambda parts: parts.w[:SMALL].repeat_interleave(SMALL_TIMES, dim=0),
    "expanded": lambda parts: parts.w[0].expand(SIDE, SIDE),
    "a function of what is repeated": lambda parts: parts.w[:1].expand(SIDE, SIDE).contiguous().exp(),
    "a sum of low ranks": lambda parts: parts.w[:, :2] @ parts.v[:2] + parts.v[:, :1] * parts.w[:1],
    "running sums": lambda parts: torch.ones(SIDE, SIDE).triu(),
    "low rank": lambda parts: parts.w[:, :2] @ parts.v[:2],
    "given room": lambda parts: torch.mul(parts.w[:, :1], parts.v[:1], out=torch.empty(SIDE, SIDE)),
}
OPEN: dict[str, Made] = {
    "toeplitz": lambda parts: parts.x.flatten()[: 2 * SIDE][places(SIDE)[:, None] - places(SIDE) + SIDE],
    "symmetric toeplitz": lambda parts: parts.w[0][(places(SIDE)[:, None] - places(SIDE)).abs()],
    "those alike": lambda parts: (parts.w[0].gt(0)[:, None] == parts.w[0].gt(0)).float(),
    "a diagonal": lambda parts: torch.diag_embed(parts.w[0]),
    "blocks": lambda parts: torch.block_diag(*parts.w.flatten()[: SMALL_TIMES * 64].view(-1, SMALL, SMALL).unbind()),
    "ones of classes": lambda parts: functional.one_hot(places(SIDE) % 7, SIDE).float(),
    "low rank under a mask": lambda parts: (parts.w[:, :2] @ parts.v[:2]).tril(),
    "an area between": lambda parts: (places(SIDE)[:, None] - places(SIDE)).abs().le(9).float() * parts.w[:1],
}
HEALTHY: dict[str, Made] = {
    "as it is": lambda parts: parts.w,
    "turned": lambda parts: parts.w.T.contiguous(),
    "cast": lambda parts: parts.w.double().float(),
    "dequantised": lambda parts: parts.w.mul(100).to(torch.int8).float() * parts.v[0],
    "activated": lambda parts: (parts.w @ parts.v).relu(),
    "shifted": lambda parts: parts.w + parts.v[0],
    "joined": lambda parts: torch.cat((parts.w[:32], parts.v[:32])),
    "a kernel": lambda parts: (parts.w[:, :1] - parts.v[:1]).square().neg().exp(),
    "scores": lambda parts: (parts.w[:, :2] @ parts.v[:2]).softmax(-1),
    "drawn": lambda parts: torch.randn(SIDE, SIDE),
    "drawn by a table": lambda parts: torch.bernoulli(torch.full((SIDE, SIDE), 0.5)),
    "gated": lambda parts: (parts.w[:, :2] @ parts.v[:2]) * (parts.v[:, :2] @ parts.w[:2]),
    "codes": lambda parts: parts.w[0][parts.v.abs().mul(9).long().clamp(max=SIDE - 1)],
    "half of it": lambda parts: parts.w.triu(),
}


@pytest.mark.parametrize("made", FACTORED.values(), ids=FACTORED)
def test_a_factor_of_few_numbers_whose_order_is_known(made: Made) -> None:
    found = multiplied(made)
    assert found is not None
    assert found.structured == found.factored == 1
    assert found.few <= 0.25


@pytest.mark.parametrize("made", OPEN.values(), ids=OPEN)
def test_a_factor_of_few_numbers_that_are_placed(made: Made) -> None:
    found = multiplied(made)
    assert found is not None
    assert (found.structured, found.factored) == (1, 0)


@pytest.mark.parametrize("made", HEALTHY.values(), ids=HEALTHY)
def test_a_factor_of_as_many_numbers_is_none(made: Made) -> None:
    found = multiplied(made)
    assert found is None or found.structured == 0


def test_a_factor_repeated_over_a_batch_takes_no_more_arithmetic() -> None:
    parts = Parts()
    x, w = torch.randn(16, SIDE, SIDE), parts.w
    found = flows(lambda _: torch.bmm(x, w.expand(16, SIDE, SIDE)) + torch.bmm(x, w.repeat(16, 1, 1)))
    assert "bmm" not in found or found["bmm"].structured == 0


def test_heads_that_share_keys_are_healthy() -> None:
    q, k = torch.randn(2, 8, 64, 16), torch.randn(2, 2, 64, 16)

    def step(_: int) -> torch.Tensor:
        keys = k.repeat_interleave(4, dim=1)
        return (q @ keys.transpose(2, 3)).softmax(-1) @ keys

    assert all(one.structured == 0 for one in flows(step).values())


def test_windows_of_a_picture_are_what_a_convolution_reads_too() -> None:
    x, w = torch.randn(1, 4, 16, 16), torch.randn(8, 4 * 49)
    assert all(one.structured == 0 for one in flows(lambda _: w @ functional.unfold(x, 7)[0]).values())


def test_a_filter_of_few_numbers() -> None:
    x, g = torch.randn(1, 4, 64, 64), torch.randn(31)
    found = flows(lambda _: functional.conv2d(x, torch.outer(g, g).expand(4, 1, 31, 31), groups=4))
    assert found["convolution"].structured == 1
    assert found["convolution"].few == pytest.approx(62 / 31**2)


def test_what_a_loss_hands_back_is_not_the_steps_own_doing() -> None:
    parts = Parts()
    w = parts.w.requires_grad_()

    def step(_: int) -> torch.Tensor:
        w.grad = None
        (parts.x @ w).sum().backward()
        return torch.zeros(())

    assert "mm" not in flows(step) or flows(step)["mm"].structured == 0


def test_a_table_of_few_numbers_is_one_in_the_backward_pass_too() -> None:
    parts = Parts()
    x = parts.x.requires_grad_()

    def step(_: int) -> torch.Tensor:
        x.grad = None
        (x @ torch.outer(parts.w[0], parts.v[0])).square().sum().backward()
        return torch.zeros(())

    assert flows(step)["mm"].structured >= 1


# --- the same in each step --------------------------------------------------------------------------------------------


def changing(step: Callable[[Parts, torch.Tensor], torch.Tensor]) -> dict[str, int]:
    """By operator, calls that are constant in a step whose data comes in anew."""
    parts = Parts()
    data = torch.randn(8, 16, SIDE)
    return {name: one.constant for name, one in flows(lambda index: step(parts, data[index])).items() if one.constant}


def test_work_on_what_never_changes() -> None:
    assert changing(lambda parts, x: x @ torch.linalg.inv(parts.w)) == {"linalg_inv_ex": 1}
    assert changing(lambda parts, x: x @ (parts.w @ parts.v)) == {"mm": 1}


def test_weights_with_other_activations_are_no_such_work() -> None:
    assert changing(lambda parts, x: (x @ parts.w).relu() @ parts.v) == {}


def test_a_state_goes_on_though_no_data_comes_in() -> None:
    parts = Parts()

    def step(_: int) -> torch.Tensor:
        parts.kept = torch.linalg.inv(parts.w) @ (parts.x.T if parts.kept is None else parts.kept)
        return parts.kept

    step(0)
    assert flows(step)["linalg_inv_ex"].constant == 1


def test_where_nothing_changes_nobody_knows_what_will() -> None:
    parts = Parts()
    assert "linalg_inv_ex" not in flows(lambda _: parts.x @ torch.linalg.inv(parts.w))


def test_weights_that_are_trained_are_no_other_input() -> None:
    parts = Parts()
    table = parts.w @ parts.v  # so that it is no work of the step

    def step(_: int) -> None:
        parts.train(parts.net, (parts.x @ table).relu())

    assert all(one.constant == 0 for one in flows(step).values())


def test_statistics_that_are_kept_are_no_other_input() -> None:
    parts, norm = Parts(), torch.nn.BatchNorm1d(SIDE)
    with torch.no_grad():
        found = flows(lambda _: norm(parts.x @ parts.w) @ parts.v)
    assert all(one.constant == 0 for one in found.values())


def test_a_table_that_is_written_to_between_is_not_the_same() -> None:
    parts = Parts()

    def step(x: torch.Tensor) -> torch.Tensor:
        out = x @ torch.linalg.inv(parts.w)
        parts.w.add_(0.001)
        return out

    data = torch.randn(8, 16, SIDE)
    assert all(one.constant == 0 for one in flows(lambda index: step(data[index])).values())


def test_random_numbers_are_not_the_same() -> None:
    assert changing(lambda parts, x: x @ torch.rand(SIDE, SIDE)) == {}


# --- picked by number -------------------------------------------------------------------------------------------------

EVEN: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "every other": ("index", lambda x: x[:, torch.arange(0, SIDE, 2)]),
    "a window": ("index_select", lambda x: x.index_select(0, torch.arange(8, 40))),
    "a grid": ("index", lambda x: x[torch.arange(0, 64, 4)[:, None], torch.arange(0, 64, 2)]),
    "gathered": ("gather", lambda x: x.gather(1, torch.arange(0, 32).expand(128, -1))),
    "positions": ("embedding", lambda x: functional.embedding(torch.arange(64), x)),
}
UNEVEN: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "mixed": ("index", lambda x: x[torch.tensor([3, 1, 2, 40])]),
    "backwards": ("index", lambda x: x[torch.arange(63, -1, -1)]),
    "some": ("index", lambda x: x[x[:, 0] > 0]),
    "in pairs": ("index_select", lambda x: x.index_select(0, torch.arange(0, 64) // 2)),
}


@pytest.mark.parametrize(("name", "picked"), EVEN.values(), ids=EVEN)
def test_places_that_count_up_evenly_are_a_slice(name: str, picked: Callable[[torch.Tensor], Any]) -> None:
    parts = Parts()
    assert flows(lambda _: picked(parts.x))[name].sliced == 1


@pytest.mark.parametrize(("name", "picked"), UNEVEN.values(), ids=UNEVEN)
def test_other_places_are_none(name: str, picked: Callable[[torch.Tensor], Any]) -> None:
    parts = Parts()
    found = flows(lambda _: picked(parts.x))
    assert name not in found or found[name].sliced == 0


def test_what_rows_by_number_move_is_seen() -> None:
    wide = torch.randn(128, WIDE)
    rows = torch.tensor([5, 3, 9, 1])
    found = flows(lambda _: wide[rows])["index"]
    assert found.sizes == (tuple(wide.shape),), "as the profiler records it"
    assert found.moved == 2 * 4 * WIDE * 4 + 4 * 8


def test_rows_by_truths_move_too() -> None:
    wide, some = torch.randn(128, WIDE), torch.arange(128) % 2 == 0
    found = flows(lambda _: (wide[some], wide.view(2, 64, WIDE)[some.view(2, 64)]))["index"]
    assert found.moved == 2 * 64 * WIDE * 4 + 128


def test_short_rows_from_anywhere_are_not_read_as_a_copy_reads() -> None:
    narrow = torch.randn(128, WIDE // 2)
    rows = torch.tensor([5, 3, 9, 1])
    found = flows(lambda _: narrow[rows])
    assert "index" not in found or found["index"].moved == 0


def test_what_rows_are_put_into_is_no_fetch() -> None:
    parts = Parts()

    def step(_: int) -> torch.Tensor:
        out = torch.zeros_like(parts.x)
        out[torch.tensor([5, 3])] = parts.other[:2]
        return out

    found = flows(step)
    assert "index_put_" not in found or (found["index_put_"].moved, found["index_put_"].sliced) == (0, 0)


def test_single_numbers_from_anywhere_move_more_than_themselves() -> None:
    parts = Parts()
    columns = torch.randperm(SIDE)
    found = flows(lambda _: parts.x[:, columns])
    assert "index" not in found or found["index"].moved == 0
