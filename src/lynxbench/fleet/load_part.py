"""What lives on the node of a client; Ray's worker there imports this and no more."""

from time import perf_counter_ns

from lynxbench.errors import CannotRun
from lynxbench.load.load_record import LoadRecord
from lynxbench.load.plan import LoadPlan
from lynxbench.load.processes import PartProcess
from lynxbench.load.record_parts import moved, moved_rows
from lynxbench.model.samples import Int64


class LoadPart:
    """Lives on a client's node: one process of the driver's own kind, and the clock it stamps with."""

    _process: PartProcess

    def __init__(self, planted_ns: int = 0) -> None:
        self._planted_ns = planted_ns  # a known error of the clock, for proving that it is found

    def clock(self) -> int:
        """This client's time."""
        return perf_counter_ns() + self._planted_ns

    def prepare(self, plan: LoadPlan, part: int) -> None:
        """Start the process and wait until it is connected."""
        self._process = PartProcess(plan, part)
        if not self._process.is_ready():
            raise CannotRun("a client process could not be started")

    def begin(self, start_ns: int) -> None:
        """Say when the load starts, on this client's clock."""
        self._process.begin(start_ns - self._planted_ns)

    def look(self) -> tuple[bool, Int64]:
        """Whether it is at work, and the rows that were finished since the last look."""
        return self._process.running, moved_rows(self._process.new_rows(), self._planted_ns)

    def close_load(self) -> None:
        """Ask nothing more; what is open may finish."""
        self._process.close_load()

    def finish(self, within_s: float) -> LoadRecord | None:
        """The whole record, on this client's clock; None where the process died or does not end."""
        record = self._process.finish(within_s)
        return None if record is None else moved(record, self._planted_ns)

    def close(self) -> None:
        """End whatever is left, and its files."""
        if hasattr(self, "_process"):
            self._process.close()
