from __future__ import annotations

import pytest

from lynxbench.decide.deciding import Gathered, ask_purchase, read_catalogue
from lynxbench.errors import BadInput, Refused
from lynxbench.model.decisions import WITHOUT_DIAGNOSTIC, PurchaseDecision
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result, Validity, ValidityVerdict
from planted import hardware_bound, signed

CATALOGUE = read_catalogue(None)


def ask(*results: Result, proposed: str = "h200", by: str | None = "ML platform") -> PurchaseDecision:
    gathered = Gathered(results, signed(*results))
    return ask_purchase(gathered, CATALOGUE, proposed=proposed, remeasured_by=by)[0]


def bare(result: Result) -> Result:
    """A result without saturation and attribution."""
    one = result.per_precision[0]
    assert one.load is not None
    load = one.load.model_copy(update={"saturation": None})
    return result.model_copy(
        update={"attribution": None, "per_precision": (one.model_copy(update={"load": load, "attribution": None}),)}
    )


def test_all_five_answered_from_evidence(today: Result, tested: Result) -> None:
    decision = ask(today, tested)
    assert decision.unanswered == 0
    assert decision.diagnosed
    assert decision.supported == "software first"
    for answer in decision.answers:
        assert answer.evidence
        assert not answer.command
    assert "same ceiling" in decision.answers[3].says


def test_three_unanswered_is_a_decision_without_a_diagnostic(today: Result) -> None:
    decision = ask(bare(today), by=None)
    assert decision.unanswered == 5
    assert not decision.diagnosed
    assert WITHOUT_DIAGNOSTIC in decision.sentence
    assert decision.supported == "undecided"
    for answer in decision.answers:
        assert not answer.evidence
        assert "lynxbench" in answer.command


def test_two_unanswered_is_still_diagnosed(today: Result) -> None:
    decision = ask(today, by=None)
    assert decision.unanswered == 2
    assert decision.diagnosed
    assert decision.follow_up is None
    assert "--remeasured-by" in decision.answers[4].command


def test_question_five_makes_a_follow_up_against_the_baseline(today: Result, tested: Result) -> None:
    follow_up = ask(today, tested).follow_up
    assert follow_up is not None
    assert follow_up.baseline == today.result_id
    assert follow_up.layer is Layer.ACCELERATOR
    assert follow_up.expected.low < follow_up.expected.high


@pytest.mark.parametrize("due", ["gestern", "", "31.03.2027", "2027-02-30", "2027-13-01", "2027", "2027-03-31T00:00"])
def test_a_due_date_is_a_day_of_the_calendar(today: Result, tested: Result, due: str) -> None:
    """Found: any text was taken, and shown as the day by which a team measures again."""
    gathered = Gathered((today, tested), signed(today, tested))
    with pytest.raises(BadInput, match=r"--due: .* is not a day of the calendar; write for example"):
        ask_purchase(gathered, CATALOGUE, proposed="h200", remeasured_by="ML platform", due=due)


def test_a_result_on_another_device_is_no_test_instance(today: Result, tested: Result) -> None:
    """Found: `--test` with a result on today's hardware answered the question of the test instance."""
    again = today.model_copy(update={"run_id": "again"}).sealed()
    gathered = Gathered((today, again), signed(today, again))
    with pytest.raises(BadInput, match="ran on a100-80gb, not on h200"):
        ask_purchase(gathered, CATALOGUE, proposed="h200", tests=[again.result_id])
    both = Gathered((today, tested), signed(today, tested))
    assert ask_purchase(both, CATALOGUE, proposed="h200", tests=[tested.result_id])[0].answers[3].evidence


@pytest.mark.parametrize("proposed", ["H100 SXM", "h201", "b200x", "a100"])
def test_a_known_device_is_no_instance_of_one_that_nobody_knows(today: Result, tested: Result, proposed: str) -> None:
    """Found: a name that is not in the catalogue took any result as its test instance, also one of today's kind."""
    again = today.model_copy(update={"run_id": "again"}).sealed()
    gathered = Gathered((today, again), signed(today, again))
    with pytest.raises(BadInput, match="is not in the catalogue, so nothing says that this is one"):
        ask_purchase(gathered, CATALOGUE, proposed=proposed, tests=[again.result_id])
    both = Gathered((today, tested), signed(today, tested))
    with pytest.raises(BadInput, match="ran on h200"):
        ask_purchase(both, CATALOGUE, proposed=proposed, tests=[tested.result_id])
    assert not ask_purchase(both, CATALOGUE, proposed=proposed)[0].answers[3].evidence


