"""Suspects: ranked by what is known, echoes counted once, and one layer told from several."""

from __future__ import annotations

import pytest

from compared import RUN_MEANS, make_contract, make_executor, make_result
from lynxbench.compare.comparing import compare_pair
from lynxbench.compare.pair import ComparedPair, ComparedSide
from lynxbench.compare.suspects import COUNTS, cause_of, changes_between, model_changed, rank_changes
from lynxbench.model.comparison import CauseKind, Weight
from lynxbench.model.contract import Contract
from lynxbench.model.layers import Layer

SPIN = make_contract(
    workload={"task": "callable", "model": {"source": "callable", "target": "m:f"}, "precisions": ["fp32"]},
    engine={"name": "callable"},
)


def _layers(changes: dict[str, object], **more: object):  # type: ignore[no-untyped-def]
    a = make_result(contract=more.get("contract"))  # type: ignore[arg-type]
    b = make_result(executor=make_executor(changes), **more)  # type: ignore[arg-type]
    layers = rank_changes(changes_between(a, b), b.contract.owners)
    return layers, cause_of(layers, model_changed=model_changed(a, b), contract=b.contract.name)


def test_a_driver_bump_points_to_the_system_layer_and_its_owner() -> None:
    layers, cause = _layers({"system.nvidia_driver": "570.00"})
    assert [one.layer for one in layers] == [Layer.SYSTEM]
    assert cause.kind is CauseKind.ONE_LAYER
    assert cause.layer is Layer.SYSTEM
    assert cause.owner == "infrastructure SRE"
    assert "550.54 → 570.00" in cause.sentence


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "nothing that is recorded changed but the machine"),
        (
            {"framework.torch": "2.6.0"},
            "only layer framework changed (torch 2.5.0 → 2.6.0); the machine is another one",
        ),
        ({"framework.torch": "2.6.0", "system.nvidia_driver": "570.00"}, "the machine is another one as well"),
        ({"application.model_sha256": "cd" * 32}, "the machine is another one as well"),
    ],
)
def test_another_machine_stands_beside_the_layers(changes: dict[str, object], said: str) -> None:
    """Found: `only layer system changed`, of results of two machines."""
    a = make_result()
    for machine, slower, shown in (("a", 1.0, False), ("b", 1.0, True), ("b", 0.5, True)):
        means = tuple(slower * mean for mean in RUN_MEANS)
        b = make_result(executor=make_executor(changes, machine=machine), run_means=means)
        cause = compare_pair(ComparedPair(ComparedSide(a, "A"), ComparedSide(b, "B"))).cause
        assert cause is not None
        assert (said in cause.sentence) is shown, cause.sentence
        assert ("machine" in cause.sentence) is shown


def test_known_fields_rank_before_libraries_before_versions_before_state() -> None:
    layers, cause = _layers(
        {
            "system.load_1min": 3.0,
            "framework.numpy": "2.1.0",
            "runtime.native_libraries": {"libtorch.so": "22" * 32},
            "accelerator.gpu_power_limit_enforced_w": [500],
        }
    )
    weights = {one.layer: one.weight for one in layers}
    assert layers[0].layer is Layer.ACCELERATOR
    assert weights[Layer.ACCELERATOR] is Weight.KNOWN
    assert weights[Layer.FRAMEWORK] is Weight.VERSION
    assert weights[Layer.SYSTEM] is Weight.STATE
    assert cause.kind is CauseKind.NOT_SEPARABLE
    assert "accelerator" in cause.experiment
    assert cause.layer is None, "not one of them"
    assert cause.owner is not None
    assert len(cause.owner.split(", ")) == len({one.owner for one in layers if one.weight in COUNTS})


def test_a_thread_count_is_one_change_although_three_fields_show_it() -> None:
    changes: dict[str, object] = {"framework.torch_threads": 1, "system.process_environment": {"OMP_NUM_THREADS": "1"}}
    layers, cause = _layers(changes, threads=1)
    assert cause.kind is CauseKind.ONE_LAYER
    assert cause.layer is Layer.FRAMEWORK
    system = next(one for one in layers if one.layer is Layer.SYSTEM)
    assert system.fields[0].follows == "framework.torch_threads"


@pytest.mark.parametrize(("contract", "layer"), [(SPIN, Layer.RUNTIME), (make_contract(), Layer.FRAMEWORK)])
def test_threads_that_no_field_records_are_taken_from_the_conditions(contract: Contract, layer: Layer) -> None:
    _, cause = _layers({"system.process_environment": {"OMP_NUM_THREADS": "1"}}, threads=1, contract=contract)
    assert cause.kind is CauseKind.ONE_LAYER
    assert cause.layer is layer
    assert "threads 2 → 1" in cause.sentence


def test_fewer_cpus_are_the_systems_change_and_the_threads_follow() -> None:
    changes: dict[str, object] = {"system.affinity": "0", "framework.torch_threads": 1}
    _, cause = _layers(changes, threads=1)
    assert cause.layer is Layer.SYSTEM
    assert cause.kind is CauseKind.ONE_LAYER


def test_a_framework_update_is_not_also_a_runtime_change() -> None:
    _, cause = _layers({"framework.torch": "2.6.0", "runtime.native_libraries": {"libtorch.so": "33" * 32}})
    assert cause.kind is CauseKind.ONE_LAYER
    assert cause.layer is Layer.FRAMEWORK


def test_other_weights_are_model_drift() -> None:
    _, cause = _layers({"application.model_sha256": "cd" * 32})
    assert cause.kind is CauseKind.MODEL
    assert "did not change" in cause.sentence
    _, both = _layers({"application.model_sha256": "cd" * 32, "system.nvidia_driver": "570.00"})
    assert "system" in both.sentence


def test_nothing_in_the_record_is_said_so() -> None:
    _, cause = _layers({"system.load_1min": 9.0})
    assert cause.kind is CauseKind.NOTHING_RECORDED
    assert cause.owner is None


def test_a_price_is_no_suspect() -> None:
    layers, cause = _layers({"procurement.price": "2 USD"})
    assert layers[0].weight is Weight.NONE
    assert cause.kind is CauseKind.NOTHING_RECORDED
