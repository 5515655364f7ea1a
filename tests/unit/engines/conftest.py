"""What the tests of engines share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the fresh process that measures: what other tests compiled in this one hides no step."""
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        monkeypatch.setitem(compiler.counters["stats"], "unique_graphs", 0)


@pytest.fixture
def seeded() -> Iterator[None]:
    """The same random numbers in each test, and none fewer for the next."""
    import torch

    state = torch.get_rng_state()
    torch.manual_seed(7)
    yield
    torch.set_rng_state(state)


@pytest.fixture
def light_compiler() -> Iterator[None]:
    """torch.compile without what makes code fast: no vector units are looked for, and no worker is started."""
    import torch._inductor.config as inductor

    with inductor.patch({"cpp.vec_isa_ok": False, "compile_threads": 1}):
        yield
