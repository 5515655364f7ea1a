"""Steps with known truth: what of them is needless is counted, and nothing that somebody needs is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from followed_steps import ROWS, SIDE, Counts, Parts, accumulated, checkpointed, counted, follow, residuals, trained

pytestmark = pytest.mark.usefixtures("nothing_compiled", "seeded")


# --- computed anew ----------------------------------------------------------------------------------------------------


def twice(p: Parts) -> object:
    return p.x @ p.w + p.x @ p.w


def twice_by_other_tensors(p: Parts) -> object:
    return p.x.view(ROWS, SIDE) @ p.w.t() + p.x.detach() @ p.w.t()


def in_inference(p: Parts) -> object:
    with torch.inference_mode():
        return functional.linear(p.x, p.w) + functional.linear(p.x, p.w)


def without_gradients(p: Parts) -> object:
    with torch.no_grad():
        return p.net(p.x) + p.net(p.x)


def checkpointed_reentrant(p: Parts) -> None:
    p.train(lambda x: checkpoint(p.net, x, use_reentrant=True), p.x.requires_grad_())


def checkpointed_dropout(p: Parts) -> None:
    def drop(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x @ p.w, 0.1).sin()

    p.train(lambda x: p.net(checkpoint(drop, x, use_reentrant=False)), p.x.requires_grad_())


def checkpointed_in_place(p: Parts) -> None:
    def layer(x: torch.Tensor) -> torch.Tensor:
        return (x @ p.w).relu_().sin()

    p.train(lambda x: p.net(checkpoint(layer, x, use_reentrant=False)), p.x.requires_grad_())


def tables_anew(p: Parts) -> object:
    def table() -> torch.Tensor:
        return torch.outer(torch.arange(ROWS).float(), torch.tensor([1.0, 0.5, 0.25])).cos()

    return table() + table()


def casts_of_parts(p: Parts) -> object:
    out = torch.zeros(ROWS, SIDE, dtype=torch.bfloat16)
    for part in p.x, p.other:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            out = out + functional.linear(part, p.w)
    return out


@pytest.mark.parametrize(
    ("step", "again"),
    [
        (twice, {"mm": 1}),
        (twice_by_other_tensors, {"mm": 1}),
        (in_inference, {"mm": 1}),
        (without_gradients, {"addmm": 3, "gelu": 2}),
        (checkpointed, {"addmm": 2, "gelu": 2}),
        (checkpointed_reentrant, {"addmm": 3, "gelu": 2}),
        (checkpointed_dropout, {"mm": 1, "mul": 1}),
        (checkpointed_in_place, {"mm": 1}),
        (tables_anew, {"arange": 1, "_to_copy": 1, "mul": 1, "cos": 1}),
        (casts_of_parts, {"_to_copy": 1}),
    ],
)
def test_what_is_computed_anew(step: Callable[[Parts], object], again: Counts) -> None:
    parts = Parts()
    assert counted(lambda _: step(parts), "again") == again


def changed_between(p: Parts) -> object:
    first = p.x @ p.w
    p.x.mul_(0.5)
    return first + p.x @ p.w


def changed_through_a_view(p: Parts) -> object:
    first = p.x @ p.w
    p.x[:3, 2].fill_(0.5)
    return first + p.x @ p.w


def changed_by_a_twin_without_gradients(p: Parts) -> object:
    first = p.x @ p.w
    p.x.data.add_(1)
    return first + p.x @ p.w


def changed_as_out(p: Parts) -> object:
    first = p.x @ p.w
    torch.sin(first, out=p.x)
    return first + p.x @ p.w


def changed_by_the_optimizer(p: Parts) -> None:
    for _ in range(2):
        p.train(p.net, p.x)


def changed_in_a_list(p: Parts) -> object:
    first = p.x @ p.w
    torch._foreach_mul_([p.x, p.w], 0.5)
    return first + p.x @ p.w


def changed_by_numpy(p: Parts) -> object:
    first = p.x @ p.w
    p.x.numpy()[0] += 1
    return first + p.x @ p.w


def another_view(p: Parts) -> object:
    return p.x[:64] @ p.w + p.x[64:] @ p.w


def another_stride(p: Parts) -> object:
    return p.w @ p.v + p.w.t() @ p.v


def another_number(p: Parts) -> object:
    return p.x * 1.5 + p.x * 2.5


def another_format(p: Parts) -> object:
    return p.x.to(torch.bfloat16).float() + p.x.to(torch.float16).float()


def random_each_time(p: Parts) -> object:
    return torch.randn(ROWS, SIDE) @ p.w + torch.randn(ROWS, SIDE) @ p.w


def dropped_out(p: Parts) -> object:
    return functional.dropout(p.x, 0.5) @ p.w + functional.dropout(p.x, 0.5) @ p.w


def random_by_a_generator(p: Parts) -> object:
    one, other = (torch.rand(ROWS, SIDE, generator=p.generator) for _ in range(2))
    return one @ p.w + other @ p.w


def drawn_in_place(p: Parts) -> object:
    return p.other.normal_() @ p.w + p.other.uniform_() @ p.w + p.other.normal_() @ p.w


def recurrent(p: Parts) -> object:
    state = p.x
    for _ in range(4):
        state = torch.tanh(state @ p.w)
    return state


def copies_to_write_to(p: Parts) -> object:
    one, other = p.x.clone(), p.x.clone()
    one[0] = 1.0
    other[1] = 2.0
    return one @ p.w + other @ p.v


def filled_to_add_to(p: Parts) -> object:
    sums = [torch.zeros(ROWS, SIDE) for _ in range(2)]
    for number, one in enumerate(sums):
        one.add_(p.x, alpha=number)
    return sums[0] @ p.w + sums[1] @ p.w


def copies_that_are_kept(p: Parts) -> None:
    p.kept = [p.x.clone(), p.x.clone()]


def cache_appended_in_place(p: Parts) -> object:
    out = p.x[:1]
    for place in range(4):
        p.other[place] = out[0]
        out = functional.softmax(out @ p.other.t(), -1) @ p.other
    return out


def normalised_in_training(p: Parts) -> object:
    mean, var = torch.zeros(SIDE), torch.ones(SIDE)
    first = functional.batch_norm(p.x, mean, var, training=True)
    return first + functional.batch_norm(p.other, mean, var, training=False) + mean * 2


def statistics_that_move(p: Parts) -> object:
    if p.kept is None:
        p.kept = torch.zeros(SIDE), torch.ones(SIDE)
    mean, var = p.kept
    out = torch.zeros(ROWS, SIDE)
    for part in p.x, p.other:
        functional.batch_norm(part, mean, var, training=True)
        out = out + functional.batch_norm(p.x, mean, var, training=False)
    return out


def averaged_weights(p: Parts) -> object:
    first = p.x @ p.w
    p.w.lerp_(p.v, 0.1)
    return first + p.x @ p.w


def tied(p: Parts) -> object:
    return (p.x @ p.w).relu() @ p.w.t()


def foreign_memory(p: Parts) -> object:
    buffer = p.other.numpy()
    first = torch.from_numpy(buffer) @ p.w
    buffer[0] += 1
    return first + torch.from_numpy(buffer) @ p.w


@pytest.mark.parametrize(
    "step",
    [
        changed_between, changed_through_a_view, changed_by_a_twin_without_gradients, changed_as_out,
        changed_by_the_optimizer, changed_in_a_list, changed_by_numpy, another_view, another_stride, another_number,
        another_format, random_each_time, dropped_out, random_by_a_generator, drawn_in_place, recurrent,
        copies_to_write_to, filled_to_add_to, copies_that_are_kept, cache_appended_in_place, normalised_in_training,
        statistics_that_move, averaged_weights, trained, tied, foreign_memory,
    ],
)  # fmt: skip
def test_what_only_looks_the_same_is_not_computed_anew(step: Callable[[Parts], object]) -> None:
    parts = Parts()
    assert counted(lambda _: step(parts), "again") == {}


# --- parts that could be one ------------------------------------------------------------------------------------------


def searched(p: Parts) -> object:
    beams = p.x[:8]
    for _ in range(3):
        best = (beams @ p.w).max(dim=1).values.topk(8).indices
        beams = beams[best] + 1.0
    return beams


def greedy(p: Parts) -> object:
    row = p.x[:1]
    for _ in range(4):
        token = int((row @ p.w).argmax())
        row = p.x[token : token + 1]
    return row


def greedy_by_numpy(p: Parts) -> object:
    row = p.x[:1]
    for _ in range(4):
        token = int((row @ p.w).numpy().argmax())
        row = p.x[token : token + 1]
    return row


def streamed(p: Parts) -> object:
    """Each part goes through the layers alone, in one buffer that is written anew."""
    total = torch.zeros(32, SIDE)
    buffer = torch.empty(32, SIDE)
    for part in p.x.split(32):
        buffer.copy_(part)
        total = total + (buffer @ p.w).relu() @ p.v
    return total


@pytest.mark.parametrize(
    ("step", "merged"),
    [
        (accumulated, {"addmm": 9, "mm": 6}),
        (another_view, {"mm": 1}),
        (twice, {}),
        (recurrent, {}),
        (greedy, {}),
        (greedy_by_numpy, {}),
        (searched, {}),
        (changed_by_the_optimizer, {}),
        (averaged_weights, {}),
        (residuals, {}),
        (streamed, {"mm": 6}),
        (trained, {}),
    ],
)
def test_parts_that_do_not_wait_for_each_other(step: Callable[[Parts], object], merged: Counts) -> None:
    parts = Parts()
    assert counted(lambda _: step(parts), "merged") == merged


# --- zeros ------------------------------------------------------------------------------------------------------------


def test_zeros_are_counted_of_the_emptier_factor() -> None:
    onehot = functional.one_hot(torch.arange(ROWS) % 80, 80).float()
    table = torch.randn(80, SIDE)
    (one,) = follow(lambda _: onehot @ table).operators
    assert one.nonzero == pytest.approx(1 / 80)
    assert one.zero_rows == 0.0


def test_empty_rows_are_those_of_the_first_factor() -> None:
    padded, w = torch.randn(4, ROWS, SIDE), torch.randn(SIDE, SIDE)
    padded[:, ROWS // 4 :] = 0
    (one,) = follow(lambda _: padded @ w).operators
    assert (one.nonzero, one.zero_rows) == (pytest.approx(0.25), pytest.approx(0.75))


def test_shares_are_means_over_calls() -> None:
    half, w = torch.randn(ROWS, SIDE), torch.randn(SIDE, SIDE)
    half[::2] = 0
    (one,) = follow(lambda _: (half @ w, (half + 1) @ w)).operators
    assert one.calls == 2
    assert one.zero_rows == pytest.approx(0.25)


def test_rectified_values_are_half_empty_and_rows_are_not() -> None:
    x, w = torch.randn(ROWS, SIDE), torch.randn(SIDE, SIDE)
    (one,) = follow(lambda _: x.relu() @ w).operators
    assert 0.4 < one.nonzero < 0.6
    assert one.zero_rows == 0.0
