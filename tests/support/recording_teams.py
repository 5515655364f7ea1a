"""Teams with a home, a key and a ledger of their own, and results as a run records them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from compared import make_contract, make_executor, make_result
from lynxbench.evidence.documents import write_result
from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import REGISTRATION_FILE, Registration, Slot
from lynxbench.evidence.sample_file import write_samples
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.location import Location, OpenLedger, locate, open_ledger
from lynxbench.ledger.queries import entries_about, find_result
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import ContractAgreed, EntryKind, Role, RunRegistered
from lynxbench.model.result import Result
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.record.recording import keep_files, seal

TEAM, OTHER, HOST = "ml-platform", "infrastructure", "bench"


@dataclass
class Team:
    """A team with a home, a key and a ledger of its own."""

    name: str
    home: Path
    environment: dict[str, str]

    @property
    def keyring(self) -> Keyring:
        return Keyring(environment=self.environment)

    @property
    def key(self) -> SigningKey:
        return self.keyring.keys.open(self.name)

    @property
    def location(self) -> Location:
        found = locate(None, self.environment)
        assert found is not None
        return found

    def open(self) -> OpenLedger:
        return open_ledger(self.location, self.environment, create=True)

    def bundle(self, *results: Result) -> bytes:
        """Results, recorded in the team's own ledger and exported."""
        with self.open() as ledger, tempfile.TemporaryDirectory() as folder:
            for one in results:
                if not _known(ledger, one):
                    record(ledger, one, self.key)
            path = Path(folder) / "b.lynx"
            ids = [one.result_id for one in results]
            export_bundle(ledger, ids, path, self.key, self.keyring.trust, datetime.now(UTC))
            return path.read_bytes()


def team_in(name: str, folder: Path) -> Team:
    """A team whose home is there already."""
    return Team(name, folder / name, {"LYNXBENCH_HOME": str(folder / name)})


def make_team(name: str, folder: Path) -> Team:
    team = team_in(name, folder)
    team.home.mkdir(parents=True, exist_ok=True)
    team.keyring.create(name, name, (Role.RUNNER, Role.WITNESS), datetime.now(UTC) - timedelta(minutes=1))
    return team


def record(
    ledger: OpenLedger,
    result: Result,
    key: SigningKey,
    processes: tuple[CountedProcess, ...] = (),
    telemetry: Telemetry | None = None,
) -> Result:
    """A result as a run records it: contract, announcement, then the result with its documents."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = result.model_copy(update={"samples": write_samples(folder / "samples.npz", processes)})
        if not processes:
            result = result.model_copy(update={"samples": result.samples.model_copy(update={"rows": 0})})
        ids = {"contract_id": result.contract.contract_id, "executor_id": result.executor.executor_id}
        result = result.model_copy(update={**ids, "instance_id": result.executor.instance_id}).sealed()
        if telemetry is not None:
            _write_telemetry(folder / "telemetry.csv", telemetry)
        write_result(folder / "result.json", result)
        nonce = result.result_id[:32]
        leave_run(folder, result, nonce)
        write_manifest(folder)
        blobs = keep_files(ledger.blobs, folder)
    registered = RunRegistered(
        run_id=result.run_id,
        nonce=nonce,
        contract_id=result.contract_id,
        executor_id=result.executor_id,
        processes_planned=5,
    )
    known = entries_about(ledger.log, [result.contract_id], [EntryKind.CONTRACT])
    agreed = ContractAgreed(contract_id=result.contract_id, contract=result.contract)
    ledger.log.append_all(
        [
            *([] if known else [seal(agreed, key)]),
            seal(registered, key),
            seal(summary_of(result, nonce=nonce, attempts=5), key, blobs),
        ]
    )
    return result


def leave_run(folder: Path, result: Result, nonce: str) -> None:
    """What a run leaves beside its result and samples: its registration, and a folder for each attempt."""
    registration = Registration(
        run_id=result.run_id,
        nonce=nonce,
        registered_at=result.started_at,
        contract_id=result.contract_id,
        contract=result.contract,
        executor=result.executor,
        threads=1,
        plan=(Slot(index=0, restart=0, precision=result.per_precision[0].precision),),
    )
    (folder / REGISTRATION_FILE).write_text(registration.model_dump_json(by_alias=True), encoding="utf-8")
    (folder / "attempts" / "000-01").mkdir(parents=True)
    (folder / "attempts" / "000-01" / "stage").write_text("measure")


def made_result(
    number: int,
    level: float = 100.0,
    *,
    changes: Mapping[str, object] | None = None,
    name: str = "compared",
    **more: Any,
) -> Result:
    """One of a series, an hour after the one before; its samples are sealed as `record` writes them."""
    contract = make_contract(name=name, owners={"framework": "platform SRE"}, **more)
    means = tuple(level * (1 + 0.002 * ((number * 7 + i * 3) % 5 - 2)) for i in range(5))
    started = datetime(2026, 11, 1, tzinfo=UTC) + timedelta(hours=number)
    result = make_result(
        contract=contract,
        executor=make_executor(changes or {}),
        run_means=means,
        started_at=started.isoformat(timespec="seconds"),
    )
    result = result.model_copy(update={"run_id": f"run-{name}-{number}"})
    with tempfile.TemporaryDirectory() as folder:
        samples = write_samples(Path(folder) / "samples.npz", ())
    return result.model_copy(update={"samples": samples}).sealed()


def _known(ledger: OpenLedger, result: Result) -> bool:
    return find_result(ledger.log, result.result_id) is not None


def canonical(data: bytes) -> bytes:
    """A card as the command line exports it."""
    return canonical_bytes(json.loads(data))


def _write_telemetry(path: Path, telemetry: Telemetry) -> None:
    names = list(telemetry.columns)
    lines = [",".join(["at_ns", *names])]
    for row, at in enumerate(telemetry.at_ns.tolist()):
        cells = [telemetry.columns[name][row] for name in names]
        lines.append(",".join([str(at), *("" if np.isnan(cell) else f"{cell:.9g}" for cell in cells)]))
    path.write_text("\n".join(lines) + "\n")
