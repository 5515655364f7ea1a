"""Which results of a step nobody reads, and which somebody may, as its values are followed on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from followed_steps import Counts, Parts, accumulated, checkpointed, counted, residuals, trained

pytestmark = pytest.mark.usefixtures("nothing_compiled", "seeded")


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


def pairs_of_which_one_is_read(p: Parts) -> object:
    return p.x.max(dim=1).indices + 1


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
