"""Probes in the tests' own process."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _frozen_again() -> Iterator[None]:
    """A probe collects garbage before it starts, and thaws everything when it ends: here, all that was imported."""
    yield
    gc.freeze()
