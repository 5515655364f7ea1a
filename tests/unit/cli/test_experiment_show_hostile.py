"""`experiment show` and `verify` of a record that a stranger wrote: one line, never a traceback."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.contract.loader import read_contract
from lynxbench.experiment.cells import space_of
from lynxbench.experiment.searching import Method
from lynxbench.experiment.tuning_folder import OUTCOME_FILE, TUNING_FILE, TuningFolder
from lynxbench.experiment.tuning_outcome import describe_tuning

BOUNDED = Path(__file__).parents[3] / "results" / "h200" / "contracts" / "llm-decode-bounded.yaml"


def made(where: Path) -> TuningFolder:
    return TuningFolder.create(
        where, read_contract(str(BOUNDED)), Method.MODEL, "latency-p50", 1, 5, datetime(2026, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize("chosen", [[99, 0, 0], [1], [], [0, 0, 0, 0]])
def test_a_choice_outside_the_grid_is_told_in_one_line(tmp_path: Path, chosen: list[int]) -> None:
    folder = made(tmp_path)
    state = json.loads((folder.path / TUNING_FILE).read_text())
    (folder.path / TUNING_FILE).write_text(json.dumps(state | {"chosen": chosen}))
    done = lynxbench_here("experiment", "show", str(folder.path), cwd=tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert "damaged" in done.err


def test_a_number_without_a_canonical_form_is_told_in_one_line(tmp_path: Path) -> None:
    folder = made(tmp_path)
    document = describe_tuning(folder, space_of(folder.state.contract), datetime(2026, 1, 2, tzinfo=UTC))
    (folder.path / OUTCOME_FILE).write_text(json.dumps(document.model_dump(mode="json") | {"seed": 2**200}))
    for words in (("experiment", "show", "--json"), ("verify", "--ledger", "none")):
        done = lynxbench_here(*words, str(folder.path), cwd=tmp_path)
        assert (done.code, done.err.count("\n")) == (2, 1), done.err
        assert "without a canonical form" in done.err


def test_a_deep_document_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"tuning_id":' + "[" * 90_000 + "]" * 90_000 + "}")
    done = lynxbench_here("experiment", "show", "deep.json", cwd=tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
