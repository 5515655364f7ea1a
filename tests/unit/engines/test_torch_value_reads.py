"""How much of a result anybody needs: followed backwards from what a step returns, leaves or tells the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from followed_steps import ROWS, SIDE, Parts, follow  # noqa: E402

pytestmark = pytest.mark.usefixtures("nothing_compiled", "seeded")

Step = Callable[[Parts], Any]
HALF = ROWS // 2


def unread(step: Step) -> dict[str, float]:
    """By operator: the share of its results that nobody needs."""
    parts = Parts()
    parts.net.requires_grad_(False)
    flow = follow(lambda _: step(parts))
    assert flow.whole, flow.why
    return {one.name.removeprefix("aten::"): round(one.partly, 3) for one in flow.operators if one.partly > 0.0}


def a_part_is_returned(p: Parts) -> Any:
    return (p.x @ p.w)[:HALF]


def a_part_is_returned_among_others(p: Parts) -> Any:
    return {"rows": [(p.x @ p.w)[:HALF]], "words": "all"}


def columns_are_returned(p: Parts) -> Any:
    return (p.x @ p.w)[:, : SIDE // 2]


def a_part_is_copied(p: Parts) -> Any:
    return (p.x @ p.w)[:HALF].clone()


def a_part_is_summed(p: Parts) -> Any:
    return (p.x @ p.w)[:HALF].sum(0)


def a_part_is_picked_by_number(p: Parts) -> Any:
    return (p.x @ p.w)[torch.arange(HALF)]


def columns_are_picked_by_number(p: Parts) -> Any:
    return (p.x @ p.w)[:, torch.arange(SIDE // 2)]


def rows_are_picked_by_a_mask(p: Parts) -> Any:
    return (p.x @ p.w)[torch.arange(ROWS) < HALF]


@pytest.mark.parametrize(
    "step",
    [
        *(
            a_part_is_returned,
            a_part_is_returned_among_others,
            columns_are_returned,
            a_part_is_copied,
            a_part_is_summed,
        ),
        *(a_part_is_picked_by_number, columns_are_picked_by_number, rows_are_picked_by_a_mask),
    ],
)
def test_of_a_product_half_is_read(step: Step) -> None:
    assert unread(step) == {"mm": 0.5}


def through_a_network(p: Parts) -> Any:
    return p.net(p.x)[:HALF]


def through_three_dimensions(p: Parts) -> Any:
    return p.net(p.x.view(2, HALF, SIDE))[:, : HALF // 2]


def through_norms_and_sums(p: Parts) -> Any:
    x = functional.layer_norm(p.x @ p.w, (SIDE,))
    return (x + p.other @ p.v).softmax(-1)[:HALF]


def in_place(p: Parts) -> Any:
    return (p.x @ p.w).relu_().mul_(2.0)[:HALF]


def by_another_shape(p: Parts) -> Any:
    return (p.x @ p.w).view(2, HALF, SIDE)[1]


@pytest.mark.parametrize("step", [through_a_network, through_three_dimensions, through_norms_and_sums, in_place])
def test_no_more_rows_are_needed_of_what_is_read_than_of_what_is_made(step: Step) -> None:
    found = unread(step)
    assert set(found.values()) == {0.5}
    assert {"addmm", "gelu"} <= set(found) or "mm" in found


def masked_rows(p: Parts) -> Any:
    """Padding that a mask drops in the end."""
    return (p.net[:3](p.x) * (torch.arange(ROWS) < HALF)[:, None]).sum(0)


def routed(p: Parts) -> Any:
    """Two experts asked for every token, of which each is for one."""
    first = torch.arange(ROWS)[:, None] < HALF
    return torch.where(first, p.net[:3](p.x), 0.0) + torch.where(first, 0.0, p.net[:3](p.other))


@pytest.mark.parametrize("step", [masked_rows, routed])
def test_rows_that_a_mask_drops_are_needed_nowhere_before_it(step: Step) -> None:
    found = unread(step)
    assert set(found) == {"addmm", "gelu"}
    assert set(found.values()) == {0.5}


def thinned_out(p: Parts) -> Any:
    """Here and there an element of each row: all rows are needed."""
    return p.net[:3](p.x) * (torch.rand(ROWS, SIDE, generator=p.generator) < 0.25)


def by_its_own_sign(p: Parts) -> Any:
    """Who drops the result asks for it first."""
    made = p.net[:3](p.x)
    return made * (made.sum(1, keepdim=True) > 0.0)


def by_column(p: Parts) -> Any:
    return p.net[:3](p.x) * (torch.arange(SIDE) < SIDE // 2)


@pytest.mark.parametrize("step", [thinned_out, by_its_own_sign, by_column])
def test_masks_that_drop_no_rows_that_are_known_before(step: Step) -> None:
    assert unread(step) == {}


def columns_between(p: Parts) -> Any:
    """Only columns of the second: of the first, each row is needed."""
    return ((p.x @ p.w) @ p.v)[:, : SIDE // 4]


def heads_of_rows(p: Parts) -> Any:
    """Half of the rows of another shape are part of each row."""
    return ((p.x @ p.w).relu() @ p.v).view(ROWS * 2, SIDE // 2)[::2].relu()


def test_columns_of_a_product_need_all_of_what_is_multiplied() -> None:
    assert unread(columns_between) == {"mm": pytest.approx(0.375)}, "three quarters of one of two"
    assert unread(heads_of_rows) == {"mm": 0.25}, "half of one of two"


def all_of_it(p: Parts) -> Any:
    return (p.x @ p.w).relu()


def in_two_parts(p: Parts) -> Any:
    made = p.x @ p.w
    return made[:HALF].relu(), made[HALF:].tanh()


def a_part_and_the_whole(p: Parts) -> Any:
    made = p.x @ p.w
    return made[:HALF], made.sum()


def split_for_attention(p: Parts) -> Any:
    q, k, v = (p.x @ torch.cat((p.w, p.v, p.w), 1)).chunk(3, 1)
    return functional.scaled_dot_product_attention(q, k, v)


def kept_for_later(p: Parts) -> Any:
    p.kept = p.x @ p.w
    return p.kept[:HALF]


def kept_in_part(p: Parts) -> Any:
    made = p.x @ p.w
    p.kept = made[HALF:]
    return made[:HALF]


def kept_by_an_array(p: Parts) -> Any:
    made = p.x @ p.w
    p.kept = made.numpy()
    return made[:HALF]


def one_number_to_wait_for(p: Parts) -> Any:
    return (p.x @ p.w)[0, 0].item()


def one_number_returned(p: Parts) -> Any:
    return (p.x @ p.w)[0, 0]


def told_to_the_host(p: Parts) -> Any:
    return (p.x @ p.w)[:HALF].tolist()


def mixed_over_rows(p: Parts) -> Any:
    """Each row of the result is made of all rows of the first product."""
    return (p.other @ (p.x @ p.w).T)[:HALF]


def summed_over_rows(p: Parts) -> Any:
    return (p.x @ p.w).cumsum(0)[:HALF]


def written_in_part(p: Parts) -> Any:
    made = p.x @ p.w
    made[:HALF] = 0.0
    return made


def filled_part_by_part(p: Parts) -> Any:
    made = torch.empty(ROWS, SIDE)
    torch.mm(p.x[:HALF], p.w, out=made[:HALF])
    torch.mm(p.x[HALF:], p.w, out=made[HALF:])
    return made


def with_a_gradient(p: Parts) -> Any:
    p.net.requires_grad_(True)
    made = p.net(p.x)
    made.square().mean().backward()
    return made[:HALF].detach()


def convolved(p: Parts) -> Any:
    """A mean over neighbours: a border is read, too."""
    return functional.avg_pool1d((p.x @ p.w)[None], 3, 1, 1)[0, :HALF]


@pytest.mark.parametrize(
    "step",
    [
        *(all_of_it, in_two_parts, a_part_and_the_whole, split_for_attention, kept_for_later, kept_in_part),
        *(kept_by_an_array, one_number_to_wait_for, one_number_returned, told_to_the_host, summed_over_rows),
        *(written_in_part, filled_part_by_part, with_a_gradient, convolved),
    ],
)
def test_nothing_is_said_where_all_of_it_may_be_needed(step: Step) -> None:
    assert unread(step) == {}


def test_what_mixes_rows_needs_all_of_them() -> None:
    parts = Parts()
    (flow,) = (one for one in follow(lambda _: mixed_over_rows(parts)).operators if one.partly)
    assert (flow.sizes, flow.partly) == (((ROWS, SIDE), (SIDE, ROWS)), 0.5), "the second product alone"


def queries_of_attention(p: Parts) -> Any:
    """Keys and values are needed of all positions."""
    q, k, v = (one.view(1, ROWS, 4, 16).transpose(1, 2) for one in (p.x @ p.w, p.other @ p.w, p.other @ p.v))
    mixed = functional.scaled_dot_product_attention(q, k, v)
    return (mixed.transpose(1, 2).reshape(ROWS, SIDE) @ p.v.T.contiguous())[:HALF]


def test_of_attention_no_more_queries_are_needed_than_results() -> None:
    found = unread(queries_of_attention)
    assert found["_scaled_dot_product_flash_attention_for_cpu"] == 0.5
    assert found["mm"] == pytest.approx(0.25), "the queries and what follows, of four products alike"


def perhaps(step: Step) -> dict[str, tuple[float, float]]:
    parts = Parts()
    flow = follow(lambda _: step(parts))
    assert flow.whole, flow.why
    return {
        one.name.removeprefix("aten::"): (round(one.partly, 2), round(one.perhaps, 2))
        for one in flow.operators
        if one.perhaps > 0.0
    }


def test_convolutions_need_something_beside_what_is_read_so_what_they_read_is_open() -> None:
    ears = nn.Sequential(nn.Conv1d(16, 16, 5), nn.ReLU(), nn.Conv1d(16, 16, 3)).requires_grad_(False)
    heard = torch.randn(4, 16, 106)
    found = follow(lambda _: ears(heard)[:, :, -25:]).operators
    assert [(one.name, one.partly, one.perhaps) for one in found] == [
        ("aten::convolution", 0.0, 0.75),
        ("aten::relu", 0.0, 0.75),
        ("aten::convolution", 0.75, 0.75),
    ]


def test_a_layer_that_is_one_operator_may_do_what_a_part_of_its_result_needs() -> None:
    layer = nn.TransformerEncoderLayer(SIDE, 4, SIDE, batch_first=True).requires_grad_(False).eval()
    x = torch.randn(2, 32, SIDE)
    assert perhaps(lambda _: layer(layer(x))[:, :8]) == {"_transformer_encoder_layer_fwd": (0.0, 0.38)}, (
        "of two the last"
    )


def test_in_inference_mode_as_well() -> None:
    def step(p: Parts) -> Any:
        with torch.inference_mode():
            return (p.x @ p.w)[:HALF]

    assert unread(step) == {"mm": 0.5}


def test_a_head_over_all_positions_of_which_the_last_is_wanted() -> None:
    head = nn.Linear(SIDE, 1000).requires_grad_(False)
    assert unread(lambda p: head(p.x)[-1:].argmax(-1)) == {"addmm": round(1.0 - 1 / ROWS, 3)}
