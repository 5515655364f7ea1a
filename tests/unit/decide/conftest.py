"""The worked example's results, as values."""

from __future__ import annotations

import pytest

from lynxbench.decide.demonstrating import demo_results
from lynxbench.model.result import Result


@pytest.fixture(scope="session")
def today() -> Result:
    """A software-bound service with its saturation, on an A100."""
    return demo_results()[0]


@pytest.fixture(scope="session")
def tested() -> Result:
    """The same contract on an H200."""
    return demo_results()[1]


@pytest.fixture(scope="session")
def decode() -> Result:
    """Two precisions."""
    return demo_results()[2]
