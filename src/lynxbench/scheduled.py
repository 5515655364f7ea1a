"""An agent: asks a server what is due, runs it here, says how it goes, and pushes what came of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
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
from lynxbench.pipeline import run_contract
from lynxbench.pushing import push_results
from lynxbench.recording import LedgerRecorder
from lynxbench.remote import Remote, Unreachable
from lynxbench.running import Finished

SAY_S = 1.0
"""A run says how it goes this often; its claim on the server lasts two minutes without a word."""
MOST_WAITING = 200
END_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How an agent works."""

    name: str
    out: Path
    ledger: str | None
    poll_s: float
    only: tuple[str, ...] = ()
    """Contract ids this machine will run; empty: whatever its team put on a timetable."""


class LiveProgress:
    """Tells the server how far a run is; a server that does not answer never stops a run."""

    def __init__(self, remote: Remote, run: str, said: Callable[[str], None]) -> None:
        self._remote = remote
        self._run = run
        self._said = said
        self._began = time.monotonic()
        self._waiting: list[dict[str, Any]] = []
        self._last: tuple[str, int, float] = ("", 0, 0.0)
        self._phase, self._label, self._iterations = "starting", "", 0
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
        self._note("registered", f"{len(run.registration.plan)} processes", 0)

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""
        self._note(stage or "start", f"{slot.precision.value}, restart {slot.restart + 1}", iterations)

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._note("ended", f"{slot.precision.value}, restart {slot.restart + 1}: {report.status.value}", 0)

    def note(self, text: str) -> None:
        """A step between processes."""
        self._note("concluding", text, 0)

    def _note(self, phase: str, label: str, iterations: int) -> None:
        now = time.monotonic() - self._began
        with self._lock:
            last_label, last_count, last_at = self._last
            value = None
            if label == last_label and iterations > last_count and now > last_at:
                value = (iterations - last_count) / (now - last_at)
            elif label == last_label and iterations == last_count and phase == self._phase:
                return  # nothing new to say
            self._last = (label, iterations, now)
            self._phase, self._label, self._iterations = phase, label, iterations
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
            try:
                self._remote.ask("POST", f"/api/v1/runs/{self._run}/live", {"events": events})
            except Unreachable:
                with self._lock:
                    self._waiting = [*events, *self._waiting][-MOST_WAITING:]
            except LynxbenchError as error:
                self._said(f"the server takes no word of this run: {error}")
                return
            if ended:
                return


class Agent:
    """One machine that runs what its team put on a timetable."""

    def __init__(
        self,
        settings: AgentSettings,
        remote: Remote,
        environment: Mapping[str, str],
        said: Callable[[str], None],
        declaration: Declaration | None = None,
    ) -> None:
        self._settings = settings
        self._remote = remote
        self._environment = environment
        self._said = said
        self._declaration = declaration

    def poll(self) -> bool:
        """Ask once, and carry out what is due; whether something was."""
        place = f"/api/v1/agents/{self._settings.name}/poll"
        answer = self._remote.ask("POST", place, {"version": __version__})
        run = answer.get("run")
        if run is None:
            return False
        name = str(run["run"])
        self._said(f"{run['schedule']}: due {run['due_at']}, run {name}")
        try:
            contract = self._agreed(answer)
            finished = self._measure(contract, name)
            pushed = push_results(
                [finished.result.result_id], self._settings.ledger, self._remote, self._environment, run=name
            )
        except LynxbenchError as error:
            self._end(name, {"state": "failed", "said": str(error)[:2000]})
            self._said(f"{run['schedule']}: failed: {error}")
            return True
        self._end(name, {"state": "done", "said": "", "result_id": finished.result.result_id})
        self._said(f"{run['schedule']}: result {finished.result.result_id[:12]} pushed, {pushed.new} entries new there")
        return True

    def work(self, stop: threading.Event, runs: int | None = None) -> int:
        """Poll until told to stop, or until so many runs were carried out; how many were."""
        done = 0
        while not stop.is_set() and (runs is None or done < runs):
            try:
                if self.poll():
                    done += 1
                    continue
            except Unreachable as error:
                self._said(f"{error}; asking again")
            stop.wait(self._settings.poll_s)
        return done

    def _agreed(self, answer: Mapping[str, Any]) -> Contract:
        contract = parse_document(json.dumps(answer["contract"]), "the server's contract")
        only = self._settings.only
        if only and not any(contract.contract_id.startswith(one) for one in only):
            raise Refused(f"contract {contract.contract_id[:12]} is none of those that this agent runs (--only)")
        return contract

    def _measure(self, contract: Contract, run: str) -> Finished:
        location = locate(self._settings.ledger, self._environment)
        if location is None:
            raise BadLedger("an agent records what it measures; give it a ledger")
        recorder = LedgerRecorder(location, self._environment)
        with LiveProgress(self._remote, run, self._said) as progress:
            finished = run_contract(contract, self._settings.out, self._declaration, progress, None, recorder)
        if recorder.recorded is None:
            raise BadInput(f"the result was not recorded: {recorder.problem}; it is kept in {finished.folder}")
        return finished

    def _end(self, run: str, document: dict[str, Any]) -> None:
        wait_s = 0.5
        for attempt in range(END_ATTEMPTS):
            try:
                self._remote.ask("POST", f"/api/v1/runs/{run}/end", document)
                return
            except Unreachable as error:
                self._said(f"{error}; saying it again")
                if attempt < END_ATTEMPTS - 1:
                    time.sleep(wait_s)
                    wait_s *= 2
            except LynxbenchError as error:
                self._said(str(error))
                return
