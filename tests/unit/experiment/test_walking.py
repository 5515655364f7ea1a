"""Blocks over nodes: a block stays on one node, begins anew when that is lost; nothing is visited twice or never."""

from __future__ import annotations

import random

from lynxbench.experiment.walking import MOST_LOSSES, Visit, Walk

ORDER = ((0, 1, 2), (2, 0, 1), (1, 2, 0))


def finish(walk: Walk) -> list[Visit]:
    """Every visit until the walk is over, one a node at a time."""
    made: list[Visit] = []
    for _ in range(100):
        coming = walk.next()
        for visit in coming:
            walk.done(visit)
        made += coming
        if walk.over:
            return made
    raise AssertionError("the walk does not end")


def test_a_block_is_visited_in_its_own_order_on_one_node() -> None:
    made = finish(Walk(ORDER, ["a", "b"]))
    for block, order in enumerate(ORDER):
        mine = [visit for visit in made if visit.block == block]
        assert [visit.cell for visit in mine] == list(order)
        assert [visit.place for visit in mine] == [0, 1, 2]
        assert len({visit.node for visit in mine}) == 1
    assert {visit.node for visit in made} == {"a", "b"}


def test_a_node_has_one_visit_at_a_time() -> None:
    walk = Walk(ORDER, ["a", "b"])
    first = walk.next()
    assert [visit.node for visit in first] == ["a", "b"]
    assert walk.next() == ()
    walk.done(first[1])
    assert [(visit.block, visit.cell, visit.node) for visit in walk.next()] == [(1, 0, "b")]


def test_a_lost_nodes_block_begins_anew_and_its_finished_ones_stay() -> None:
    walk = Walk(ORDER[:2], ["a", "b"])
    for _ in range(2):
        for visit in walk.next():
            walk.done(visit)
    a, b = walk.next()
    walk.done(a)  # block 0 is complete on a
    assert walk.lose("a") == ()
    assert walk.lose("b") == (1,)
    assert walk.stuck
    walk.join("c")
    assert not walk.stuck
    made = finish(walk)
    assert [(visit.block, visit.cell, visit.node) for visit in made] == [(1, cell, "c") for cell in ORDER[1]]
    assert b not in made


def test_a_block_begins_anew_on_a_node_that_had_none_even_where_another_is_free() -> None:
    walk = Walk(ORDER[:2], ["a", "b"])
    for _ in range(3):
        for visit in walk.next():
            if visit.node == "a":
                walk.done(visit)
    assert walk.next() == ()  # a has done its block and is free, b hangs
    assert walk.lose("b") == (1,)
    walk.join("c")
    assert [(visit.block, visit.node) for visit in walk.next()] == [(1, "c")]


def test_a_block_that_loses_every_node_is_given_up() -> None:
    walk = Walk(ORDER[:1], ["a", "b", "c", "d"])
    for node in "abcd"[:MOST_LOSSES]:
        walk.next()
        assert walk.lose(node) == (0,)
    assert walk.gives_up(0)
    assert walk.over


def test_what_fails_on_a_node_is_tried_on_others_but_not_there_again() -> None:
    walk = Walk(ORDER, ["a", "b"])
    tried: list[Visit] = []
    while not walk.over:
        for visit in walk.next():
            walk.done(visit, refused=visit.cell == 1)
            tried.append(visit)
    of_it = [visit.node for visit in tried if visit.cell == 1]
    assert sorted(of_it) == ["a", "b"]
    assert len([visit for visit in tried if visit.cell != 1]) == 6


def test_where_nothing_runs_anywhere_the_walk_ends() -> None:
    walk = Walk(ORDER, ["a"])
    while not walk.over:
        for visit in walk.next():
            walk.done(visit, refused=True)
    assert walk.next() == ()


def test_a_walk_goes_on_where_it_was() -> None:
    walk = Walk(ORDER, ["a", "b"], homes={0: "b", 1: "gone"}, visited=[(0, 0), (2, 1)], ruled_out=[1])
    assert walk.lose("gone") == (1,)
    made = finish(walk)
    assert {(visit.block, visit.cell) for visit in made} == {(0, 2), (1, 2), (1, 0), (2, 2), (2, 0)}
    assert {visit.node for visit in made if visit.block == 0} == {"b"}


def test_whatever_is_lost_no_block_is_shared_and_none_is_missing() -> None:
    """Many random histories of losses and joins: the visits that count are each block's, whole, on one node."""
    for seed in range(200):
        draw = random.Random(seed)
        order = tuple(tuple(draw.sample(range(4), 4)) for _ in range(5))
        walk, spare = Walk(order, ["n0", "n1", "n2"]), [f"s{i}" for i in range(30)]
        kept: dict[tuple[int, int], str] = {}
        busy: list[Visit] = []
        while not walk.over:
            busy += walk.next()
            visit = busy.pop(draw.randrange(len(busy)))
            if draw.random() < 0.06:
                busy = [one for one in busy if one.node != visit.node]
                for block in walk.lose(visit.node):
                    kept = {key: node for key, node in kept.items() if key[1] != block}
                walk.join(spare.pop())
            else:
                walk.done(visit)
                assert (visit.cell, visit.block) not in kept, "visited twice"
                kept[visit.cell, visit.block] = visit.node
        for block in range(5):
            nodes = {node for (_, one), node in kept.items() if one == block}
            assert len(nodes) == (0 if walk.gives_up(block) else 1)
            assert sum(one == block for _, one in kept) == (0 if walk.gives_up(block) else 4)
