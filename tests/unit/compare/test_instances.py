"""Instances held against each other: who stands apart, and what only they have."""

from __future__ import annotations

import numpy as np
import pytest

from compared import make_executor, make_result
from lynxbench.compare.instances import compare_instances, naming_one_layer, set_apart
from lynxbench.model.comparison import CauseKind, Weight
from lynxbench.model.fleet import FleetComparison, InstanceStanding
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, Validity, ValidityVerdict

BUDGET, CONFIDENCE = 0.005, 0.95


def runs(level: float, seed: int, noise: float = 0.003, restarts: int = 5) -> tuple[float, ...]:
    return tuple(float(x) for x in level * np.exp(np.random.default_rng(seed).normal(0, noise, restarts)))


def instance(level: float, seed: int, changes: dict[str, object] | None = None, **more: object) -> Result:
    executor = make_executor(changes or {}, machine=f"m{seed}")
    return make_result(executor=executor, run_means=runs(level, seed, **more))  # type: ignore[arg-type]


def compared(results: dict[str, Result]) -> FleetComparison:
    found = compare_instances(results, Precision.FP32, budget=BUDGET, confidence=CONFIDENCE)
    assert found is not None
    return found


def standings(found: FleetComparison) -> dict[str, InstanceStanding]:
    return {row.unit: row.standing for row in found.instances}


def test_a_slow_instance_is_named_with_the_field_that_only_it_has() -> None:
    fleet = {f"n{i}": instance(100 + i * 0.2, i) for i in range(5)}
    fleet["n9"] = instance(70, 9, {"accelerator.gpu_power_limit_enforced_w": [400], "runtime.native_libraries": {"libtorch.so": "22" * 32}})  # fmt: skip # noqa: E501
    found = compared(fleet)
    assert standings(found)["n9"] is InstanceStanding.OUTLIER
    assert sum(one is InstanceStanding.OUTLIER for one in standings(found).values()) == 1
    row = found.instances[0]
    assert row.unit == "n9"
    assert row.against_rest.high < 0.72
    assert [layer.layer for layer in row.layers[:2]] == [Layer.ACCELERATOR, Layer.RUNTIME]
    assert [layer.weight for layer in row.layers[:2]] == [Weight.KNOWN, Weight.LIBRARY]
    assert row.cause is not None
    assert row.cause.kind is CauseKind.NOT_SEPARABLE
    assert row.cause.layer is None, "found: the first of several layers that cannot be separated was named alone"
    assert row.cause.owner == ", ".join(dict.fromkeys(layer.owner for layer in row.layers[:2]))
    earlier = naming_one_layer(row).cause
    assert earlier is not None
    assert (earlier.layer, earlier.owner) == (Layer.ACCELERATOR, row.layers[0].owner)
    assert "gpu_power_limit_enforced_w" in row.cause.sentence
    assert "stands apart" in found.sentence
    assert not found.same_executor


def test_of_three_the_slow_one_does_not_set_the_others_apart() -> None:
    fleet = {"a": instance(100, 1), "b": instance(100.2, 2), "c": instance(50, 3, {"system.affinity": "0"})}
    found = compared(fleet)
    assert standings(found) == {
        "a": InstanceStanding.TYPICAL,
        "b": InstanceStanding.TYPICAL,
        "c": InstanceStanding.OUTLIER,
    }
    assert found.instances[0].layers[0].fields[0].name == "affinity"


def test_a_field_that_typical_instances_have_too_explains_nothing() -> None:
    usual = [make_executor({"system.kernel": "6.1"}), make_executor({"system.kernel": "6.5"})]
    odd = make_executor({"system.kernel": "6.5", "system.nvidia_driver": "535.1"}, machine="z")
    changes = {f"{c.layer}.{c.name}": (c.before, c.after) for c in set_apart(odd, usual)}
    assert "system.kernel" not in changes
    assert changes["system.nvidia_driver"] == ("550.54", "535.1")


def test_a_gpu_among_others_of_its_machine_is_held_to_its_own_readings() -> None:
    def gpu(place: int, level: float) -> Result:
        changes: dict[str, object] = {
            "system.environment": {"CUDA_VISIBLE_DEVICES": str(place)},
            "accelerator.gpu_power_limit_enforced_w": [700, 700, 400, 700],
        }
        return instance(level, place, changes)

    found = compared({f"host/gpu{i}": gpu(i, 75 if i == 2 else 100) for i in range(4)})
    row = found.instances[0]
    assert (row.unit, row.standing) == ("host/gpu2", InstanceStanding.OUTLIER)
    (layer,) = [one for one in row.layers if one.weight is Weight.KNOWN]
    assert [(f.name, f.before, f.after) for f in layer.fields] == [("gpu_power_limit_enforced_w", [700], [400])]


def test_nothing_recorded_sets_it_apart_is_an_answer() -> None:
    fleet = {f"n{i}": instance(100, i) for i in range(4)} | {"odd": instance(80, 20)}
    row = next(row for row in compared(fleet).instances if row.unit == "odd")
    assert row.standing is InstanceStanding.OUTLIER
    assert row.cause is not None
    assert row.cause.kind is CauseKind.NOTHING_RECORDED
    assert compared(fleet).same_executor


