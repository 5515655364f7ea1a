from __future__ import annotations

import re
from typing import Any

import pytest

from lynxbench.cli.showing import terminal_text
from lynxbench.decide.cost import CostQuestion, PricedOption, report_cost
from lynxbench.decide.offers import parse_offers, terms_from_options, terms_of_executor
from lynxbench.decide.tenure import Owning, Terms
from lynxbench.errors import BadFile, BadInput, Refused
from lynxbench.model.contract import Regime
from lynxbench.model.executor import declared
from lynxbench.model.figures import Figure
from lynxbench.model.layers import Layer
from lynxbench.model.planning import CostReport
from lynxbench.model.quantities import parse_quantity
from lynxbench.model.result import Percentile, Result
from lynxbench.report.documents.decision_document import compose_decision


def terms(price: str = "8766 EUR", rent: str = "2 EUR/h", energy: str | None = None) -> Terms:
    owning = Owning(parse_quantity(price), parse_quantity("1 year"))
    return Terms(owning, parse_quantity(rent), None if energy is None else parse_quantity(energy))


def test_money_an_hour_a_request_and_a_million_tokens(today: Result) -> None:
    report = report_cost([PricedOption("a", today, terms())], CostQuestion(utilisation=0.5))
    own = next(one for one in report.candidates[0].tenures if one.kind == "own")
    assert own.per_hour.estimate == pytest.approx(1.0)  # 8766 EUR over the 8766 hours of a year
    assert own.per_request is not None
    assert own.per_request.estimate == pytest.approx(1 / (3600 * 41 * 0.5))
    assert own.per_million_tokens is not None
    assert own.per_million_tokens.estimate == pytest.approx(1e6 / (3600 * 41 * 118 * 0.5))
    assert own.per_million_tokens.low < own.per_million_tokens.estimate < own.per_million_tokens.high


def test_owning_pays_off_above_the_share_at_which_both_cost_the_same(today: Result) -> None:
    even = report_cost([PricedOption("a", today, terms())], CostQuestion(utilisation=0.8)).candidates[0].break_even
    assert even is not None
    assert even.use_share == pytest.approx(0.5)  # 1 EUR an hour owned, 2 EUR an hour rented
    assert even.months == pytest.approx(8766 / (2 * 0.8) / (8766 / 12))


def test_a_rent_below_the_running_cost_never_breaks_even(today: Result) -> None:
    dear = terms(rent="0.5 EUR/h")
    even = report_cost([PricedOption("a", today, dear)], CostQuestion(utilisation=1.0)).candidates[0].break_even
    assert even is not None
    assert even.use_share is None


def test_energy_is_measured_draw_times_price_and_never_nameplate(today: Result) -> None:
    report = report_cost([PricedOption("a", today, terms(energy="0.20 EUR/kWh"))], CostQuestion(utilisation=1.0))
    own = next(one for one in report.candidates[0].tenures if one.kind == "own")
    assert own.parts["energy"] == pytest.approx(0.061 * 41 * 118 / 1000 * 0.2)


def test_efficiency_says_where_it_was_measured(today: Result) -> None:
    alone = report_cost([PricedOption("a", today, terms())], CostQuestion(utilisation=1.0)).candidates[0].efficiency
    assert alone.per_joule is not None
    assert alone.per_joule.estimate == pytest.approx(1 / 0.061)
    assert "accelerator" in alone.boundary
    wall = report_cost([PricedOption("a", today, terms())], CostQuestion(utilisation=1.0, wall_factor=1.5))
    assert wall.candidates[0].efficiency.per_joule.estimate == pytest.approx(1 / 0.061 / 1.5)  # type: ignore[union-attr]
    assert "wall" in wall.candidates[0].efficiency.boundary


def test_value_counts_whole_nodes_for_this_demand(today: Result) -> None:
    report = report_cost([PricedOption("a", today, terms())], CostQuestion(demand_per_s=42.0))
    value = report.candidates[0].value
    assert value.nodes == 2
    assert value.utilisation == pytest.approx(42 / 82)


def test_a_ranking_without_an_objective_is_refused(today: Result) -> None:
    with pytest.raises(Refused, match="objective"):
        report_cost([PricedOption("a", today, terms())], CostQuestion(rank=True))