def on_device(result: Result, name: object) -> Result:
    """The same result on an accelerator whose driver reports such a name."""
    fields = dict(result.executor.layers[Layer.ACCELERATOR])
    fields["gpu_name"] = fields["gpu_name"].model_copy(update={"value": name})
    executor = result.executor.model_copy(update={"layers": {**result.executor.layers, Layer.ACCELERATOR: fields}})
    return result.model_copy(update={"executor": executor, "executor_id": executor.executor_id}).sealed()


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "Example X1", ["Example X1", "Example X1"]])
def test_a_device_that_nobody_knows_is_no_instance_of_a_known_one(today: Result, tested: Result, name: object) -> None:
    """Found: `--test` took a result on any device that the catalogue does not know for one on the proposed device."""
    other = on_device(tested, name)
    gathered = Gathered((today, other), signed(today, other))
    with pytest.raises(BadInput, match=r"nothing says that .* ran on h200: its driver reports '.*`reported_as`"):
        ask_purchase(gathered, CATALOGUE, proposed="h200", tests=[other.result_id])


@pytest.mark.parametrize(
    ("name", "proposed", "told"),
    [
        (None, "h200", "its executor names no accelerator"),
        ([], "h200", "its executor names no accelerator"),
        ("Foo 9", "x1", "its driver reports 'Foo 9', which the catalogue does not know"),
        ("Example X10", "x1", "its driver reports 'Example X10', which the catalogue does not know"),
    ],
)
def test_a_test_instance_that_nothing_shows_to_be_one_decides_nothing(
    today: Result, tested: Result, name: object, proposed: str, told: str
) -> None:
    other = on_device(tested, name)
    gathered = Gathered((today, other), signed(today, other))
    decision, _ = ask_purchase(gathered, CATALOGUE, proposed=proposed, tests=[other.result_id])
    assert f"that this is a {proposed} is said by --test alone: {told}" in decision.answers[3].says
    assert decision.supported == "undecided"


def test_the_proposed_name_in_the_drivers_word_is_enough(today: Result, tested: Result) -> None:
    other = on_device(tested, "Example X1")
    gathered = Gathered((today, other), signed(today, other))
    decision, _ = ask_purchase(gathered, CATALOGUE, proposed="X1", tests=[other.result_id])
    assert decision.answers[3].evidence
    assert "--test alone" not in decision.answers[3].says


def test_nobody_is_no_team_that_measures_again(today: Result, tested: Result) -> None:
    """Found: `--remeasured-by ""` answered the fifth question, and was recorded."""
    with pytest.raises(BadInput, match="--remeasured-by is empty"):
        ask(today, tested, by=" ")


def test_a_due_date_needs_somebody_who_is_due(today: Result, tested: Result) -> None:
    gathered = Gathered((today, tested), signed(today, tested))
    with pytest.raises(BadInput, match="name the team with --remeasured-by"):
        ask_purchase(gathered, CATALOGUE, proposed="h200", due="2027-03-31")
    decision, _ = ask_purchase(gathered, CATALOGUE, proposed="h200", remeasured_by="ML platform", due="2027-03-31")
    assert decision.follow_up is not None
    assert decision.follow_up.due == "2027-03-31"


def test_a_higher_ceiling_on_hardware_bound_work_supports_the_purchase(today: Result, tested: Result) -> None:
    today = hardware_bound(today)
    one = tested.per_precision[0]
    assert one.load is not None
    assert one.load.saturation is not None
    doubled = one.load.saturation.model_copy(update={"passed_per_s": 90.0, "failed_per_s": 94.0})
    faster = tested.model_copy(
        update={
            "per_precision": (one.model_copy(update={"load": one.load.model_copy(update={"saturation": doubled})}),)
        }
    )
    decision = ask(today, faster)
    assert decision.supported == "purchase"
    assert "higher" in decision.answers[3].says
    assert "lynxbench decide cost" in decision.sentence, "a price is no part of it, and who asks for one is told where"


def test_a_rate_that_was_not_decided_bounds_nothing(today: Result, tested: Result) -> None:
    """Earlier versions wrote an undecided rate as the upper end; the ceiling is the bound then."""
    one = tested.per_precision[0]
    assert one.load is not None
    assert one.load.saturation is not None
    search = one.load.saturation.model_copy(update={"failed_outcome": "undecided"})
    load = one.load.model_copy(update={"saturation": search})
    open_end = tested.model_copy(update={"per_precision": (one.model_copy(update={"load": load}),)})
    says = ask(today, open_end).answers[3].says
    assert f"[{search.passed_per_s:.4g}, {search.ceiling_per_s:.4g}]" in says
    assert f"{search.failed_per_s:.4g}" not in says


