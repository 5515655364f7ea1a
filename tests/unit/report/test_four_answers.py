"""Four questions, always four answers."""

from __future__ import annotations

import pytest

from lynxbench.report.four_answers import answer_four


def test_every_shape_answers_all_four(build, shape: str) -> None:
    answers = answer_four(build.SHAPES[shape]().result)
    assert len(answers) == 4
    assert all(answer.items and all(answer.items) for answer in answers)


def test_void_answers_nothing_about_the_executor(build) -> None:
    first, second, third, _ = answer_four(build.void().result)
    assert {first.items, second.items, third.items} == {("Not answered: the run is void.",)}


def test_the_gap_to_the_peak_and_its_cause_are_named(build) -> None:
    said = " ".join(answer_four(build.throttled_gpu().result)[1].items).replace("\u00a0", " ")
    assert "14 % below its best window" in said
    assert "held back by power cap" in said


def test_ceilings_are_called_an_envelope(build) -> None:
    said = " ".join(answer_four(build.software_bound().result)[2].items)
    assert "not the workload" in said
    assert "31\u00a0% of what the measured ceilings allow" in said


@pytest.mark.parametrize(
    ("reached", "where"),
    [
        (0.2, "runs far below its roofline: 20"),
        (0.46, "runs below its roofline, neither near it nor far: 46"),
        (0.57, "runs below its roofline, neither near it nor far: 57"),
        (0.61, "runs near its roofline: 61"),
    ],
)
def test_near_and_far_are_the_words_of_the_verdicts_thresholds(build, reached: float, where: str) -> None:
    result = build.software_bound().result
    operators = tuple(one.model_copy(update={"efficiency": reached}) for one in result.attribution.operators)
    attribution = result.attribution.model_copy(update={"operators": operators})
    changed = result.model_copy(update={"attribution": attribution})
    assert where in " ".join(answer_four(changed)[2].items)


def test_loosened_protocol_is_an_assumption(build) -> None:
    said = " ".join(answer_four(build.software_bound().result)[3].items)
    assert "Looser than the default protocol: 3 restarts instead of 5" in said
