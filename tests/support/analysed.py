"""An experiment, a tuning and a fleet run with planted figures, signed into a ledger over results that are there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from compared import make_executor, make_result
from experiments import planted_document
from lynxbench.evidence.keys import SigningKey
from lynxbench.fleet.fleet_book import FleetState
from lynxbench.fleet.fleet_report import report_units
from lynxbench.ledger.location import OpenLedger
from lynxbench.model.analyses import FILES, AnalysisDocument, analysis_bytes, conclude
from lynxbench.model.entries import Blob
from lynxbench.model.experiment import CellStatus, ExperimentDocument
from lynxbench.model.fields import Scalar
from lynxbench.model.fleet import AttemptNote, FleetReport, FleetUnit, UnitState
from lynxbench.model.interval import Interval
from lynxbench.model.result import Result
from lynxbench.model.tuning import Confirmed, Trial, TrialStatus, TuningDocument, TuningVerdict, WinnersCurse
from lynxbench.record.recording import seal

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def planted_experiment(
    folder: Path, results: list[Result], *, hostile: bool = False, served: bool = False
) -> ExperimentDocument:
    """Three factors with an interaction; every cell cites a result; one was infeasible."""
    document = planted_document(folder, 0.2)
    cells = []
    for cell, result in zip(document.cells, results, strict=False):
        said = "no accuracy measured for served cells" if served else "loss 0.10% go (cosine 0.9999)"
        update = {
            "result_ids": (result.result_id,),
            "executor_id": result.executor_id,
            "validity": "valid",
            "accuracy": "reference" if cell.number == 0 and not served else said,
        }
        cells.append(cell.model_copy(update=update))
    cells[-1] = cells[-1].model_copy(update={"validity": "doubtful: others used 9 % of the machine"})
    changes: dict[str, object] = {"cells": tuple(cells), "unit": "sentences/s"}
    if served:
        changes |= {"accuracy_missing": "no accuracy measured for served cells", "experiment_id": "planted-served"}
    if hostile:
        factors = tuple(one.model_copy(update={"owner": HOSTILE}) for one in document.factors)
        cells[1] = cells[1].model_copy(update={"status": CellStatus.PARTLY, "reason": HOSTILE, "accuracy": HOSTILE})
        changes |= {
            "cells": tuple(cells), "factors": factors, "question": HOSTILE, "name": HOSTILE, "notes": (HOSTILE,),
            "unit": HOSTILE, "experiment_id": "hostile", "contract_name": HOSTILE,
        }  # fmt: skip
    return document.model_copy(update=changes)


def planted_tuning(results: list[Result]) -> TuningDocument:
    """Twenty-four trials, two of them refused by the gate, and a confirmation that shows the winner's curse."""
    rng = np.random.default_rng(3)
    ids = [one.result_id for one in results]
    trials = []
    for number in range(24):
        setting: dict[str, Scalar] = {
            "engine.threads": 1 + number % 4,
            "engine.graph": ("eager", "compile")[number % 2],
        }
        refused = number in (5, 17)
        trials.append(
            Trial(
                number=number,
                setting=setting,
                status=TrialStatus.REFUSED if refused else TrialStatus.MEASURED,
                response=float(100 + 8 * (number % 4) + 20 * (number % 2) + rng.normal(0, 3)) * (1.4 if refused else 1),
                accuracy="no-go (loss 4.10%, cosine 0.91)" if refused else "go (loss 0.10%, cosine 0.9999)",
                run=f"trial-{number}",
                contract_id="ab" * 32,
                result_id=ids[number % len(ids)],
            )
        )
    best: dict[str, Scalar] = {"engine.threads": 4, "engine.graph": "compile"}

    def side(setting: dict[str, Scalar], division: str, level: float) -> Confirmed:
        return Confirmed(
            setting=setting, contract_id="ab" * 32, division=division, response=Interval(level - 2, level, level + 2),
            values=(level - 1, level, level + 1), seeds=(11, 12, 13), result_ids=tuple(ids[:3]),
            accuracy="reference" if division == "none" else "go, largest loss 0.10% over 3 unseen seeds",
        )  # fmt: skip

    return TuningDocument(
        lynxbench_version="0", tuning_id="embedding-tune-planted", contract_name="embedding", contract_id="ab" * 32,
        question="How fast does the embedding run within its bounds?", division="bounded",
        knobs={"engine.threads": (1, 2, 3, 4), "engine.graph": ("eager", "compile")}, settings=8, search="model",
        seed=1,
        trials_allowed=24, time_allowed_s=None, ended_by="24 trials", response="throughput", unit="sentences/s",
        higher_is_better=True, started_at="2026-01-01T00:00:00+00:00", finished_at="2026-01-01T00:10:00+00:00",
        measuring_s=600.0, trials=tuple(trials), baseline=side({}, "none", 101.0), tuned=side(best, "bounded", 141.0),
        gain=Interval(1.37, 1.396, 1.42),
        winners_curse=WinnersCurse(
            in_search=146.0, trials=3, confirmed=Interval(139, 141, 143), loss=Interval(-0.048, -0.034, -0.02)
        ),
        verdict=TuningVerdict.IMPROVED,
        sentence="engine.threads 4, engine.graph compile beats the baseline on processes and seeds never seen: 1.396×",
    )  # fmt: skip


