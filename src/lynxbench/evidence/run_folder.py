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

from lynxbench.errors import BadInput
from lynxbench.evidence.documents import RESULT_FILE, read_document
from lynxbench.evidence.folders import dated_name, make_folder, newest_unfinished
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.executor import Executor
from lynxbench.model.precision import Precision
from lynxbench.model.secrets import find_literal, find_secret, secret_values
from lynxbench.model.serving import ServedEngine
from lynxbench.model.surroundings import Surroundings

REGISTRATION_FILE = "registration.json"
ANSWERS_FILE = "answers.npz"
"""What a server answered to labelled and greedy prompts, where its contract asks for that."""
CLIENT_THREADS = 1
"""A client of a server sends from one thread; more of them are processes."""


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
    """Of each fresh process."""
    plan: tuple[Slot, ...]
    surroundings: Surroundings | None = None
    """What its processes are given beside the contract; a cell of an experiment may set variables or packages."""
    clients: int | None = None
    """Processes that a server is asked from together; None where the workload runs in the fresh process itself."""


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
        clients: int | None = None,
    ) -> RunFolder:
        """Register a new run under `out`. A contract that holds a secret is refused before anything is written."""
        _refuse_secrets(contract, surroundings)
        nonce = secrets.token_hex(16)
        run_id = dated_name(contract.name, now, nonce[:6])
        make_folder(out / run_id / "attempts")
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
            clients=clients,
        )
        write_text(out / run_id / REGISTRATION_FILE, registration.model_dump_json(by_alias=True, indent=1))
        return cls(out / run_id, registration)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """A run registered earlier."""
        registration = read_document(path / REGISTRATION_FILE, Registration, "not the folder of a run")
        return cls(path, _with_clients(registration))

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


def _with_clients(registration: Registration) -> Registration:
    """Registrations of served runs once gave the number of clients as `threads`."""
    if registration.clients is not None or not isinstance(registration.contract.engine, ServedEngine):
        return registration
    return registration.model_copy(update={"clients": registration.threads, "threads": CLIENT_THREADS})


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


def find_unfinished(out: Path, contract_id: str) -> RunFolder | None:
    """The newest run of a contract under `out` that has no result yet."""
    return newest_unfinished(
        out,
        REGISTRATION_FILE,
        RESULT_FILE,
        RunFolder.open,
        lambda run: run.registration.contract.contract_id == contract_id,  # of what would be executed, not as stated
    )
