"""An agent: asks a server what is due, runs it here, says how it goes, and pushes what came of it.

`AgentClient` is what any agent says to its server; `SchedulingAgent` is the one that measures on its own machine.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lynxbench import __version__
from lynxbench.contract.loader import parse_document
from lynxbench.errors import BadInput, BadLedger, LynxbenchError, Refused
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.executor.declaration import Declaration
from lynxbench.ledger.location import locate
from lynxbench.model.contract import Contract
from lynxbench.model.job import JobReport
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import CallableModel
from lynxbench.record.pushing import push_results
from lynxbench.record.recording import LedgerRecorder
from lynxbench.record.remote import Remote, Unreachable
from lynxbench.run.machine_servers import read_server, refuse_foreign_arguments
from lynxbench.run.pipeline import run_contract
from lynxbench.run.run_outcome import Finished

SAY_S = 1.0
"""A run says how it goes this often; its claim on the server lasts two minutes without a word."""
MOST_WAITING = 200
LEAST_EXACT = 16
"""Digits of a contract's id that nobody finds another contract for: 64 bits."""
END_ATTEMPTS = 8

AgentLog = logging.Logger | logging.LoggerAdapter[logging.Logger]


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How an agent works."""

    name: str
    out: Path
    ledger: str | None
    poll_s: float
    only: tuple[str, ...] = ()
    """Contract ids this machine will run; empty: whatever its team put on a timetable."""
    callables: tuple[str, ...] = ()
    """Functions of this machine (`module:function`) that contracts of the server may name."""


class LiveProgress:
    """Tells the server how far a run is; a server that does not answer never stops a run."""

    def __init__(self, remote: Remote, run: str, log: AgentLog) -> None:
        self._remote = remote
        self._run = run
        self._log = log
        self._began = time.monotonic()
        self._waiting: list[dict[str, Any]] = []
        self._last: tuple[str, int, float] = ("", 0, 0.0)
        self._phase = "starting"
        self._node: str | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._speak, daemon=True)

    def __enter__(self) -> LiveProgress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(timeout=10)

    def begin(self, run: RunFolder) -> None:
        """The run is registered and starts."""
        self.say("registered", f"{len(run.registration.plan)} processes", 0)

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        self.say(stage or "start", f"{slot.precision.value}, restart {slot.restart + 1}", iterations)

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self.say("ended", f"{slot.precision.value}, restart {slot.restart + 1}: {report.status.value}", 0)

    def note(self, text: str) -> None:
        """A step between processes."""
        self.say("concluding", text, 0)

    def on(self, node: str) -> None:
        """The run is on a node of the agent's fleet."""
        with self._lock:
            self._node = node

    def say(self, phase: str, label: str, iterations: int = 0) -> None:
        """How far it is."""
        now = time.monotonic() - self._began
        with self._lock:
            last_label, last_count, last_at = self._last
            value = None
            if label == last_label and iterations > last_count and now > last_at:
                value = (iterations - last_count) / (now - last_at)
            elif label == last_label and iterations == last_count and phase == self._phase:
                return  # nothing new to say
            self._last = (label, iterations, now)
            self._phase = phase
            self._waiting.append(
                {
                    "at_s": round(now, 3),
                    "phase": phase[:40],
                    "label": label[:120],
                    "value": None if value is None else round(value, 6),
                    "iterations": iterations,
                }
            )
            del self._waiting[:-MOST_WAITING]

    def _speak(self) -> None:
        while True:
            ended = self._ended.wait(SAY_S)
            with self._lock:
                events, self._waiting = self._waiting, []
                where = {} if self._node is None else {"node": self._node}
            try:
                self._remote.ask("POST", f"/api/v1/runs/{self._run}/live", {"events": events, **where})
            except Unreachable:
                with self._lock:
                    self._waiting = [*events, *self._waiting][-MOST_WAITING:]
            except LynxbenchError as error:
                self._log.warning("the server takes no word of this run: %s", error)
                return
            if ended:
                return


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """One run that is due."""

    run: str
    schedule: str
    contract: Contract
    last_node: str | None
    """Of a fleet: where this schedule was last measured."""