def test_a_void_result_answers_nothing(today: Result) -> None:
    void = today.model_copy(update={"validity": today.validity.model_copy(update={"verdict": ValidityVerdict.VOID})})
    decision = ask(void, by=None)
    assert decision.unanswered == 5


def test_a_device_that_is_not_in_the_catalogue_leaves_question_three_open(today: Result) -> None:
    decision = ask(today, proposed="x9")
    assert not decision.answers[2].answered
    assert "catalogue" in decision.answers[2].says
    spaced = ask(today, proposed="my board").model_dump_json()
    assert "--hardware 'my board' --with-fix" in spaced, "the next step can be typed"


def test_results_of_two_contracts_are_not_mixed(today: Result, decode: Result) -> None:
    with pytest.raises(Refused, match="--for"):
        ask(today, decode)
    with pytest.raises(BadInput, match="no result of this contract"):
        ask_purchase(Gathered((today,)), CATALOGUE, proposed="h200", contract="other")


def test_only_a_test_instance_is_no_baseline(tested: Result) -> None:
    with pytest.raises(BadInput, match="today's hardware"):
        ask(tested)


def with_pair(tested: Result, passed: float, failed: float) -> Result:
    """The test instance with another saturation pair."""
    figures = tested.per_precision[0]
    assert figures.load is not None
    assert figures.load.saturation is not None
    pair = figures.load.saturation.model_copy(update={"passed_per_s": passed, "failed_per_s": failed})
    load = figures.load.model_copy(update={"saturation": pair})
    return tested.model_copy(update={"per_precision": (figures.model_copy(update={"load": load}),)})


def test_a_wide_pair_is_neither_the_same_ceiling_nor_another(today: Result, tested: Result) -> None:
    decision = ask(today, with_pair(tested, 34.5, 57.5))  # [0.80, 1.40] of today's [41, 43]
    answer = decision.answers[3]
    assert "undetermined: 1.06× [0.80, 1.40]" in answer.says
    assert "same ceiling" not in answer.says
    assert not answer.answered
    assert answer.command
    assert answer.evidence


@pytest.mark.parametrize(
    ("passed", "failed", "supported"),
    [
        (41.0, 43.0, "software first"),  # shown to gain at most a tenth
        (53.0, 55.0, "software first"),  # 1.23 to 1.34×, the fix at least 1.66×
        (69.0, 76.0, "undecided"),  # 1.60 to 1.85×: which of them gains more is not known
        (90.0, 94.0, "undecided"),  # at least 2.09×, the fix at most 1.76×: software still bounds it
        (20.0, 120.0, "undecided"),
    ],
)
def test_intervals_decide_between_swap_and_fix(
    today: Result, tested: Result, passed: float, failed: float, supported: str
) -> None:
    decision = ask(today, with_pair(tested, passed, failed))
    assert decision.supported == supported, decision.because


def test_a_doubtful_saturation_supports_nothing(today: Result, tested: Result) -> None:
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("others used 20 % of the machine",))
    decision = ask(today, with_pair(tested, 90.0, 94.0).model_copy(update={"validity": doubt}))
    assert decision.supported == "undecided"
    assert "others used 20 % of the machine" in decision.because


def test_software_bound_evidence_supports_no_purchase_whatever_a_test_instance_reaches(
    today: Result, tested: Result
) -> None:
    for passed in (60.0, 90.0, 400.0, 4000.0):
        decision = ask(today, with_pair(tested, passed, passed * 1.04))
        assert decision.supported != "purchase", passed
        assert "supports the purchase" not in decision.sentence


def test_an_estimate_alone_supports_no_purchase(today: Result) -> None:
    decision = ask(hardware_bound(today), proposed="b200")
    assert decision.diagnosed
    assert decision.supported == "undecided"
    assert "question 4 would measure it" in decision.because


@pytest.mark.parametrize("name", ["", "  "])
def test_what_is_proposed_has_a_name(today: Result, name: str) -> None:
    with pytest.raises(BadInput, match="--proposed is empty"):
        ask_purchase(Gathered((today,)), read_catalogue(None), proposed=name)
