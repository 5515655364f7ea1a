"""The machines of one contract's results, as people name and pick them."""

from collections.abc import Mapping, Sequence

from lynxbench.compare.machine_series import MachineSeries, OfMachine, OneT
from lynxbench.errors import NotFound
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.names import LEAST_DIGITS, machine_letter, machine_letters
from lynxbench.ledger.queries import Listed
from lynxbench.model.canonical import short
from lynxbench.model.machine_words import machine_words
from lynxbench.model.result import Result
from lynxbench.record.machine_names import machine_name


class MachineNames:
    """The machines of a contract's results as people name them: `H200 · driver 580 · machine a`.

    The letter is the one that the list of results shows; machines that are in no ledger take the next ones, in the
    order of their first results.
    """

    def __init__(
        self,
        ledger: OpenLedger | None,
        listed: Sequence[Listed],
        results: Mapping[str, Result],
        points: Sequence[OfMachine],
    ) -> None:
        self._ledger, self._listed, self._results, self._points = ledger, listed, results, points
        self._letters: dict[str, str] = {}

    def letters(self) -> dict[str, str]:
        """By instance: its letter. Asked for only where there is something to tell apart."""
        if not self._letters:
            known = {} if self._ledger is None else dict(machine_letters(self._ledger.log))
            for point in sorted(self._points, key=lambda point: (point.started_at, point.result_id)):
                known.setdefault(point.instance_id, machine_letter(len(known)))
            self._letters = known
        return self._letters

    def of_machine(self, points: Sequence[OneT], machine: str) -> list[OneT]:
        """The results of the machine of a letter, or of a beginning of its id."""
        wanted, letters = machine.lower(), self.letters()
        here = dict.fromkeys(point.instance_id for point in points)
        chosen = [name for name in here if letters[name] == wanted]
        if not chosen and len(wanted) >= LEAST_DIGITS:
            chosen = [name for name in here if name.startswith(wanted)]
        if len(chosen) != 1:
            known = ", ".join(sorted(letters[name] for name in here)) or "none"
            raise NotFound(f"{machine}: no machine of that name has results in this series; these have: {known}")
        return [point for point in points if point.instance_id == chosen[0]]

    def words(self, series: MachineSeries[OneT]) -> str:
        """What the machine of a series is, and its letter; of machines with one result each how many they are."""
        newest = series.newest
        kind = self._kind(newest.result_id)
        if series.machines > 1:
            return " · ".join(filter(None, (kind, f"{series.machines} machines with one result each")))
        letter = self.letters().get(newest.instance_id, short(newest.instance_id))
        return " · ".join(filter(None, (kind, f"machine {letter}")))

    def _kind(self, result_id: str) -> str:
        if result_id in self._results:
            return machine_words(self._results[result_id].executor.get)
        listed = next((one for one in self._listed if one.result_id == result_id), None)
        return "" if listed is None or self._ledger is None else machine_name(self._ledger, listed)