def test_one_among_equals_is_found_however_equal_they_are() -> None:
    same = {f"n{i}": make_result(executor=make_executor(machine=f"m{i}")) for i in range(3)}
    odd = make_result(executor=make_executor(machine="x"), run_means=(70.0, 71.0, 69.0, 70.5, 69.5))
    assert standings(compared(same | {"odd": odd}))["odd"] is InstanceStanding.OUTLIER


def test_two_instances_have_no_outlier_and_few_restarts_no_verdict() -> None:
    two = compared({"a": instance(100, 1), "b": instance(80, 2)})
    assert set(standings(two).values()) == {InstanceStanding.DIFFERS}
    few = compared({f"n{i}": instance(100 if i else 50, i, restarts=3) for i in range(3)})
    assert set(standings(few).values()) == {InstanceStanding.UNKNOWN}
    assert "restarts" in few.sentence
    alone = compared({"a": instance(100, 1)})
    assert set(standings(alone).values()) == {InstanceStanding.UNKNOWN}


def test_void_instances_take_no_part() -> None:
    void = make_result(validity=Validity(verdict=ValidityVerdict.VOID, reasons=("late",)))
    found = compared({"a": instance(100, 1), "b": instance(100, 2), "void": void})
    assert set(standings(found)) == {"a", "b"}
    assert compare_instances({"void": void}, Precision.FP32, budget=BUDGET, confidence=CONFIDENCE) is None


def doubted(result: Result) -> Result:
    validity = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("foreign load 40 %",))
    return result.model_copy(update={"validity": validity})


@pytest.mark.parametrize("sound", [0, 1, 2])
def test_doubtful_instances_convict_nobody(sound: int) -> None:
    """Four slow ones under foreign load, and fast ones that are not: it is not the fast ones that stand apart."""
    results = {
        f"loaded{k}": doubted(instance(60.0, k, {"accelerator.gpu_power_limit_enforced_w": [600]})) for k in range(4)
    }
    results |= {f"quiet{k}": instance(100.0, 10 + k) for k in range(sound)}
    found = compared(results)
    placed = standings(found)
    assert {placed[f"loaded{k}"] for k in range(4)} == {InstanceStanding.UNKNOWN}
    expected = [set(), {InstanceStanding.UNKNOWN}, {InstanceStanding.TYPICAL}][sound]
    assert {placed[f"quiet{k}"] for k in range(sound)} == expected
    assert all(row.cause is None for row in found.instances)
    assert found.splits == ()
    if sound == 1:
        (alone,) = (row for row in found.instances if row.unit == "quiet0")
        assert alone.why == "there is no other instance with sound evidence to hold it against"
        assert not alone.against_rest.known


def test_among_sound_instances_an_outlier_is_found_beside_doubtful_ones() -> None:
    results = {f"node{k}": instance(100.0, k) for k in range(4)} | {"slow": instance(85.0, 9)}
    results |= {f"loaded{k}": doubted(instance(85.0, 20 + k)) for k in range(6)}
    placed = standings(compared(results))
    assert placed["slow"] is InstanceStanding.OUTLIER
    assert {placed[f"node{k}"] for k in range(4)} == {InstanceStanding.TYPICAL}


def test_a_field_that_divides_the_fleet_goes_with_its_spread() -> None:
    fleet = {f"a{i}": instance(100, i) for i in range(4)}
    fleet |= {f"b{i}": instance(90, 50 + i, {"accelerator.gpu_power_limit_enforced_w": [600]}) for i in range(4)}
    found = compared(fleet)
    assert InstanceStanding.OUTLIER not in standings(found).values()
    (split,) = found.splits
    assert (split.layer, split.name) == (Layer.ACCELERATOR, "gpu_power_limit_enforced_w")
    assert split.explained > 0.95
    assert sorted(len(units) for _, units, _ in split.groups) == [4, 4]


@pytest.mark.parametrize(("count", "allowed"), [(3, 0.02), (8, 0.05), (24, 0.05)])
def test_alike_instances_are_seldom_called_outliers(count: int, allowed: float) -> None:
    """Levels that differ by 1 % from instance to instance, as identical machines do: the truth holds no outlier."""
    rng = np.random.default_rng(count)
    fleets, false = 40, 0
    for turn in range(fleets):
        levels = 100 * np.exp(rng.normal(0, 0.01, count))
        fleet = {f"n{i}": instance(level, turn * 1000 + i) for i, level in enumerate(levels)}
        false += sum(one is InstanceStanding.OUTLIER for one in standings(compared(fleet)).values())
    assert false / (fleets * count) <= allowed


@pytest.mark.parametrize("count", [3, 8, 24])
def test_an_instance_a_tenth_slower_is_found(count: int) -> None:
    rng = np.random.default_rng(7)
    found = 0
    for turn in range(20):
        levels = 100 * np.exp(rng.normal(0, 0.01, count))
        levels[0] *= 0.88
        fleet = {f"n{i}": instance(level, turn * 1000 + i) for i, level in enumerate(levels)}
        found += standings(compared(fleet))["n0"] is InstanceStanding.OUTLIER
    assert found >= 18


def test_an_interval_wider_than_what_fleets_spread_places_nobody() -> None:
    fleet = {f"n{i}": instance(100, i, noise=0.06) for i in range(4)}
    found = compared(fleet)
    assert set(standings(found).values()) == {InstanceStanding.UNKNOWN}
    assert all("more restarts would place it" in row.why for row in found.instances)
    assert "none stands apart" not in found.sentence
