"""A real Ray cluster on loopback for tests, and what it may open and leave: nothing beyond loopback, nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from fleet_tasks import answer
from lynxbench.errors import CannotRun
from lynxbench.fleet.cluster import Fleet, connected, wait_for
from lynxbench.fleet.local import NO_NODE


def _started() -> Fleet:
    """Two nodes. Ray itself waits half a minute for each, whatever is asked of it: a busy machine is asked again."""
    for _ in range(3):
        try:
            return connected(None, local_nodes=2, local_cpus=2)
        except CannotRun as error:
            if NO_NODE not in str(error):
                raise
            why = str(error)
    pytest.skip(f"Ray does not start on this machine now: {why}")


@contextmanager
def loopback_fleet(nodes: int, *, confined: bool = False) -> Iterator[Fleet]:
    """A driver on the first of so many nodes, the third `confined` to a single CPU; nothing of it left afterwards."""
    support = str(Path(answer.__code__.co_filename).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", support, prepend=os.pathsep)  # tasks of the tests are found on the nodes
        patch.setattr("lynxbench.fleet.cluster.READY_S", 600.0)
        patch.setattr("lynxbench.fleet.cluster.PROBE_S", 600.0)
        with _started() as joined:
            assert joined.local is not None
            folder = Path(os.environ["RAY_TMPDIR"])
            for number in range(3, nodes + 1):
                joined.local.add(only_cpus={min(os.sched_getaffinity(0))} if confined and number == 3 else None)
            wait_for(joined, nodes, 600)
            yield joined
    assert not folder.exists()
    processes = psutil.process_iter(["name", "status", "environ"])  # another test may have a cluster of its own
    ours = [process.info for process in processes if (process.info["environ"] or {}).get("RAY_TMPDIR") == str(folder)]
    left = [info for info in ours if "ray" in info["name"] and info["status"] != psutil.STATUS_ZOMBIE]
    assert [info["name"] for info in left] == []


def listening() -> list[str]:
    """The addresses that this process and everything it started listen on."""
    me = psutil.Process()
    family = [me, *me.children(recursive=True)]
    found = [c.laddr.ip for p in family for c in _connections(p) if c.status == psutil.CONN_LISTEN]
    return [ip.removeprefix("::ffff:") for ip in found]


def scratch_left(fleet_id: str) -> list[Path]:
    """What runs of a fleet left on the nodes, which all are this machine."""
    return list(Path("/tmp").glob(f"lynxbench-{fleet_id}*"))


def _connections(process: psutil.Process) -> list[Any]:
    try:
        return process.net_connections("inet")
    except psutil.Error:
        return []
