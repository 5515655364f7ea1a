"""One gate before every verdict: planted evidence of each kind blames, convicts and clears nobody."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from compared import make_attribution, make_executor, make_precision, make_result
from lynxbench.cli.showing import terminal_text
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.instances import compare_instances
from lynxbench.compare.levels import point_of, read_history
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.stack_signals import Record, read_signals
from lynxbench.compare.suspects import changes_between
from lynxbench.decide.demonstrating import demo_results
from lynxbench.model.attribution import Bound, CandidateLayer
from lynxbench.model.comparison import EffectVerdict
from lynxbench.model.evidence_gate import (
    Lack,
    Shortfalls,
    carried_attribution,
    cause_falls_short,
    figures_fall_short,
    standing_falls_short,
    whole_reasons,
)
from lynxbench.model.executor import Executor
from lynxbench.model.fleet import InstanceStanding
from lynxbench.model.history import LEVELS_NEED, History, SignalState
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.report.documents.result_document import compose_result
from lynxbench.stats.changepoints import MIN_SEGMENT
from planted import FOREIGN, OF_EVIDENCE, OF_STANDING, doubted, signed, stands

OWNER = "ML platform engineering"
DECIDED = (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED, EffectVerdict.WITHIN_BUDGET)
OF_FIGURES = [name for name, (lack, _) in OF_EVIDENCE.items() if lack not in (Lack.WEAK, Lack.EMULATED)]


def blaming(run_means: tuple[float, ...] = (100.0, 101.0, 99.0, 100.5, 99.5)) -> Result:
    """A sound run that blames the runtime's owner."""
    named = make_attribution(sentence="software-bound: launches take 60 % of a step")
    return make_result(per_precision=(make_precision(run_means=run_means, attribution=named),), attribution=named)


def shown(result: Result, *, also: Shortfalls = ()) -> str:
    """The report as it is read at a glance, unwrapped."""
    return " ".join(terminal_text(compose_result(result, also=also)).split())


def test_sound_evidence_carries_its_blame() -> None:
    """Otherwise the planted cases below would show nothing."""
    result = blaming()
    assert figures_fall_short(result, result.per_precision[0]) == ()
    assert carried_attribution(result) is result.attribution
    assert standing_falls_short(result, signed(result)[result.result_id]) == ()
    assert f"runtime → {OWNER}" in shown(result)


@pytest.mark.parametrize("name", OF_EVIDENCE)
def test_planted_evidence_blames_nobody(name: str) -> None:
    lack, plant = OF_EVIDENCE[name]
    result = plant(blaming())
    assert result.attribution is not None
    short_of = cause_falls_short(result, result.per_precision[0], result.attribution)
    assert [shortfall.lack for shortfall in short_of] == [lack]
    assert all("lynxbench run compared" in shortfall.step for shortfall in short_of), "the next step is a command"
    carried = carried_attribution(result)
    assert carried is not None
    assert (carried.bound, carried.layer, carried.owner) == (Bound.UNDETERMINED, None, None)
    assert carried.shares == result.attribution.shares, "what was seen stays"
    page = shown(result)
    assert f"→ {OWNER}" not in page
    assert "SOFTWARE-BOUND" not in page
    assert "lynxbench run compared" in page


@pytest.mark.parametrize("name", OF_STANDING)
def test_a_planted_standing_blames_nobody(name: str) -> None:
    result = blaming()
    lack = OF_STANDING[name][0]
    short_of = standing_falls_short(result, stands(name, result).get(result.result_id))
    assert lack in [shortfall.lack for shortfall in short_of]
    assert all("lynxbench" in shortfall.step for shortfall in short_of)
    assert f"→ {OWNER}" not in shown(result, also=short_of)


def test_a_run_at_71_percent_foreign_load_blames_nobody() -> None:
    page = shown(doubted(FOREIGN)(blaming()))
    assert f"→ {OWNER}" not in page
    assert "71 %" in page
    assert "while nothing else runs on the machine" in page


@pytest.mark.parametrize("name", OF_FIGURES)
@pytest.mark.parametrize("factor", [0.6, 1.0, 1.4])
def test_planted_evidence_convicts_and_clears_nobody(name: str, factor: float) -> None:
    """Two unchanged runs were once said to have IMPROVED by 40 %, with a doubtful side."""
    before = blaming()
    after = blaming(tuple(mean * factor for mean in (100.0, 101.0, 99.0, 100.5, 99.5)))
    plant = OF_EVIDENCE[name][1]
    for a, b in ((plant(before), after), (before, plant(after))):
        compared = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b)))
        assert compared.verdict not in DECIDED
        assert compared.sound_if, "what would settle it is said"


