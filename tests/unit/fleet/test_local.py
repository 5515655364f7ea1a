"""A cluster of this machine alone, where it does not come up: one line, and nothing of it left."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from lynxbench.errors import CannotRun
from lynxbench.fleet.local import NO_NODE, LocalCluster, import_ray


@pytest.mark.slow
def test_a_node_that_takes_too_long_is_told_in_one_line_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own words for it are a bare exception, raised while its processes run."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    folders: list[str] = []

    def overdue(*_: object, **__: object) -> None:
        folders.append(os.environ["RAY_TMPDIR"])
        raise RuntimeError("Could not find the node\nin time")

    import_ray(loopback=True)
    clock = SimpleNamespace(**vars(time) | {"monotonic": iter(range(0, 10**6, 20)).__next__})  # a look every 20 s
    monkeypatch.setattr("ray._private.services.get_node", overdue)
    monkeypatch.setattr("ray._private.node.time", clock)
    with pytest.raises(CannotRun) as caught:
        LocalCluster(1, cpus=1)
    monkeypatch.undo()
    said = str(caught.value)
    assert said.startswith(f"{NO_NODE}: The current node timed out during startup.")
    assert said.endswith("Is this machine overloaded?")
    assert "\n" not in said
    assert not Path(folders[0]).exists()
    alive = [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    assert [p.name() for p in alive if p.name() in ("gcs_server", "raylet")] == []
    assert "RAY_TMPDIR" not in os.environ
