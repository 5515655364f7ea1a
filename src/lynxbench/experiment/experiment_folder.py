"""An experiment on disk from before its first sample: its definition, its order, and how far it came.

EXPERIMENT/experiment.json   id, definition, order of visits: written before anything is measured
EXPERIMENT/state.json        runs of each cell, cells that cannot be run: written after every visit
EXPERIMENT/runs/             one folder a run, as `lynxbench run` leaves it
EXPERIMENT/analysis.json     what the cells say together, written last
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from lynxbench.evidence.documents import read_document
from lynxbench.evidence.folders import dated_name, make_folder
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.definition import Definition
from lynxbench.model.document import Document
from lynxbench.stats.designs import blocked_order

EXPERIMENT_FILE = "experiment.json"
STATE_FILE = "state.json"
ANALYSIS_FILE = "analysis.json"
RUNS = "runs"


class ExperimentPlan(Document):
    """What was intended, fixed before the first sample."""

    experiment_id: str
    registered_at: str
    definition_id: str
    definition: Definition
    order: tuple[tuple[int, ...], ...]
    """Positions of cells in the design, one list a block of time."""


class CellState(Document):
    """How far one cell came."""

    runs: dict[str, str] = Field(default_factory=dict)
    """Lane, or block for a server and on a fleet, to the run's folder under `runs/`."""
    visited: tuple[int, ...] = ()
    infeasible: str = ""
    failed: dict[int, str] = Field(default_factory=dict)
    """On a fleet: block to why its visit gave nothing."""


class ExperimentState(Document):
    """How far the experiment came."""

    cells: dict[int, CellState] = Field(default_factory=dict)
    spent_s: float = 0.0
    notes: tuple[str, ...] = ()
    serial: bool = False
    """Lanes were found to disturb each other, so blocks go one after another."""
    dispatched: bool = False
    """Its visits go to the nodes of a fleet."""
    nodes: dict[int, str] = Field(default_factory=dict)
    """On a fleet: block to the one node that visits all of it."""


class ExperimentFolder:
    """Where one experiment keeps everything."""

    def __init__(self, path: Path, plan: ExperimentPlan, state: ExperimentState) -> None:
        self.path, self.plan, self.state = path, plan, state
        self._lock = threading.RLock()

    @classmethod
    def create(cls, out: Path, definition: Definition, now: datetime) -> ExperimentFolder:
        """Register a new experiment under `out`."""
        experiment_id = dated_name(definition.name, now)
        path = out / experiment_id
        make_folder(path / RUNS)
        cells = len(definition.plan().cells)
        plan = ExperimentPlan(
            experiment_id=experiment_id,
            registered_at=now.astimezone(UTC).isoformat(timespec="seconds"),
            definition_id=definition.definition_id,
            definition=definition,
            order=blocked_order(cells, definition.restarts, definition.seed),
        )
        write_text(path / EXPERIMENT_FILE, plan.model_dump_json(by_alias=True, indent=1))
        folder = cls(path, plan, ExperimentState())
        folder.save()
        return folder

    @classmethod
    def open(cls, path: Path) -> ExperimentFolder:
        """An experiment registered earlier."""
        hint = "not the folder of an experiment"
        plan = read_document(path / EXPERIMENT_FILE, ExperimentPlan, hint)
        return cls(path, plan, read_document(path / STATE_FILE, ExperimentState, hint))

    @property
    def runs(self) -> Path:
        """Where its runs lie."""
        return self.path / RUNS

    def cell(self, number: int) -> CellState:
        """How far a cell came."""
        return self.state.cells.get(number, CellState())

    def add_run(self, number: int, key: int, name: str) -> None:
        """A cell's run in a lane, or of a block."""
        with self._lock:
            self._update(number, runs={**self.cell(number).runs, str(key): name})

    def add_visit(self, number: int, block: int) -> None:
        """A cell was visited."""
        with self._lock:
            self._update(number, visited=(*self.cell(number).visited, block))

    def add_failure(self, number: int, block: int, why: str) -> None:
        """A visit gave nothing."""
        with self._lock:
            self._update(number, failed={**self.cell(number).failed, block: why})

    def give_block(self, block: int, node: str) -> None:
        """A block belongs to a node from now on."""
        with self._lock:
            self.set(nodes={**self.state.nodes, block: node})

    def drop_block(self, block: int) -> int:
        """A block begins anew: no visit of it counts any more; how many results that leaves aside."""
        with self._lock:
            cells, dropped = {}, 0
            for number, cell in self.state.cells.items():
                dropped += str(block) in cell.runs
                cells[number] = cell.model_copy(
                    update={
                        "runs": {key: name for key, name in cell.runs.items() if key != str(block)},
                        "visited": tuple(visited for visited in cell.visited if visited != block),
                        "failed": {failed: why for failed, why in cell.failed.items() if failed != block},
                    }
                )
            self.set(cells=cells, nodes={b: node for b, node in self.state.nodes.items() if b != block})
            return dropped

    def rule_out(self, number: int, reason: str) -> None:
        """A cell cannot be run."""
        with self._lock:
            self._update(number, infeasible=reason)

    def add_note(self, text: str) -> None:
        """A line for the report."""
        with self._lock:
            self.set(notes=(*self.state.notes, text))

    def set(self, **changes: object) -> None:
        """Note something about the whole, on disk at once."""
        with self._lock:
            self.state = self.state.model_copy(update=changes)
            self.save()

    def _update(self, number: int, **changes: object) -> None:
        cells = {**self.state.cells, number: self.cell(number).model_copy(update=changes)}
        self.set(cells=cells)

    def save(self) -> None:
        """Write the state whole or not at all."""
        write_text(self.path / STATE_FILE, self.state.model_dump_json(indent=1))
