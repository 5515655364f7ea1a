from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from lynxbench.cli.showing import terminal_text
from lynxbench.decide.capacity import MOST_STEPS, CapacityDemand, plan_capacity
from lynxbench.decide.deciding import demand_of
from lynxbench.decide.demand import declare_demand, forecast_demand
from lynxbench.decide.purchase import saturation_point
from lynxbench.errors import BadInput, Refused
from lynxbench.model.planning import CapacityPlan
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.report.documents.decision_document import compose_decision
from lynxbench.stats.fleets import Balancing


def plan(result: Result, rate: float = 300.0, **asked: object) -> CapacityPlan:
    mean = asked.pop("mean", None)
    wanted = {"period_s": 60.0, **asked}  # short periods: the tests need no hour
    return plan_capacity(result, CapacityDemand(demand=declare_demand(rate, 0.0, mean), **wanted))  # type: ignore[arg-type]


def test_a_fleet_is_sized_from_saturation_and_never_from_the_peak(today: Result) -> None:
    found = plan(today, 300.0, mean=150.0)
    assert found.proposed.per_node_per_s == 41.0
    assert found.proposed.nodes >= math.ceil(300 / 41)
    assert found.proposed.periods_met is not None
    assert found.proposed.periods_met >= 0.95
    assert found.naive.nodes == math.ceil(150 / 48)
    assert found.naive.periods_met == 0.0
    assert any("nodes are missing" in line for line in found.wrong)


def test_the_fitted_node_gives_the_measured_curve(today: Result) -> None:
    found = plan(today)
    assert found.node is not None
    assert found.node.agrees
    for point in found.check:
        assert point.simulated_p99_s == pytest.approx(point.measured_p99_s, rel=0.25)


def test_failures_are_added_and_headroom_is_carried(today: Result) -> None:
    plain = plan(today, 120.0).proposed.nodes
    assert plan(today, 120.0, failures=2).proposed.nodes == plain + 2
    assert plan(today, 120.0, headroom=0.5).proposed.nodes == plan(today, 180.0).proposed.nodes


def test_a_trusted_balancer_never_needs_more(today: Result) -> None:
    at_random = plan(today).proposed.nodes
    shared = plan(today, balancing=Balancing.SHARED_QUEUE)
    assert shared.proposed.nodes <= at_random
    if shared.proposed.nodes < at_random:
        assert any("balancer" in line for line in shared.cautions)


def test_power_is_measured_and_the_nameplate_stands_beside_it(today: Result) -> None:
    found = plan(today, pue=1.25).power
    assert found.measured_w_per_node is not None
    assert found.measured_w_per_node.estimate == pytest.approx(0.061 * 41 * 118, rel=1e-6)
    assert found.nameplate_w_per_node == 400.0
    assert found.facility_kw is not None
    assert found.fleet_kw is not None
    assert found.facility_kw.estimate == pytest.approx(found.fleet_kw.estimate * 1.25)  # type: ignore[operator]


def test_without_a_saturation_it_is_refused_with_what_to_run(decode: Result) -> None:
    with pytest.raises(Refused, match="saturating"):
        plan(decode)


def test_a_void_result_carries_no_fleet(today: Result) -> None:
    void = today.model_copy(
        update={"validity": today.validity.model_copy(update={"verdict": ValidityVerdict.VOID, "reasons": ("x",)})}
    )
    with pytest.raises(Refused, match="void"):
        plan(void)


def test_a_curve_that_is_no_queue_is_not_believed(today: Result) -> None:
    one = today.per_precision[0]
    assert one.load is not None
    assert one.load.saturation is not None
    odd = tuple(
        p.model_copy(update={"p99_s": (0.2, 0.9)[i % 2], "p50_s": (0.1, 0.02)[i % 2]})
        for i, p in enumerate(one.load.saturation.curve)
    )
    load = one.load.model_copy(update={"saturation": one.load.saturation.model_copy(update={"curve": odd})})
    result = today.model_copy(update={"per_precision": (one.model_copy(update={"load": load}),)})
    found = plan(result)
    assert found.proposed.nodes == math.ceil(300 / 41)
    assert found.proposed.periods_met is None
    assert any("unsimulated" in line for line in found.cautions)


def test_a_search_that_ended_early_is_a_lower_bound_and_no_saturation_point(today: Result) -> None:
    one = today.per_precision[0]
    assert one.load is not None
    assert one.load.saturation is not None
    early = one.load.saturation.model_copy(update={"confirmed": False, "at_least_per_s": 32.0, "note": "it ended"})
    load = one.load.model_copy(update={"saturation": early})
    result = today.model_copy(update={"per_precision": (one.model_copy(update={"load": load}),)})
    found = plan(result)
    assert found.proposed.per_node_per_s == 32.0
    assert "a lower bound of the saturation: at least 32 /s held" in found.proposed.basis
    assert any("fewer nodes may do" in line for line in found.cautions)
    point = saturation_point(result)
    assert point is not None
    assert point.words.startswith("at least 32 req/s, not shown beyond, within p99")
    confirmed = early.model_copy(update={"confirmed": True, "at_least_per_s": 41.0})
    assert confirmed.lower_per_s == 41.0


