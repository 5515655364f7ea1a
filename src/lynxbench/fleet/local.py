"""A Ray cluster of this machine alone: nothing of it listens beyond loopback, and nothing of it is left at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from lynxbench.errors import CannotRun
from lynxbench.fleet.ray_module import import_ray

STORE_BYTES = 200 << 20
"""Object store of a local node; a run's folder passes through it."""
LARGEST_LOCAL = 64


class LocalCluster:
    """Nodes named node-1, node-2 … on loopback. Closing it ends every process and removes every file of it."""

    def __init__(self, nodes: int = 1, *, cpus: int | None = None, store_bytes: int = STORE_BYTES) -> None:
        if not 1 <= nodes <= LARGEST_LOCAL:
            raise CannotRun(f"{nodes} local nodes; between 1 and {LARGEST_LOCAL} make sense on one machine")
        # Paths of sockets end at 107 characters, so the folder is short and never inside somebody's own long one.
        self._folder = Path(tempfile.mkdtemp(prefix="lynx-ray-", dir="/tmp"))
        self._before = os.environ.get("RAY_TMPDIR")
        os.environ["RAY_TMPDIR"] = str(self._folder)
        self._cpus = cpus or os.cpu_count() or 1
        self._store_bytes = store_bytes
        self._nodes: dict[str, Any] = {}
        self._started = 0
        self._cluster: Any = None
        try:
            import_ray(loopback=True)
            from ray.cluster_utils import Cluster

            self._cluster = Cluster(shutdown_at_exit=True)
            for _ in range(nodes):
                self.add()
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Where a driver connects."""
        return str(self._cluster.address)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes that were started and not killed."""
        return tuple(self._nodes)

    def add(self, *, only_cpus: set[int] | None = None) -> str:
        """One more node; `only_cpus` confines it and everything it starts to these CPUs."""
        self._started += 1
        name = f"node-{self._started}"
        with _confined(only_cpus):
            self._nodes[name] = self._cluster.add_node(
                wait=False,
                node_name=name,
                num_cpus=self._cpus,
                object_store_memory=self._store_bytes,
                include_dashboard=False,
                include_log_monitor=False,
            )
        return name

    def kill(self, name: str) -> None:
        """End a node without a word, as a power cut does."""
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)

    def close(self) -> None:
        """End everything and leave nothing behind."""
        if self._cluster is not None:
            self._cluster.shutdown()
            self._cluster = None
        self._nodes.clear()
        if self._before is None:
            os.environ.pop("RAY_TMPDIR", None)
        else:
            os.environ["RAY_TMPDIR"] = self._before
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def _confined(cpus: set[int] | None) -> Iterator[None]:
    """Processes started inside inherit the affinity of this thread."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
