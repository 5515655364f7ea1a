"""Runs that differ in every sample, made from one: what `benchmarks/ingest.py` pushes.

Every iteration of every process is made longer or shorter by up to half a per cent, its marks with it; answers,
telemetry, traces and reports get bytes of their own. What the run then comes to is computed from those files by the
function that concludes a run, so each result has figures, intervals and verdicts of its own, and they hold. Nothing
that a server could keep of one result is of use for another.
"""

from __future__ import annotations

import gzip
import json
import lzma
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from forged_runs import bundle_of, seal_again
from lynxbench.attribute.read.recognising import COLUMNS_MAGIC
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.sample_file import write_samples
from lynxbench.load.journal import ITERATIONS_FILE, MARKS_FILE
from lynxbench.model.result import Result
from lynxbench.model.samples import Outputs
from lynxbench.record.recomputing import recompute_run
from lynxbench.run.concluding import first_attribution
from lynxbench.run.run_outcome import SAMPLES_FILE, TELEMETRY_FILE
from lynxbench.run.worker import OUTPUTS_FILE, read_outputs, write_outputs
from recording_teams import TEAM, Team, make_team

MOST_CHANGE = 0.005
"""An iteration takes up to so much longer or shorter: less than the spread that it has already."""


@dataclass(frozen=True, slots=True)
class MadeResults:
    """Bundles to push, the results in them, and the team whose key signed them."""

    team: Team
    bundles: list[Path]
    names: list[str]


def made_results(folder: Path, run: Path, wanted: int) -> MadeResults:
    """So many results of a team, each in a bundle; those that are in the folder already are not made again."""
    known = folder / TEAM
    team = Team(TEAM, known, {"LYNXBENCH_HOME": str(known)}) if known.exists() else make_team(TEAM, folder)
    listed = folder / "names.txt"
    names = listed.read_text().split() if listed.exists() else []
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as makers:
        for number, copy in _copies(makers, run, folder / "copies", range(len(names), wanted)):
            result_id, data = bundle_of(team, copy)
            (folder / f"{number}.lynx").write_bytes(data)
            names.append(result_id)
            listed.write_text("\n".join(names))
            shutil.rmtree(copy)
    return MadeResults(team, [folder / f"{number}.lynx" for number in range(wanted)], names[:wanted])


def _copies(makers: ProcessPoolExecutor, run: Path, where: Path, numbers: range) -> Iterator[tuple[int, Path]]:
    shutil.rmtree(where, ignore_errors=True)
    return zip(numbers, makers.map(another_run, repeat(run), repeat(where), numbers), strict=True)


def another_run(run: Path, where: Path, number: int) -> Path:
    """A run of the same contract, with samples, documents and traces of its own, and what follows from them."""
    folder = where / f"run-{number}"
    shutil.copytree(run, folder)
    (folder / "entry.dsse.json").unlink(missing_ok=True)
    draws = np.random.default_rng(number)
    for attempt in sorted((folder / "attempts").iterdir()):
        change_samples(attempt, draws)
        change_outputs(attempt, draws)
        change_documents(attempt, number)
    change_telemetry(folder / TELEMETRY_FILE, number)
    for report in folder.glob("report.*"):
        report.write_text(f"{report.read_text()}<!-- {number} -->\n")
    registration = json.loads((folder / "registration.json").read_text())
    nonce = f"{number:06x}{registration['nonce'][6:]}"
    run_id = f"{registration['run_id'].rpartition('-')[0]}-{nonce[:6]}"
    (folder / "registration.json").write_text(json.dumps({**registration, "nonce": nonce, "run_id": run_id}))
    seal_again(folder, concluded(folder, read_result(folder).model_copy(update={"run_id": run_id})))
    return folder


def concluded(folder: Path, stated: Result) -> Result:
    """The result with everything that its changed files say, and its samples written down."""
    conclusion = recompute_run(stated, RunFolder.open(folder), {}).conclusion
    assert conclusion is not None
    update: dict[str, Any] = {
        "per_precision": conclusion.per_precision,
        "validity": conclusion.validity,
        "executor": conclusion.executor,
        "executor_id": conclusion.executor.executor_id,
        "instance_id": conclusion.executor.instance_id,
        "ceilings": conclusion.ceilings,
        "attribution": first_attribution(conclusion.per_precision),
        "samples": write_samples(folder / SAMPLES_FILE, conclusion.processes),
    }
    return stated.model_copy(update=update)


def change_samples(attempt: Path, draws: np.random.Generator) -> None:
    """Every iteration a little longer or shorter, all after it moved, and the marks inside stretched with it."""
    path = attempt / ITERATIONS_FILE
    if not path.exists():
        return
    rows = np.frombuffer(path.read_bytes(), dtype="<i8").reshape(-1, 4).copy()
    start, length = rows[:, 0].copy(), rows[:, 1] - rows[:, 0]
    stretched = np.rint(length * (1 + draws.uniform(-MOST_CHANGE, MOST_CHANGE, len(rows)))).astype(np.int64)
    moved = np.concatenate(([0], np.cumsum(stretched - length)))[:-1]
    rows[:, 0] += moved
    rows[:, 1] = rows[:, 0] + stretched
    path.write_bytes(rows.tobytes())
    marks = np.frombuffer((attempt / MARKS_FILE).read_bytes(), dtype="<i8").reshape(-1, 2).copy()
    of = marks[:, 0]
    inside = (marks[:, 1] - start[of]) * (stretched[of] / np.maximum(1, length[of]))
    marks[:, 1] = rows[of, 0] + np.rint(inside).astype(np.int64)
    (attempt / MARKS_FILE).write_bytes(marks.tobytes())


def change_outputs(attempt: Path, draws: np.random.Generator) -> None:
    """Answers that differ in their last digits."""
    path = attempt / OUTPUTS_FILE
    if not path.exists():
        return
    kept = read_outputs(path)
    arrays = {
        name: array * array.dtype.type(1 + 1e-6 * draws.random()) if array.dtype.kind == "f" else array
        for name, array in kept.arrays.items()
    }
    write_outputs(path, Outputs(kind=kept.kind, arrays=arrays, inputs=kept.inputs))


def change_telemetry(path: Path, number: int) -> None:
    """One reading of used memory differs, and what is available by as much: both together stay the total."""
    header, first, rest = path.read_text().split("\n", 2)
    names, cells = header.split(","), first.split(",")
    for name, more in (("memory_used_bytes", number), ("memory_available_bytes", -number)):
        place = names.index(name)
        cells[place] = str(int(float(cells[place])) + more)
    path.write_text("\n".join((header, ",".join(cells), rest)))


def change_documents(attempt: Path, number: int) -> None:
    """Documents and traces with other bytes and the same meaning: equal ones would be kept once for all results."""
    space = f"{number:b}".translate({ord("0"): " ", ord("1"): "\n"})
    for path in attempt.glob("*.json"):
        path.write_text(path.read_text() + space)
    for path in attempt.glob("*.json.gz"):
        path.write_bytes(path.read_bytes() + gzip.compress(b"", mtime=number))
    for path in attempt.glob("trace.columns"):
        plain = lzma.decompress(path.read_bytes()[len(COLUMNS_MAGIC) :])
        ahead = 8 + int.from_bytes(plain[:8], "little")
        head = plain[8:ahead] + space.encode()
        path.write_bytes(
            COLUMNS_MAGIC + lzma.compress(len(head).to_bytes(8, "little") + head + plain[ahead:], preset=0)
        )
