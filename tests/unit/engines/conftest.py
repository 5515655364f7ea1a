"""What the tests of engines share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture
def nothing_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the fresh process that measures: what other tests compiled in this one hides no step."""
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None:
        monkeypatch.setitem(compiler.counters["stats"], "unique_graphs", 0)
