"""One contract on this very machine, for somebody elsewhere: `python -m lynxbench.fleet.node_process FOLDER`.

A process of its own, so that what is measured is what `lynxbench run` measures, without the cluster's threads and
variables around it. It talks through its pipes, one JSON document a line:

    out  {"begin": …} {"stage": …} {"end": …} {"note": …}       how far it is
    out  {"register": registration}   in  {"go": true}          the record is announced before the first sample
    out  {"abandon": reason}
    out  {"restless": seconds}                                  others kept the machine busy, however long it waited
    out  {"ranks": {"start": job}} or {"ranks": {"stop": n}}    in  {"go": true}    the other ranks follow
    out  {"done": {"folder": …, "result_id": …}} or {"failed": {"line": …, "kind": …, "exit_code": …}}

Standard input that closes means that whoever asked is gone: the run ends as after Ctrl-C, and what it has is kept.
"""

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from pydantic import Field

from lynxbench.errors import ExitCode, Interrupted, LynxbenchError
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.manifest import MANIFEST_FILE
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder, Slot, find_unfinished
from lynxbench.executor.declaration import Declaration
from lynxbench.experiment.definition import ServerCommand
from lynxbench.experiment.visiting import Setting, Visits
from lynxbench.fleet.node_work import REQUEST_FILE
from lynxbench.measure.calm import wait_until_calm
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.fields import Scalar
from lynxbench.model.job import JobReport
from lynxbench.model.surroundings import VariableName
from lynxbench.run.fresh_job import job_of
from lynxbench.run.pipeline import run_contract

SERVER_LOG = "server.txt"
ENVIRONMENTS = ".environments"
"""Beside the units of a fleet run on its node, and removed with them."""
REPLY_S = 90.0
"""An announcement is waited for this long; then the run goes on, and its record says so."""


class LockFile(Document):
    """A lock file as it travels: the node makes the environment."""

    name: str
    text: str


class Given(Document):
    """What a run's processes are given beside the contract, as an experiment's factors say, and what it waits for."""

    environment: dict[VariableName, str] = Field(default_factory=dict)
    lock: LockFile | None = None
    inherits: bool = True
    """Whether what the lock does not name comes from the node's own environment."""
    server: ServerCommand | None = None
    """Started on the node before the contract asks it, ended after."""
    server_values: dict[str, Scalar] = Field(default_factory=dict)
    patience_s: float = 0.0
    """How long to wait for others to leave the machine alone."""


class NodeRequest(Document):
    """What one node is asked to measure."""

    contract: Contract
    declaration: Declaration | None = None
    recorded: bool = False
    """Whether somebody keeps a record and wants to be told before the first sample."""
    ranked: bool = False
    """Whether other ranks follow this one: they are started and stopped with every process."""
    given: Given | None = None


class DriverPipes:
    """The two pipes."""

    def __init__(self, out: TextIO, source: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, args=(source,), daemon=True).start()

    def say(self, **message: Any) -> None:
        """One line out."""
        with self._lock:
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def ask(self, **message: Any) -> bool:
        """One line out, and wait for the answer; False where none came."""
        self.say(**message)
        try:
            return bool(self._answers.get(timeout=REPLY_S))
        except queue.Empty:
            return False

    def _listen(self, source: TextIO) -> None:
        for text in source:
            self._answers.put(text)
        os.kill(os.getpid(), signal.SIGINT)


class PipeProgress:
    """Progress as lines; a stage is said once, not a few times a second."""

    def __init__(self, line: DriverPipes) -> None:
        self._line = line
        self._stage: tuple[int, str] | None = None

    def begin(self, run: RunFolder) -> None:
        """The run is registered and starts, or goes on."""
        self._line.say(begin={"run_id": run.registration.run_id, "processes": len(run.registration.plan)})

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        if self._stage != (slot.index, stage):
            self._stage = (slot.index, stage)
            self._line.say(stage={"process": slot.index, "stage": stage, "precision": slot.precision.value})

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._line.say(end={"process": slot.index, "status": report.status.value, "seconds": round(spent_s, 3)})

    def note(self, text: str) -> None:
        """A step between processes."""
        self._line.say(note=text)


