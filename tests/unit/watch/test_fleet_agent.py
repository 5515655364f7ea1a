"""Where a scheduled run goes: its own node again, else the one with the least to do."""

from __future__ import annotations

from lynxbench.watch.fleet_agent import LONGEST_NAME, pick_node, server_name


def test_a_schedule_goes_on_at_its_own_node_even_when_that_is_busy() -> None:
    assert pick_node(["a", "b"], "b", {"b": 3}) == "b"


def test_a_new_or_homeless_schedule_goes_where_least_is_to_do() -> None:
    assert pick_node(["a", "b"], None, {"a": 1}) == "b"
    assert pick_node(["a", "b"], "gone", {}) == "a"


def test_names_are_what_the_server_takes_and_stay_apart() -> None:
    assert server_name("10.0.0.1:6379") == "10.0.0.1:6379"
    assert server_name("rack 7/blade é") == "rack_7_blade__"
    long = "raycluster-with-a-very-long-name-for-a-group-of-workers-worker"
    assert len(server_name(f"{long}-aaaaa")) <= LONGEST_NAME
    assert server_name(f"{long}-aaaaa") != server_name(f"{long}-bbbbb")
    assert pick_node([f"{long}-aaaaa", f"{long}-bbbbb"], server_name(f"{long}-bbbbb"), {}) == f"{long}-bbbbb"