def test_regimes_give_different_orders_and_say_which_was_asked(today: Result, tested: Result) -> None:
    chosen = [PricedOption("a100", today, terms()), PricedOption("h200", tested, terms("40000 EUR", "5 EUR/h"))]
    report = report_cost(chosen, CostQuestion(utilisation=1.0, objective=Regime.COST, regimes=True))
    first = {one.regime: one.order[0] for one in report.rankings}
    assert first[Regime.COST].startswith("a100")
    assert first[Regime.THROUGHPUT].startswith("h200")
    assert first[Regime.LATENCY].startswith("h200")
    assert [one.asked for one in report.rankings] == [True, False, False]


def test_an_incomparable_candidate_stands_in_no_order(today: Result, tested: Result) -> None:
    chosen = [PricedOption("a100", today, terms()), PricedOption("h200", tested, terms())]
    asked = CostQuestion(utilisation=1.0, objective=Regime.THROUGHPUT, incomparable={"h200": "R04 precision"})
    report = report_cost(chosen, asked)
    assert all("h200" not in name for name in report.rankings[0].order)
    assert any("R04" in line for line in report.cautions)


def test_one_option_alone_is_no_order(today: Result, tested: Result) -> None:
    """Found: the other was incomparable, and the one that was left `comes first`."""
    pair = [PricedOption("a", today, Terms(None, parse_quantity("2 EUR/h"), None)), PricedOption("b", tested, terms())]
    asked = CostQuestion(utilisation=1.0, objective=Regime.COST, incomparable={"b": "R01"})
    sentence = report_cost(pair, asked).sentence
    assert sentence == "for the objective cost, there is nothing to order: a (rent) alone could be; 2 left out"
    regimes = report_cost(pair, CostQuestion(utilisation=1.0, regimes=True, incomparable={"b": "R01"})).sentence
    assert "cost: nothing to order, a (rent) alone could be" in regimes
    only = report_cost(pair[:1], CostQuestion(utilisation=1.0, objective=Regime.COST)).sentence
    assert only == "for the objective cost, there is nothing to order: a (rent) is the only option"


def test_a_demand_that_nothing_is_known_against_is_said_so(decode: Result) -> None:
    """Found: with `--demand`, one was told to declare `--demand`."""
    report = report_cost([PricedOption("a", decode, terms())], CostQuestion(demand_per_s=5.0))
    (said,) = (line for line in report.cautions if "utilisation" in line)
    assert "declare" not in said
    assert "no demand can be held against it: no load run" in said


def test_two_currencies_are_refused(today: Result) -> None:
    mixed = Terms(terms().own, parse_quantity("2 USD/h"))
    with pytest.raises(Refused, match="EUR and USD"):
        report_cost([PricedOption("a", today, mixed)], CostQuestion(utilisation=1.0))


def test_tokens_and_requests_do_not_stand_in_one_table(today: Result, decode: Result) -> None:
    one = decode.per_precision[0].model_copy(
        update={"sustained": Figure(low=1, estimate=2, high=3, unit="request/s"), "energy_j_per_unit": None}
    )
    other = decode.model_copy(update={"per_precision": (one,)})
    with pytest.raises(Refused, match="cannot stand in one table"):
        report_cost(
            [PricedOption("a", today, terms()), PricedOption("b", other, terms())], CostQuestion(utilisation=1.0)
        )


def test_joules_a_request_and_tokens_a_second_are_no_power(today: Result) -> None:
    one = today.per_precision[0]
    wrong = one.model_copy(update={"energy_j_per_unit": Figure(low=1, estimate=2, high=3, unit="J/request")})
    with pytest.raises(Refused):
        report_cost(
            [PricedOption("a", today.model_copy(update={"per_precision": (wrong,)}), terms())],
            CostQuestion(utilisation=1.0),
        )


