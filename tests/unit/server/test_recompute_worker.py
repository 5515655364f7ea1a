"""What the lines of `verify` come to, as a server says it."""

from __future__ import annotations

import pytest

from lynxbench.model.verification import Check, VerificationReport, cannot, fails, holds
from lynxbench.server.recompute_worker import OUT_OF_MEMORY, judge
from lynxbench.watch.recomputations import RecomputationState

ID = "ab" * 32
GOOD = (holds("manifest"), holds("fp32 throughput"), cannot("executor drift and times", "live"))


def judged(*checks: Check, result_id: str = ID) -> tuple[RecomputationState, list[str]]:
    return judge(VerificationReport(result_id, checks), ID)


def test_figures_that_hold_are_recomputed() -> None:
    state, (line,) = judged(*GOOD)
    assert state is RecomputationState.HOLDS
    assert line == "2 checks hold, 1 cannot be made from what is here"


def test_one_line_that_does_not_hold_refutes() -> None:
    state, lines = judged(*GOOD, fails("fp32 run means", "stated 4, recomputed 1"))
    assert state is RecomputationState.REFUTED
    assert lines == ["fp32 run means: does not hold: stated 4, recomputed 1"]


@pytest.mark.parametrize(
    "checks",
    [
        (),
        (holds("manifest"), holds("result id")),
        (holds("manifest"), cannot("figures", "neither the attempts nor the samples of this result are here")),
        (holds("fp32 throughput"), cannot("int8 figures", "the request records of the run are not here")),
        (holds("fp32 throughput"), cannot("int8 throughput", "telemetry.csv is not here")),
    ],
)
def test_what_was_not_computed_is_never_called_recomputed(checks: tuple[Check, ...]) -> None:
    """Ids and hashes that hold say nothing about figures; nor does one precision about another."""
    assert judged(*checks)[0] is RecomputationState.CANNOT


def test_a_document_of_another_result_is_refuted() -> None:
    assert judged(*GOOD, result_id="cd" * 32)[0] is RecomputationState.REFUTED


def test_running_out_of_memory_says_nothing_about_the_figures() -> None:
    hungry = fails("raw files", "cannot be read (_ArrayMemoryError: Unable to allocate 29.1 TiB)")
    assert judged(holds("manifest"), hungry) == (RecomputationState.CANNOT, [OUT_OF_MEMORY])
    both = judged(hungry, fails("samples counted", "stated 5, recomputed 6"))
    assert both == (RecomputationState.REFUTED, ["samples counted: does not hold: stated 5, recomputed 6"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raw files", "attempts/cannot be read (MemoryError: not a file of lynxbench"),
        ("raw files", "run/x (MemoryError: damaged"),
        ("fp32 native", "cannot be read (MemoryError: stated)"),
    ],
)
def test_nobody_escapes_by_calling_a_file_a_memory_error(name: str, why: str) -> None:
    assert judged(*GOOD, fails(name, why))[0] is RecomputationState.REFUTED
