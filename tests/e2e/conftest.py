"""What several files of runs against servers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forked_workers import forked_workers
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.response_reading import Language
from lynxbench.load.selfcheck import BuildRequest, measure_preflight
from lynxbench.model.load_figures import PreFlight
from lynxbench.run import served_run


@pytest.fixture(scope="module")
def one_preflight() -> Iterator[None]:
    """Runs in this process try the client once for a language and a kind of load: it is the same client every time."""
    tried: dict[tuple[type, type], PreFlight] = {}

    def try_once(language: Language, build: BuildRequest, load: ClosedLoop | OpenLoop, duration_s: float) -> PreFlight:
        kind = type(language), type(load)
        if kind not in tried:
            tried[kind] = measure_preflight(language, build, load, duration_s)
        return tried[kind]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_run, "measure_preflight", try_once)
        yield


@pytest.fixture(scope="module")
def forked_clients() -> Iterator[None]:
    """Clients of runs in this process are forked; the processes that they send from are fresh ones."""
    with forked_workers("client"):
        yield


@pytest.fixture(scope="module")
def forked_functions() -> Iterator[None]:
    """Workers with a user's function of runs in this process are forked, too."""
    with forked_workers("callable"):
        yield