def fleet_results(hosts: int = 8) -> list[Result]:
    """Machines alike, and one whose power is capped."""
    made = []
    for number in range(hosts):
        odd = number == hosts - 2
        changes = {"accelerator.gpu_power_limit_enforced_w": [400]} if odd else {}
        level = 71.0 if odd else 100.0 + 0.3 * (number % 3)
        means = tuple(level * (1 + 0.003 * (i - 2)) for i in range(5))
        made.append(
            make_result(executor=make_executor(changes, machine=f"node-{number}"), run_means=means).model_copy(
                update={"run_id": f"fleet-node-{number}"}
            )
        )
    return made


def planted_fleet(results: list[Result]) -> tuple[FleetReport, FleetState]:
    """The results by node, and a node that was lost."""
    units = [
        FleetUnit(name=f"node-{i}", node=f"node-{i}", state=UnitState.DONE, result_id=one.result_id, recorded=True)
        for i, one in enumerate(results)
    ]
    lost = AttemptNote(node="node-9", ended="node lost", why="no heartbeat", seconds=3.0)
    units.append(FleetUnit(name="node-9", node="node-9", state=UnitState.LOST, why="node-9 was lost", attempts=(lost,)))
    state = FleetState(
        fleet_id="compared-fleet-planted",
        started_at="2026-11-01T00:00:00+00:00",
        contract=results[0].contract,
        per_gpu=False,
        units=tuple(units),
    )
    by_name = {unit.name: one for unit, one in zip(units, results, strict=False)}
    return report_units(state, by_name), state


def sign_in_ledger(
    ledger: OpenLedger, document: AnalysisDocument, key: SigningKey, results: list[Result], others: list[bytes]
) -> str:
    """An analysis as an entry, with its documents; its id."""
    body = conclude(document, [one.result_id for one in results])
    blobs = []
    for name, data in zip(FILES[body.kind], [analysis_bytes(document), *others], strict=True):
        ledger.blobs.put(data)
        blobs.append(Blob(name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data)))
    ledger.log.append(seal(body, key, tuple(blobs)))
    return body.analysis_id


def plant(
    ledger: OpenLedger, key: SigningKey, folder: Path, results: list[Result], fleet: list[Result]
) -> dict[str, str]:
    """One of each kind, and one whose every text is hostile; by name."""
    some, rest = results[:8], [b"{}", b"{}"]
    made = {
        "experiment": planted_experiment(folder / "a", some),
        "served experiment": planted_experiment(folder / "b", some, served=True),
        "hostile experiment": planted_experiment(folder / "c", some, hostile=True),
    }
    found = {name: sign_in_ledger(ledger, one, key, some, rest) for name, one in made.items()}
    tuning = planted_tuning(results[:12])
    found["tuning"] = sign_in_ledger(ledger, tuning, key, results[:12], [b"{}"])
    report, state = planted_fleet(fleet)
    found["fleet"] = sign_in_ledger(ledger, report, key, fleet, [state.model_dump_json(by_alias=True).encode()])
    return found
