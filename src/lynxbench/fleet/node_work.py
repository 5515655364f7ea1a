"""What a node does when Ray hands it a contract: run it in a process of its own, send the whole run back.

Ray's own workers import this: what a run needs is imported by its process alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lynxbench.errors import (
    BadInput,
    CannotRun,
    DiskFull,
    EvidenceInvalid,
    ExitCode,
    Interrupted,
    LynxbenchError,
    OwnCodeFailed,
    Refused,
)
from lynxbench.load.fresh_process import last_words

if TYPE_CHECKING:
    from lynxbench.fleet.node_process import NodeRequest

REQUEST_FILE = "request.json"
SCRATCH_VARIABLE = "LYNXBENCH_FLEET_SCRATCH"
"""Folder on a node for runs under way; the system's temporary one without it."""
FOREIGN = ("RAY_", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Set by the cluster for its own work: what is measured must not see them."""
LARGEST_PARCEL_BYTES = 4 << 30
KINDS: dict[int, type[LynxbenchError]] = {
    ExitCode.REFUSED: Refused,
    ExitCode.CANNOT_RUN: CannotRun,
    ExitCode.EVIDENCE_INVALID: EvidenceInvalid,
    ExitCode.INTERRUPTED: Interrupted,
}
OF_A_RUN: dict[str, type[LynxbenchError]] = {kind.__name__: kind for kind in (OwnCodeFailed, DiskFull)}
"""Runs that could not be, though their exit code is that of wrong input: an experiment notes the cell and goes on."""


class Caller(Protocol):
    """Whoever asked, from the node's side."""

    def tell(self, body: dict[str, Any]) -> None:
        """Say something and go on."""

    def ask(self, body: dict[str, Any]) -> Any:
        """Say something and wait for the answer."""


Follow = Callable[[Mapping[str, Any]], None]
"""Told `{"start": job}` or `{"stop": number}`; returns when every other rank has done so."""


@dataclass(frozen=True, slots=True)
class NodeTask:
    """One run: where it keeps what it has on the node, and from which folder its code is found."""

    fleet_id: str
    unit: str
    request: str
    """A NodeRequest as JSON."""
    cwd: str
    environment: Mapping[str, str]

    @classmethod
    def of(
        cls, fleet_id: str, unit: str, request: NodeRequest, cwd: Path | None, environment: Mapping[str, str]
    ) -> NodeTask:
        """A request on its way; without a folder the node's own is meant."""
        text = request.model_dump_json(by_alias=True)
        return cls(fleet_id, unit, text, "" if cwd is None else str(cwd), environment)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A finished run's folder as one archive."""

    run_id: str
    result_id: str
    archive: bytes


def measure_here(task: object, caller: Caller, follow: Follow | None = None) -> Parcel:
    """The task that Ray runs: the contract in a fresh process, its messages passed on, its folder packed.

    `follow` is told when the other ranks of a run are to start and to stop.
    """
    assert isinstance(task, NodeTask)
    scratch = scratch_folder(task.fleet_id) / task.unit
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / REQUEST_FILE).write_text(task.request, encoding="utf-8")
    done = run_child(scratch, task, caller, follow)
    folder = scratch / str(done["folder"])
    parcel = Parcel(folder.name, str(done["result_id"]), pack(folder))
    shutil.rmtree(scratch, ignore_errors=True)
    return parcel


def scratch_folder(fleet_id: str) -> Path:
    """Where a fleet run keeps unfinished runs on a node, so that a resumed one finds them."""
    return Path(os.environ.get(SCRATCH_VARIABLE) or tempfile.gettempdir()) / f"lynxbench-{fleet_id}"


def clear_scratch(fleet_id: str) -> None:
    """Remove what a fleet run, or one unit of it (`ID/UNIT`), left on this node."""
    shutil.rmtree(scratch_folder(fleet_id), ignore_errors=True)


def run_child(scratch: Path, task: NodeTask, caller: Caller, follow: Follow | None = None) -> dict[str, Any]:
    """Run the node's process to its end; what it said at last. An interrupt is passed on, and waited for."""
    cwd = task.cwd if task.cwd and Path(task.cwd).is_dir() else os.getcwd()
    with (scratch / "node-stderr.txt").open("wb") as errors:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "lynxbench.fleet.node_process", str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=cwd,
            env=clean_environment(os.environ, task.environment),
            text=True,
            encoding="utf-8",
        )
    try:
        ended = _relay(child, caller, follow)
    except BaseException:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
            ended = _relay(child, caller, None)  # what it has is kept; nothing is started anew
        raise
    finally:
        _close(child)
    if "done" in ended:
        return dict(ended["done"])
    if "failed" in ended:
        failed = ended["failed"]
        kind = OF_A_RUN.get(str(failed.get("kind")), KINDS.get(int(failed["exit_code"]), BadInput))
        raise kind(str(failed["line"]))
    words = last_words(scratch / "node-stderr.txt")
    raise CannotRun(f"the run's process ended with code {child.returncode}: {words}")


def clean_environment(inherited: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The node's own variables without the cluster's, and those that were asked for."""
    own = {name: value for name, value in inherited.items() if not name.startswith(FOREIGN)}
    return {**own, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **more}


def _relay(child: subprocess.Popen[str], caller: Caller, follow: Follow | None) -> dict[str, Any]:
    assert child.stdout is not None
    assert child.stdin is not None
    ended: dict[str, Any] = {}
    for text in child.stdout:
        message = json.loads(text)
        if "register" in message or "ranks" in message:
            if "ranks" not in message:
                caller.ask(message)
            elif follow is not None:
                follow(message["ranks"])
            child.stdin.write('{"go": true}\n')
            child.stdin.flush()
        elif "abandon" in message:
            caller.ask(message)  # waited for: whoever asked may leave as soon as this task is over
        elif "done" in message or "failed" in message:
            ended = message
        else:
            caller.tell(message)
    child.wait()
    return ended


def _close(child: subprocess.Popen[str]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    if child.poll() is None:
        child.kill()
    child.wait()


def pack(folder: Path) -> bytes:
    """A folder as one archive in memory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, arcname=folder.name)
    if out.tell() > LARGEST_PARCEL_BYTES:
        raise CannotRun(f"{folder.name}: {out.tell() >> 20} MiB are too much to send; profile fewer steps")
    return out.getvalue()
