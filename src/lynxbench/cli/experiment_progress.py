"""How far an experiment or a tuning is, in plain lines on standard error."""

from pathlib import Path
from time import perf_counter

from lynxbench.cli.progress import duration_text
from lynxbench.cli.terminal import tell
from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.experiment.cells import CellPlan
from lynxbench.experiment.definition import Definition
from lynxbench.model.job import JobReport, JobStatus


class VisitProgress:
    """One line a visit, with the time that is left by what visits took so far."""

    def __init__(self) -> None:
        self._blocks = self._cells = self._visits = 0
        self._ruled_out: set[int] = set()
        self._began = perf_counter()
        self._spent: list[float] = []

    def start(self, definition: Definition, folder: Path, cells: int) -> None:
        """The experiment starts, or goes on."""
        self._blocks, self._cells = definition.restarts, cells
        tell(f"{definition.name}: {cells} cells × {definition.restarts} blocks of time, into {folder}")

    def visit(self, block: int, place: int, cell: CellPlan, node: str = "") -> None:
        """A cell is about to be visited."""
        self._visits += 1
        where, left = (f" on {node}", self._left_side_by_side()) if node else ("", self._left(block, place))
        tell(f"  block {block + 1}/{self._blocks}, {place + 1}/{self._cells}{where}: {cell.words}{left}")

    def skip(self, cell: CellPlan, reason: str) -> None:
        """A cell cannot be run."""
        self._ruled_out.add(cell.number)
        tell(f"  infeasible: {cell.words}: {reason}")

    def trial(self, words: str) -> None:
        """A tuner says what it does next."""
        tell(f"  {words}")

    def begin(self, run: RunFolder) -> None:
        """A run starts, or goes on."""

    def watch(self, slot: Slot, stage: str, iterations: int, spent_s: float) -> None:
        """A process is at work."""

    def end_slot(self, slot: Slot, report: JobReport, spent_s: float) -> None:
        """A process has ended."""
        self._spent.append(spent_s)
        if report.status is JobStatus.FAILED:
            tell(f"    failed: {report.error}")

    def note(self, text: str) -> None:
        """A step between processes."""

    def _left(self, block: int, place: int) -> str:
        if not self._spent:
            return ""
        rest = (self._blocks - block) * (self._cells - len(self._ruled_out)) - place
        return self._about(max(rest, 1) * sum(self._spent) / len(self._spent))

    def _left_side_by_side(self) -> str:
        """By the pace at which visits began: several are under way at any time."""
        if self._visits <= self._cells:
            return ""
        pace_s = (perf_counter() - self._began) / (self._visits - 1)
        rest = self._blocks * (self._cells - len(self._ruled_out)) - self._visits + 1
        return self._about(max(rest, 1) * pace_s)

    @staticmethod
    def _about(left_s: float) -> str:
        return f" (about {duration_text(left_s)} left)"
