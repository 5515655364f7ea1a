"""Forged bundles: what was not measured, or without what would show it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from attack_scene import Scene, Tally
from lynxbench.decide.demonstrating import make_demo
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.keys import SigningKey, new_signing_key
from lynxbench.evidence.manifest import write_manifest
from lynxbench.ledger.archive import read_archive
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import Role
from lynxbench.model.result import Result
from lynxbench.record.recording import keep_files, seal
from recording_teams import leave_run
from teams import copied_run


def forge(scene: Scene) -> Tally:
    """Bundles that say what was not measured, or leave out what would show it; a reader trusts the forger's team."""
    tally = Tally("forged bundles")
    for name, write in FORGERIES.items():
        path = scene.where / f"forged-{name.replace(' ', '-')}.lynx"
        write(scene, path)
        tally.count(name, partial(scene.taken_in, path))
    if not scene.taken_in(scene.bundle):
        raise AssertionError("the honest bundle is refused as well; nothing could be said of forged ones")
    return tally


def _figures_times_ten(result: Result) -> Result:
    figures = [
        precision.model_copy(
            update={
                "throughput": precision.throughput.model_copy(
                    update={name: getattr(precision.throughput, name) * 10 for name in ("low", "estimate", "high")}
                )
            }
        )
        for precision in result.per_precision
        if precision.throughput is not None
    ]
    return result.model_copy(update={"per_precision": tuple(figures)}).sealed()


def _forged(
    scene: Scene,
    path: Path,
    change: Callable[[Path], None] = lambda folder: None,
    *,
    result: Callable[[Result], Result] = lambda result: result,
    key: SigningKey | None = None,
    leaving: str = "",
) -> None:
    """The run as a folder that was changed, signed and exported anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = copied_run(scene.folder, Path(name))
        made = result(read_result(folder))
        write_result(folder / "result.json", made)
        (folder / "manifest.json").unlink()
        change(folder)
        write_manifest(folder)
        signer = key or scene.key
        with _own_ledger(Path(name) / "home") as ledger:
            blobs = tuple(blob for blob in keep_files(ledger.blobs, folder) if blob.name != leaving)
            nonce = json.loads((scene.folder / "registration.json").read_text())["nonce"]
            ledger.log.append(seal(summary_of(made, nonce=nonce, attempts=2), signer, blobs))
            trust = scene.team.keyring.trust
            export_bundle(ledger, [made.result_id], path, signer, trust, datetime.now(UTC))


@contextlib.contextmanager
def _own_ledger(home: Path) -> Iterator[OpenLedger]:
    environment = {"LYNXBENCH_HOME": str(home)}
    location = locate(None, environment)
    assert location is not None
    with open_ledger(location, environment, create=True) as ledger:
        yield ledger


def _without(name: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()

    return remove


def _repacked(scene: Scene, path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """The whole bundle with members changed and nothing signed anew."""
    with scene.bundle.open("rb") as stream:
        members = dict(read_archive(stream, "whole"))
    change(members)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            archive.addfile(facts, io.BytesIO(data))


def _of_another_run(scene: Scene, path: Path) -> None:
    def exchange(folder: Path) -> None:
        shutil.rmtree(folder / "attempts")
        leave_run(folder, read_result(folder), "0" * 32)

    _forged(scene, path, exchange)


def _drop_contest(members: dict[str, bytes]) -> None:
    del members[max(name for name in members if name.startswith("entries/"))]


FORGERIES: dict[str, Callable[[Scene, Path], object]] = {
    "result alone": lambda scene, path: _forged(scene, path, leaving="manifest.json"),
    "without samples": lambda scene, path: _forged(scene, path, _without("samples.npz")),
    "without registration": lambda scene, path: _forged(scene, path, _without("registration.json")),
    "without attempts": lambda scene, path: _forged(scene, path, _without("attempts")),
    "samples left out of the entry": lambda scene, path: _forged(scene, path, leaving="samples.npz"),
    "registration of another run": _of_another_run,
    "by a key that nobody knows": lambda scene, path: _forged(
        scene, path, key=new_signing_key("alpha", (Role.RUNNER,), datetime.now(UTC))
    ),
    "figures times ten by a key that nobody knows": lambda scene, path: _forged(
        scene, path, result=_figures_times_ten, key=new_signing_key("alpha", (Role.RUNNER,), datetime.now(UTC))
    ),
    "an entry left out": lambda scene, path: _repacked(scene, path, _drop_contest),
    "no manifest": lambda scene, path: _repacked(scene, path, lambda members: members.pop("manifest.json")),
    "no proofs": lambda scene, path: _repacked(scene, path, lambda members: members.pop("proofs.json")),
    "no checkpoint": lambda scene, path: _repacked(scene, path, lambda members: members.pop("checkpoint.json")),
    "a worked example": lambda scene, path: shutil.copy(make_demo(scene.where / "demo", pdf=False)[0].bundle, path),
}
