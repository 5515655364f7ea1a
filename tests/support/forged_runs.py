"""Finished runs whose owner lies about them: copied, changed, sealed and signed again as only that team could."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from hosted import World
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.sample_file import hash_file, read_samples, write_samples
from lynxbench.ledger.bundle import export_bundle
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.record.recording import record_folder
from lynxbench.run.concluding import LiveEvidence, conclude, first_attribution
from recording_teams import Team

Lie = Callable[[PrecisionResult], dict[str, Any]]


def forged_run(run: Path, where: Path, number: int, lie: Lie = lambda part: {}, *, copied: bool = False) -> Path:
    """Another run of the same contract, whose first precision states something else.

    Its samples are its own: the last of each process took so many nanoseconds longer; or `copied`, as they are.
    """
    folder = where / f"run-{number}"
    shutil.copytree(run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    registration = json.loads((folder / "registration.json").read_text())
    nonce = f"{number:06x}{registration['nonce'][6:]}"
    run_id = f"{registration['run_id'].rpartition('-')[0]}-{nonce[:6]}"
    (folder / "registration.json").write_text(json.dumps({**registration, "nonce": nonce, "run_id": run_id}))
    seal_again(folder, read_result(folder).model_copy(update={"run_id": run_id}))
    if not copied:
        stretch(folder, by_ns=number)
    result = read_result(folder)
    first, *others = result.per_precision
    parts = (first.model_copy(update=lie(first)), *others)
    seal_again(folder, result.model_copy(update={"per_precision": parts}))
    return folder


def stretch(folder: Path, *, by_ns: int = 0, shift_ns: int = 0, attempts: str = "*") -> None:
    """Samples that all began later, the last of each process longer by so much; what is stated follows from them."""
    for file in (folder / "attempts").glob(f"{attempts}/iterations.bin"):
        rows = np.fromfile(file, dtype="<i8").reshape(-1, 4)
        rows[:, :2] += shift_ns
        rows[-1, 1] += by_ns
        file.write_bytes(rows.tobytes())
    conclude_again(folder)


def seal_again(folder: Path, result: Result) -> Result:
    """The result document and the manifest of a folder, fitting each other again."""
    sealed = result.sealed()
    write_result(folder / "result.json", sealed)
    write_manifest(folder)
    return sealed


def bundle_of(team: Team, folder: Path) -> tuple[str, bytes]:
    """A run folder as its team records and exports it: the result's id, and the bundle."""
    with team.open() as ledger, tempfile.TemporaryDirectory() as name:
        result_id = record_folder(ledger, folder, team.key).result_id
        path = Path(name) / "b.lynx"
        export_bundle(ledger, [result_id], path, team.key, team.keyring.trust, datetime.now(UTC))
        return result_id, path.read_bytes()


def pushed(world: World, folder: Path) -> str:
    """Push a run as its team would; everything about it is signed and in order."""
    result_id, bundle = bundle_of(world.team, folder)
    answer = world.caller("submitter").submit(bundle)
    assert answer.status == 200, answer.text
    return result_id


def catch_up(world: World) -> None:
    """Recompute everything that was pushed."""
    while (due := world.server.recomputations.due()) is not None and due.urgent:
        assert world.server.recomputing.take_next() is not None


def scaled(factor: float) -> Lie:
    """Figures that are so many times what was measured."""

    def lie(part: PrecisionResult) -> dict[str, Any]:
        assert part.throughput is not None
        figure = part.throughput
        bounds = {name: getattr(figure, name) * factor for name in ("low", "estimate", "high")}
        means = tuple(mean * factor for mean in part.run_means)
        return {"throughput": figure.model_copy(update=bounds), "run_means": means}

    return lie


def conclude_again(folder: Path, rules: int | None = None) -> Result:
    """Samples, figures and verdicts that follow from what a forger left in a folder, all fitting each other."""
    stated = read_result(folder)
    stated = stated.model_copy(update={"rules": rules or stated.rules})
    run = RunFolder.open(folder)
    made = conclude(run, LiveEvidence(run.registration.executor, stated.executor_drift), stated.rules)
    write_samples(folder / stated.samples.file, made.processes)
    kept = read_samples(folder / stated.samples.file)
    samples = {
        "sha256": hash_file(folder / stated.samples.file),
        "rows": sum(len(process.samples.iterations) for process in kept),
        "marks": sum(len(process.samples.marks.at_ns) for process in kept),
    }
    follows = {
        "per_precision": made.per_precision,
        "validity": made.validity,
        "executor": made.executor,
        "executor_id": made.executor.executor_id,
        "instance_id": made.executor.instance_id,
        "samples": stated.samples.model_copy(update=samples),
        "attribution": first_attribution(made.per_precision),
        "ceilings": made.ceilings,
    }
    return seal_again(folder, stated.model_copy(update=follows))


def change_document(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A JSON document with something else in it."""
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
