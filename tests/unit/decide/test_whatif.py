from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.attribute.judge.faster_hardware import Swap, estimate_swap
from lynxbench.decide.catalogue import find_device, parse_catalogue, recognise
from lynxbench.decide.deciding import check_beside, read_catalogue
from lynxbench.decide.whatif import estimate_fix, estimate_whatif, fix_then_swap, shares_after, swap_gain
from lynxbench.errors import BadInput, Refused
from lynxbench.model.attribution import Attribution, Bound, Category
from lynxbench.model.decisions import AssumptionState
from lynxbench.model.interval import Interval
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result

TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"
CATALOGUE = read_catalogue(None)


def test_every_bundled_device_has_sources_and_plausible_ceilings() -> None:
    assert len(CATALOGUE) >= 10
    for device in CATALOGUE.values():
        assert device.sources[0].where
        assert device.native or not device.dense_tera_per_s, "a rate is of a format that it has"
        assert set(device.native) <= set(device.dense_tera_per_s)
        assert device.dense_tera_per_s.get(Precision.FP8, 1e9) >= device.dense_tera_per_s.get(Precision.BF16, 0)


def test_a_driver_name_finds_its_device(today: Result, tested: Result, decode: Result) -> None:
    assert recognise(CATALOGUE, today.executor) == CATALOGUE["a100-80gb"]
    assert recognise(CATALOGUE, tested.executor) == CATALOGUE["h200"]
    for name, device in (
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("Tesla T4", "t4"),
    ):
        layer = {**decode.executor.layers}
        fields = dict(layer[next(one for one in layer if one == "accelerator")])
        fields["gpu_name"] = fields["gpu_name"].model_copy(update={"value": name})
        layer[next(one for one in layer if one == "accelerator")] = fields
        found = recognise(CATALOGUE, decode.executor.model_copy(update={"layers": layer}))
        assert found is not None
        assert found.name == device


def test_a_software_bound_service_gains_more_from_the_fix(today: Result) -> None:
    found = estimate_whatif(today, CATALOGUE, hardware="h200", with_fix=True)
    assert found.swap is not None
    assert found.fix is not None
    assert found.swap.estimate
    assert found.swap.gain.high < 1.4
    assert found.fix.gain.estimate > found.swap.gain.high
    assert found.both is not None
    assert found.both.estimate > found.fix.gain.estimate
    assert found.fix.measured["graph replay of the decode step"].estimate == pytest.approx(1.71)
    assert "estimate" in found.sentence


def test_five_assumptions_are_checked(today: Result, tested: Result) -> None:
    alone = estimate_whatif(today, CATALOGUE, hardware="b200").assumptions
    assert len(alone) == 5
    assert alone[0].state is AssumptionState.BROKEN
    assert alone[4].state is AssumptionState.UNKNOWN
    with_test = estimate_whatif(today, CATALOGUE, hardware="h200", tested=tested).assumptions
    assert with_test[4].state is AssumptionState.HOLDS


def test_only_a_test_instance_says_that_the_regime_is_stable(today: Result, tested: Result, decode: Result) -> None:
    """Found: another contract's result, and today's own, were taken as the test instance: `holds`."""
    check_beside(today, tested, CATALOGUE, "h200")
    with pytest.raises(Refused, match=r"is of contract decode-example .*: another question"):
        check_beside(today, decode, CATALOGUE, "h200")
    with pytest.raises(BadInput, match="is today's result itself"):
        check_beside(today, today, CATALOGUE, "h200")
    again = today.model_copy(update={"run_id": "again"}).sealed()
    with pytest.raises(BadInput, match="ran on a100-80gb, not on h200"):
        check_beside(today, again, CATALOGUE, "h200")
    with pytest.raises(BadInput, match="name that with --hardware"):
        check_beside(today, tested, CATALOGUE, None)


