"""The five signs: each present on planted evidence, absent on its opposite, and silent without data."""

from __future__ import annotations

import pytest

from compared import make_attribution, make_contract, make_executor, make_load, make_precision, make_result, make_slo
from lynxbench.compare.change_outcomes import parse_expectation
from lynxbench.compare.stack_signals import Record, read_signals
from lynxbench.model.attribution import Category, Ceiling
from lynxbench.model.entries import ChangeDeclared, ChangeMeasured, ChangeVerdict
from lynxbench.model.history import Signal, SignalState
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict

SLOWER = tuple(x * 0.9 for x in (100.0, 101.0, 99.0, 100.5, 99.5))
SAME = (100.0, 100.01, 99.99, 100.005, 99.995)


def _signs(*results: Result, **more: object) -> tuple[Signal, ...]:
    record = Record(contract_id="ab" * 32, contract="compared", results=results, **more)  # type: ignore[arg-type]
    return read_signals(record).signals


def test_without_results_nothing_can_be_told_and_each_says_what_is_needed() -> None:
    for sign in _signs():
        assert sign.state is SignalState.NOT_ENOUGH_DATA
        assert sign.needed


def _after(layer: Layer, means: tuple[float, ...]) -> Result:
    return make_result(
        executor=make_executor({"system.nvidia_driver": "570.00"}),
        run_means=means,
        started_at="2026-01-02T00:00:00+00:00",
        attribution=make_attribution(layer=layer),
    )


@pytest.mark.parametrize(
    ("layer", "means", "state"),
    [
        (Layer.RUNTIME, SLOWER, SignalState.PRESENT),
        (Layer.SYSTEM, SLOWER, SignalState.ABSENT),
        (Layer.RUNTIME, SAME, SignalState.ABSENT),
    ],
)
def test_1_a_symptom_in_another_layer_than_the_changed_one(
    layer: Layer, means: tuple[float, ...], state: SignalState
) -> None:
    sign = _signs(make_result(run_means=SAME), _after(layer, means))[0]
    assert sign.state is state
    if state is SignalState.PRESENT:
        assert "system" in sign.said
        assert len(sign.evidence) == 2


@pytest.mark.parametrize(
    ("compute", "gain", "state"),
    [
        (0.4, Interval(1.5, 1.7, 1.9), SignalState.PRESENT),
        (0.9, Interval(1.5, 1.7, 1.9), SignalState.ABSENT),
        (0.4, Interval(1.0, 1.1, 1.2), SignalState.ABSENT),
    ],
)
def test_2_moderate_utilisation_with_low_throughput(compute: float, gain: Interval, state: SignalState) -> None:
    shares = {Category.COMPUTE: compute, Category.LAUNCH: 1 - compute}
    found = make_result(attribution=make_attribution(shares=shares, gain_if_removed=gain))
    assert _signs(found)[1].state is state


def test_2_measured_utilisation_counts_before_shares() -> None:
    found = make_result(attribution=make_attribution())
    assert _signs(found, utilisation={found.result_id: 0.95})[1].state is SignalState.ABSENT


def _objective(verdict: str, **load: object) -> Result:
    one = make_precision(slo=(make_slo(verdict),), load=make_load(**load))  # type: ignore[arg-type]
    return make_result(per_precision=(one,))


def test_3_all_instruments_fine_while_the_objective_fails() -> None:
    assert _signs(_objective("missed"))[2].state is SignalState.PRESENT
    assert _signs(_objective("met"))[2].state is SignalState.ABSENT
    assert _signs(_objective("missed", failed=3))[2].state is SignalState.ABSENT, "errors say why it fails"
    assert _signs(_objective("unresolved"))[2].state is SignalState.NOT_ENOUGH_DATA


def _ceilings(per_s: float) -> tuple[Ceiling, ...]:
    return (Ceiling(name="matmul", precision=Precision.FP32, per_s=per_s, unit="FLOP/s", how="best of 5"),)


def test_4_a_swap_that_gained_less_than_its_bare_kernels() -> None:
    new = make_executor({"accelerator.cpu_model": "Neoverse-V2"})
    before = make_result(ceilings=_ceilings(1e9))
    after = make_result(executor=new, ceilings=_ceilings(2e9), started_at="2026-01-02T00:00:00+00:00")
    sign = _signs(before, after)[3]
    assert sign.state is SignalState.PRESENT
    assert "2.00×" in sign.said
    doubled = tuple(2.1 * x for x in SAME)
    kept = make_result(executor=new, ceilings=_ceilings(2e9), run_means=doubled, started_at="2026-01-02T00:00:00+00:00")
    assert _signs(before, kept)[3].state is SignalState.ABSENT


