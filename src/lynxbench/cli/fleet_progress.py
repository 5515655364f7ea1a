"""Progress of a whole fleet on standard error: one bar for all on a terminal, a line an event elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import Progress

from lynxbench.cli.progress import make_bar
from lynxbench.fleet.fleet_book import FleetProgress, FleetUnits
from lynxbench.model.fleet import FleetUnit, UnitState


class FleetTerminal(FleetProgress):
    """Tells a person how many units are done, which run, and about how long the rest will take."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._total = 1
        self._done = 0.0
        self._parts: dict[str, tuple[int, int]] = {}
        self._began = monotonic()

    def __enter__(self) -> FleetTerminal:
        if self._console.is_terminal:
            self._bar = make_bar(self._console)
            self._bar.start()
            self._task = self._bar.add_task("connecting", total=1.0, rest="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, state: FleetUnits, folder: Path) -> None:
        """The units are known."""
        self._total = len(state.units)
        self._done = sum(unit.state is UnitState.DONE for unit in state.units)
        self._say(f"{state.fleet_id}: {self._total - int(self._done)} of {self._total} units to run, into {folder}")

    def unit_began(self, unit: str, node: str, attempt: int) -> None:
        """A unit starts, or starts again."""
        self._parts[unit] = (0, 1)
        again = f", attempt {attempt}" if attempt > 1 else ""
        where = "" if unit == node else f" on {node}"
        self._say(f"  {unit} starts{where}{again}")

    def unit_said(self, unit: str, message: Mapping[str, Any]) -> None:
        """A node says how far its run is."""
        done, of = self._parts.get(unit, (0, 1))
        if "begin" in message:
            self._parts[unit] = (0, max(1, int(message["begin"]["processes"])))
        elif "end" in message:
            self._parts[unit] = (done + 1, of)
        elif "stage" in message and self._bar is not None:
            stage = message["stage"]
            self._bar.update(self._task, description=f"{unit} · {stage['precision']} · {stage['stage']}")
        self._draw()

    def unit_ended(self, unit: FleetUnit, left: int) -> None:
        """A unit has its outcome."""
        self._parts.pop(unit.name, None)
        self._done += 1
        spent = monotonic() - self._began
        rest = f", about {spent / self._done * left / 60:.1f} min left" if left else ""
        why = f": {unit.why}" if unit.why else ""
        self._say(f"  {unit.name} {unit.state}{why} ({left} left{rest})")
        self._draw()

    def _draw(self) -> None:
        if self._bar is not None:
            inside = sum(done / of for done, of in self._parts.values())
            self._bar.update(self._task, completed=(self._done + inside) / max(1, self._total))

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
