"""A tuning on disk: what is allowed, every trial, and how far it came."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from lynxbench.evidence.documents import read_document
from lynxbench.evidence.folders import dated_name, make_folder
from lynxbench.evidence.whole_files import write_text
from lynxbench.experiment.experiment_folder import RUNS
from lynxbench.experiment.searching import Method, Point
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.tuning import Trial

TUNING_FILE = "tuning.json"
OUTCOME_FILE = "outcome.json"


class ConfirmationPair(Document):
    """One confirmation: baseline and tuned on a seed of their own, in the order they were run."""

    seed: int
    baseline_run: str | None = None
    tuned_run: str | None = None


class TuningState(Document):
    """Everything a resumed tuning needs."""

    tuning_id: str
    registered_at: str
    contract: Contract
    method: Method
    response: str
    seed: int
    confirmations: int
    spent_s: float = 0.0
    baseline_run: str = ""
    baseline_value: float | None = None
    trials: tuple[Trial, ...] = ()
    points: tuple[Point, ...] = ()
    ended_by: str = ""
    chosen: Point | None = None
    pairs: tuple[ConfirmationPair, ...] = ()
    notes: tuple[str, ...] = ()


class TuningFolder:
    """Where one tuning keeps everything."""

    def __init__(self, path: Path, state: TuningState) -> None:
        self.path, self.state = path, state

    @classmethod
    def create(
        cls, out: Path, contract: Contract, method: Method, response: str, seed: int, confirmations: int, now: datetime
    ) -> TuningFolder:
        """Register a new tuning under `out`."""
        tuning_id = dated_name(f"{contract.name}-tune", now)
        make_folder(out / tuning_id / RUNS)
        state = TuningState(
            tuning_id=tuning_id,
            registered_at=now.astimezone(UTC).isoformat(timespec="seconds"),
            contract=contract,
            method=method,
            response=response,
            seed=seed,
            confirmations=confirmations,
        )
        folder = cls(out / tuning_id, state)
        folder.set()
        return folder

    @classmethod
    def open(cls, path: Path) -> TuningFolder:
        """A tuning registered earlier."""
        return cls(path, read_document(path / TUNING_FILE, TuningState, "not the folder of a tuning"))

    @property
    def runs(self) -> Path:
        """Where its runs lie."""
        return self.path / RUNS

    def set(self, **changes: object) -> None:
        """Note something, on disk at once."""
        self.state = self.state.model_copy(update=changes)
        write_text(self.path / TUNING_FILE, self.state.model_dump_json(by_alias=True, indent=1))