@pytest.mark.parametrize(
    ("layer", "verdict", "state"),
    [
        (Layer.ACCELERATOR, ChangeVerdict.LESS, SignalState.PRESENT),
        (Layer.ACCELERATOR, ChangeVerdict.AS_EXPECTED, SignalState.ABSENT),
        (Layer.SYSTEM, ChangeVerdict.LESS, SignalState.NOT_ENOUGH_DATA),
    ],
)
def test_4_a_declared_swap(layer: Layer, verdict: ChangeVerdict, state: SignalState) -> None:
    declared = ChangeDeclared(
        contract_id=make_contract().contract_id, layer=layer, owner="x", what="swap", expected=parse_expectation("2..3")
    )
    measured = ChangeMeasured(
        change_id=declared.change_id,
        contract_id=declared.contract_id,
        before="ab" * 32,
        after="cd" * 32,
        precision=Precision.FP32,
        effect=Interval(1.1, 1.2, 1.3),
        verdict=verdict,
        layers_differing=(layer,),
    )
    assert _signs(make_result(), declared=(declared,), measured=(measured,))[3].state is state


def test_4_a_measured_swap_of_another_machine_is_that_machines() -> None:
    declared = ChangeDeclared(
        contract_id=make_contract().contract_id, layer=Layer.ACCELERATOR, owner="x", what="swap",
        expected=parse_expectation("2..3"),
    )  # fmt: skip
    here, there = (make_result(executor=make_executor(machine=name)) for name in ("a", "b"))
    measured = ChangeMeasured(
        change_id=declared.change_id, contract_id=declared.contract_id, before="ab" * 32, after=there.result_id,
        precision=Precision.FP32, effect=Interval(1.1, 1.2, 1.3), verdict=ChangeVerdict.LESS, layers_differing=(),
    )  # fmt: skip
    more = {"declared": (declared,), "measured": (measured,)}
    assert _signs(here, elsewhere=(there,), **more)[3].state is not SignalState.PRESENT
    assert _signs(there, elsewhere=(here,), **more)[3].state is SignalState.PRESENT
    assert _signs(here, **more)[3].state is SignalState.PRESENT, "nothing says that it was another machine's"


def test_5_identical_instances_that_differ_with_the_placement_found_in_the_diff() -> None:
    a = make_result(run_means=SAME)
    limited = make_executor({"accelerator.gpu_power_limit_enforced_w": [500]}, machine="b")
    b = make_result(executor=limited, run_means=SLOWER)
    sign = _signs(a, b)[4]
    assert sign.state is SignalState.PRESENT
    assert "gpu_power_limit_enforced_w" in sign.said
    twin = make_result(executor=make_executor(machine="c"), run_means=SAME)
    assert _signs(a, twin)[4].state is SignalState.ABSENT
    other = make_executor({"accelerator.cpu_model": "Neoverse-V2"}, machine="d")
    assert _signs(a, make_result(executor=other, run_means=SLOWER))[4].state is SignalState.NOT_ENOUGH_DATA


def test_two_signs_are_stack_shaped() -> None:
    record = Record(
        contract_id="ab" * 32,
        contract="compared",
        results=(make_result(run_means=SAME), _after(Layer.RUNTIME, SLOWER)),
    )
    found = read_signals(record)
    assert sum(sign.state is SignalState.PRESENT for sign in found.signals) >= 2
    assert found.stack_shaped
    assert "stack-shaped" in found.sentence
    assert not read_signals(Record(contract_id="ab" * 32, contract="x", results=())).stack_shaped


def test_a_sign_is_absent_only_where_everything_was_decided() -> None:
    unsure = (100.0, 103.0, 97.0, 101.5, 98.5)
    noisy = make_result(executor=make_executor(machine="c"), run_means=unsure)
    assert _signs(make_result(run_means=SAME), noisy)[4].state is SignalState.NOT_ENOUGH_DATA
    assert _signs(make_result(run_means=SAME), _after(Layer.SYSTEM, unsure))[0].state is SignalState.NOT_ENOUGH_DATA
    gain = make_attribution(gain_if_removed=Interval(1.0, 1.3, 1.7))
    assert _signs(make_result(attribution=gain))[1].state is SignalState.NOT_ENOUGH_DATA
    new = make_executor({"accelerator.cpu_model": "Neoverse-V2"})
    before = make_result(ceilings=_ceilings(1e9), run_means=SAME)
    wide = tuple(2 * mean for mean in unsure)
    after = make_result(executor=new, ceilings=_ceilings(2e9), run_means=wide, started_at="2026-01-02T00:00:00+00:00")
    assert _signs(before, after)[3].state is SignalState.NOT_ENOUGH_DATA


def test_a_doubtful_result_is_no_sign() -> None:
    doubt = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("others used 20 % of the machine",))
    slower = _after(Layer.RUNTIME, SLOWER).model_copy(update={"validity": doubt})
    signs = _signs(make_result(run_means=SAME), slower)
    assert signs[0].state is SignalState.NOT_ENOUGH_DATA
    assert "1 without" in signs[0].said
