"""What must hold for any pair: no ratio when refused, mirrored effects, verdicts that scale and order do not change."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compared import make_result, make_standing
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.effects import decide
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.errors import BadInput
from lynxbench.model.comparison import ContractDifference, EffectVerdict
from lynxbench.model.interval import Interval
from lynxbench.record.formats.foreign_results import parse_foreign

means = st.lists(st.floats(50, 200), min_size=1, max_size=8).map(tuple)
broken = st.sampled_from(["workload.task", "optimisation", "protocol.version", "workload.batch", "engine.cache"])


def _numbers(value: object) -> list[float]:
    if isinstance(value, dict):
        return [x for item in value.values() for x in _numbers(item)]
    if isinstance(value, list):
        return [x for item in value for x in _numbers(item)]
    return [value] if isinstance(value, float) else []


@given(a=means, b=means, key=broken)
def test_a_refused_pair_carries_no_ratio_in_its_document(a: tuple[float, ...], b: tuple[float, ...], key: str) -> None:
    difference = ContractDifference(key, 1, 2, True, "other work")
    found = compare_pair(
        ComparedPair(ComparedSide(make_result(run_means=a)), ComparedSide(make_result(run_means=b)), (difference,))
    )
    document = json.loads(found.model_dump_json())
    assert document["effect"] is None
    assert document["verdict"] is None
    ratio = math.exp(sum(map(math.log, b)) / len(b) - sum(map(math.log, a)) / len(a))
    policy = {found.budget, found.confidence}
    assert all(x in policy or not math.isclose(x, ratio, rel_tol=1e-9) for x in _numbers(document))


@given(a=means, b=means)
def test_turning_the_pair_around_turns_the_effect_around(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    left, right = ComparedSide(make_result(run_means=a)), ComparedSide(make_result(run_means=b))
    there, back = compare_pair(ComparedPair(left, right)).effect, compare_pair(ComparedPair(right, left)).effect
    assert there is not None
    assert back is not None
    assert there.estimate * back.estimate == pytest.approx(1)
    if there.known:
        assert there.low * back.high == pytest.approx(1)


@given(a=means)
def test_a_result_never_regresses_against_itself(a: tuple[float, ...]) -> None:
    side = ComparedSide(make_result(run_means=a))
    assert compare_pair(ComparedPair(side, side)).verdict not in (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED)


@given(low=st.floats(0.1, 2), width=st.floats(0, 1), budget=st.floats(0.001, 0.5), higher=st.booleans())
def test_a_larger_budget_never_makes_a_regression(low: float, width: float, budget: float, higher: bool) -> None:
    ratio = Interval(low, low + width / 2, low + width)
    strict = decide(ratio, budget, higher_is_better=higher)
    loose = decide(ratio, budget * 2, higher_is_better=higher)
    if strict is not EffectVerdict.REGRESSED:
        assert loose is not EffectVerdict.REGRESSED


@given(reason=st.text(min_size=1, max_size=50))
def test_a_retracted_result_is_refused_whatever_the_reason(reason: str) -> None:
    side = ComparedSide(make_result(), standing=make_standing(retracted=reason))
    assert compare_pair(ComparedPair(ComparedSide(make_result()), side)).refused


@given(text=st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["benchmarks", "metrics", "load_summary", "successes", "failures", "aiperf_version", "input_config",
             "request_throughput", "duration", "completed", "error_summary", "phases", "latency", "avg", "models"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=20,
).map(json.dumps))  # fmt: skip
def test_any_json_is_read_or_refused_in_one_line(text: str) -> None:
    problem = ""
    try:
        found = parse_foreign(text)
    except BadInput as error:
        problem = str(error)
    else:
        assert found.figures
        assert found.missing
    assert "\n" not in problem
