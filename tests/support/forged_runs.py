"""Finished runs whose owner lies about them: copied, changed, sealed and signed again as only that team could."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hosted import Team
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.ledger.bundle import export_bundle
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.record.recording import record_folder

Lie = Callable[[PrecisionResult], dict[str, Any]]


def forged_run(run: Path, where: Path, number: int, lie: Lie = lambda part: {}) -> Path:
    """Another run of the same contract with the same files, whose first precision states something else."""
    folder = where / f"run-{number}"
    shutil.copytree(run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    registration = json.loads((folder / "registration.json").read_text())
    nonce = f"{number:06x}{registration['nonce'][6:]}"
    run_id = f"{registration['run_id'].rpartition('-')[0]}-{nonce[:6]}"
    (folder / "registration.json").write_text(json.dumps({**registration, "nonce": nonce, "run_id": run_id}))
    result = read_result(folder)
    first, *others = result.per_precision
    parts = (first.model_copy(update=lie(first)), *others)
    seal_again(folder, result.model_copy(update={"run_id": run_id, "per_precision": parts}))
    return folder


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


def scaled(factor: float) -> Lie:
    """Figures that are so many times what was measured."""

    def lie(part: PrecisionResult) -> dict[str, Any]:
        assert part.throughput is not None
        figure = part.throughput
        bounds = {name: getattr(figure, name) * factor for name in ("low", "estimate", "high")}
        means = tuple(mean * factor for mean in part.run_means)
        return {"throughput": figure.model_copy(update=bounds), "run_means": means}

    return lie
