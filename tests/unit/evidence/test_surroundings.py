from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput, CannotRun
from lynxbench.evidence.run_folder import RunFolder, surroundings_of
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.surroundings import Surroundings


def created(out: Path, around: Surroundings | None) -> RunFolder:
    executor = Executor(layers={layer: {} for layer in Layer})
    return RunFolder.create(out, parse_contract(QUICK_CONTRACT), executor, 1, (), datetime.now(UTC), around)


def test_what_processes_are_given_is_registered_and_read_back(tmp_path: Path) -> None:
    around = Surroundings(environment={"MALLOC_ARENA_MAX": "1"}, cpus=(0,))
    assert surroundings_of(created(tmp_path, around).path) == around
    assert surroundings_of(created(tmp_path, None).path) is None
    assert surroundings_of(tmp_path) is None


def test_an_environment_that_is_gone_cannot_be_run_again(tmp_path: Path) -> None:
    run = created(tmp_path, Surroundings(interpreter=str(tmp_path / "gone" / "python")))
    with pytest.raises(CannotRun, match="which is not here"):
        surroundings_of(run.path)


def test_a_secret_in_a_variable_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    around = Surroundings(environment={"HF_TOKEN": "hf_" + "a1B2" * 9})
    with pytest.raises(BadInput, match="holds a secret"):
        created(tmp_path, around)
    assert list(tmp_path.iterdir()) == []
