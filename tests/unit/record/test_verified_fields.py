"""Every field of a result has a line of its verification, or is among those that nothing here can confirm."""

from __future__ import annotations

from lynxbench.model.load_figures import LoadFigures
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.record.verifying import FIGURES, LOAD_FIGURES, LOAD_FIGURES_OF_SOME

OWN_LINES = {"precision", "attribution", "load"}
OF_THE_WHOLE = {
    *("result_id", "run_id", "started_at", "contract_id", "executor_id", "instance_id", "contract", "executor"),
    *("conditions", "per_precision", "attribution", "validity", "ceilings", "assumptions", "samples", "rules"),
}
BOUNDED = {"finished_at", "measuring_s"}
"""No longer or shorter than the processes and each other allow: line `times`."""
DECLARED = {"schema_version", "lynxbench_version", "executor_drift"}
"""Lines `program` and `executor drift and times` say that they cannot be recomputed; a schema is refused or read."""


def test_every_figure_of_a_precision_has_a_line() -> None:
    assert set(PrecisionResult.model_fields) == set(FIGURES) | OWN_LINES


def test_every_figure_of_a_load_has_a_line() -> None:
    assert set(LoadFigures.model_fields) == {*LOAD_FIGURES, *LOAD_FIGURES_OF_SOME, "server_counters"}


def test_every_field_of_a_result_has_a_line_or_is_said_to_be_declared() -> None:
    assert set(Result.model_fields) == OF_THE_WHOLE | BOUNDED | DECLARED
