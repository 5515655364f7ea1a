"""Names out of strangers' records, and served settings whose accuracy nobody measured."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from experiments import PLANTED, planted_definition
from lynxbench.contract.loader import parse_contract
from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.experiment.cells import plan_cells
from lynxbench.experiment.experiment_folder import ExperimentFolder
from lynxbench.experiment.experiment_outcome import describe
from lynxbench.experiment.tuning_run import run_tuning
from lynxbench.record.recalling_analyses import plain_names
from lynxbench.report.documents.experiment_document import compose_experiment
from lynxbench.report.render_html import render_html
from lynxbench.report.render_terminal import render_terminal
from served import served_contract

SAID = "no accuracy measured for served cells"


def test_a_run_s_name_never_leads_elsewhere() -> None:
    assert plain_names(["a-20261115T101112-abc123", "b", "b"]) == ["a-20261115T101112-abc123", "b"]
    for name in ("../x", "a/b", "", ".hidden", "a\\b\x00", "/etc/passwd"):
        with pytest.raises(EvidenceInvalid, match="no name of a run"):
            plain_names([name])


def test_served_cells_say_so_in_document_terminal_and_page(tmp_path: Path) -> None:
    body = "\n".join(f"  {line}" for line in served_contract("http://127.0.0.1:9").splitlines())
    start = PLANTED.index("contract:")
    factors = "factors:\n  - {name: tokens, layer: serving, sets: workload.output_tokens, levels: [4, 8]}\n"
    text = PLANTED[:start] + f"contract:\n{body}\nrestarts: 2\n" + factors
    definition = planted_definition(text)
    folder = ExperimentFolder.create(tmp_path, definition, datetime(2026, 1, 1, tzinfo=UTC))
    cells = plan_cells(definition)
    values = {(cell.cell, block): 100.0 + 9 * cell.number + block for cell in cells for block in range(2)}
    document = describe(folder, cells, values, datetime(2026, 1, 1, tzinfo=UTC))
    assert document.accuracy_missing == SAID
    assert SAID in render_terminal(compose_experiment(document), width=120)
    assert SAID in render_html(compose_experiment(document))
    within = planted_definition()
    made = ExperimentFolder.create(tmp_path / "in", within, datetime(2026, 1, 1, tzinfo=UTC))
    assert describe(made, plan_cells(within), {}, None).accuracy_missing == ""


def test_a_served_contract_with_an_accuracy_policy_is_not_tuned(tmp_path: Path) -> None:
    text = served_contract("http://127.0.0.1:9") + (
        "\noptimisation: {division: bounded, knobs: {workload.output_tokens: [4, 8]}, trials: 2}\n"
        "policy: {accuracy: {metric: cosine, largest_loss: 1 %}}\n"
    )
    contract = parse_contract(text, "served.yaml")
    with pytest.raises(BadInput, match=SAID):
        run_tuning(contract, tmp_path / "out", None, None, lambda: None)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
