"""A tuning on disk: what is allowed, every trial, and how far it came."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from lynxbench.errors import BadInput, BadResult
from lynxbench.experiment.experiment_folder import RUNS, write_whole
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
        tuning_id = f"{contract.name}-tune-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
        path = out / tuning_id
        try:
            (path / RUNS).mkdir(parents=True)
        except OSError as error:
            raise BadInput(
                f"{path}: {error.strerror or error}; give a folder that can be written with --out"
            ) from error
        folder = cls(
            path,
            TuningState(
                tuning_id=tuning_id,
                registered_at=now.astimezone(UTC).isoformat(timespec="seconds"),
                contract=contract,
                method=method,
                response=response,
                seed=seed,
                confirmations=confirmations,
            ),
        )
        folder.set()
        return folder

    @classmethod
    def open(cls, path: Path) -> TuningFolder:
        """A tuning registered earlier."""
        try:
            return cls(path, TuningState.model_validate_json((path / TUNING_FILE).read_bytes()))
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}; not the folder of a tuning") from None
        except ValidationError as error:
            raise BadResult(f"{path}: {error.errors()[0]['msg']}; the tuning's record is damaged") from None

    @property
    def runs(self) -> Path:
        """Where its runs lie."""
        return self.path / RUNS

    def set(self, **changes: object) -> None:
        """Note something, on disk at once."""
        self.state = self.state.model_copy(update=changes)
        write_whole(self.path / TUNING_FILE, self.state.model_dump_json(by_alias=True, indent=1))


def find_unfinished_tuning(out: Path, contract_id: str) -> TuningFolder | None:
    """The newest tuning of a contract under `out` that has no outcome yet."""
    found = sorted(out.glob(f"*/{TUNING_FILE}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in found:
        if (file.parent / OUTCOME_FILE).exists():
            continue
        try:
            folder = TuningFolder.open(file.parent)
        except BadInput:
            continue
        if folder.state.contract.contract_id == contract_id:
            return folder
    return None
