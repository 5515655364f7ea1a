"""Which nodes take part, by number, name or address."""

from __future__ import annotations

import socket

import pytest

from lynxbench.errors import BadInput, CannotRun
from lynxbench.fleet.cluster import FleetNode, choose, join

NODES = tuple(FleetNode(f"id{i}", f"node-{i}", f"10.0.0.{i}", 8.0, 0.0) for i in (1, 2, 3))


def names(nodes: tuple[FleetNode, ...]) -> list[str]:
    return [node.name for node in nodes]


def test_all_a_number_with_spares_and_names() -> None:
    assert choose(NODES, None) == (NODES, ())
    chosen, spare = choose(NODES, "2")
    assert (names(chosen), names(spare)) == (["node-1", "node-2"], ["node-3"])
    assert names(choose(NODES, "10.0.0.3, node-1")[0]) == ["node-3", "node-1"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("4", "the cluster has 3 nodes"),
        ("0", "the cluster has 3 nodes"),
        ("node-9", "is no node of the cluster; it has node-1, node-2, node-3"),
    ],
)
def test_a_wrong_choice_says_what_there_is(asked: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        choose(NODES, asked)


def test_an_empty_cluster_cannot_run() -> None:
    with pytest.raises(CannotRun, match="no node"):
        choose((), None)


def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else answers there either
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotRun, match=f"--ray {address}: .*is the cluster up"):
            join(address)


def test_a_head_without_cpus_is_not_measured() -> None:
    head = FleetNode("id0", "head", "10.0.0.9", 0.0, 0.0)
    assert choose((head, *NODES), None)[0] == NODES
