"""What several files of runs against servers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from first_layers import write_first_layers
from forked_workers import forked_workers
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.load.response_reading import Language
from lynxbench.load.selfcheck import BuildRequest, measure_preflight
from lynxbench.model.load_figures import PreFlight
from lynxbench.run import served_run
from real_servers import RealServer, llamacpp_server, smollm2_path, triton_server


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


@pytest.fixture(scope="module")
def first_layers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where only the serving is looked at, not what is answered, the model is cut down to its first layers."""
    return write_first_layers(smollm2_path(), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def llamacpp(first_layers: Path) -> Iterator[RealServer]:
    with llamacpp_server(slots=4, model=first_layers) as server:
        yield server


@pytest.fixture(scope="module")
def whole_llamacpp() -> Iterator[RealServer]:
    """With all of the model: a token takes it so long that a client's lateness is little beside it."""
    with llamacpp_server(slots=4) as server:
        yield server


@pytest.fixture(scope="module")
def triton() -> Iterator[RealServer]:
    with triton_server() as server:
        yield server
