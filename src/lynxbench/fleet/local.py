"""Ray, imported on first need and told to keep to itself, and a cluster of this machine alone.

Nothing of such a cluster listens beyond loopback, and nothing of it is left at the end.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from lynxbench.errors import BadInput, CannotRun

QUIET: dict[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Nothing is reported to anybody; a task without GPUs leaves CUDA_VISIBLE_DEVICES as the node has it."""
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""With this Ray takes 127.0.0.1 for the address of this machine, and then listens nowhere else."""
STORE_BYTES = 200 << 20
"""Object store of a local node; a run's folder passes through it."""
LARGEST_LOCAL = 64
NO_NODE = "a local Ray node did not start"
KILLED_S = 10.0


def import_ray(*, loopback: bool = False) -> ModuleType:
    """Ray, or one line that says how to get it. `loopback` must be said before anything else imports Ray."""
    for name, value in (QUIET | (LOOPBACK if loopback else {})).items():
        os.environ.setdefault(name, value)
    if loopback and "ray" in sys.modules:
        from ray._private import ray_constants

        if ray_constants.ENABLE_RAY_CLUSTER:
            raise BadInput("Ray was imported before and would listen on every address; start a fresh process")
    try:
        import ray
    except ModuleNotFoundError as missing:
        if missing.name != "ray":
            raise
        raise BadInput("a fleet needs Ray: pip install 'lynxbench[ray]'") from None
    module: ModuleType = ray
    return module


class LocalCluster(AbstractContextManager["LocalCluster"]):
    """Nodes named node-1, node-2 … on loopback. Closing it ends every process and removes every file of it."""

    def __init__(self, nodes: int = 1, *, cpus: int | None = None) -> None:
        if not 1 <= nodes <= LARGEST_LOCAL:
            raise CannotRun(f"{nodes} local nodes; between 1 and {LARGEST_LOCAL} make sense on one machine")
        # Paths of sockets end at 107 characters, so the folder is short and never inside somebody's own long one.
        self._folder = Path(tempfile.mkdtemp(prefix="lynx-ray-", dir="/tmp"))
        self._before = os.environ.get("RAY_TMPDIR")
        os.environ["RAY_TMPDIR"] = str(self._folder)
        self._cpus = cpus or os.cpu_count() or 1
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
            try:
                self._nodes[name] = self._cluster.add_node(
                    wait=False,
                    node_name=name,
                    num_cpus=self._cpus,
                    object_store_memory=STORE_BYTES,
                    include_dashboard=False,
                    include_log_monitor=False,
                    no_monitor=True,  # the autoscaler's: there is nothing to scale
                )
            except Exception as error:  # Ray raises a bare one where a node takes longer than it waits for
                raise CannotRun(f"{NO_NODE}: {' '.join(str(error).split())} Is this machine overloaded?") from None
        return name

    def kill(self, name: str) -> None:
        """End a node without a word, as a power cut does."""
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)

    def close(self) -> None:
        """End everything and leave nothing behind."""
        if self._cluster is not None:
            self._cluster.shutdown()
            self._cluster = None
            self._end_strays()
        self._nodes.clear()
        if self._before is None:
            os.environ.pop("RAY_TMPDIR", None)
        else:
            os.environ["RAY_TMPDIR"] = self._before
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end_strays(self) -> None:
        """Processes of a node that did not come up are nobody's: Ray ends those of its nodes alone."""
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                mine = process.environ().get("RAY_TMPDIR") == str(self._folder)
                if mine and "ray" in Path(process.exe()).parts:
                    process.kill()
                    process.wait(KILLED_S)

    def __exit__(self, *_: object) -> None:
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
