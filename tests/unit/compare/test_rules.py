"""Every rule: a pair that it breaks is refused without a ratio, one that it lets pass with a difference lists it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compared import (
    make_accuracy,
    make_contract,
    make_executor,
    make_load,
    make_precision,
    make_result,
    make_standing,
)
from lynxbench.cli.showing import terminal_text
from lynxbench.compare.comparing import compare_foreign, compare_pair
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.rules import BY_NUMBER, RULE_OF_KEY, RULES, render_rules, rule_of_key
from lynxbench.model.comparison import Comparability, Comparison, ContractDifference, EffectVerdict, RuleVerdict
from lynxbench.model.entries import ForeignImported
from lynxbench.model.executor import FieldChange, Tier
from lynxbench.model.figures import Figure
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.model.serving import CacheState
from lynxbench.model.standing import Standing
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.report.documents.comparison_document import compose_comparison

VOID = Validity(verdict=ValidityVerdict.VOID, reasons=("the executor changed",))
DOUBTFUL = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("too short",))
GATED = make_contract(policy={"accuracy": {"metric": "relative-error", "largest_loss": "1 %"}})
PERPLEXED = make_contract(policy={"accuracy": {"metric": "task", "largest_loss": "1 %"}})
SAME = (100.0, 100.01, 99.99, 100.005, 99.995)
DRIFT = FieldChange(layer=Layer.SYSTEM, name="governor", tier=Tier.CONFIGURATION, before="a", after="b")


def _served(**load: object) -> Result:
    return make_result(per_precision=(make_precision(load=make_load(**load)),))  # type: ignore[arg-type]


def _steady(verdict: SteadyVerdict) -> Result:
    one = make_precision()
    assert one.steady is not None
    moved = one.steady.model_copy(update={"verdict": verdict, "reason": "drift"})
    return make_result(per_precision=(one.model_copy(update={"steady": moved}),))


def _one(**changes: object) -> Result:
    return make_result(per_precision=(make_precision(**changes),))


def _compared(a: Result, b: Result, /, *differences: ContractDifference, **standing: Standing) -> Comparison:
    left = ComparedSide(a, "A", standing.get("a"))
    return compare_pair(ComparedPair(left, ComparedSide(b, "B", standing.get("b")), differences))


def _key(key: str, breaks: bool) -> ContractDifference:
    return ContractDifference(key, 1, 2, breaks, "because")


UNIT = Figure(low=99.0, estimate=100.0, high=101.0, unit="tokens/s")
BREAKING: dict[str, Callable[[], Comparison]] = {
    "R01": lambda: _compared(make_result(), make_result(), _key("workload.task", True)),
    "R02": lambda: _compared(make_result(), make_result(), _key("protocol.version", True)),
    "R03": lambda: _compared(make_result(), make_result(), _key("optimisation.trials", True)),
    "R04": lambda: _compared(make_result(), make_result(per_precision=(make_precision(Precision.INT8),))),
    "R05": lambda: _compared(
        make_result(contract=GATED, per_precision=(make_precision(accuracy=make_accuracy(0.002, reference=False)),)),
        make_result(contract=GATED, per_precision=(make_precision(accuracy=make_accuracy(0.05, reference=False)),)),
    ),
    "R06": lambda: _compared(make_result(), _one(throughput=UNIT)),
    "R07": lambda: _compared(_served(), _served(source="tokenizer")),
    "R08": lambda: _compared(make_result(), make_result(validity=VOID)),
    "R09": lambda: _compared(make_result(), _steady(SteadyVerdict.NOT_STEADY)),
    "R10": lambda: _compared(make_result(), make_result(drift=(DRIFT,))),
    "R11": lambda: _compared(_served(), _served(offered=12.0)),
    "R12": lambda: _compared(_served(), _served(cache=CacheState.ALLOWED)),
    "R13": lambda: _compared(_served(), _served(instrument="void")),
    "R15": lambda: _compared(make_result(), make_result(), _key("protocol.min_duration", True)),
    "R16": lambda: _compared(make_result(), make_result(), b=make_standing(retracted="wrong weights")),
    "R17": lambda: _compared(make_result(), make_result(executor=make_executor({"application.parameters": 2000}))),
}
LOADED = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("foreign load: other programs used 40% of the CPUs",))


def _in_pairs(a: Result, b: Result) -> Comparison:
    order = ("AB", "BA") * (len(a.per_precision[0].run_means) // 2) + ("AB",)
    return compare_pair(ComparedPair(ComparedSide(a, "A"), ComparedSide(b, "B"), order=order))


DIFFERING: dict[str, Callable[[], Comparison]] = {
    "R01": lambda: _compared(make_result(), make_result(), _key("owners.system", False)),
    "R02": lambda: _compared(make_result(), make_result(version="0.2.0")),
    "R04": lambda: _compared(make_result(), _one(native=Native.EMULATED)),
    "R05": lambda: _compared(
        make_result(contract=GATED), make_result(contract=GATED, per_precision=(make_precision(accuracy=None),))
    ),
    "R07": lambda: _compared(_served(source="unknown"), _served(source="unknown")),
    "R08": lambda: _in_pairs(make_result(), _one(validity=LOADED)),
    "R09": lambda: _in_pairs(_steady(SteadyVerdict.NOT_STEADY), _steady(SteadyVerdict.INCONCLUSIVE)),
    "R10": lambda: _compared(make_result(), make_result(executor=make_executor({"serving.batching": None}))),
    "R11": lambda: _compared(make_result(clients=1), make_result(clients=2)),
    "R12": lambda: _compared(_served(), _served(cached=None)),
    "R13": lambda: _compared(_served(), _served(cautions=("a long pause",))),
    "R14": lambda: _compared(make_result(), make_result(run_means=(100.0, 101.0, 99.0))),
    "R15": lambda: _compared(make_result(), make_result(), _key("protocol.limit", False)),
    "R16": lambda: _compared(make_result(), make_result(), a=make_standing(contested="not reproducible")),
    "R17": lambda: _compared(
        make_result(), make_result(executor=make_executor({"application.model_sha256": "cd" * 32}))
    ),
}


@pytest.mark.parametrize("number", [rule.number for rule in RULES if rule.breaks and rule.number != "R18"])
def test_a_broken_rule_refuses_the_pair_and_no_ratio_is_left_anywhere(number: str) -> None:
    found = BREAKING[number]()
    broken = {one.rule for one in found.rules if one.outcome is RuleVerdict.BREAKS}
    assert broken == {number}
    assert found.comparability is Comparability.INCOMPARABLE
    assert found.effect is None
    assert found.verdict is None
    assert found.cause is None
    assert all(not row.effects and row.verdict is None for row in found.per_precision)
    assert found.sound_if, "it must say what would make it sound"


@pytest.mark.parametrize("number", [rule.number for rule in RULES if rule.differs])
def test_a_difference_is_listed_and_the_effect_is_given(number: str) -> None:
    found = DIFFERING[number]()
    assert {one.rule for one in found.rules if one.outcome is RuleVerdict.DIFFERS} >= {number}
    assert found.comparability is Comparability.WITH_DIFFERENCES
    assert found.effect is not None


DOUBTING: dict[str, Callable[[Result], Result]] = {
    "R08 of a precision": lambda result: _with_figures(result, validity=DOUBTFUL),
    "R08 of the run": lambda result: result.model_copy(update={"validity": DOUBTFUL}),
    "R08 without a reason": lambda result: _with_figures(result, validity=Validity(verdict=ValidityVerdict.DOUBTFUL)),
    "R09": lambda result: _with_figures(result, steady=_steady(SteadyVerdict.INCONCLUSIVE).per_precision[0].steady),
}


def _with_figures(result: Result, **changes: object) -> Result:
    return result.model_copy(update={"per_precision": (result.per_precision[0].model_copy(update=changes),)})


@pytest.mark.parametrize("doubt", DOUBTING)
@pytest.mark.parametrize("level", [80.0, 100.0, 120.0])
@pytest.mark.parametrize("first", [True, False])
def test_a_doubtful_side_shows_its_figures_and_decides_nothing(doubt: str, level: float, first: bool) -> None:
    a, b = (make_result(run_means=tuple(x * mean for mean in SAME)) for x in (1.0, level / 100))
    sound = _compared(a, b).verdict
    assert sound in (EffectVerdict.REGRESSED, EffectVerdict.WITHIN_BUDGET, EffectVerdict.IMPROVED)
    pair = (DOUBTING[doubt](a), b) if first else (a, DOUBTING[doubt](b))
    found = _compared(*pair)
    assert found.verdict is EffectVerdict.UNPROVEN
    assert found.comparability is Comparability.WITH_DIFFERENCES
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(level / 100, rel=0.001)
    label = "A" if first else "B"
    assert any(rule.outcome is RuleVerdict.DOUBTS and label in rule.said for rule in found.rules)
    assert {rule.rule for rule in found.rules if rule.outcome is RuleVerdict.DOUBTS} == {doubt[:3]}
    assert any(way.startswith((f"measure {label} again", f"run {label} longer")) for way in found.sound_if)
    effects = [effect for row in found.per_precision for effect in row.effects]
    assert all(e.verdict in (EffectVerdict.UNPROVEN, EffectVerdict.INCONCLUSIVE) for e in effects)
    text = terminal_text(compose_comparison(found))
    assert text.startswith("UNPROVEN: throughput at fp32")
    assert "To settle it" in text
    assert "regressed" not in text.lower()


def test_a_doubt_about_one_precision_does_not_touch_the_other() -> None:
    fast, slow = (make_precision(p, run_means=SAME) for p in (Precision.FP32, Precision.INT8))
    lost = make_precision(run_means=tuple(0.8 * mean for mean in SAME))
    doubted = slow.model_copy(update={"validity": DOUBTFUL})
    whole = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("int8: too short",))
    b = make_result(per_precision=(lost, doubted)).model_copy(update={"validity": whole})
    found = _compared(make_result(per_precision=(fast, slow)), b)
    verdicts = {row.precision: row.verdict for row in found.per_precision}
    assert verdicts == {Precision.FP32: EffectVerdict.REGRESSED, Precision.INT8: EffectVerdict.UNPROVEN}
    assert found.verdict is EffectVerdict.REGRESSED


def test_few_restarts_of_a_doubtful_side_stay_inconclusive() -> None:
    found = _compared(make_result(), make_result(run_means=(80.0, 80.1, 79.9), validity=DOUBTFUL))
    assert found.verdict is EffectVerdict.INCONCLUSIVE


def test_two_sound_results_are_comparable_with_nothing_to_list() -> None:
    found = _compared(make_result(), make_result())
    assert found.comparability is Comparability.COMPARABLE
    assert found.rules == ()
    assert found.sound_if == ()


def test_accuracy_that_moved_at_the_reference_precision_is_seen_by_its_own_value() -> None:
    a = make_result(contract=PERPLEXED, per_precision=(make_precision(accuracy=make_accuracy(task=0.90)),))
    b = make_result(contract=PERPLEXED, per_precision=(make_precision(accuracy=make_accuracy(task=0.80)),))
    assert _compared(a, b).refused
    assert not _compared(a, a).refused


def test_another_path_with_the_same_weights_does_not_break() -> None:
    found = _compared(make_result(), make_result(), _key("workload.model.path", True))
    assert found.comparability is Comparability.WITH_DIFFERENCES


def test_too_few_restarts_give_an_effect_and_no_verdict() -> None:
    found = _compared(make_result(), make_result(run_means=(80.0, 80.1, 79.9)))
    assert found.verdict is EffectVerdict.INCONCLUSIVE
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(0.8, rel=0.01)


def test_one_bad_precision_does_not_hide_a_good_one() -> None:
    good, bad = make_precision(), make_precision(Precision.INT8, validity=VOID)
    a = make_result(per_precision=(good, make_precision(Precision.INT8)))
    found = _compared(a, make_result(per_precision=(good, bad)))
    assert found.comparability is Comparability.WITH_DIFFERENCES
    rows = {row.precision: row for row in found.per_precision}
    assert rows[Precision.FP32].effects
    assert not rows[Precision.INT8].effects


def test_a_wanted_precision_that_one_lacks_is_refused() -> None:
    a = make_result(per_precision=(make_precision(), make_precision(Precision.INT8)))
    pair = ComparedPair(ComparedSide(a), ComparedSide(make_result()))
    found = compare_pair(pair, Precision.INT8)
    assert [one.rule for one in found.rules] == ["R04"]
    assert found.refused


def test_foreign_evidence_is_always_refused_with_what_is_missing() -> None:
    figures = {"output throughput": UNIT}
    strange = ForeignImported(tool="vllm", figures=figures, stated={}, missing=("the precision", "restarts"))
    found = compare_foreign(make_result(), strange, ("ours", "theirs"))
    assert found.refused
    assert found.effect is None
    assert "the precision" in found.rules[0].said
    assert found.rules[0].rule == "R18"


def test_rules_are_numbered_in_order_and_every_key_has_one() -> None:
    assert [rule.number for rule in RULES] == [f"R{i:02d}" for i in range(1, len(RULES) + 1)]
    assert set(RULE_OF_KEY.values()) <= set(BY_NUMBER)
    assert rule_of_key("workload.arrival.rate") == "R11"
    assert rule_of_key("protocol.steady.drift") == "R15"
    assert rule_of_key("workload.task") == "R01"
    page = render_rules()
    assert all(f"## {rule.number} {rule.name}" in page for rule in RULES)


def _said_against(first: bool, level: float = 100.0, **words: str) -> Comparison:
    """A pair of which whoever compares has something against one side."""
    a, b = (make_result(run_means=tuple(x * mean for mean in SAME)) for x in (1.0, level / 100))
    sides = ComparedSide(a, "A", **(words if first else {})), ComparedSide(b, "B", **({} if first else words))
    return compare_pair(ComparedPair(*sides))


@pytest.mark.parametrize("first", [True, False])
def test_a_side_that_its_own_samples_refute_is_compared_with_nothing(first: bool) -> None:
    found = _said_against(first, refuted="refuted here: fp32 throughput: does not hold: stated 400, recomputed 100")
    assert found.comparability is Comparability.INCOMPARABLE
    assert found.effect is None
    assert all(not row.effects and row.verdict is None for row in found.per_precision)
    (rule,) = [rule for rule in found.rules if rule.outcome is RuleVerdict.BREAKS]
    assert (rule.rule, rule.said[:15]) == ("R16", "A is refuted he" if first else "B is refuted he")
    assert "stated 400, recomputed 100" in terminal_text(compose_comparison(found))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("level", [80.0, 100.0, 120.0])
def test_no_verdict_rests_on_a_side_that_could_not_be_recomputed(first: bool, level: float) -> None:
    found = _said_against(first, level, not_recomputed="could not be recomputed here: it took more than 60 s")
    assert found.verdict is EffectVerdict.UNPROVEN
    assert found.effect is not None
    assert {rule.rule for rule in found.rules if rule.outcome is RuleVerdict.DOUBTS} == {"R16"}
    assert any("files of its run" in way for way in found.sound_if)
