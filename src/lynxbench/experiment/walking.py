"""Which cell is visited next on which node. Pure: it is told what happened and says what comes.

A block belongs to one node, which visits its cells one after another in the block's own random order. So whatever a
node is, it falls on all cells of a block alike, as a drift of time does, and is taken out with the block. A block whose
node is lost begins anew on another one: half of it on each would confound cells with nodes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

MOST_LOSSES = 3
"""A block that lost its node three times is what takes nodes down, or has no luck left."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One cell in one block, on the block's node."""

    block: int
    place: int
    cell: int
    node: str


class Walk:
    """The blocks of an experiment over the nodes of a fleet."""

    def __init__(
        self,
        order: Sequence[Sequence[int]],
        nodes: Sequence[str],
        *,
        homes: Mapping[int, str] | None = None,
        visited: Collection[tuple[int, int]] = (),
        refused: Collection[tuple[int, str]] = (),
        ruled_out: Collection[int] = (),
    ) -> None:
        """`visited` are (cell, block) of an earlier part of the same walk; `refused` (cell, node) that failed there."""
        self._order = order
        self._nodes = list(nodes)
        self._homes: dict[int, str] = dict(homes or {})
        self._visited = set(visited)
        self._refused = set(refused)
        self._ruled_out = frozenset(ruled_out)
        self._at_work: dict[str, Visit] = {}
        self._losses: dict[int, int] = {}
        self._given_up: set[int] = set()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those that are there."""
        return tuple(self._nodes)

    @property
    def over(self) -> bool:
        """Nothing is left to visit, and nothing is at work."""
        return not self._at_work and not any(self._left(block) for block in range(len(self._order)))

    @property
    def stuck(self) -> bool:
        """Something is left, and no node to visit it."""
        return not self._nodes and not self.over

    def next(self) -> tuple[Visit, ...]:
        """A visit for every node that has none and that a block can be found for.

        Who has the fewest blocks chooses first: blocks spread over the nodes, whichever became free before.
        """
        visits = []
        for node in sorted(self._nodes, key=list(self._homes.values()).count):
            visit = None if node in self._at_work else self._for(node)
            if visit is not None:
                self._homes[visit.block] = node
                self._at_work[node] = visit
                visits.append(visit)
        return tuple(visits)

    def done(self, visit: Visit, *, refused: bool = False) -> None:
        """A visit has ended; one that was refused is not tried on the same node again."""
        self._at_work.pop(visit.node, None)
        self._visited.add((visit.cell, visit.block))
        if refused:
            self._refused.add((visit.cell, visit.node))

    def lose(self, node: str) -> tuple[int, ...]:
        """A node is gone: the blocks that it had begun and not finished, which begin anew or are given up."""
        self._at_work.pop(node, None)
        self._nodes = [other for other in self._nodes if other != node]
        begun = [block for block, home in self._homes.items() if home == node and self._left(block)]
        for block in begun:
            del self._homes[block]
            self._visited = {(cell, visited) for cell, visited in self._visited if visited != block}
            self._losses[block] = self._losses.get(block, 0) + 1
            if self._losses[block] >= MOST_LOSSES:
                self._given_up.add(block)
        return tuple(begun)

    def gives_up(self, block: int) -> bool:
        """Whether a block lost its node too often to be begun again."""
        return block in self._given_up

    def join(self, node: str) -> None:
        """One more node."""
        if node not in self._nodes:
            self._nodes.append(node)

    def _for(self, node: str) -> Visit | None:
        mine = [block for block in range(len(self._order)) if self._homes.get(block) == node and self._left(block)]
        free = [block for block in range(len(self._order)) if block not in self._homes and self._left(block)]
        for block in (*mine, *free):
            for place, cell in self._left(block, node):
                return Visit(block, place, cell, node)
        return None

    def _left(self, block: int, node: str | None = None) -> list[tuple[int, int]]:
        """Places and cells of a block that are still to be visited: by its node, by the one that asks, or by any."""
        if block in self._given_up:
            return []
        home = self._homes.get(block, node)
        by = self._nodes if home is None else [home]
        return [
            (place, cell)
            for place, cell in enumerate(self._order[block])
            if (cell, block) not in self._visited
            and cell not in self._ruled_out
            and (not by or any((cell, visitor) not in self._refused for visitor in by))
        ]