@pytest.mark.parametrize(
    "asked", [{"utilisation": 0.0}, {"utilisation": 1.5}, {"demand_per_s": -1.0}, {"wall_factor": 0.5}]
)
def test_impossible_wishes_are_refused(today: Result, asked: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        report_cost([PricedOption("a", today, terms())], CostQuestion(**asked))


PLAN = """\
lynxbench: 1
energy_price: 0.22 EUR/kWh
pue: 1.2
candidates:
  - {name: a, result: x.json, own: {price: 9000 EUR, residual: 10 %}, rent: 2 EUR/h}
  - {result: y.json, own: {price: 4000 USD, life: 3 years, upkeep: 100 USD/year}, energy_price: 0.1 USD/kWh, pue: 1}
"""


def test_a_plan_file_gives_each_candidate_its_terms() -> None:
    first, second = parse_offers(PLAN, "plan.yaml")
    assert first.terms.own is not None
    assert first.terms.own.residual == pytest.approx(0.1)
    assert first.terms.own.life.in_unit("year") == pytest.approx(4)
    assert first.terms.energy_price is not None
    assert first.terms.energy_price.in_unit("EUR/kWh") == pytest.approx(0.22)
    assert first.terms.pue == 1.2
    assert (second.name, second.terms.pue) == ("y.json", 1.0)
    assert second.terms.currencies == {"USD"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("lynxbench: 1", "lynxbench: 2"), "plan.yaml:1: lynxbench: must be 1, not 2"),
        (("pue: 1.2", "pue: 0.9"), "plan.yaml:3: pue: must be at least 1, not 0.9"),
        (("pue: 1.2", "more: 1"), "plan.yaml:3: more: unknown key"),
        (("rent: 2 EUR/h", "rent: 2 kWh"), "plan.yaml:5: candidates.0.rent: '2 kWh' is energy (J, kWh)"),
        (("rent: 2 EUR/h", "rent: -2 EUR/h"), "plan.yaml:5: candidates.0.rent: '-2 EUR/h' is below 0"),
        (("price: 9000 EUR, ", ""), "plan.yaml:5: candidates.0.own.price: is missing: what the node costs"),
        (("life: 3 years", "life: 4 W"), "plan.yaml:6: candidates.1.own.life: '4 W' is power (W)"),
        (("life: 3 years", "life: 0 years"), "plan.yaml:6: candidates.1.own.life: '0 years' is no life"),
        (("residual: 10 %", "residual: 100 %"), "plan.yaml:5: candidates.0.own.residual: must be below 100 %"),
        (("result: x.json", "result: 7720"), "plan.yaml:5: candidates.0.result: must be a text, not 7720"),
        (("result: x.json", "precision: fp9, result: x"), "plan.yaml:5: candidates.0.precision: 'fp9' is not one of"),
    ],
)  # fmt: skip
def test_a_plan_file_is_read_strictly(change: tuple[str, str], says: str) -> None:
    with pytest.raises(BadFile, match=re.escape(says)):
        parse_offers(PLAN.replace(*change), "plan.yaml")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"life": "4 years"}, "--life needs --price"),
        ({"price": "9 kWh"}, "--price: '9 kWh' is energy (J, kWh); write for example '12 EUR'"),
        ({"price": "9 EUR", "life": "4 W"}, "--life: '4 W' is power (W)"),
        ({"price": "9 EUR", "residual": "10"}, "--residual: '10': the unit is missing; use one of %"),
        ({"rent": "-2 EUR/h"}, "--rent: '-2 EUR/h' is below 0"),
        ({"energy_price": "0.2"}, "--energy-price: '0.2': the unit is missing; write for example '12 EUR/kWh'"),
        ({"pue": 7.0}, "--pue: 7 must be a number from 1 to 5"),
    ],
)
def test_options_say_which_one_is_wrong(options: dict[str, Any], says: str) -> None:
    names = ("price", "life", "residual", "upkeep", "rent", "energy_price", "pue")
    with pytest.raises(BadInput, match=re.escape(says)):
        terms_from_options(**(dict.fromkeys(names) | options))


def test_declared_prices_of_the_site_file_are_taken(today: Result) -> None:
    more = {
        Layer.PROCUREMENT: {"price": declared(80000, "site"), "quantity": declared(8, "site"),
                            "currency": declared("EUR", "site"), "depreciation_years": declared(5, "site")},
        Layer.FACILITY: {"power_price_per_kwh": declared(0.2, "site"), "pue": declared(1.3, "site")},
    }  # fmt: skip
    found = terms_of_executor(today.executor.merged(more))
    assert found.own is not None
    assert found.own.price.in_unit("EUR") == pytest.approx(10000)
    assert found.own.life.in_unit("year") == pytest.approx(5)
    assert found.pue == 1.3


def measured(result: Result, low: float, estimate: float, high: float, resolved: bool = True) -> Result:
    """The same result with another rate and another time to first token at p99."""
    figures = result.per_precision[0]
    rate = Figure(low=low, estimate=estimate, high=high, unit="token/s")
    tail = Percentile(percentile=99.0, low=high / 8, estimate=estimate / 7, high=low / 6, resolved=resolved)
    update = {"sustained": rate, "throughput": rate, "latency_ms": {"time-to-first-token": (tail,)}}
    changed = result.model_copy(update={"per_precision": (figures.model_copy(update=update),)})
    return changed.model_copy(update={"result_id": f"{estimate:064.0f}"})


