"""Which contracts a contract replaces, one behind the other: each names the one before it by its id."""

from collections.abc import Callable
from dataclasses import dataclass

from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract

MOST_STEPS = 64
"""So far back a chain is followed; nobody amends a contract more often."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """One step back: the contract that the later one replaces."""

    contract_id: str
    name: str | None
    """None where its text is not known."""
    no_longer_asked: tuple[str, ...]
    """Teams that it asked for and the later one does not: dropping a team is no way to its agreement."""
    problem: str = ""

    @property
    def line(self) -> str:
        """For people."""
        dropped = f"; no longer asks {', '.join(self.no_longer_asked)}" if self.no_longer_asked else ""
        return f"{short(self.contract_id)}{f' ({self.name})' if self.name else ''}{dropped}" + (
            f": {self.problem}" if self.problem else ""
        )


def amended_by(contract: Contract, find: Callable[[str], Contract | None]) -> tuple[Amendment, ...]:
    """Every contract that this one replaces, the nearest first; where the chain breaks, the last step says why."""
    steps: list[Amendment] = []
    later, seen = contract, {contract.contract_id}
    while later.amends is not None:
        named = later.amends
        if named in seen:
            return (*steps, Amendment(named, None, (), "it is amended by itself; somebody forged it"))
        if len(steps) == MOST_STEPS:
            return (*steps, Amendment(named, None, (), f"more than {MOST_STEPS} contracts back; not followed further"))
        earlier = find(named)
        if earlier is None:
            return (*steps, Amendment(named, None, (), "its text is not known here"))
        if earlier.contract_id != named:
            return (*steps, Amendment(named, None, (), "what is kept under this id has another one"))
        dropped = tuple(team for team in earlier.teams if team not in later.teams)
        steps.append(Amendment(named, earlier.name, dropped))
        seen.add(named)
        later = earlier
    return tuple(steps)