class RankedProgress(PipeProgress):
    """The same for rank 0 of several: the others start with each of its processes and are gone before the next."""

    def __init__(self, line: DriverPipes) -> None:
        super().__init__(line)
        self._run: RunFolder | None = None
        self._following: int | None = None

    def begin(self, run: RunFolder) -> None:
        """Remember what the others are to follow."""
        self._run = run
        super().begin(run)

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process of ours is up and waits for the others at their rendezvous."""
        if self._following != slot.index:
            self._following = slot.index
            assert self._run is not None
            job = job_of(self._run.registration, slot)
            self._line.ask(ranks={"start": job.model_dump_json(by_alias=True)})
        super().watch(slot, stage, iterations, spent_s)

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """Ours has ended: nobody waits for the others any more."""
        self._line.ask(ranks={"stop": slot.index})
        super().end_slot(slot, report, spent_s)


class LineRecorder:
    """The record is kept by whoever asked: they are told, and waited for."""

    def __init__(self, line: DriverPipes) -> None:
        self._line = line

    def register(self, run: RunFolder) -> None:
        """Announce the run before its first sample."""
        text = (run.path / REGISTRATION_FILE).read_text(encoding="utf-8")
        self._line.ask(register={"run_id": run.registration.run_id, "text": text})

    def abandon(self, run: RunFolder, reason: str) -> None:
        """The run ended without a result."""
        self._line.say(abandon={"run_id": run.registration.run_id, "reason": reason})

    def record(self, folder: Path) -> None:
        """Recorded where it arrives, once its files are there."""


def measure(folder: Path, line: DriverPipes) -> Path:
    """Run what the folder asks for, or go on with what was begun there; the folder of the finished run."""
    request = NodeRequest.model_validate_json((folder / REQUEST_FILE).read_bytes())
    contract, progress = request.contract, RankedProgress(line) if request.ranked else PipeProgress(line)
    recorder = LineRecorder(line) if request.recorded else None
    before = _finished_before(folder, contract)
    if before is not None:
        line.say(done={"folder": before.name, "result_id": read_result(before).result_id})
        return before
    setting, visits = _surrounded(request, folder)
    patience_s = 0.0 if request.given is None else request.given.patience_s
    if patience_s and wait_until_calm(contract.protocol.foreign_load, patience_s) is None:
        line.say(restless=patience_s)
    resume = find_unfinished(folder, contract.contract_id) is not None
    with visits.serving(setting, folder / SERVER_LOG):
        finished = run_contract(
            contract,
            folder,
            request.declaration,
            progress,
            recorder=recorder,
            around=visits.surroundings(setting),
            resume=resume,
        )
    line.say(done={"folder": finished.folder.name, "result_id": finished.result.result_id})
    return finished.folder


def _finished_before(folder: Path, contract: Contract) -> Path | None:
    """A run that was sealed here and never sent: the word to stop came in between."""
    for file in sorted(folder.glob(f"*/{MANIFEST_FILE}")):
        run = RunFolder.open(file.parent)
        if run.finished and run.registration.contract_id == contract.contract_id:
            return file.parent
    return None


def _surrounded(request: NodeRequest, folder: Path) -> tuple[Setting, Visits]:
    """The request as a visit on this machine; environments are shared by all visits of one fleet run."""
    given = request.given or Given()
    if given.lock is not None:
        (folder / given.lock.name).write_text(given.lock.text, encoding="utf-8")
    setting = Setting(
        contract=request.contract,
        environment=given.environment,
        lock=None if given.lock is None else given.lock.name,
        server=given.server,
        server_values=given.server_values,
    )
    visits = Visits(
        runs=folder,
        environments=folder.parent / ENVIRONMENTS,
        base=folder,
        declaration=request.declaration,
        recorders=lambda: None,
        inherits=given.inherits,
    )
    return setting, visits


def main() -> None:
    """Every end is said in one line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})  # Ray's processes block the first
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a model prints must not be read as a message
    line = DriverPipes(out, sys.stdin)
    try:
        measure(Path(sys.argv[1]), line)
    except LynxbenchError as error:
        _leave(line, error)
    except KeyboardInterrupt:
        _leave(line, Interrupted("interrupted before the first sample"))
    os._exit(int(ExitCode.DONE))  # the listening thread waits for ever


def _leave(line: DriverPipes, error: LynxbenchError) -> None:
    code = int(error.exit_code)
    with contextlib.suppress(BrokenPipeError):  # nobody may be left to hear it
        line.say(failed={"line": str(error), "kind": type(error).__name__, "exit_code": code})
    os._exit(code)


if __name__ == "__main__":
    main()