def test_options_whose_intervals_meet_are_level_and_named_so(today: Result) -> None:
    near, far = measured(today, 4800, 4990, 5180), measured(today, 3000, 3010, 3020)
    same = Terms(None, parse_quantity("2 EUR/h"))
    chosen = [PricedOption(name, result, same) for name, result in (("a", today), ("b", near), ("c", far))]
    report = report_cost(chosen, CostQuestion(utilisation=1.0, objective=Regime.THROUGHPUT, regimes=True))
    ranking = next(ranking for ranking in report.rankings if ranking.asked)
    assert ranking.order == ("b (rent)", "a (rent)", "c (rent)")
    assert ranking.level == {"b (rent)": ("a (rent)",), "a (rent)": ("b (rent)",)}
    assert "undetermined: b (rent) is level with a (rent)" in report.sentence
    cost = next(ranking for ranking in report.rankings if ranking.regime is Regime.COST)
    assert cost.level == ranking.level
    text = terminal_text(compose_decision(report))
    assert "b (rent), level with a (rent)" in text
    on_front = {option.name: option.on_front for option in report.options}
    assert on_front["a (rent)"]
    assert on_front["b (rent)"]


@pytest.mark.parametrize(
    ("other", "ahead", "determined"),
    [
        ({}, 1.01, True),
        ({"instance_id": "f" * 64}, 1.01, False),
        ({"instance_id": "f" * 64}, 1.04, False),
        ({"instance_id": "f" * 64}, 1.2, True),
        ({"started_at": "2031-01-01T00:00:00+00:00"}, 1.02, False),
        ({"started_at": "2031-01-01T00:00:00+00:00"}, 1.5, True),
    ],
)
@pytest.mark.parametrize("objective", [Regime.THROUGHPUT, Regime.COST])
def test_a_lead_that_machines_differ_by_is_no_order(
    today: Result, other: dict[str, str], ahead: float, determined: bool, objective: Regime
) -> None:
    """Found: two nodes of one kind, 1 % apart, and the one `comes first`: of two restarts in one sitting each."""
    here, there = measured(today, 999, 1000, 1001), measured(today, 999 * ahead, 1000 * ahead, 1001 * ahead)
    there = there.model_copy(update={"result_id": "e" * 64, **other})
    same = Terms(None, parse_quantity("2 EUR/h"))
    chosen = [PricedOption("a", here, same), PricedOption("b", there, same)]
    report = report_cost(chosen, CostQuestion(utilisation=1.0, objective=objective))
    said = f"for the objective {objective}, "
    if determined:
        assert report.sentence.startswith(f"{said}b (rent) comes first")
    else:
        assert report.sentence.startswith(f"{said}undetermined: b (rent) leads a (rent) by less than 5%")
        assert "what sittings and machines differ by is in no interval" in report.sentence
    assert report.rankings[0].order == ("b (rent)", "a (rent)")
    regimes = report_cost(chosen, CostQuestion(utilisation=1.0, regimes=True)).sentence
    assert (f"{objective}: b (rent) first" in regimes) is determined


def test_two_prices_of_one_measured_rate_are_told_apart(today: Result) -> None:
    wide = measured(today, 3000, 4838, 6600)
    report = report_cost([PricedOption("a", wide, terms())], CostQuestion(utilisation=1.0, objective=Regime.COST))
    assert report.rankings[0].order == ("a (own)", "a (rent)")
    assert report.rankings[0].level == {}


def test_an_unresolved_tail_stands_in_no_order(today: Result) -> None:
    chosen = [
        PricedOption("a", measured(today, 99, 100, 101), Terms()),
        PricedOption("b", measured(today, 90, 91, 92, resolved=False), Terms()),
    ]
    report = report_cost(chosen, CostQuestion(utilisation=1.0, objective=Regime.LATENCY))
    assert report.rankings[0].order == ("a",)
    assert report.rankings[0].left_out == ("b: its p99 latency is unresolved: it has no interval",)
    assert all(option.on_front for option in report.options)


def test_a_demand_that_no_fleet_could_carry_is_refused(today: Result) -> None:
    with pytest.raises(BadInput, match="is the demand in requests a second"):
        report_cost([PricedOption("a", today, terms())], CostQuestion(demand_per_s=1e308))


def test_a_node_that_costs_nothing_has_no_value_for_money_and_is_read_back(today: Result) -> None:
    report = report_cost([PricedOption("a", today, Terms(None, parse_quantity("0 EUR/h"), None))], CostQuestion())
    value = report.candidates[0].value
    assert value.per_money is None
    assert "costs nothing" in value.words
    assert CostReport.model_validate_json(report.model_dump_json()) == report
