"""Two sittings of one machine: learned, declared, or `one sitting`, which convicts nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from compared import make_contract, make_precision, make_result
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.pair import BetweenSittings, ComparedPair, ComparedSide
from lynxbench.compare.sittings import describe_noise, group_by_sitting, in_one_sitting
from lynxbench.model.comparison import Comparison, Effect, EffectVerdict, NoiseBasis, RuleVerdict
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.sessions import LevelVariance, learn_variance

MONDAY = datetime(2026, 3, 2, 3, tzinfo=UTC)
SLOWER = tuple(0.97 * mean for mean in (100.0, 101.0, 99.0, 100.5, 99.5))


def _at(hours: float) -> str:
    return (MONDAY + timedelta(hours=hours)).isoformat()


def _learned(sitting: float, many: int = 12) -> LevelVariance:
    rng = np.random.default_rng(4)
    levels = sitting * rng.normal(size=many)
    return learn_variance([[100 * np.exp(level + 0.002 * rng.normal(size=5)) for level in levels]])


def _pair(between: BetweenSittings | None, noise: str | None = None) -> ComparedPair:
    protocol = {} if noise is None else {"protocol": {"session_noise": noise}}
    contract = make_contract(**protocol)
    a = make_result(contract=contract, started_at=_at(0))
    b = make_result(contract=contract, run_means=SLOWER, started_at=_at(48))
    return ComparedPair(ComparedSide(a, "A"), ComparedSide(b, "B"), between=between)


def test_one_sitting_is_a_few_hours_long() -> None:
    assert in_one_sitting(_at(0), _at(5))
    assert in_one_sitting(_at(5), _at(0))
    assert not in_one_sitting(_at(0), _at(7))
    assert not in_one_sitting("", _at(0))
    assert not in_one_sitting("2026-03-02T03:00:00", _at(0)), "a time without a zone cannot be held against one with it"


def test_results_of_one_sitting_are_repetitions_within_it() -> None:
    results = [(_at(24), (3.0,)), (_at(0), (1.0, 1.5)), (_at(2), (2.0,)), (_at(26), (4.0,)), (_at(50), ())]
    assert group_by_sitting(results) == [(1.0, 1.5, 2.0), (3.0, 4.0)]


def test_hourly_results_do_not_chain_into_one_endless_sitting() -> None:
    assert len(group_by_sitting((_at(hour), (1.0,)) for hour in range(24))) == 4


def test_across_two_sittings_nobody_is_convicted_without_history() -> None:
    within = compare_pair(_pair(None))
    assert within.verdict is EffectVerdict.REGRESSED
    assert within.noise is None
    across = compare_pair(_pair(BetweenSittings()))
    assert across.verdict is EffectVerdict.UNPROVEN
    assert across.noise is not None
    assert across.noise.basis is NoiseBasis.ONE_SITTING
    assert across.noise.said.startswith("one sitting")
    (rule,) = (rule for rule in across.rules if rule.rule == "R19")
    assert rule.outcome is RuleVerdict.DOUBTS
    assert any("one sitting" in way for way in across.sound_if)
    assert "one sitting" in across.per_precision[0].effects[0].basis


def test_what_was_learned_decides_and_widens() -> None:
    quiet = compare_pair(_pair(BetweenSittings({(Precision.FP32, "throughput"): _learned(0.002)})))
    assert quiet.verdict is EffectVerdict.REGRESSED
    assert quiet.noise is not None
    assert (quiet.noise.basis, quiet.noise.sittings) == (NoiseBasis.LEARNED, 12)
    loud = compare_pair(_pair(BetweenSittings({(Precision.FP32, "throughput"): _learned(0.02)})))
    assert loud.verdict is EffectVerdict.INCONCLUSIVE, "3 % is nothing where sittings differ by 2 %"
    assert loud.effect is not None
    assert quiet.effect is not None
    assert loud.effect.low < quiet.effect.low
    assert not loud.rules


def test_few_sittings_teach_nothing() -> None:
    few = BetweenSittings({(Precision.FP32, "throughput"): _learned(0.002, many=7)})
    found = compare_pair(_pair(few))
    assert found.verdict is EffectVerdict.UNPROVEN
    assert found.noise is not None
    assert "7 other sittings" in found.noise.said


def test_a_declared_noise_decides_and_is_said_to_be_an_assumption() -> None:
    found = compare_pair(_pair(BetweenSittings(), noise="0.3 %"))
    assert found.verdict is EffectVerdict.REGRESSED
    assert found.noise is not None
    assert found.noise.basis is NoiseBasis.DECLARED
    assert "assumption" in found.noise.said
    assert "assumes" in found.per_precision[0].effects[0].basis
    assert compare_pair(_pair(BetweenSittings(), noise="2 %")).verdict is EffectVerdict.INCONCLUSIVE


def test_what_was_learned_goes_before_what_was_declared() -> None:
    between = BetweenSittings({(Precision.FP32, "throughput"): _learned(0.02)})
    assert compare_pair(_pair(between, noise="0.1 %")).verdict is EffectVerdict.INCONCLUSIVE


def test_a_contract_without_the_key_keeps_its_id() -> None:
    plain = make_contract()
    assert "session_noise" not in plain.canonical()["protocol"]  # type: ignore[operator]
    declared = make_contract(protocol={"session_noise": "0.3 %"})
    assert declared.canonical()["protocol"]["session_noise"] == "0.3 %"  # type: ignore[index]
    assert declared.contract_id != plain.contract_id
    assert make_contract(protocol={"session_noise": None}).contract_id == plain.contract_id


def test_words_of_one_and_of_none() -> None:
    one = learn_variance([[[1.0, 1.1]]])
    assert "1 other sitting is known" in describe_noise("throughput", Precision.FP32, one).said
    assert "no other sittings" in describe_noise("throughput", Precision.FP32, None).said


def _doubted(between: BetweenSittings) -> Comparison:
    pair = _pair(between)
    validity = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("the fan stood still",))
    doubtful = pair.b.result.model_copy(update={"validity": validity}).sealed()
    return compare_pair(replace(pair, b=ComparedSide(doubtful, "B")))


def test_one_sitting_is_said_as_every_other_doubt_is() -> None:
    (across,) = compare_pair(_pair(BetweenSittings())).per_precision
    why = across.effects[0].why
    assert why.startswith("the interval alone shows a loss beyond the budget; A and B are of two sittings; one sitting")
    assert "To settle it: measure both in one sitting" in why


def test_what_a_side_lacks_is_said_before_how_sittings_differ() -> None:
    found = _doubted(BetweenSittings())
    assert found.verdict is EffectVerdict.UNPROVEN
    why = found.per_precision[0].effects[0].why
    assert "the fan stood still" in why
    assert "sitting" not in why, "it is measured again anyway"
    assert {"R08", "R19"} <= {rule.rule for rule in found.rules}, "both are listed"
    known = _doubted(BetweenSittings({(Precision.FP32, "throughput"): _learned(0.002)}))
    assert known.verdict is EffectVerdict.UNPROVEN, "knowing the sittings clears no doubtful side"
    assert "R19" not in {rule.rule for rule in known.rules}


def test_restarts_are_not_offered_where_sittings_are_the_doubt() -> None:
    loud = compare_pair(_pair(BetweenSittings({(Precision.FP32, "throughput"): _learned(0.02)})))
    why = loud.per_precision[0].effects[0].why
    assert "would settle it" not in why
    assert "compare --run" in why


def _by_latency(learned: dict[tuple[Precision, str], LevelVariance], **contract: object) -> dict[str, Effect]:
    pair = _pair(BetweenSittings(learned))
    agreed = make_contract(**contract)
    runs = {Precision.FP32: {("latency", 50.0): (10.0, 10.01, 9.99, 10.0, 10.005)}}
    sides = [
        ComparedSide(side.result.model_copy(update={"contract": agreed}), side.name, latency_runs=runs)
        for side in pair.sides
    ]
    found = compare_pair(replace(pair, a=sides[0], b=sides[1]))
    return {effect.figure: effect for effect in found.per_precision[0].effects}


def test_each_figure_answers_for_its_own_sittings() -> None:
    learned = {(Precision.FP32, "throughput"): _learned(0.002)}
    beside = _by_latency(learned)
    assert beside["throughput"].verdict is EffectVerdict.REGRESSED
    assert beside["latency p50"].verdict is EffectVerdict.UNPROVEN
    assert "not learned" in beside["latency p50"].why, "and not that no sittings were known"
    leading = _by_latency(learned, regime="latency")
    assert leading["latency p50"].verdict is EffectVerdict.UNPROVEN
    assert "no other sittings" in leading["latency p50"].why
    assert leading["throughput"].verdict is EffectVerdict.REGRESSED


# --- in pairs, in one sitting ---

LOADED = "foreign load: other programs used 40% of the CPUs while counting (the contract allows 5%)"
ORDER = ("AB", "BA", "AB", "BA", "AB")


def _disturbed(means: tuple[float, ...], steady: SteadyVerdict, *reasons: str) -> Result:
    figures = make_precision(run_means=means)
    assert figures.steady is not None
    told = Validity(verdict=ValidityVerdict.DOUBTFUL if reasons else ValidityVerdict.VALID, reasons=reasons)
    settled = figures.steady.model_copy(update={"verdict": steady, "reason": "step"})
    return make_result(per_precision=(figures.model_copy(update={"steady": settled, "validity": told}),))


def _in_pairs(a: Result, b: Result, order: tuple[str, ...] = ORDER) -> Comparison:
    return compare_pair(ComparedPair(ComparedSide(a, "A"), ComparedSide(b, "B"), order=order), None)


MEANS = (100.0, 80.0, 60.0, 90.0, 70.0)
UNSTEADY = SteadyVerdict.NOT_STEADY, "not steady (step)"


def test_what_disturbs_both_halves_of_every_pair_is_in_their_differences() -> None:
    """A neighbour that comes and goes: levels from 60 to 100, and B 3 % slower within every pair."""
    slower = tuple(0.97 * mean * (1 + 0.001 * (-1) ** k) for k, mean in enumerate(MEANS))
    a = _disturbed(MEANS, *UNSTEADY, LOADED)
    b = _disturbed(slower, *UNSTEADY, LOADED)
    together = _in_pairs(a, b)
    assert together.verdict == "regressed"
    assert {finding.outcome for finding in together.rules if finding.rule in ("R08", "R09")} == {RuleVerdict.DIFFERS}
    apart = _in_pairs(a, b, order=())
    assert apart.verdict not in ("regressed", "improved"), "one after the other, the same figures decide nothing"


def test_what_never_settled_under_foreign_load_is_told_with_that_load() -> None:
    calm = _disturbed((100.0, 100.2, 99.9, 100.1, 99.8), SteadyVerdict.STEADY)
    found = _in_pairs(calm, _disturbed(MEANS, *UNSTEADY, LOADED), order=())
    broken = next(rule for rule in found.rules if rule.rule == "R09")
    assert (found.effect, broken.outcome) == (None, RuleVerdict.BREAKS)
    assert broken.said.endswith(f"under {LOADED}")
    assert broken.remedy.startswith("measure B again without the other load, or run B longer than ")
    alone = _in_pairs(calm, _disturbed(MEANS, *UNSTEADY), order=())
    assert next(rule for rule in alone.rules if rule.rule == "R09").remedy.endswith("or remove what moves it")


def test_one_that_is_unsteady_by_itself_is_not_excused_by_pairs() -> None:
    calm = _disturbed((100.0, 100.2, 99.9, 100.1, 99.8), SteadyVerdict.STEADY)
    drifting = _disturbed((97.0, 97.2, 96.9, 97.1, 96.8), *UNSTEADY)
    found = _in_pairs(calm, drifting)
    assert found.verdict not in ("regressed", "improved")
    assert RuleVerdict.BREAKS in {finding.outcome for finding in found.rules if finding.rule == "R09"}


@pytest.mark.parametrize("reason", ["thermal throttling for 40% of the time", "the clock was set by +3600 s"])
def test_other_doubts_are_not_excused_by_pairs(reason: str) -> None:
    a = _disturbed(MEANS, *UNSTEADY, LOADED, reason)
    b = _disturbed(tuple(0.9 * mean for mean in MEANS), *UNSTEADY, LOADED)
    found = _in_pairs(a, b)
    assert found.verdict not in ("regressed", "improved")
    assert RuleVerdict.DOUBTS in {finding.outcome for finding in found.rules if finding.rule == "R08"}
