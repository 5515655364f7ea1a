"""A run on disk from before its first sample: registered in advance, every attempt kept, resumable.

RUN/registration.json          id, nonce, contract, executor at the start, plan: written before anything is measured
RUN/attempts/JOB-ATTEMPT/      one folder a process, whatever became of it
RUN/telemetry.bin              the machine, sampled beside the run
RUN/result.json …              written last
"""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from lynxbench.errors import BadInput, BadResult, CannotRun
from lynxbench.evidence.documents import RESULT_FILE, write_text
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.precision import Precision
from lynxbench.model.secrets import find_literal, find_secret, secret_values
from lynxbench.model.surroundings import Surroundings

REGISTRATION_FILE = "registration.json"


class Slot(Document):
    """One process of the plan: which precision, which repetition."""

    index: int
    restart: int
    precision: Precision


class Registration(Document):
    """What was intended, fixed before the first sample."""

    run_id: str
    nonce: str
    registered_at: str
    contract_id: str
    contract: Contract
    executor: Executor
    threads: int
    plan: tuple[Slot, ...]
    surroundings: Surroundings | None = None
    """What its processes are given beside the contract; a cell of an experiment may set variables or packages."""


class RunFolder:
    """Where one run keeps everything."""

    def __init__(self, path: Path, registration: Registration) -> None:
        self.path = path
        self.registration = registration

    @classmethod
    def create(
        cls,
        out: Path,
        contract: Contract,
        executor: Executor,
        threads: int,
        plan: tuple[Slot, ...],
        now: datetime,
        surroundings: Surroundings | None = None,
    ) -> RunFolder:
        """Register a new run under `out`. A contract that holds a secret is refused before anything is written."""
        _refuse_secrets(contract, surroundings)
        nonce = secrets.token_hex(16)
        run_id = f"{contract.name}-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{nonce[:6]}"
        path = out / run_id
        try:
            (path / "attempts").mkdir(parents=True)
        except OSError as error:
            raise BadInput(
                f"{path}: {error.strerror or error}; give a folder that can be written with --out"
            ) from error
        registration = Registration(
            run_id=run_id,
            nonce=nonce,
            registered_at=now.astimezone(UTC).isoformat(timespec="seconds"),
            contract_id=contract.contract_id,
            contract=contract,
            executor=executor,
            threads=threads,
            plan=plan,
            surroundings=surroundings,
        )
        write_text(path / REGISTRATION_FILE, registration.model_dump_json(by_alias=True, indent=1))
        return cls(path, registration)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run registered earlier."""
        file = path / REGISTRATION_FILE
        try:
            registration = Registration.model_validate_json(file.read_bytes())
        except OSError as error:
            raise BadInput(f"{file}: {error.strerror or error}; not the folder of a run") from error
        except ValidationError as error:
            raise BadResult(f"{file}: {error.errors()[0]['msg']}; the registration is damaged") from error
        return cls(path, registration)

    @property
    def finished(self) -> bool:
        """Whether a result was written."""
        return (self.path / RESULT_FILE).exists()

    def attempts(self, slot: Slot) -> list[Path]:
        """Every attempt at a process of the plan, oldest first."""
        return sorted((self.path / "attempts").glob(f"{slot.index:03d}-*"))

    def new_attempt(self, slot: Slot) -> Path:
        """A fresh folder for the next attempt at a process."""
        folder = self.path / "attempts" / f"{slot.index:03d}-{len(self.attempts(slot)) + 1:02d}"
        folder.mkdir(parents=True)
        return folder


def _refuse_secrets(contract: Contract, surroundings: Surroundings | None) -> None:
    """What is registered is shown to every team, and nothing is ever deleted."""
    document = contract.model_dump(mode="json", by_alias=True)
    given: dict[str, str] = {} if surroundings is None else dict(surroundings.environment)
    where = find_secret({"engine": document["engine"], "environment": given}) or find_literal(
        {**document, "environment": given}, secret_values(os.environ)
    )
    if where is not None:
        raise BadInput(
            f"{contract.name}: {where} holds a secret, and a contract is shown to everybody; leave it out, "
            "or name the variable that holds it (api_key_env)"
        )


def surroundings_of(folder: Path) -> Surroundings | None:
    """What a run's processes were given beside the contract; CannotRun where their environment is not here."""
    if not (folder / REGISTRATION_FILE).is_file():
        return None
    around = RunFolder.open(folder).registration.surroundings
    if around is not None and around.interpreter is not None and not Path(around.interpreter).exists():
        name = "another environment" if around.packages is None else f"the environment {around.packages.name}"
        raise CannotRun(f"{folder.name}: its processes ran in {name}, which is not here; run its experiment again")
    return around


def find_unfinished(out: Path, contract_id: str) -> RunFolder | None:
    """The newest run of a contract under `out` that has no result yet."""
    candidates = sorted(out.glob(f"*/{REGISTRATION_FILE}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in candidates:
        if (file.parent / RESULT_FILE).exists():
            continue
        try:
            run = RunFolder.open(file.parent)
        except BadInput:
            continue  # a damaged registration of another run must not stop this one
        if run.registration.contract_id == contract_id:
            return run
    return None
