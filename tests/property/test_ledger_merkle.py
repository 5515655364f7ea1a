"""The incremental tree against RFC 9162's own recursive definitions, written out naively."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.ledger.merkle import (
    EMPTY_ROOT,
    Frontier,
    extends,
    frontier_places,
    includes,
    leaf_hash,
    prove_consistency,
    prove_inclusion,
    read_frontier,
)

# The eight inputs and roots that certificate transparency implementations test against.
KNOWN_LEAVES = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
KNOWN_ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def _root(leaves: list[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = _split(len(leaves))
    return hashlib.sha256(b"\x01" + _root(leaves[:split]) + _root(leaves[split:])).digest()


def _split(count: int) -> int:
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def _path(index: int, leaves: list[bytes]) -> list[bytes]:
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*_path(index, leaves[:split]), _root(leaves[split:])]
    return [*_path(index - split, leaves[split:]), _root(leaves[:split])]


def _subproof(earlier: int, leaves: list[bytes], whole: bool) -> list[bytes]:
    if earlier == len(leaves):
        return [] if whole else [_root(leaves)]
    split = _split(len(leaves))
    if earlier <= split:
        return [*_subproof(earlier, leaves[:split], whole), _root(leaves[split:])]
    return [*_subproof(earlier - split, leaves[split:], False), _root(leaves[:split])]


class _Tree:
    def __init__(self, leaves: list[bytes]) -> None:
        self.nodes: dict[tuple[int, int], bytes] = {}
        self.reads = 0
        frontier = Frontier()
        for leaf in leaves:
            frontier, completed = frontier.appended(leaf_hash(leaf))
            self.nodes |= {(node.level, node.position): node.digest for node in completed}
        self.frontier = frontier

    def read(self, level: int, position: int) -> bytes:
        self.reads += 1
        return self.nodes[level, position]


def _leaves(count: int) -> list[bytes]:
    return [f"entry {index}".encode() for index in range(count)]


@pytest.mark.parametrize("count", KNOWN_ROOTS)
def test_published_roots(count: int) -> None:
    assert _Tree(KNOWN_LEAVES[:count]).frontier.root.hex() == KNOWN_ROOTS[count]


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_root_and_frontier_are_the_definition(leaves: list[bytes]) -> None:
    tree = _Tree(leaves)
    assert tree.frontier.root == _root(leaves)
    assert read_frontier(tree.read, len(leaves)) == tree.frontier
    assert len(frontier_places(len(leaves))) == len(leaves).bit_count()


@given(st.integers(1, 130), st.data())
def test_inclusion_is_proven_and_nothing_else(size: int, data: st.DataObject) -> None:
    leaves = _leaves(size)
    index = data.draw(st.integers(0, size - 1))
    tree = _Tree(leaves)
    path = prove_inclusion(tree.read, index, size)
    root = tree.frontier.root
    assert list(path) == _path(index, leaves)
    assert tree.reads <= 2 * size.bit_length()
    assert includes(leaf_hash(leaves[index]), index, size, path, root)
    other = data.draw(st.integers(0, size - 1).filter(lambda one: one != index)) if size > 1 else None
    if other is not None:
        assert not includes(leaf_hash(leaves[index]), other, size, path, root)
        assert not includes(leaf_hash(leaves[other]), index, size, path, root)
    assert not includes(leaf_hash(leaves[index]), index, size, (*path, root), root)
    assert not includes(leaf_hash(leaves[index]), index, size, path[:-1], root) or not path
    if path:
        bit = data.draw(st.integers(0, 255))
        step = data.draw(st.integers(0, len(path) - 1))
        bent = bytearray(path[step])
        bent[bit // 8] ^= 1 << bit % 8
        assert not includes(leaf_hash(leaves[index]), index, size, (*path[:step], bytes(bent), *path[step + 1 :]), root)


@given(st.integers(0, 130), st.data())
def test_consistency_is_proven_and_a_fork_is_not(size: int, data: st.DataObject) -> None:
    leaves = _leaves(size)
    earlier = data.draw(st.integers(0, size))
    tree, before = _Tree(leaves), _Tree(leaves[:earlier])
    path = prove_consistency(tree.read, earlier, size)
    if 0 < earlier < size:
        assert list(path) == _subproof(earlier, leaves, True)
    root = tree.frontier.root
    assert extends(earlier, before.frontier.root, size, root, path)
    if earlier:
        forked = _Tree([*leaves[: earlier - 1], b"another", *leaves[earlier:]])
        forked_path = prove_consistency(forked.read, earlier, size)
        assert not extends(earlier, before.frontier.root, size, forked.frontier.root, forked_path)
        assert not extends(earlier, before.frontier.root, size, forked.frontier.root, path)
        assert not extends(earlier, before.frontier.root, size, root, (*path, root))
    else:
        assert not extends(0, b"\x01" * 32, size, root, ())


def test_what_is_outside_the_tree_has_no_proof() -> None:
    tree = _Tree(_leaves(5))
    with pytest.raises(ValueError, match="not in a tree of 5"):
        prove_inclusion(tree.read, 5, 5)
    with pytest.raises(ValueError, match="no earlier tree of 6"):
        prove_consistency(tree.read, 6, 5)
    assert not includes(b"short", -1, 5, (), tree.frontier.root)
    assert not includes(leaf_hash(b"entry 0"), 0, 5, (b"short",), tree.frontier.root)
    assert not extends(5, tree.frontier.root, 4, EMPTY_ROOT, ())
