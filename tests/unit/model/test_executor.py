"""Three tiers of hash, and the difference of two executors."""

from __future__ import annotations

from lynxbench.model.executor import (
    Executor,
    Field,
    Status,
    Tier,
    declared,
    difference,
    measured,
    unreadable,
)
from lynxbench.model.layers import Layer


def executor(**system: Field) -> Executor:
    return Executor(layers={Layer.SYSTEM: dict(system)})


BASE = executor(kernel=measured("6.1", "uname"), serial=measured("a1", "dmi", Tier.INSTANCE))


def test_state_enters_no_id() -> None:
    warm = BASE.merged({Layer.SYSTEM: {"load": measured(0.7, "loadavg", Tier.STATE)}})
    assert warm.executor_id == BASE.executor_id
    assert warm.instance_id == BASE.instance_id


def test_configuration_and_instance_have_ids_of_their_own() -> None:
    updated = BASE.merged({Layer.SYSTEM: {"kernel": measured("6.2", "uname")}})
    twin = BASE.merged({Layer.SYSTEM: {"serial": measured("b2", "dmi", Tier.INSTANCE)}})
    assert updated.executor_id != BASE.executor_id
    assert updated.instance_id == BASE.instance_id
    assert twin.executor_id == BASE.executor_id
    assert twin.instance_id != BASE.instance_id


def test_the_source_of_a_field_is_no_configuration() -> None:
    assert (
        executor(kernel=measured("6.1", "uname")).executor_id == executor(kernel=measured("6.1", "/proc")).executor_id
    )


def test_field_order_and_empty_layers_do_not_change_the_id() -> None:
    one = Executor(layers={Layer.SYSTEM: {"a": measured(1, "x"), "b": measured(2, "x")}})
    two = Executor(layers={Layer.FACILITY: {}, Layer.SYSTEM: {"b": measured(2, "x"), "a": measured(1, "x")}})
    assert one.executor_id == two.executor_id


def test_difference_names_layer_field_and_both_values() -> None:
    after = BASE.merged(
        {
            Layer.SYSTEM: {"kernel": measured("6.2", "uname")},
            Layer.FACILITY: {"cooling": declared("water", "declaration")},
        }
    )
    found = {(c.layer, c.name): (c.before, c.after) for c in difference(BASE, after)}
    assert found == {(Layer.SYSTEM, "kernel"): ("6.1", "6.2"), (Layer.FACILITY, "cooling"): (None, "water")}
    assert difference(BASE, BASE) == ()


def test_difference_can_be_held_to_tiers() -> None:
    twin = BASE.merged({Layer.SYSTEM: {"serial": measured("b2", "dmi", Tier.INSTANCE)}})
    assert difference(BASE, twin, [Tier.CONFIGURATION]) == ()
    assert [c.name for c in difference(BASE, twin, [Tier.INSTANCE])] == ["serial"]


def test_absence_carries_its_reason() -> None:
    field = unreadable("NVML: not permitted")
    assert field.value is None
    assert field.status is Status.UNREADABLE
    assert field.source == "NVML: not permitted"
    assert executor(power=field).get(Layer.SYSTEM, "power") is None
    assert BASE.get(Layer.SYSTEM, "kernel") == "6.1"
    assert BASE.get(Layer.DEMAND, "nothing") is None


def test_an_executor_survives_the_trip_through_json() -> None:
    again = Executor.model_validate_json(BASE.model_dump_json())
    assert again == BASE
    assert again.executor_id == BASE.executor_id
