"""Tails that two processes bound by nothing go through every decision that reads them, to words that can be read."""

from __future__ import annotations

import re

import pytest

from lynxbench.cli.showing import terminal_text
from lynxbench.decide.cost import CostQuestion, PricedOption, report_cost
from lynxbench.decide.possible_figures import impossible_figure
from lynxbench.decide.precision_choice import decide_precisions
from lynxbench.decide.tenure import Owning, Terms
from lynxbench.model.contract import Regime
from lynxbench.model.quantities import parse_quantity
from lynxbench.model.result import Percentile, Result
from lynxbench.report.documents.decision_document import compose_decision

TERMS = Terms(Owning(parse_quantity("8766 EUR"), parse_quantity("1 year")), parse_quantity("2 EUR/h"), None)


def widened(result: Result, low: float, high: float) -> Result:
    """The same result with these ends around every latency."""
    made = [
        figures.model_copy(
            update={
                "latency_ms": {
                    metric: tuple(one.model_copy(update={"low": low, "high": high}) for one in percentiles)
                    for metric, percentiles in figures.latency_ms.items()
                }
            }
        )
        for figures in result.per_precision
    ]
    return result.model_copy(update={"per_precision": tuple(made)}).sealed()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1e308), (5e-324, 1.7e308), (4.4e-12, 6.5e106)])
def test_ends_of_any_size_end_in_words(today: Result, tested: Result, decode: Result, low: float, high: float) -> None:
    wide = [widened(result, low, high) for result in (today, tested, decode)]
    tails = [
        one for result in wide for part in result.per_precision for each in part.latency_ms.values() for one in each
    ]
    assert tails
    assert all(isinstance(one, Percentile) and (one.low, one.high) == (low, high) for one in tails)
    assert [impossible_figure(result) for result in wide] == ["", "", ""]
    offered = [PricedOption("a", wide[0], TERMS), PricedOption("b", wide[1], TERMS)]
    for regime in Regime:
        report = report_cost(offered, CostQuestion(utilisation=0.5, objective=regime, regimes=True))
        words = terminal_text(compose_decision(report))
        assert not re.search(r"\binf\b|\bnan\b|e\+\d{2,}|\d{30}", words), words
    choice = decide_precisions([wide[2]])
    words = terminal_text(compose_decision(choice))
    assert not re.search(r"\binf\b|\bnan\b|e\+\d{2,}|\d{30}", words), words