@pytest.mark.parametrize("name", ["signed by a stranger", "does not verify"])
def test_a_planted_standing_convicts_nobody(name: str) -> None:
    a, b = blaming(), blaming((60.0, 61.0, 59.0, 60.5, 59.5))
    sound = compare_pair(ComparedPair(ComparedSide(a), ComparedSide(b)))
    assert sound.verdict is EffectVerdict.REGRESSED, "otherwise this shows nothing"
    side = ComparedSide(b, standing=stands(name, b)[b.result_id])
    compared = compare_pair(ComparedPair(ComparedSide(a), side))
    assert compared.verdict is EffectVerdict.UNPROVEN
    assert any("lynxbench" in way for way in compared.sound_if)


@pytest.mark.parametrize("name", OF_FIGURES)
def test_planted_evidence_sets_no_instance_apart(name: str) -> None:
    slow = tuple(mean * 0.5 for mean in (100.0, 101.0, 99.0, 100.5, 99.5))
    results = {"a": blaming(), "b": blaming(), "c": blaming(slow)}
    sound = compare_instances(results, Precision.FP32, budget=0.05, confidence=0.95)
    assert sound is not None
    assert {row.unit: row.standing for row in sound.instances}["c"] is InstanceStanding.OUTLIER
    compared = compare_instances(
        {**results, "c": OF_EVIDENCE[name][1](results["c"])}, Precision.FP32, budget=0.05, confidence=0.95
    )
    assert compared is not None
    row = next(row for row in compared.instances if row.unit == "c")
    assert row.standing is InstanceStanding.UNKNOWN
    assert row.cause is None
    assert "lynxbench run" in row.why


@pytest.mark.parametrize("name", OF_EVIDENCE)
def test_planted_evidence_is_no_sign_of_the_whole_stack(name: str) -> None:
    result = blaming()
    record = Record("c", "compared", (result,), utilisation={result.result_id: 0.5})
    assert read_signals(record).signals[1].state is SignalState.PRESENT, "otherwise this shows nothing"
    planted = Record("c", "compared", (OF_EVIDENCE[name][1](result),), utilisation={result.result_id: 0.5})
    signal = read_signals(planted).signals[1]
    assert signal.state is SignalState.NOT_ENOUGH_DATA
    assert "lynxbench run" in signal.needed


def test_a_doubt_of_one_precision_is_not_that_of_another() -> None:
    sound, bad = make_precision(Precision.FP32), make_precision(Precision.BF16)
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=(FOREIGN,))
    bad = bad.model_copy(update={"validity": doubt})
    whole = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=(f"bf16: {FOREIGN}",))
    result = make_result(per_precision=(sound, bad), validity=whole)
    assert whole_reasons(result) == ()
    assert figures_fall_short(result, sound) == ()
    assert [shortfall.lack for shortfall in figures_fall_short(result, bad)] == [Lack.FOREIGN_LOADED]


def test_a_doubt_of_the_whole_run_is_that_of_every_precision() -> None:
    whole = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("the clock was set",))
    result = make_result(validity=whole)
    (shortfall,) = figures_fall_short(result, result.per_precision[0])
    assert shortfall.lack is Lack.DOUBTFUL
    assert "the clock was set" in shortfall.says


def test_a_doubt_without_a_reason_is_one() -> None:
    whole = Validity(verdict=ValidityVerdict.DOUBTFUL)
    result = make_result(validity=whole)
    assert [shortfall.lack for shortfall in figures_fall_short(result, result.per_precision[0])] == [Lack.DOUBTFUL]


def test_the_gravest_comes_first() -> None:
    result = OF_EVIDENCE["weak"][1](OF_EVIDENCE["emulated"][1](doubted(FOREIGN)(blaming())))
    assert result.attribution is not None
    short_of = cause_falls_short(result, result.per_precision[0], result.attribution)
    assert [shortfall.lack for shortfall in short_of] == [Lack.FOREIGN_LOADED, Lack.EMULATED, Lack.WEAK]


def test_an_open_verdict_on_doubtful_evidence_suspects_nobody() -> None:
    suspect = CandidateLayer(layer=Layer.RUNTIME, owner=OWNER, reason="kernels run below their ceiling")
    named = make_attribution(bound=Bound.UNDETERMINED, layer=None, owner=None, candidates=(suspect,))
    result = make_result(per_precision=(make_precision(attribution=named),), attribution=named)
    assert carried_attribution(result) is named, "sound evidence may say where to look"
    carried = carried_attribution(doubted(FOREIGN)(result))
    assert carried is not None
    assert carried.candidates == ()
    assert "while nothing else runs" in carried.next_step
    assert not math.isfinite(carried.gain_if_removed.estimate), "a quieter machine removes no bottleneck"


