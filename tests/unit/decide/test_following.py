"""Decisions whose files somebody edited: what their results say is held against what they state."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lynxbench.decide.capacity import CapacityDemand, plan_capacity
from lynxbench.decide.cost import CostQuestion, PricedOption, report_cost
from lynxbench.decide.deciding import Gathered, ask_purchase, read_catalogue
from lynxbench.decide.demand import declare_demand
from lynxbench.decide.following import straying
from lynxbench.decide.precision_choice import decide_precisions
from lynxbench.decide.tenure import Terms
from lynxbench.decide.whatif import estimate_whatif
from lynxbench.model.decisions import DecisionDocument
from lynxbench.model.quantities import parse_quantity
from lynxbench.model.result import Result
from planted import signed

Made = dict[str, tuple[DecisionDocument, tuple[Result, ...]]]


@pytest.fixture(scope="module")
def made(today: Result, tested: Result, decode: Result) -> Made:
    """A decision of each kind, and the results that it rests on."""
    catalogue = read_catalogue(None)
    gathered = Gathered((today, tested), signed(today, tested))
    terms = Terms(None, parse_quantity("2 EUR/h"), None)
    options = [PricedOption("a", today, terms), PricedOption("b", tested, terms)]
    demand = CapacityDemand(demand=declare_demand(120.0, 0.1), headroom=0.2, failures=1, period_s=10.0)
    return {
        "capacity": (plan_capacity(today, demand), (today,)),
        "cost": (report_cost(options, CostQuestion()), (today, tested)),
        "precision": (decide_precisions([decode]), (decode,)),
        "whatif": (estimate_whatif(today, catalogue, hardware="h200", with_fix=True, tested=tested), (today, tested)),
        "purchase": (ask_purchase(gathered, catalogue, proposed="h200", remeasured_by="us")[0], (today, tested)),
    }


KINDS = ("capacity", "cost", "precision", "whatif", "purchase")


@pytest.mark.parametrize("kind", KINDS)
def test_a_decision_follows_from_its_results_also_when_it_is_held_back(kind: str, made: Made) -> None:
    decision, results = made[kind]
    assert straying(decision, results) == ""
    assert straying(Gathered(results).judge(decision), results) == ""
    again = type(decision).model_validate_json(decision.model_dump_json())
    assert straying(again, results) == "", "as its file has it"


def edited(decision: DecisionDocument, edit: Callable[[Any], object]) -> DecisionDocument:
    document = json.loads(decision.model_dump_json())
    edit(document)
    return type(decision).model_validate_json(json.dumps(document))


EDITS: list[tuple[str, Callable[[Any], object], str]] = [
    ("capacity", lambda d: d["proposed"].update(nodes=1), "proposed.load: stated "),
    ("capacity", lambda d: d["proposed"].update(per_node_per_s=410.0), "proposed.per_node_per_s: stated 410.0"),
    ("capacity", lambda d: d["demand"].update(planned_per_s=12.0), "demand.planned_per_s: stated 12.0"),
    ("capacity", lambda d: d.update(sentence="1 node holds everything"), "sentence: stated '1 node holds"),
    ("capacity", lambda d: d.update(result_id="ab" * 32), "which it does not cite"),
    ("capacity", lambda d: d.update(cites=["ab" * 32]), "which is not among its results"),
    ("capacity", lambda d: d.update(contract_id="ab" * 32), "none of its results is of contract"),
    ("cost", lambda d: d["options"][0]["throughput"].update(estimate=1e6), "a (rent).throughput: estimate: stated"),
    ("cost", lambda d: d["options"][0].update(accuracy="go"), "a (rent).accuracy: stated 'go'"),
    ("precision", lambda d: d["lines"][1].update(verdict="no-go"), "stated no-go, and its results say go"),
    ("precision", lambda d: d["lines"][1]["speedup"].update(estimate=9.0), "lines: [1].speedup.estimate: stated 9.0"),
    ("precision", lambda d: d.update(sentence="go: int8-weight-only at 9×"), "sentence: stated 'go: int8"),
    ("whatif", lambda d: d["shares"].update(launch=0.01), "shares: launch: stated 0.01"),
    ("whatif", lambda d: d["fix"]["gain"].update(high=99.0), "fix.gain: high: stated 99.0"),
    ("whatif", lambda d: d["fix"].update(owner="a rival"), "fix.owner: stated 'a rival'"),
    ("whatif", lambda d: d["swap"]["gain"].update(low=3.0), "swap.gain: low: stated 3.0"),
    ("purchase", lambda d: d.update(supported="purchase"), "it supports the purchase, and "),
    ("purchase", lambda d: d["answers"][0].update(says="900 req/s"), "answer 1: '900 req/s' is not what"),
]


@pytest.mark.parametrize(("kind", "edit", "words"), EDITS)
def test_an_edited_decision_does_not_follow(kind: str, edit: Callable[[Any], object], words: str, made: Made) -> None:
    """Found: `decide pack` signed, and `verify` called sound, whatever a decision's file said of its results."""
    decision, results = made[kind]
    assert words in straying(edited(decision, edit), results)


def test_fewer_nodes_in_every_place_hold_no_such_demand(made: Made) -> None:
    decision, results = made["capacity"]

    def shrink(document: Any) -> None:
        size = document["proposed"]
        size.update(nodes=3, load=document["demand"]["planned_per_s"] * 1.2 / (2 * size["per_node_per_s"]))

    assert "2 of them hold no 158.4 requests/s" in straying(edited(decision, shrink), results)