@pytest.mark.parametrize(("outcome", "is_said"), [("fail", True), ("undecided", False)])
def test_only_a_rate_that_failed_is_said_to_have_failed(today: Result, outcome: str, is_said: bool) -> None:
    one = today.per_precision[0]
    assert one.load is not None
    assert one.load.saturation is not None
    search = one.load.saturation.model_copy(update={"failed_outcome": outcome})
    load = one.load.model_copy(update={"saturation": search})
    basis = plan(today.model_copy(update={"per_precision": (one.model_copy(update={"load": load}),)})).proposed.basis
    assert (f"failed at {search.failed_per_s:.4g} /s" in basis) is is_said


@pytest.mark.parametrize(
    "wrong", [{"headroom": -0.1}, {"failures": -1}, {"period_s": 0.0}, {"pue": 0.5}, {"nameplate_w": -4.0}]
)
def test_impossible_wishes_are_refused(today: Result, wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        plan(today, **wrong)


@pytest.mark.parametrize("rate", [0.0, -3.0, math.inf, math.nan])
def test_impossible_demand_is_refused(rate: float) -> None:
    with pytest.raises(BadInput):
        declare_demand(rate, 0.0)


def test_demand_from_a_log_is_its_peak_a_percentile_and_growth() -> None:
    rng = np.random.default_rng(4)
    calm = np.sort(rng.random(6000) * 1200)
    burst = 600 + np.sort(rng.random(1200) * 60)
    arrivals = np.sort(np.concatenate([calm, burst]))
    peak = forecast_demand(arrivals, "log", window_s=60, percentile=None, growth=0.5)
    assert peak.peak_per_s == pytest.approx(25, rel=0.1)
    assert peak.planned_per_s == pytest.approx(peak.peak_per_s * 1.5)
    usual = forecast_demand(arrivals, "log", window_s=60, percentile=90, growth=0.0)
    assert usual.planned_per_s == pytest.approx(5, rel=0.25)
    assert usual.mean_per_s == pytest.approx(6, rel=0.05)


def test_what_only_a_log_can_say_is_not_taken_beside_a_declared_demand(today: Result, tmp_path: Path) -> None:
    """Found: `--percentile 99` was passed over, and the plan made for the peak."""
    asked = {"window_s": 60.0, "growth": 0.0, "result": today}
    with pytest.raises(BadInput, match="--percentile is of the windows of a log"):
        demand_of(5.0, None, None, percentile=99.0, **asked)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="--mean-demand and --demand-log exclude each other"):
        demand_of(None, 2.0, tmp_path / "log.csv", percentile=None, **asked)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"would need 2\.44e\+298 nodes"):
        plan_capacity(today, CapacityDemand(demand=declare_demand(1e300, 0.0)))


def test_a_short_log_is_refused() -> None:
    with pytest.raises(BadInput, match="windows"):
        forecast_demand(np.linspace(0, 100, 50), "log", window_s=60, percentile=None, growth=0.0)


def test_how_much_of_a_period_was_simulated_is_said(today: Result) -> None:
    """Found: a period of a day was said to be simulated, of which the simulation saw a few minutes."""
    short_one, day = plan(today, 120.0), plan(today, 120.0, period_s=86_400.0)
    assert short_one.proposed.simulated_share == 1.0
    left, share = day.proposed.nodes, day.proposed.simulated_share
    assert share is not None
    assert share == pytest.approx(MOST_STEPS / (120 / left * 86_400), rel=1e-3)
    shown = terminal_text(compose_decision(day))
    assert f"the first {share * 100:.1f}" in " ".join(shown.split())
    assert "of each was simulated" not in terminal_text(compose_decision(short_one))


def test_the_share_of_one_queue_for_all_is_of_all_its_requests(today: Result) -> None:
    found = plan(today, 120.0, period_s=3600.0, balancing=Balancing.SHARED_QUEUE).proposed
    assert found.simulated_share == pytest.approx(MOST_STEPS / (120 * 3600), rel=1e-3)


def test_a_fleet_that_is_overrun_or_gone_is_not_said_to_be_simulated_in_part(today: Result) -> None:
    found = plan(today, 300.0, mean=41.0, failures=1)
    assert found.naive.nodes == 1
    assert found.naive.periods_met == 0.0
    assert found.naive.simulated_share is None


def test_an_absurd_ratio_is_told_in_a_line_and_not_in_three_hundred_digits() -> None:
    with pytest.raises(BadInput) as told:
        declare_demand(1.0, 1e298)
    assert "1e+300 %" in str(told.value)
    assert len(str(told.value)) < 120


def test_a_plan_that_leaves_no_node_is_read_back_as_it_was_written(today: Result) -> None:
    """Found: `decide pack` could not read what `decide capacity --failures 1` had written, a load without an end."""
    found = plan(today, 40.0, failures=1)
    assert found.naive.nodes == 1
    assert found.naive.load is None
    assert CapacityPlan.model_validate_json(found.model_dump_json()) == found
    assert "no node is left" in " ".join(terminal_text(compose_decision(found)).split())
