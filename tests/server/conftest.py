"""One server with everybody in it, for all tests of this room that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from companies import Company, open_company
from hosted import World, hosted, make_world
from light_passwords import light_passwords


@pytest.fixture(scope="session", autouse=True)
def _light_passwords() -> Iterator[None]:
    with light_passwords():
        yield


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A listening server; its own thread does not look after things, so that nothing happens by itself."""
    made = make_world(tmp_path_factory.mktemp("world"), shapes=("software-bound", "served", "hostile"))
    with hosted(made) as listening:
        yield listening


@pytest.fixture(scope="session")
def open_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Company]:
    """A server with a provider beside it."""
    with open_company(tmp_path_factory.mktemp("company")) as made:
        yield made


@pytest.fixture
def company(open_one: Company) -> Iterator[Company]:
    """The same, for one test: then the provider does as it should again, and nobody's failures are counted."""
    yield open_one
    open_one.provider.tell("/planted", {})
    open_one.world.server.failed_returns._buckets.clear()
