"""Progress of a whole fleet on standard error: one bar for all on a terminal, a line an event elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from lynxbench.cli.progress import ProgressBar
from lynxbench.fleet.fleet_book import FleetProgress, FleetUnits
from lynxbench.model.fleet import FleetUnit, UnitState


class FleetTerminal(ProgressBar, FleetProgress):
    """Tells a person how many units are done, which run, and about how long the rest will take."""

    def __init__(self) -> None:
        super().__init__("connecting")
        self._total = 1
        self._done = 0.0
        self._parts: dict[str, tuple[int, int]] = {}
        self._began = monotonic()

    def begin(self, state: FleetUnits, folder: Path) -> None:
        """The units are known."""
        self._total = len(state.units)
        self._done = sum(unit.state is UnitState.DONE for unit in state.units)
        self.say(f"{state.fleet_id}: {self._total - int(self._done)} of {self._total} units to run, into {folder}")

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        """A unit starts, or starts again."""
        self._parts[unit] = (0, 1)
        again = f", attempt {attempt}" if attempt > 1 else ""
        where = "" if unit == node else f" on {node}"
        self.say(f"  {unit} starts{where}{again}")

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        """A node says how far its run is."""
        done, of = self._parts.get(unit, (0, 1))
        if "begin" in message:
            self._parts[unit] = (0, max(1, int(message["begin"]["processes"])))
        elif "end" in message:
            self._parts[unit] = (done + 1, of)
        elif "stage" in message:
            stage = message["stage"]
            self.draw(description=f"{unit} · {stage['precision']} · {stage['stage']}")
        self._draw_share()

    def unit_ended(self, unit: FleetUnit, left: int) -> None:
        """A unit has its outcome."""
        self._parts.pop(unit.name, None)
        self._done += 1
        spent = monotonic() - self._began
        rest = f", about {spent / self._done * left / 60:.1f} min left" if left else ""
        why = f": {unit.why}" if unit.why else ""
        self.say(f"  {unit.name} {unit.state}{why} ({left} left{rest})")
        self._draw_share()

    def _draw_share(self) -> None:
        inside = sum(done / of for done, of in self._parts.values())
        self.draw(completed=(self._done + inside) / max(1, self._total))
