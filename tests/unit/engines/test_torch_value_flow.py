"""Steps with known truth: what of them is needless is counted, and nothing that somebody needs is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from followed_steps import ROWS, SIDE, Counts, Parts, counted, follow

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


def checkpointed(p: Parts) -> None:
    p.train(lambda x: checkpoint(p.net, x, use_reentrant=False), p.x.requires_grad_())


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


def trained(p: Parts) -> None:
    p.train(p.net, p.x)


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


# --- read by nobody ---------------------------------------------------------------------------------------------------


def second_head(p: Parts) -> object:
    hidden = p.x @ p.w
    unused = hidden.t() @ p.x  # another shape: another operator to the judge
    del unused
    return hidden @ p.v


def chain_that_ends_nowhere(p: Parts) -> object:
    hidden = p.x @ p.w
    unused = (hidden.t() @ p.x).sin() @ p.v
    del unused
    return hidden @ p.v


def frozen_layers(p: Parts) -> None:
    head = torch.optim.SGD(p.net[4].parameters(), lr=0.1)
    p.net.zero_grad()
    p.net(p.x).square().mean().backward()
    head.step()


def frozen_layers_cleared_at_the_end(p: Parts) -> None:
    head = torch.optim.SGD(p.net[4].parameters(), lr=0.1)
    p.net(p.x).square().mean().backward()
    head.step()
    p.net.zero_grad()


def head_alone(p: Parts, between: Callable[[], object] = lambda: None) -> None:
    head = torch.optim.SGD(p.net[4].parameters(), lr=0.1)
    head.zero_grad()
    p.net(p.x).square().mean().backward()
    between()
    head.step()


def head_alone_and_all_emptied(p: Parts) -> None:
    head_alone(p)
    p.net.zero_grad(set_to_none=False)


def head_alone_and_all_clipped(p: Parts) -> None:
    head_alone(p, lambda: nn.utils.clip_grad_norm_(p.net.parameters(), 1.0))


def head_in_turn_with_the_others(p: Parts) -> None:
    p.kept = 1 - (p.kept or 0)
    layers = p.net[4] if p.kept else p.net[:4]
    some = torch.optim.SGD(layers.parameters(), lr=0.1)
    p.net(p.x).square().mean().backward()
    some.step()
    some.zero_grad()


def head_alone_and_another_looked_at(p: Parts) -> None:
    head_alone(p)
    p.other[0, 0] = p.net[0].weight.grad[0, 0]
    p.other[0, 1] = p.net[2].weight.grad[0, 0] + p.net[0].bias.grad[0] + p.net[2].bias.grad[0]


@pytest.mark.parametrize("step", [head_alone, head_alone_and_all_emptied])
def test_gradients_that_only_gather_are_read_by_nobody(step: Callable[[Parts], object]) -> None:
    """The optimiser empties those that it holds alone, and the others grow from step to step."""
    parts = Parts()
    step(parts)
    unread = counted(lambda _: step(parts), "unread")
    assert unread == {"mm": 4, "sum": 2, "gelu_backward": 2, "add_": 4}


@pytest.mark.parametrize(
    "step",
    [head_alone_and_all_clipped, head_in_turn_with_the_others, head_alone_and_another_looked_at],
)
def test_gradients_that_gather_and_are_read_are_not(step: Callable[[Parts], object]) -> None:
    parts = Parts()
    for _ in range(2):
        step(parts)
    assert counted(lambda _: step(parts), "unread") == {}


def gradients(p: Parts, x: torch.Tensor) -> None:
    p.net.zero_grad()
    p.net(x).square().mean().backward()


def others_handed_on(p: Parts) -> None:
    gradients(p, p.x)
    p.kept = [part.grad for part in p.net[4].parameters()]


def others_returned(p: Parts) -> object:
    gradients(p, p.x)
    return [part.grad for part in p.net[4].parameters()]


def only_the_inputs_handed_on(p: Parts) -> None:
    p.x.requires_grad_().grad = None
    gradients(p, p.x)
    p.kept = p.x.grad


def dropped_before_the_update(p: Parts) -> None:
    p.train(p.net, p.x)
    _ = p.other.t() @ p.x


@pytest.mark.parametrize(
    ("step", "unread"),
    [
        (second_head, {"mm": 1}),
        (frozen_layers, {"mm": 4, "sum": 2, "gelu_backward": 2}),
        (frozen_layers_cleared_at_the_end, {"mm": 4, "sum": 2, "gelu_backward": 2}),
        (others_handed_on, {"mm": 4, "sum": 2, "gelu_backward": 2}),
        (others_returned, {"mm": 4, "sum": 2, "gelu_backward": 2}),
        (only_the_inputs_handed_on, {"mm": 3, "sum": 3}),
        (chain_that_ends_nowhere, {"mm": 2, "sin": 1}),
        (dropped_before_the_update, {"mm": 1}),
    ],
)
def test_what_nobody_reads(step: Callable[[Parts], object], unread: Counts) -> None:
    parts = Parts()
    assert counted(lambda _: step(parts), "unread") == unread


def returned(p: Parts) -> object:
    return {"logits": p.x @ p.w, "hidden": [p.x @ p.v]}


def kept(p: Parts) -> None:
    p.kept = p.x @ p.w


def kept_and_replaced(p: Parts) -> None:
    for part in p.x.split(32):
        p.kept = part @ p.w


def dropped_at_the_end(p: Parts) -> None:
    _ = p.x @ p.w


def dropped_in_a_loop(p: Parts) -> None:
    for part in p.x.split(32):
        _ = part @ p.w


def read_by_numpy(p: Parts) -> object:
    largest = float((p.x @ p.w).numpy().max())
    return p.x * largest


def read_as_a_list(p: Parts) -> object:
    return p.x * len((p.x @ p.w).tolist())


def read_as_a_number(p: Parts) -> object:
    return p.x * (p.x @ p.w)[0, 0].item()


def read_through_a_view(p: Parts) -> object:
    return (p.x @ p.w).t()[:3].contiguous()


def gradients_for_the_caller(p: Parts) -> object:
    p.net.zero_grad()
    loss = p.net(p.x).square().mean()
    loss.backward()
    return loss.detach()


def gradients_dropped_by_a_benchmark(p: Parts) -> object:
    loss = p.net(p.x).square().mean()
    loss.backward()
    p.net.zero_grad()
    return loss.detach()


def all_handed_on(p: Parts) -> None:
    gradients(p, p.x)
    p.kept = [part.grad for part in p.net.parameters()]


def all_left_where_they_are(p: Parts) -> None:
    gradients(p, p.x)
    p.kept = p.x @ p.w


def one_looked_at(p: Parts) -> None:
    gradients(p, p.x)
    p.kept = float(p.net[0].weight.grad.norm())


def given_what_comes_back(p: Parts) -> None:
    p.net.zero_grad()
    p.net(p.x).backward(p.x[:, :8])
    p.kept = [part.grad for part in p.net.parameters()]


def trained_by_what_comes_back(p: Parts) -> None:
    p.adam.zero_grad()
    torch.autograd.backward(tensors=[p.net(p.x)], grad_tensors=[p.x[:, :8]])
    p.adam.step()


def asked_for_gradients(p: Parts) -> object:
    return torch.autograd.grad(p.net(p.x), list(p.net.parameters()), p.x[:, :8])


def gathered_over_steps(p: Parts) -> None:
    p.net(p.x).square().mean().backward()
    p.kept = [part.grad for part in p.net[4].parameters()]


def views_of_one_buffer(p: Parts) -> None:
    if p.kept is None:
        p.kept = torch.zeros(sum(part.numel() for part in p.net.parameters()))
    at = 0
    for part in p.net.parameters():
        part.grad = p.kept[at : at + part.numel()].view_as(part)
        at += part.numel()
    p.kept.zero_()
    p.net(p.x).square().mean().backward()


def accumulated(p: Parts) -> None:
    p.adam.zero_grad()
    for part in p.x.split(32):
        p.net(part).square().mean().backward()
    p.adam.step()


def pairs_of_which_one_is_read(p: Parts) -> object:
    return p.x.max(dim=1).indices + 1


def residuals(p: Parts) -> object:
    hidden = p.x
    for _ in range(3):
        hidden = hidden + functional.layer_norm(hidden, (SIDE,)) @ p.w
    return hidden


def cache_with_logits_dropped(p: Parts) -> None:
    for place in range(4):
        p.other[place] = p.x[place] * 2
        _ = p.other[: place + 1] @ p.w


@pytest.mark.parametrize(
    "step",
    [
        returned, kept, kept_and_replaced, dropped_at_the_end, dropped_in_a_loop, read_by_numpy, read_as_a_list,
        read_as_a_number, read_through_a_view, gradients_for_the_caller, gradients_dropped_by_a_benchmark, accumulated,
        all_handed_on, all_left_where_they_are, one_looked_at, gathered_over_steps, views_of_one_buffer,
        given_what_comes_back, trained_by_what_comes_back, asked_for_gradients,
        pairs_of_which_one_is_read, residuals, cache_with_logits_dropped, trained, checkpointed,
    ],
)  # fmt: skip
def test_what_somebody_may_read_is_read(step: Callable[[Parts], object]) -> None:
    parts = Parts()
    assert counted(lambda _: step(parts), "unread") == {}


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
