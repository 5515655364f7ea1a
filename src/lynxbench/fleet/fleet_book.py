"""The book of a fleet run: its state on disk, brought up to date with every event, and the record of every run."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from lynxbench.errors import EvidenceInvalid, LynxbenchError
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.folders import make_folder
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.evidence.whole_files import write_text
from lynxbench.fleet.actors import Desk, NodeMessage
from lynxbench.fleet.arrivals import unpack
from lynxbench.fleet.dispatch import End, TaskOutcome
from lynxbench.fleet.node_work import Parcel
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.fleet import FleetUnit, UnitState
from lynxbench.run.run_outcome import Recorder, Recorders

FLEET_FILE = "fleet.json"
UNITS_FOLDER = "units"


class FleetUnits(Document):
    """What is run on a fleet, and how far each unit of it came."""

    fleet_id: str
    started_at: str
    units: tuple[FleetUnit, ...] = ()
    finished_at: str | None = None


class FleetState(FleetUnits):
    """What a fleet run is, on disk from before its first unit."""

    contract: Contract
    per_gpu: bool


StateT = TypeVar("StateT", bound=FleetUnits)


class FleetProgress:
    """Who is told how far the fleet is; this one says nothing to anybody."""

    def begin(self, state: FleetUnits, folder: Path) -> None:
        """The units are known."""

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        """A unit starts, or starts again."""

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        """A node says how far its run is."""

    def unit_ended(self, unit: FleetUnit, left: int) -> None:
        """A unit has its outcome."""


class FleetBook(Generic[StateT]):
    """The state on disk, brought up to date with every event; and the record of every run."""

    def __init__(
        self,
        state: StateT,
        folder: Path,
        progress: FleetProgress | None,
        recorders: Recorders | None,
        runs: Path | None = None,
    ) -> None:
        """With `runs` all runs go into that one folder, and whoever adds units keeps the account of them."""
        self.state, self.folder, self.progress = state, folder, progress or FleetProgress()
        self._runs = runs
        self._recorders = recorders or (lambda: None)
        self._open: dict[str, tuple[str, Recorder]] = {}
        """Runs that were announced and have no end yet: the unit, and who records it."""
        self.errors: dict[str, LynxbenchError] = {}

    @property
    def keeps_account(self) -> bool:
        """Whether a run can be gone on with from what is on disk here."""
        return self._runs is None

    def begin(self) -> None:
        """The units are known, and nothing has been run yet."""
        make_folder(self._runs or self.folder / UNITS_FOLDER)
        self._write()
        self.progress.begin(self.state, self.folder)

    def add(self, unit: FleetUnit) -> None:
        """One more unit, while others run."""
        self._set_units((*self.state.units, unit))
        self._write()

    def forget(self, name: str) -> FleetUnit:
        """A unit whose end is entered elsewhere: what became of it."""
        unit = self._unit(name)
        self._set_units(other for other in self.state.units if other is not unit)
        return unit

    def hear(self, message: NodeMessage, desk: Desk) -> None:
        """A node says something; an announcement is recorded before the node goes on."""
        body = message.body
        if "register" in body:
            self._register(message.key, body["register"])
            desk.answer(message, True)
        elif "abandon" in body:
            self._abandon(message.key, body["abandon"])
            desk.answer(message, True)
        else:
            self.progress.unit_said(message.key, body)

    def enter(self, outcome: TaskOutcome) -> None:
        """A unit has ended: keep its run, record it, write everything down."""
        name = outcome.task.key
        unit = self._unit(name)
        attempts = (*unit.attempts, *outcome.attempts)
        last = outcome.attempts[-1].node if outcome.attempts else unit.node
        changes: dict[str, object] = {"attempts": attempts, "node": last, "why": outcome.why}
        if unit.node and last != unit.node:
            changes["stands_in_for"] = unit.node
        if outcome.end is End.DONE:
            changes |= self._keep(name, outcome)
        elif outcome.end is End.FAILED:
            changes |= {"state": UnitState.FAILED}
            if outcome.error is not None:
                self.errors[name] = outcome.error
                changes |= {"exit_code": int(outcome.error.exit_code)}
        else:
            changes |= {"state": UnitState.LOST}
        self._abandon_lost(name, outcome)
        ended = unit.model_copy(update=changes)
        self._set_units(ended if other is unit else other for other in self.state.units)
        self._write()
        self.progress.unit_ended(ended, sum(other.state is UnitState.PENDING for other in self.state.units))

    def finish(self) -> None:
        """Every unit has its outcome; a run of which some have none can still be resumed."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        if all(unit.state is UnitState.DONE for unit in self.state.units):
            self.state = self.state.model_copy(update={"finished_at": now})
        self._write()

    def leave_none_open(self) -> None:
        """No work is under way any more: a run that its node announced and said no end of has ended without a result.

        A node that is busy may not speak within the grace of an interrupt; one that dies may announce a run as its last
        word, after its end was entered here.
        """
        for run_id, (name, _) in list(self._open.items()):
            self._abandon(name, {"run_id": run_id, "reason": "its work was ended, and its node said no more of it"})

    def _keep(self, name: str, outcome: TaskOutcome) -> dict[str, object]:
        parcel = outcome.value
        assert isinstance(parcel, Parcel)
        into = self._unit_folder(name)
        try:
            folder = unpack(parcel, into)
        except EvidenceInvalid as error:
            self.errors[name] = error
            return {"state": UnitState.FAILED, "why": str(error), "exit_code": int(error.exit_code)}
        _, recorder = self._open.pop(parcel.run_id, (name, self._recorders()))
        if recorder is not None:
            recorder.record(folder)
        return {
            "state": UnitState.DONE,
            "result_id": parcel.result_id,
            "folder": str(folder.relative_to(self.folder)),
            "recorded": getattr(recorder, "recorded", None) is not None,
            "why": getattr(recorder, "problem", None) or "",
        }

    def _register(self, name: str, run: Mapping[str, str]) -> None:
        recorder = self._recorders()
        if recorder is None:
            return
        folder = self._unit_folder(name) / flat(run["run_id"])
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / REGISTRATION_FILE, run["text"])
        recorder.register(RunFolder.open(folder))
        self._open[run["run_id"]] = name, recorder

    def _abandon(self, name: str, run: Mapping[str, str]) -> None:
        _, recorder = self._open.pop(run["run_id"], (name, None))
        if recorder is not None:
            recorder.abandon(RunFolder.open(self._unit_folder(name) / flat(run["run_id"])), run["reason"])

    def _abandon_lost(self, name: str, outcome: TaskOutcome) -> None:
        """Runs of a unit that were announced on a node which then was lost: nobody else says what became of them."""
        reasons = [attempt.why for attempt in outcome.attempts if attempt.why]
        for run_id, (unit, _) in list(self._open.items()):
            if unit == name:
                self._abandon(name, {"run_id": run_id, "reason": reasons[0] if reasons else "its node was lost"})

    def _unit(self, name: str) -> FleetUnit:
        return next(unit for unit in self.state.units if unit.name == name)

    def _set_units(self, units: Iterable[FleetUnit]) -> None:
        self.state = self.state.model_copy(update={"units": tuple(units)})

    def _unit_folder(self, name: str) -> Path:
        return self._runs or self.folder / UNITS_FOLDER / flat(name)

    def _write(self) -> None:
        if self.keeps_account:
            write_text(self.folder / FLEET_FILE, self.state.model_dump_json(by_alias=True, indent=1))


def read_state(folder: Path) -> FleetState:
    """The state of a fleet run, from its folder or its file."""
    file = folder if folder.is_file() else folder / FLEET_FILE
    return read_document(file, FleetState, "not the folder of a fleet run")


def flat(name: str) -> str:
    """A unit's name as one part of a path."""
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
    return plain.lstrip(".") or "unit"