class AgentClient:
    """What an agent and its server say to each other."""

    def __init__(self, settings: AgentSettings, remote: Remote, environment: Mapping[str, str], log: AgentLog) -> None:
        self.settings, self.log = settings, log
        self._remote = remote
        self._environment = environment

    def claim(self, places: int = 1) -> ClaimedRun | None:
        """What is due, claimed for this agent; one that it will not run is refused at once, and the next is asked for.

        With `places` it may have so many runs at a time.
        """
        place = f"/api/v1/agents/{self.settings.name}/poll"
        wanted: dict[str, object] = {"version": __version__}
        if places > 1:
            wanted["places"] = places
        while True:
            answer = self._remote.ask("POST", place, wanted)
            run = answer.get("run")
            if run is None:
                return None
            name, schedule = str(run["run"]), str(run["schedule"])
            self.log.info("%s: due %s, run %s", schedule, run["due_at"], name)
            try:
                return ClaimedRun(name, schedule, self._agreed(answer), answer.get("last_node"))
            except LynxbenchError as error:
                self.fail(name, schedule, str(error))

    def claims(
        self, stop: threading.Event, runs: int | None, places: Callable[[], int] = lambda: 1, *, once: bool = False
    ) -> Iterator[ClaimedRun]:
        """What is due, run after run: until told to stop, so many were claimed, or, with `once`, nothing is due."""
        count = 0
        while not stop.is_set() and (runs is None or count < runs):
            try:
                claimed = self.claim(places())
            except Unreachable as error:
                self.log.warning("%s; asking again", error)
                claimed = None
            if claimed is not None:
                count += 1
                yield claimed
            elif once:
                return
            else:
                stop.wait(self.settings.poll_s)

    def live(self, claimed: ClaimedRun) -> LiveProgress:
        """Tells the server how far a run is, from `with` to its end."""
        return LiveProgress(self._remote, claimed.run, self.log)

    def recorder(self) -> LedgerRecorder:
        """Who records a run."""
        location = locate(self.settings.ledger, self._environment)
        if location is None:
            raise BadLedger("an agent records what it measures; give it a ledger")
        return LedgerRecorder(location, self._environment)

    def deliver(self, claimed: ClaimedRun, result_id: str) -> None:
        """Push a run's result, and say that it is done; or that it could not be pushed."""
        try:
            pushed = push_results([result_id], self.settings.ledger, self._remote, self._environment, run=claimed.run)
        except LynxbenchError as error:
            self.fail(claimed.run, claimed.schedule, str(error))
            return
        self._end(claimed.run, {"state": "done", "said": "", "result_id": result_id})
        self.log.info("%s: result %s pushed, %d entries new there", claimed.schedule, result_id[:12], pushed.new)

    def fail(self, run: str, schedule: str, why: str) -> None:
        """Say that a run came to nothing."""
        self._end(run, {"state": "failed", "said": why[:2000]})
        self.log.warning("%s: failed: %s", schedule, why)

    def _agreed(self, answer: Mapping[str, Any]) -> Contract:
        contract = parse_document(json.dumps(answer["contract"]), "the server's contract")
        only = self.settings.only
        if only and not any(contract.contract_id.startswith(beginning) for beginning in only):
            raise Refused(f"contract {contract.contract_id[:12]} is none of those that this agent runs (--only)")
        self._refuse_callable(contract)
        self._refuse_launch(contract)
        return contract

    def _refuse_callable(self, contract: Contract) -> None:
        """A contract that names a function of this machine runs it: the server's word alone is not enough for that."""
        model = contract.workload.model
        if not isinstance(model, CallableModel) or model.target in self.settings.callables:
            return
        if not self._is_named(contract):
            raise Refused(
                f"contract {contract.contract_id[:LEAST_EXACT]} runs the function {model.target} of this machine; an "
                f"agent does so where its own command says --callable {model.target}, or names the contract by --only "
                f"with {LEAST_EXACT} digits of its id or more"
            )

    def _refuse_launch(self, contract: Contract) -> None:
        """A contract that starts a server of this machine may only tune it, unless this agent was told to run it."""
        engine = contract.engine
        if isinstance(engine, ServedEngine) and engine.serve is not None and not self._is_named(contract):
            refuse_foreign_arguments(read_server(engine.serve.server, self._environment), engine.serve)

    def _is_named(self, contract: Contract) -> bool:
        """Whether this agent's own command names the contract; shorter beginnings of an id can be met by trying."""
        exact = [only for only in self.settings.only if len(only) >= LEAST_EXACT]
        return any(contract.contract_id.startswith(beginning) for beginning in exact)

    def _end(self, run: str, document: dict[str, Any]) -> None:
        wait_s = 0.5
        for attempt in range(END_ATTEMPTS):
            try:
                self._remote.ask("POST", f"/api/v1/runs/{run}/end", document)
                return
            except Unreachable as error:
                self.log.warning("%s; saying it again", error)
                if attempt < END_ATTEMPTS - 1:
                    time.sleep(wait_s)
                    wait_s *= 2
            except LynxbenchError as error:
                self.log.warning(str(error))
                return


class SchedulingAgent:
    """One machine that runs what its team put on a timetable."""

    def __init__(self, client: AgentClient, declaration: Declaration | None = None) -> None:
        self._client = client
        self._declaration = declaration

    def poll(self) -> bool:
        """Ask once, and carry out what is due; whether something was."""
        claimed = self._client.claim()
        if claimed is not None:
            self._carry_out(claimed)
        return claimed is not None

    def work(self, stop: threading.Event, runs: int | None = None) -> None:
        """Carry out what is due until told to stop, or until so many runs were carried out."""
        for claimed in self._client.claims(stop, runs):
            self._carry_out(claimed)

    def _carry_out(self, claimed: ClaimedRun) -> None:
        try:
            finished = self._measure(claimed)
        except LynxbenchError as error:
            self._client.fail(claimed.run, claimed.schedule, str(error))
        else:
            self._client.deliver(claimed, finished.result.result_id)

    def _measure(self, claimed: ClaimedRun) -> Finished:
        recorder = self._client.recorder()
        out = self._client.settings.out
        with self._client.live(claimed) as progress:
            finished = run_contract(claimed.contract, out, self._declaration, progress, None, recorder)
        if recorder.recorded is None:
            raise BadInput(f"the result was not recorded: {recorder.problem}; it is kept in {finished.folder}")
        return finished
