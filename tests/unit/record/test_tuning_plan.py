"""A tuning's record that was changed where no sample contradicts it: each lie is one line, the truth is none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lynxbench.contract.loader import read_contract
from lynxbench.evidence.run_folder import REGISTRATION_FILE
from lynxbench.experiment.cells import changed, seeded, space_of, tuned, untuned, variables
from lynxbench.experiment.searching import Method
from lynxbench.experiment.tuning_folder import ConfirmationPair, TuningFolder
from lynxbench.experiment.tuning_outcome import confirmation_seeds
from lynxbench.experiment.tuning_run import response_of
from lynxbench.model.contract import Contract
from lynxbench.model.executor import Executor, Tier, measured
from lynxbench.model.fields import Scalar
from lynxbench.model.layers import Layer
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.model.tuning import Trial, TrialStatus
from lynxbench.record import tuning_plan
from lynxbench.record.tuning_plan import plan_problems

BOUNDED = Path(__file__).parents[3] / "results" / "h200" / "contracts" / "llm-decode-bounded.yaml"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class Told:
    """A tuning of two trials and five pairs as `tune` leaves it, a run a minute."""

    def __init__(self, where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = BOUNDED.read_text(encoding="utf-8")
        assert "  knobs:\n" in text
        (where / "c.yaml").write_text(text.replace("  knobs:\n", "  knobs:\n    environment.omp_num_threads: [1, 2]\n"))
        self.contract = read_contract(str(where / "c.yaml"))
        self.space = space_of(self.contract)
        self.results: dict[str, Any] = {}
        self.around: dict[str, Surroundings | None] = {}
        self.folder = TuningFolder.create(where, self.contract, Method.MODEL, response_of(self.contract), 1, 5, BEGAN)
        points = ((0,) * len(self.space.sizes), tuple(size - 1 for size in self.space.sizes))
        chosen = self.space.at(points[0])
        baseline = self.run("base", untuned(self.contract), {})
        trials = [self.trial(number, self.space.at(point)) for number, point in enumerate(points)]
        self.folder.set(baseline_run=baseline, points=points, trials=tuple(trials), chosen=points[0])
        pairs = [
            ConfirmationPair(
                seed=seed,
                baseline_run=self.run(f"base-{seed}", seeded(untuned(self.contract), seed), {}),
                tuned_run=self.run(f"tuned-{seed}", seeded(tuned(self.contract, chosen), seed), chosen),
            )
            for seed in confirmation_seeds(self.folder.state)
        ]
        self.folder.set(pairs=tuple(pairs))
        monkeypatch.setattr(tuning_plan, "read_result", lambda path: self.results[path.name])
        monkeypatch.setattr(tuning_plan, "RunFolder", SimpleNamespace(open=self.opened))

    def opened(self, path: Path) -> Any:
        return SimpleNamespace(registration=SimpleNamespace(surroundings=self.around[path.name]))

    def run(self, name: str, contract: Contract, setting: dict[str, Scalar]) -> str:
        (self.folder.runs / name).mkdir()
        (self.folder.runs / name / REGISTRATION_FILE).write_text("{}")
        given = variables(setting)
        self.around[name] = Surroundings(environment=given) if given else None
        self.results[name] = SimpleNamespace(
            contract_id=changed(contract, {}, restarts=1).contract_id,
            started_at=(BEGAN + timedelta(minutes=len(self.results))).isoformat(),
            executor=Executor(layers={Layer.SYSTEM: {"hostname": measured("one", "planted", Tier.INSTANCE)}}),
        )
        return name

    def trial(self, number: int, setting: dict[str, Scalar]) -> Trial:
        name = self.run(f"trial-{number}", tuned(self.contract, setting), setting)
        return Trial(
            number=number, setting=setting, status=TrialStatus.MEASURED, response=2.0 + number, accuracy="go", run=name,
            contract_id=self.results[name].contract_id, result_id="a" * 64,
        )  # fmt: skip

    def problems(self) -> list[str]:
        return list(plan_problems(self.folder, self.space))

    def retell(self, which: int, **changes: object) -> None:
        trials = list(self.folder.state.trials)
        trials[which] = trials[which].model_copy(update=changes)
        self.folder.set(trials=tuple(trials))


def shorter(told: Told) -> None:
    told.folder.set(confirmations=20)


def elsewhere(told: Told) -> None:
    other = Executor(layers={Layer.SYSTEM: {"hostname": measured("two", "planted", Tier.INSTANCE)}})
    told.results[str(told.folder.state.pairs[1].tuned_run)].executor = other


def picked(told: Told) -> None:
    told.results[str(told.folder.state.pairs[2].tuned_run)].started_at = BEGAN.isoformat()


def helped(told: Told) -> None:
    told.around[str(told.folder.state.pairs[3].tuned_run)] = Surroundings(environment={"OMP_NUM_THREADS": "64"})


def hindered(told: Told) -> None:
    told.around[str(told.folder.state.pairs[0].baseline_run)] = Surroundings(environment={"OMP_NUM_THREADS": "1"})


LIES: dict[str, tuple[Callable[[Told], object], str]] = {
    "a trial nobody ran": (lambda told: told.retell(1, run="", result_id=None, response=9.0), "no run of it is named"),
    "a failed one with a figure": (
        lambda told: told.retell(1, run="", result_id=None, status=TrialStatus.FAILED),
        "states a figure",
    ),
    "a void one with a figure": (lambda told: told.retell(1, status=TrialStatus.VOID), "void, and states a figure"),
    "one run for two trials": (
        lambda told: told.retell(1, run="trial-0", contract_id=told.results["trial-0"].contract_id),
        "trial-0 stands in two places",
    ),
    "another number": (lambda told: told.retell(1, number=7), "trial 2 is not of the setting that was asked for"),
    "settings in another order": (
        lambda told: told.folder.set(points=told.folder.state.points[::-1]),
        "not of the setting that was asked for",
    ),
    "another contract": (lambda told: told.retell(0, contract_id="f" * 64), "trial 1: its run is of another contract"),
    "a baseline that was tuned": (
        lambda told: told.folder.set(baseline_run=told.folder.state.pairs[0].tuned_run),
        "is of another contract",
    ),
    "no baseline": (lambda told: told.folder.set(baseline_run=""), "it has no baseline"),
    "another figure": (lambda told: told.folder.set(response="throughput"), "judged by throughput, where its contract"),
    "more trials than allowed": (
        lambda told: told.folder.set(trials=told.folder.state.trials * 50, points=told.folder.state.points * 50),
        "100 trials where",
    ),
    "registered when all was known": (
        lambda told: told.folder.set(registered_at="2026-06-01T00:00:00+00:00"),
        "base is older than the tuning",
    ),
    "stopped where it looked best": (shorter, "5 pairs where 20 were planned"),
    "confirmed before it was chosen": (picked, "is older than the choice that it confirms"),
    "sides on two machines": (elsewhere, "are of two machines"),
    "another variable than the setting's": (helped, "its processes were given {'OMP_NUM_THREADS': '64'}"),
    "a baseline that was held back": (hindered, "its processes were given {'OMP_NUM_THREADS': '1'}"),
}


def test_a_tuning_as_it_was_left_has_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(tmp_path, monkeypatch)
    assert told.problems() == []
    told.retell(1, run="", result_id=None, status=TrialStatus.FAILED, response=None, accuracy="", reason="died")
    assert told.problems() == []


@pytest.mark.parametrize("name", LIES)
def test_a_record_that_no_sample_contradicts_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    told = Told(tmp_path, monkeypatch)
    lie, said = LIES[name]
    lie(told)
    assert any(said in line for line in told.problems()), told.problems()


@pytest.mark.parametrize(("engine", "problems"), [(OpenAiEngine.model_construct(), 0), (SimpleNamespace(), 1)])
def test_a_server_has_its_settings_variables_and_its_client_has_none(
    engine: object, problems: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuning of a launched server over a variable is no forgery: the run's own processes are the client's."""
    monkeypatch.setattr(tuning_plan, "given_variables", lambda _: {})
    folder: Any = SimpleNamespace(runs=Path(), state=SimpleNamespace(contract=SimpleNamespace(engine=engine)))
    found = list(tuning_plan._surroundings(folder, "a-run", {"environment.omp_num_threads": 2}))
    assert len(found) == problems
