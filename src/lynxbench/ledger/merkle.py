"""The Merkle tree of RFC 9162, section 2.1: hashes, inclusion and consistency proofs, and their verification.

Only perfect subtrees are ever stored: node (level, position) covers 2^level leaves from position·2^level on.
They never change once complete, so an append writes each one once, and any root or proof takes O(log n) reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HASH_BYTES = 32
_LEAF, _NODE = b"\x00", b"\x01"  # RFC 9162, 2.1.1: apart, so that a node can never pass for a leaf
_TIME = b"\x02"
NO_TIME = bytes(HASH_BYTES)
"""What the chain of times begins with."""

EMPTY_ROOT = hashlib.sha256(b"").digest()

ReadNode = Callable[[int, int], bytes]
"""(level, position) -> hash of that perfect subtree."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A perfect subtree that an append completed."""

    level: int
    position: int
    digest: bytes


def leaf_hash(data: bytes) -> bytes:
    """The hash of one entry."""
    return hashlib.sha256(_LEAF + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash over two subtrees."""
    return hashlib.sha256(_NODE + left + right).digest()


def chain_time(before: bytes, leaf: bytes, logged_at: str) -> bytes:
    """The chain over when each entry was logged, one link on."""
    return hashlib.sha256(_TIME + before + leaf + logged_at.encode()).digest()


@dataclass(frozen=True, slots=True)
class Frontier:
    """What an append needs of a tree: its size and its perfect subtrees, largest first."""

    size: int = 0
    digests: tuple[bytes, ...] = ()

    def appended(self, leaf: bytes) -> tuple[Frontier, tuple[TreeNode, ...]]:
        """The tree with one leaf more, and the subtrees that it completed, the leaf itself first."""
        digests = list(self.digests)
        digest, level, position = leaf, 0, self.size
        completed = [TreeNode(level, position, digest)]
        while position & 1:
            digest = node_hash(digests.pop(), digest)
            level, position = level + 1, position >> 1
            completed.append(TreeNode(level, position, digest))
        digests.append(digest)
        return Frontier(self.size + 1, tuple(digests)), tuple(completed)

    @property
    def root(self) -> bytes:
        """The hash of the whole tree."""
        if not self.digests:
            return EMPTY_ROOT
        digest = self.digests[-1]
        for left in reversed(self.digests[:-1]):
            digest = node_hash(left, digest)
        return digest


def frontier_places(size: int) -> list[tuple[int, int]]:
    """(level, position) of the perfect subtrees of a tree, largest first."""
    places, start = [], 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            places.append((level, start >> level))
            start += 1 << level
    return places


def read_frontier(read: ReadNode, size: int) -> Frontier:
    """The frontier of a stored tree."""
    return Frontier(size, tuple(read(level, position) for level, position in frontier_places(size)))


def prove_inclusion(read: ReadNode, index: int, size: int) -> tuple[bytes, ...]:
    """The audit path of a leaf (RFC 9162, 2.1.3.1), leaf's sibling first."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    path: list[bytes] = []
    start, end = 0, size
    while end - start > 1:
        split = start + _largest_power_below(end - start)
        if index < split:
            path.append(_range_hash(read, split, end))
            end = split
        else:
            path.append(_range_hash(read, start, split))
            start = split
    return tuple(reversed(path))


def prove_consistency(read: ReadNode, earlier: int, size: int) -> tuple[bytes, ...]:
    """That a tree of `size` extends the tree of `earlier` (RFC 9162, 2.1.4.1)."""
    if not 0 <= earlier <= size:
        raise ValueError(f"a tree of {size} has no earlier tree of {earlier}")
    if earlier in (0, size):
        return ()
    path: list[bytes] = []
    start, end, whole = 0, size, True
    while earlier != end:
        split = start + _largest_power_below(end - start)
        if earlier <= split:
            path.append(_range_hash(read, split, end))
            end = split
        else:
            path.append(_range_hash(read, start, split))
            start, whole = split, False
    if not whole:
        path.append(_range_hash(read, start, end))
    return tuple(reversed(path))


def includes(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the path leads from the leaf to the root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or any(len(step) != HASH_BYTES for step in path):
        return False
    sides, digest = _climb(index, size - 1, len(path)), leaf
    for step, is_left in zip(path, sides, strict=False):
        digest = node_hash(step, digest) if is_left else node_hash(digest, step)
    return len(sides) == len(path) and digest == root


def extends(earlier: int, earlier_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the path proves that the later tree begins with the earlier one (RFC 9162, 2.1.4.2)."""
    if not 0 <= earlier <= size or any(len(step) != HASH_BYTES for step in path):
        return False
    if earlier == 0:
        return not path and earlier_root == EMPTY_ROOT and (size > 0 or root == EMPTY_ROOT)
    if earlier == size:
        return not path and earlier_root == root
    steps = list(path)
    if earlier & (earlier - 1) == 0:
        steps.insert(0, earlier_root)
    if not steps:
        return False
    position, last = earlier - 1, size - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    old = new = steps.pop(0)
    sides = _climb(position, last, len(steps))
    for step, is_left in zip(steps, sides, strict=False):
        old = node_hash(step, old) if is_left else old
        new = node_hash(step, new) if is_left else node_hash(new, step)
    return len(sides) == len(steps) and old == earlier_root and new == root


def _climb(position: int, last: int, steps: int) -> list[bool]:
    """On which side each sibling stands on the way up to the root; fewer or more of them than steps: no such way."""
    sides: list[bool] = []
    while last and len(sides) <= steps:
        is_left = bool(position & 1) or position == last
        sides.append(is_left)
        while is_left and not position & 1 and position:
            position, last = position >> 1, last >> 1
        position, last = position >> 1, last >> 1
    return sides


def _range_hash(read: ReadNode, start: int, end: int) -> bytes:
    """The hash over leaves [start, end), where start is a multiple of the power of two at or above its length."""
    count = end - start
    if count & (count - 1) == 0:
        level = count.bit_length() - 1
        return read(level, start >> level)
    split = start + _largest_power_below(count)
    return node_hash(_range_hash(read, start, split), _range_hash(read, split, end))


def _largest_power_below(count: int) -> int:
    return 1 << (count - 1).bit_length() - 1