def test_a_history_of_doubtful_results_names_no_cause() -> None:
    slow = {"framework.torch": "2.6.0"}
    results = [_dated(day, 100.0 + day % 3, make_executor()) for day in range(10)]
    results += [_dated(10 + day, 80.0 + day % 3, make_executor(slow)) for day in range(10)]
    sound = _history(results)
    (change,) = [change for change in sound.changes if change.found]
    assert change.cause.owner is not None, "otherwise this shows nothing"
    for doubtful in (range(9, 11), range(10, 20)):
        planted = [doubted(FOREIGN)(r) if place in doubtful else r for place, r in enumerate(results)]
        (change,) = [change for change in _history(planted).changes if change.found]
        assert (change.cause.owner, change.cause.layer) == (None, None)
        assert "doubtful" in change.cause.sentence
        assert "run compared again" in change.cause.experiment


def test_a_change_of_the_record_alone_blames_nobody() -> None:
    """Found: no effect seen, and an owner with `the likely cause`."""
    results = [_dated(day, 100.0, make_executor({"framework.torch": f"2.{5 + day}.0"})) for day in range(2)]
    (change,) = _history(results).changes
    assert (change.found, bool(change.moved)) == (False, False)
    assert change.cause.owner is None
    assert "only layer framework changed" in change.cause.sentence
    assert "likely cause" not in change.cause.sentence


def test_sixteen_sound_results_before_no_change_is_said() -> None:
    """Found: a green `no change of level` with five of the sixteen results that it needs."""
    assert LEVELS_NEED == 2 * MIN_SEGMENT
    results = [_dated(day, 100.0 + day % 3, make_executor()) for day in range(20)]
    assert _history(results).too_few == ""
    assert "5 of 16 sound results" in _history(results[:5]).too_few
    planted = [doubted(FOREIGN)(result) if place < 10 else result for place, result in enumerate(results)]
    assert "10 of 16 sound results" in _history(planted).too_few


def _dated(day: int, rate: float, executor: Executor) -> Result:
    means = tuple(rate * factor for factor in (0.999, 1.0, 1.001, 1.0005, 0.9995))
    started = f"2026-01-{day + 1:02d}T00:00:00+00:00"
    return make_result(run_means=means, executor=executor, started_at=started)


def _history(results: list[Result]) -> History:
    points = [point_of(result, Precision.FP32) for result in results]
    changes = [changes_between(a, b) for a, b in pairwise(results)]
    by_pair = {(a.result_id, b.result_id): change for (a, b), change in zip(pairwise(results), changes, strict=True)}
    return read_history(
        [point for point in points if not isinstance(point, str)],
        contract_id="c",
        contract="compared",
        precision=Precision.FP32,
        fields_between=lambda pairs: [by_pair.get((a.result_id, b.result_id)) for a, b in pairs],
    )


def test_a_doubt_that_the_whole_has_of_one_precision_counts_there() -> None:
    """Found: whoever left it out of the precision's own validity had it counted nowhere."""
    doubts = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("fp32: outliers that grow",))
    result = blaming().model_copy(update={"validity": doubts})
    (first, *_) = figures_fall_short(result, result.per_precision[0])
    assert first.lack is Lack.DOUBTFUL
    assert "outliers that grow" in first.says
    of_another = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("int8: outliers that grow",))
    parts = (*result.per_precision, make_precision(Precision.INT8))
    other = result.model_copy(update={"validity": of_another, "per_precision": parts})
    assert figures_fall_short(other, other.per_precision[0]) == ()


def test_a_client_that_was_the_limit_carries_nothing_whatever_the_validity_says() -> None:
    (served, *_) = demo_results()
    (figures,) = served.per_precision
    assert figures.load is not None
    assert all(short.lack is not Lack.VOID for short in figures_fall_short(served, figures))
    busy = figures.load.instrument.model_copy(update={"verdict": "void", "reasons": ("client 99 % busy",)})
    lied = figures.model_copy(update={"load": figures.load.model_copy(update={"instrument": busy})})
    (first, *_) = figures_fall_short(served.model_copy(update={"per_precision": (lied,)}), lied)
    assert first.lack is Lack.VOID
    assert "client 99 % busy" in first.says