def test_a_precision_that_is_not_native_breaks_the_fast_path(today: Result) -> None:
    one = today.per_precision[0].model_copy(update={"precision": Precision.FP8})
    changed = today.model_copy(update={"per_precision": (one,)})
    found = estimate_whatif(changed, CATALOGUE, hardware="a10")
    assert found.assumptions[3].state is AssumptionState.BROKEN
    assert found.swap is not None
    assert "stands in" in found.swap.how["compute"]


def test_a_device_of_ones_own_is_added_strictly(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    body = (
        "lynxbench: 1\ndevices:\n  x1:\n    title: Example X1\n    reported_as: [example x1]\n    dense: {bf16: 500}\n"
        "    memory_gb: 96\n    memory: 3.0\n    link: 64\n    board_w: 500\n    native: [bf16]\n"
        '    released: "2026"\n    sources: [{what: all, where: sheet}]\n'
    )
    own.write_text(body)
    assert find_device(read_catalogue(own), "X1").memory_tb_per_s == 3.0
    for broken in (
        body.replace("memory: 3.0", "memory: -3.0"),
        body.replace("bf16: 500", "bf17: 500"),
        body.replace("board_w", "watts"),
        body.replace("lynxbench: 1\n", ""),
    ):
        own.write_text(broken)
        with pytest.raises(BadInput, match=r"own\.yaml"):
            read_catalogue(own)
    with pytest.raises(BadInput, match="h200"):
        find_device(CATALOGUE, "h20")
    with pytest.raises(BadInput):
        parse_catalogue("- 1\n", "x")


def test_nothing_to_change_and_nothing_known_are_told_apart(today: Result, decode: Result) -> None:
    with pytest.raises(BadInput, match="--hardware"):
        estimate_whatif(today, CATALOGUE, hardware=None)
    with pytest.raises(Refused, match="where its time goes"):
        estimate_whatif(decode, CATALOGUE, hardware="h200")


def test_what_a_fix_leaves_still_sums_to_a_step() -> None:
    shares = {Category.LAUNCH: 0.6, Category.COMPUTE: 0.3, Category.IDLE: 0.1}
    left = shares_after(shares, Category.LAUNCH, 2.0)
    assert sum(left.values()) == pytest.approx(1.0)
    assert left[Category.LAUNCH] == pytest.approx(0.2)


def test_the_same_machine_gains_nothing() -> None:
    gain = estimate_swap({Category.LAUNCH: 0.5, Category.COMPUTE: 0.5}, Swap()).gain
    assert (gain.low, gain.estimate, gain.high) == pytest.approx((1.0, 1.0, 1.0))


def attribution(shares: dict[Category, float], gain: Interval) -> Attribution:
    return Attribution(
        bottleneck=max(shares, key=lambda one: shares[one]),
        bound=Bound.SOFTWARE,
        layer=None,
        owner=None,
        shares=shares,
        gain_if_removed=gain,
        evidence=(),
        sentence="x",
        next_step="y",
        wall_ms_per_step=1.0,
        steps=3,
    )


def test_a_range_is_never_below_one_and_always_ordered() -> None:
    said = attribution({Category.LAUNCH: 0.999, Category.COMPUTE: 0.001}, Interval(1.0, 1.0, 1.001))
    for category in (None, Category.COMPUTE, Category.SYNCHRONIZATION):
        gain = estimate_fix(said, category).gain
        assert 1.0 <= gain.low <= gain.high
        assert gain.low <= gain.estimate <= gain.high or category is None


ENDS = ("low", "estimate", "high")


@pytest.mark.parametrize("category", [*Category, None])
@pytest.mark.parametrize("hardware", ["h200", "b200", "t4"])
def test_a_fix_before_a_swap_lowers_no_bound(today: Result, hardware: str, category: Category | None) -> None:
    """Found: the fix of a small category, then a swap, had an upper bound below the swap's alone (2.14 for 2.36)."""
    found = estimate_whatif(today, CATALOGUE, hardware=hardware, fix=category, with_fix=True)
    assert found.both is not None
    assert found.swap is not None
    for end in ENDS:
        assert getattr(found.both, end) >= getattr(found.swap.gain, end) * (1 - 1e-9)


@st.composite
def splits(draw: st.DrawFn) -> dict[Category, float]:
    parts = draw(st.dictionaries(st.sampled_from(list(Category)), st.floats(0.001, 1.0), min_size=1))
    whole = sum(parts.values()) / draw(st.sampled_from([1.0, 0.97, 1.01]))
    return {category: part / whole for category, part in parts.items()}


def ranges(least: float, most: float) -> st.SearchStrategy[Interval]:
    return st.tuples(*[st.floats(least, most)] * 3).map(lambda three: Interval(*sorted(three)))


def factors(least: float) -> st.SearchStrategy[dict[str, Interval]]:
    return st.fixed_dictionaries({name: ranges(least, 8.0) for name in ("compute", "bandwidth", "link", "host")})


def never_lower(more: Interval, less: Interval) -> None:
    for end in ENDS:
        assert getattr(more, end) >= getattr(less, end) * (1 - 1e-9), end


@given(splits(), st.sampled_from(list(Category)), ranges(1.0, 9.0), factors(0.2))
def test_changing_more_never_lowers_a_bound(
    shares: dict[Category, float], named: Category, removed: Interval, swapped: dict[str, Interval]
) -> None:
    said = attribution(shares, removed)
    swap = swap_gain(shares, swapped)
    for category in (named, said.bottleneck):
        fix = estimate_fix(said, category).gain
        both = fix_then_swap(shares, category, fix, swapped)
        assert both.low <= both.estimate * (1 + 1e-9)
        assert both.estimate <= both.high * (1 + 1e-9)
        never_lower(both, swap)
        faster = {part: factor.scaled(1.3) for part, factor in swapped.items()}
        never_lower(fix_then_swap(shares, category, fix, faster), both)
        wider = Interval(fix.low * 1.1, fix.estimate * 1.2, fix.high * 1.3)
        never_lower(fix_then_swap(shares, category, wider, swapped), both)
        same = {part: Interval(1.0, 1.0, 1.0) for part in swapped}
        nothing = fix_then_swap(shares, category, fix, same)
        assert (nothing.low, nothing.estimate, nothing.high) == pytest.approx((fix.low, fix.estimate, fix.high))


@given(splits(), st.sampled_from(list(Category)), ranges(1.0, 9.0), factors(1.0))
def test_no_part_of_the_chain_is_lost_on_a_machine_that_is_slower_in_nothing(
    shares: dict[Category, float], category: Category, removed: Interval, swapped: dict[str, Interval]
) -> None:
    fix = estimate_fix(attribution(shares, removed), category).gain
    never_lower(fix_then_swap(shares, category, fix, swapped), fix)


@pytest.mark.slow
def test_ranges_contain_the_measured_speed_up_of_the_fix() -> None:
    """On the traces that travel with the tests; benchmarks/whatif_truth.py takes the whole set."""
    from lynxbench.attribute.attributing import attribute_trace
    from lynxbench.attribute.judge.roofline import DEVICES
    from lynxbench.model.layers import DEFAULT_OWNERS

    truth = json.loads((TRACES / "truth.json").read_text())
    cases = [one for one in truth["cases"] if one["speedup"] and (TRACES / f"{one['case']}.json.gz").exists()]
    assert cases
    inside = 0
    for case in cases:
        said = attribute_trace(
            TRACES / f"{case['case']}.json.gz",
            ceilings=DEVICES["h200"],
            precision=Precision.FP32 if case["case"].startswith("fp32") else Precision.BF16,
            unprofiled_step_ms=case["step_ms"],
            owner=DEFAULT_OWNERS.__getitem__,
        )
        gain = estimate_fix(said).gain
        inside += gain.low <= case["speedup"] <= gain.high
    assert inside >= 0.8 * len(cases)
