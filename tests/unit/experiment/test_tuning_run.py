"""What a tuning tells its search of the trials so far; what it does about a pair that is no sound evidence."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from compared import make_result
from lynxbench.contract.loader import read_contract
from lynxbench.evidence.documents import RESULT_FILE, write_result
from lynxbench.experiment import tuning_run
from lynxbench.experiment.searching import Method, TrialOutcome
from lynxbench.experiment.tuning_folder import TuningFolder
from lynxbench.experiment.tuning_run import TuningProgress
from lynxbench.experiment.visiting import Visits
from lynxbench.model.contract import Contract
from lynxbench.model.tuning import Trial, TrialStatus
from planted import doubted

BOUNDED = Path(__file__).parents[3] / "results" / "h200" / "contracts" / "llm-decode-bounded.yaml"


def test_the_search_is_told_how_far_refusals_went_each_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = list[int]()

    def refused_far(_folder: TuningFolder, trial: Trial) -> bool:
        looked.append(trial.number)
        return trial.status is TrialStatus.REFUSED

    monkeypatch.setattr(tuning_run, "refused_far", refused_far)
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, "latency-p50", 1, 5, datetime.now(UTC))
    trials = (
        Trial(number=0, setting={}, status=TrialStatus.MEASURED, response=5.0),
        Trial(number=1, setting={}, status=TrialStatus.REFUSED, response=3.0),
        Trial(number=2, setting={}, status=TrialStatus.FAILED),
    )
    points = ((0, 1), (1, 0), (1, 1))
    tuning = tuning_run._Tuning(folder, cast(Visits, None), cast(TuningProgress, None))
    folder.set(trials=trials[:2], points=points[:2])
    tuning._told()
    folder.set(trials=trials, points=points)
    assert tuning._told() == [
        TrialOutcome((0, 1), -math.log(5.0)),
        TrialOutcome((1, 0), None, far=True),
        TrialOutcome((1, 1), None),
    ]
    assert looked == [0, 1, 2]
    # a tuning that is resumed tells its search the same
    again = tuning_run._Tuning(TuningFolder.open(folder.path), cast(Visits, None), cast(TuningProgress, None))
    assert again._told() == tuning._told()


class Told:
    """Progress that remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def trial(self, words: str) -> None:
        self.lines.append(words)


def test_a_pair_that_is_no_sound_evidence_is_followed_by_one_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = read_contract(str(BOUNDED))
    folder = TuningFolder.create(tmp_path, contract, Method.MODEL, "latency-p50", 1, 5, datetime.now(UTC))
    folder.set(chosen=(1, 1), baseline_run="earlier", ended_by="3 trials")
    told = Told()
    tuning = tuning_run._Tuning(folder, cast(Visits, None), cast(TuningProgress, told))
    seeds = list[int]()

    def run(asked: Contract, _environment: object) -> tuple[str, float]:
        name = f"run-{len(seeds)}"
        (folder.runs / name).mkdir(parents=True)
        result = make_result()
        write_result(
            folder.runs / name / RESULT_FILE,
            doubted("the host took the processor away")(result).sealed() if len(seeds) == 3 else result,
        )
        seeds.append(asked.workload.seed)
        return name, 5.0

    monkeypatch.setattr(tuning, "_run", run)
    tuning._confirm()
    assert len(folder.state.pairs) == 6
    assert len(seeds) == 12
    assert len(set(seeds)) == 6
    assert told.lines[-3] == "a pair was no sound evidence: one more is taken"
    # in turn: the sixth pair begins with the tuned setting
    assert told.lines[-2].startswith("confirmation 6/6: tuned")
    # whoever resumes it has nothing left to do
    tuning._confirm()
    assert len(seeds) == 12
