"""Following a step never fails or changes it; what it cannot see it says, and says nothing else."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

from lynxbench.attribute.read.dataflow import Dataflow
from lynxbench.engines.torch import value_follower
from lynxbench.engines.torch.value_flow import LONGEST_S, record_dataflow
from lynxbench.engines.torch.value_unseen import READING

pytestmark = pytest.mark.usefixtures("nothing_compiled")

CPU = torch.device("cpu")
X = torch.linspace(-1, 1, 64 * 64).view(64, 64)


def follow(step: Callable[[int], object], **words: Any) -> Dataflow:
    return msgspec.convert(record_dataflow(step, CPU, **words), Dataflow)


def own_operator(_: int) -> object:
    return torch.ops.lynxflow.double(X)


def sparse(_: int) -> object:
    return torch.sparse.mm(X.to_sparse(), X)


def quantised(_: int) -> object:
    return torch.quantize_per_tensor(X, 0.1, 0, torch.qint8).dequantize() + 1


def nested(_: int) -> object:
    return torch.nested.nested_tensor([X, X[:3]]) * 2


def subclass(_: int) -> object:
    return torch.sin(TwoTensor(X, X))


def threads(_: int) -> object:
    worker = threading.Thread(target=lambda: torch.sin(X))
    worker.start()
    worker.join()
    return X @ X


def unwritten(_: int) -> object:
    return torch.empty(64, 64) @ X


@pytest.fixture(scope="module", autouse=True)
def _operators() -> Iterator[None]:
    library = torch.library.Library("lynxflow", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
    yield
    library._destroy()


@pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:.*quantize")
@pytest.mark.parametrize(
    ("step", "why"),
    [
        (own_operator, "lynxflow::double ran, which is not PyTorch's own"),
        (sparse, "no plain tensor"),
        (quantised, "no plain tensor"),
        (nested, "plain tensor"),
        (subclass, "no plain tensor"),
        (threads, "another thread was started"),
        (unwritten, "no operator of PyTorch had written"),
    ],
)
def test_what_hides_a_step_is_named_and_the_step_runs(step: Callable[[int], object], why: str) -> None:
    ran: list[int] = []

    def counting(number: int) -> object:
        ran.append(number)
        return step(number)

    flow = follow(counting, first=5)
    assert not flow.whole
    assert why in flow.why
    assert flow.operators == ()
    assert ran[0] == 5


def test_replayed_graphs_are_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda self: None)
    graph = object.__new__(torch.cuda.CUDAGraph)
    assert follow(lambda _: torch.cuda.CUDAGraph.replay(graph)).why == "a CUDA graph was replayed"


def test_compiled_code_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.sin(x) @ x, backend="eager")
    compiled(X)
    try:
        assert follow(lambda _: compiled(X)).why == "code was compiled"
    finally:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()


def test_a_step_that_fails_is_no_failure_of_the_run() -> None:
    def failing(number: int) -> object:
        raise ValueError(f"no step {number}\nand more")

    assert follow(failing, first=3).why == "it failed while it was followed: no step 3"


def test_a_follower_that_fails_leaves_the_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the follower's own")

    monkeypatch.setattr(value_follower, "geometry_of", broken)
    made: list[torch.Tensor] = []
    flow = follow(lambda _: made.append(X @ X))
    assert not flow.whole
    assert "the follower's own" in flow.why
    assert len(made) == 1
    assert torch.equal(made[0], X @ X)


def test_an_error_that_the_step_catches_stays_its_own() -> None:
    def careful(_: int) -> object:
        try:
            return X @ X[:3]
        except RuntimeError:
            return X @ X + X @ X

    flow = follow(careful)
    assert flow.whole
    assert [(one.name, one.again) for one in flow.operators] == [("aten::mm", 1)]


def test_too_many_operators_end_the_following_and_not_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_follower, "MOST_OPERATORS", 10)
    sums: list[float] = []

    def long(_: int) -> None:
        sums.append(sum(float(X.sum()) for _ in range(20)))

    assert follow(long).why == "it has more than 10 operators"
    assert sums == [pytest.approx(20 * float(X.sum()), abs=1e-3)]


def test_a_long_step_is_followed_once() -> None:
    ran: list[int] = []
    clock = itertools.count(step=LONGEST_S + 1)
    flow = follow(ran.append, clock=lambda: float(next(clock)))
    assert "takes longer than" in flow.why
    assert ran == [0]


def test_following_that_takes_long_ends() -> None:
    clock = itertools.count(step=value_follower.OWN_S / 4)
    assert "following it took longer" in follow(lambda _: X.sin().cos().exp().sum(), clock=lambda: next(clock)).why


def test_results_are_those_of_a_step_that_is_not_followed() -> None:
    def train(seed: int, followed: bool) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.3), nn.BatchNorm1d(64), nn.ReLU(inplace=True))
        adam = torch.optim.AdamW(net.parameters(), foreach=True)

        def step(_: int) -> None:
            adam.zero_grad()
            net(X).square().mean().backward()
            adam.step()

        if followed:
            assert follow(step).whole
        else:
            step(0)
            step(1)
        return [one.detach().clone() for one in net.state_dict().values()]

    state = torch.get_rng_state()
    try:
        for one, other in zip(train(3, True), train(3, False), strict=True):
            assert torch.equal(one, other)
    finally:
        torch.set_rng_state(state)


def test_nothing_stays_behind() -> None:
    before = {name: vars(torch.Tensor).get(name) for name in READING}
    made: list[weakref.ref[torch.Tensor]] = []

    def step(_: int) -> None:
        result = X @ X
        made.append(weakref.ref(result))
        result.numpy()

    follow(step)
    gc.collect()
    assert len(made) == 2
    assert all(one() is None for one in made)
    assert {name: vars(torch.Tensor).get(name) for name in READING} == before
    assert torch._C._len_torch_dispatch_stack() == 0


def test_large_results_go_while_it_follows() -> None:
    """Weak references alone: a loop needs no more memory than without."""
    alive: list[int] = []
    made: list[weakref.ref[torch.Tensor]] = []

    def step(_: int) -> object:
        state = X
        for _ in range(20):
            state = state.sin()
            made.append(weakref.ref(state))
            alive.append(sum(one() is not None for one in made))
        return state

    assert follow(step).whole
    assert max(alive) <= 3
    storages = [one for one in gc.get_objects() if isinstance(one, torch.UntypedStorage) and one.nbytes() == 16384]
    assert len(storages) <= 3


@pytest.mark.parametrize(
    "step",
    [
        lambda _: torch.view_as_complex(X.view(64, 32, 2)).conj() @ torch.randn(32, 3, dtype=torch.complex64),
        lambda _: torch.fft.irfft(torch.fft.rfft(X)),
        lambda _: torch.func.vmap(torch.dot)(X, X),
        lambda _: torch.func.grad(lambda x: (x @ X).sum())(X),
        lambda _: X.nonzero(),
        lambda _: torch.empty(3, 4, device="meta").sin(),
        lambda _: nn.LSTM(64, 64)(X)[0],
        lambda _: torch.linalg.svd(X).S.sum().item(),
        lambda _: str(X),
        lambda _: torch.profiler.record_function("mine").__enter__(),
    ],
)
def test_whatever_runs_runs(step: Callable[[int], object]) -> None:
    ran: list[object] = []
    follow(lambda number: ran.append(step(number)))
    assert ran, "the step went through at least once"
