"""Runs against a server that lynxbench starts: once, or anew for every repetition; and again to test a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lynxbench.evidence.run_folder import RunFolder, Slot
from lynxbench.executor.declaration import Declaration
from lynxbench.executor.server import CapturedServer
from lynxbench.model.contract import Contract
from lynxbench.model.interventions import InterventionChoice
from lynxbench.model.launching import Anew
from lynxbench.model.layers import Layer
from lynxbench.model.result import PrecisionResult
from lynxbench.model.surroundings import Surroundings
from lynxbench.run.attempts import Attempt, FreshProcess, earlier_attempt
from lynxbench.run.client_results import ServerCounts
from lynxbench.run.concluding import Conclusion, LiveEvidence
from lynxbench.run.contract_server import ContractServer
from lynxbench.run.machine_servers import PORT
from lynxbench.run.run_outcome import Progress
from lynxbench.run.served_run import RemoteClients, ServedStrategy, counts_between
from lynxbench.run.server_intervening import intervene_on_server


class LaunchedStrategy(ServedStrategy):
    """One server of ours at a time, asked by fresh clients."""

    def __init__(
        self,
        declaration: Declaration | None,
        server: ContractServer,
        around: Surroundings | None = None,
        remote: RemoteClients | None = None,
        intervening: InterventionChoice | None = None,
    ) -> None:
        super().__init__(declaration, None, remote)
        self._started, self._around, self._intervening = server, around, intervening
        self._earlier: list[ServerCounts] = []
        """What servers counted that have ended since."""
        self._asked_by: set[int] = set()
        """Slots whose clients have asked the server that runs now."""

    def register(self, contract: Contract, out: Path) -> RunFolder:
        """Start the server, and register once it has answered."""
        run = super().register(contract, out)
        self._started.folder = run.path
        return run

    def resume(self, run: RunFolder) -> None:
        """The server is started anew."""
        self._started.folder = run.path
        super().resume(run)

    def process(self, run: RunFolder, slot: Slot, attempts: Sequence[Attempt]) -> FreshProcess | None:
        """The client of a slot; before it a fresh server, where the contract wants one for each."""
        if earlier_attempt(run, slot, repeats_failures=self.repeats_failures) is None:
            self._started.running.refuse_ended()
            if self._asked_by and self._started.launch.restart is Anew.SERVER:
                self._renew(run.registration.contract)
            self._asked_by.add(slot.index)
        process = super().process(run, slot, attempts)
        # The keeper is known to be ours with all that it keeps, also where workers listen in its server's stead.
        return process and replace(process, beside=lambda: (self._started.running.pid,))

    def observe(self, run: RunFolder) -> LiveEvidence:
        """Capture the server again, and add up what all servers of the run counted."""
        self._started.running.refuse_ended()
        live = super().observe(run)
        self._started.keep_log(run.path)
        return replace(live, server=_added([*self._earlier, live.server]))

    def refine(self, run: RunFolder, conclusion: Conclusion, progress: Progress) -> tuple[PrecisionResult, ...]:
        """Test the attribution by other launch arguments, where asked to."""
        if self._intervening is None:
            return conclusion.per_precision
        registration, choice = run.registration, self._intervening
        changed = intervene_on_server(
            run, conclusion.per_precision[0], self._started, choice, progress, clients=registration.clients or 1
        )
        self._started.keep_log(run.path)
        return (changed, *conclusion.per_precision[1:])

    def _renew(self, contract: Contract) -> None:
        self._earlier.append(counts_between(contract, self._server, self._look(contract)))
        self._greeting, self._server = self._started.start(), self._look(contract)
        self._asked_by.clear()

    def _greet(self, contract: Contract) -> None:
        self._greeting = self._started.start()

    def _asked(self, contract: Contract) -> Contract:
        return self._started.reached(contract)

    def _look(self, contract: Contract) -> CapturedServer:
        """The server as it stands, without its secrets; a port that was any free one is no property of it."""
        seen = super()._look(contract)
        field = seen.layers[Layer.SERVING].get("server_command")
        if field is None or not isinstance(field.value, list):
            return seen
        any_port = str(self._started.port) if self._started.is_free else None
        withheld = self._started.running.withheld
        words = [PORT if word == any_port else withheld(str(word)) for word in field.value]
        serving = {**seen.layers[Layer.SERVING], "server_command": field.model_copy(update={"value": words})}
        return replace(seen, layers={**seen.layers, Layer.SERVING: serving})


def _added(parts: Sequence[ServerCounts]) -> ServerCounts:
    def total(columns: Sequence[Mapping[str, float]]) -> dict[str, float]:
        return {name: sum(column.get(name, 0.0) for column in columns) for name in {n: 0 for c in columns for n in c}}

    return ServerCounts(
        total([part.counters for part in parts]),
        total([part.where_time_went for part in parts]),
        shares_host=parts[-1].shares_host,
    )
