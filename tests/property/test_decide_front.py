"""The Pareto front: nobody on it is beaten, everybody off it is; an order holds only comparable figures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lynxbench.decide.front import dominates, mark_front, rank_options
from lynxbench.model.contract import Regime
from lynxbench.model.figures import Figure
from lynxbench.model.planning import MoneyFigure, Option
from lynxbench.model.precision import Precision

NUMBER = st.floats(min_value=0.1, max_value=100)


@st.composite
def options(draw: st.DrawFn) -> list[Option]:
    made = []
    for index in range(draw(st.integers(1, 7))):
        price = draw(st.none() | NUMBER)
        rate = draw(NUMBER)
        made.append(
            Option(
                name=f"option {index}",
                result_id="ab" * 32,
                contract_id="cd" * 32,
                precision=Precision.BF16,
                tenure="own",
                throughput=Figure(low=rate, estimate=rate, high=rate, unit="token/s"),
                latency_p99_ms=draw(st.none() | NUMBER),
                accuracy_loss=draw(st.none() | NUMBER),
                accuracy=draw(st.sampled_from(["go", "no-go", "reference"])),
                cost=None
                if price is None
                else MoneyFigure(low=price, estimate=price, high=price, currency="EUR", per="x"),
                per_joule=draw(st.none() | NUMBER),
                value=None,
                on_front=False,
            )
        )
    return made


@given(options())
def test_the_front_is_what_nobody_beats(made: list[Option]) -> None:
    marked = mark_front(made, {})
    by_name = {one.name: one for one in marked}
    for one in marked:
        beaten = [other.name for other in marked if other.name != one.name and dominates(other, one)]
        assert one.on_front == (not beaten)
        if one.dominated_by is not None:
            assert dominates(by_name[one.dominated_by], one)


@given(options())
def test_nobody_beats_itself_and_nobody_is_beaten_both_ways(made: list[Option]) -> None:
    for one in made:
        assert not dominates(one, one)
        for other in made:
            assert not (dominates(one, other) and dominates(other, one)) or one.throughput == other.throughput


@given(options(), st.sampled_from(list(Regime)))
def test_an_order_is_complete_and_leaves_out_with_a_reason(made: list[Option], regime: Regime) -> None:
    ranking = rank_options(made, regime, asked=True)
    out = {line.split(":")[0] for line in ranking.left_out}
    assert set(ranking.order) | out == {one.name for one in made}
    assert not set(ranking.order) & out
    assert not any(one.accuracy == "no-go" for one in made if one.name in ranking.order)


@given(options())
def test_an_incomparable_option_is_neither_on_the_front_nor_beats_anyone(made: list[Option]) -> None:
    out = made[0].name
    marked = mark_front(made, {out: "R04"})
    assert not next(one for one in marked if one.name == out).on_front
    assert all(one.dominated_by != out for one in marked)
