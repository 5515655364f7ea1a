"""One server with everybody in it, for all tests of this room that leave it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hosted import World, hosted, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A listening server; its own thread does not look after things, so that nothing happens by itself."""
    made = make_world(tmp_path_factory.mktemp("world"), shapes=("software-bound", "served", "hostile"))
    with hosted(made) as listening:
        yield listening
