"""What a real ledger teaches about sittings: one executor, one machine, several days."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from compared import make_contract, make_executor, make_percentile, make_precision, make_result
from lynxbench.model.contract import Contract
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.record.known_sittings import between_sittings, known_sittings
from lynxbench.stats.sessions import FEWEST_SITTINGS
from recording_teams import Team, make_team, record

FIRST = datetime(2026, 3, 2, 3, tzinfo=UTC)
KEY = (Precision.FP32, "throughput")


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return make_team("ml-platform", tmp_path)


def _night(night: float, level: float = 100.0, contract: Contract | None = None, **more: object) -> Result:
    rng = np.random.default_rng(int(night * 24))
    means = tuple(float(mean) for mean in level * np.exp(0.003 * rng.normal() + 0.001 * rng.normal(size=5)))
    started = (FIRST + timedelta(days=night)).isoformat(timespec="seconds")
    result = make_result(contract=contract, run_means=means, started_at=started, **more)  # type: ignore[arg-type]
    return result.model_copy(update={"run_id": f"run-{night}"}).sealed()


def test_repeated_results_of_one_executor_are_learned_from(team: Team) -> None:
    with team.open() as ledger:
        kept = [record(ledger, _night(night), team.key) for night in range(FEWEST_SITTINGS + 2)]
        between = between_sittings(kept[0], kept[-1], ledger, team.keyring.trust)
    assert between is not None
    learned = between.learned[KEY]
    assert learned.known
    assert learned.sittings == FEWEST_SITTINGS, "the two that are compared teach nothing"
    assert between.of(*KEY) is learned
    assert 0.0005 < learned.sitting_means**0.5 < 0.01


def test_two_results_of_one_night_are_one_sitting(team: Team) -> None:
    with team.open() as ledger:
        kept = [record(ledger, _night(night), team.key) for night in (0, 0.1, 1, 1.1, 2)]
        assert between_sittings(kept[0], kept[1], ledger, team.keyring.trust) is None
        between = between_sittings(kept[0], kept[-1], ledger, team.keyring.trust)
    assert between is not None
    assert between.learned[KEY].sittings == 2
    assert between.of(*KEY) is None


def test_what_is_no_repetition_teaches_nothing(team: Team) -> None:
    doubtful = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("foreign load",))
    with team.open() as ledger:
        kept = [record(ledger, _night(night), team.key) for night in range(3)]
        record(ledger, _night(3, executor=make_executor(machine="b")), team.key)
        record(ledger, _night(4, executor=make_executor({"framework.torch": "2.6.0"})), team.key)
        record(ledger, _night(5, validity=doubtful), team.key)
        record(ledger, _night(6, contract=make_contract(name="another")), team.key)
        between = between_sittings(kept[0], kept[1], ledger, team.keyring.trust)
    assert between is not None
    assert between.learned[KEY].sittings == 1


def test_sittings_of_both_executors_teach(team: Team) -> None:
    newer = make_executor({"framework.torch": "2.6.0"})
    with team.open() as ledger:
        before = [record(ledger, _night(night), team.key) for night in range(5)]
        after = [record(ledger, _night(night, 80.0, executor=newer), team.key) for night in range(5, 10)]
        between = between_sittings(before[-1], after[0], ledger, team.keyring.trust)
    assert between is not None
    learned = between.learned[KEY]
    assert (learned.sittings, learned.sitting_degrees) == (8, 6)
    assert learned.sitting_means**0.5 < 0.01, "the step of 20 % between the two executors is no noise"


def test_a_latency_that_leads_is_learned_from_documents(team: Team) -> None:
    contract = make_contract(regime="latency")
    with team.open() as ledger:
        kept = []
        for night in range(FEWEST_SITTINGS + 2):
            result = _night(night, contract=contract)
            measured = make_percentile(50.0, 10.0 * (1 + 0.002 * (night % 3)))
            part = make_precision(latency_ms={"latency": (measured,)}, run_means=result.per_precision[0].run_means)
            kept.append(record(ledger, result.model_copy(update={"per_precision": (part,)}).sealed(), team.key))
        between = between_sittings(kept[0], kept[-1], ledger, team.keyring.trust)
    assert between is not None
    learned = between.of(Precision.FP32, "latency p50")
    assert learned is not None
    assert learned.restart_degrees == 0
    assert learned.sitting_means > 0


def test_without_a_ledger_two_sittings_are_known_to_be_two(team: Team) -> None:
    first, second = _night(0), _night(1)
    nothing = known_sittings(first, second, "none", team.environment)
    assert nothing is not None
    assert nothing.learned == {}
    assert known_sittings(first, _night(0.1), "none", team.environment) is None
    replaced = _night(1, executor=make_executor({"accelerator.gpu_name": ["NVIDIA H200"]}))
    assert known_sittings(first, replaced, "none", team.environment) is None, "another device is another machine"
    tuned = _night(1, executor=make_executor({"accelerator.gpu_power_limit_enforced_w": [500]}))
    assert known_sittings(first, tuned, "none", team.environment) is not None, "another setting is not"
    elsewhere = _night(1, executor=make_executor(machine="b"))
    assert known_sittings(first, elsewhere, "none", team.environment) is None, "two machines are two executors"
