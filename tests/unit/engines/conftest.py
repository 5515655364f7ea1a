"""What the tests of engines share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lynxbench.workload.presets import presets

FEW_WORDS = 2048


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the fresh process that measures: what other tests compiled in this one hides no step."""
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        monkeypatch.setitem(compiler.counters["stats"], "unique_graphs", 0)


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """SmolLM2's shape with a small vocabulary: drawing and quantising 28 million numbers is most of a tiny model."""
    usual = presets()["smollm2-135m"]
    monkeypatch.setitem(presets(), usual.name, replace(usual, config={**usual.config, "vocab_size": FEW_WORDS}))


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
