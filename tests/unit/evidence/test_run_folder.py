"""A run on disk: registered before its first sample, read again later, also where an earlier lynxbench wrote it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder, find_unfinished
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.surroundings import Surroundings


def created(out: Path, around: Surroundings | None) -> RunFolder:
    executor = Executor(layers={layer: {} for layer in Layer})
    return RunFolder.create(out, parse_contract(QUICK_CONTRACT), executor, 1, (), datetime.now(UTC), around)


def test_what_processes_are_given_is_registered_and_read_back(tmp_path: Path) -> None:
    around = Surroundings(environment={"MALLOC_ARENA_MAX": "1"}, cpus=(0,))
    assert RunFolder.open(created(tmp_path, around).path).registration.surroundings == around
    assert RunFolder.open(created(tmp_path, None).path).registration.surroundings is None


def test_a_secret_in_a_variable_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    around = Surroundings(environment={"HF_TOKEN": "hf_" + "a1B2" * 9})
    with pytest.raises(BadInput, match="holds a secret"):
        created(tmp_path, around)
    assert list(tmp_path.iterdir()) == []


def test_the_newest_unfinished_run_of_a_contract_is_found_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    contract_id = parse_contract(QUICK_CONTRACT).contract_id
    assert find_unfinished(tmp_path, contract_id) is None
    older, finished, damaged = (created(tmp_path, None) for _ in range(3))
    (finished.path / "result.json").touch()
    (damaged.path / REGISTRATION_FILE).write_text("{")
    found = find_unfinished(tmp_path, contract_id)
    assert found is not None
    assert found.path == older.path
    assert find_unfinished(tmp_path, "0" * 64) is None


def test_a_contract_under_the_id_of_another_is_not_found_by_it(tmp_path: Path) -> None:
    mine = parse_contract(QUICK_CONTRACT)
    theirs = created(tmp_path, None)
    registration = json.loads((theirs.path / REGISTRATION_FILE).read_text())
    registration["contract"]["workload"]["model"]["target"] = "evil:spin"
    (theirs.path / REGISTRATION_FILE).write_text(json.dumps(registration))
    assert RunFolder.open(theirs.path).registration.contract_id == mine.contract_id
    assert find_unfinished(tmp_path, mine.contract_id) is None


def test_clients_that_were_once_registered_as_threads_are_read_as_clients(tmp_path: Path) -> None:
    old = Path(__file__).parents[2] / "data" / "registrations" / "served-0.1.0.json"
    (tmp_path / REGISTRATION_FILE).write_bytes(old.read_bytes())
    registration = RunFolder.open(tmp_path).registration
    assert (registration.clients, registration.threads) == (2, 1)
    (tmp_path / REGISTRATION_FILE).write_text(registration.model_dump_json(by_alias=True))
    assert RunFolder.open(tmp_path).registration == registration
    assert created(tmp_path, None).registration.clients is None
