"""The server that a contract has started: asked when it has answered once, kept an eye on, renewed and ended."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from lynxbench.engines.grpc_asking import is_ready
from lynxbench.errors import BadInput, CannotRun
from lynxbench.evidence.documents import RESULT_FILE
from lynxbench.evidence.whole_files import write_text
from lynxbench.executor.server import is_this_host
from lynxbench.https import request
from lynxbench.model.contract import Contract
from lynxbench.model.fields import Scalar
from lynxbench.model.launching import ServerLaunch
from lynxbench.model.serving import KserveEngine, ServedEngine
from lynxbench.model.surroundings import Surroundings
from lynxbench.run.greeting import Greeting, ask_server
from lynxbench.run.machine_servers import PORT, SERVERS_FILE, MachineServer, command_line, read_server
from lynxbench.run.run_outcome import Progress
from lynxbench.run.started_server import StartedServer, free_port, refuse_taken

LOG_FILE = "server.txt"
"""In a run's folder: the end of the log of each server that it started, secrets withheld."""
FAILED_LOG = "server-{name}-failed.txt"
"""Beside the runs: of a server that did not come up, before there was a run to keep it in."""
LOOK_S = 2.0
"""For one look at whether it is up; it is looked again."""


class ContractServer:
    """One server at a time, with the contract's arguments or with some of them changed."""

    def __init__(
        self, contract: Contract, machine: MachineServer, around: Surroundings | None, progress: Progress, out: Path
    ) -> None:
        assert isinstance(contract.engine, ServedEngine)
        assert contract.engine.serve is not None
        self._contract, self._machine, self._progress, self._out = contract, machine, progress, out
        self._around = around or Surroundings()
        self.launch: ServerLaunch = contract.engine.serve
        self.parts = urlsplit(contract.engine.url)
        host = self.parts.hostname or ""
        if not is_this_host(host):
            raise BadInput(f"engine.url: {host} is not this machine, where the server is started; name 127.0.0.1")
        self.is_free = self.parts.port == 0
        placed = any(PORT in word for word in machine.command)
        if self.is_free and not placed:
            raise BadInput(f"engine.url: port 0 is any free one; say with {PORT} in {SERVERS_FILE} where it is told so")
        self.port = (
            free_port(host) if self.is_free else self.parts.port or (443 if self.parts.scheme == "https" else 80)
        )
        self.folder: Path | None = None
        """Of the run that it is started for, once there is one."""
        self._running: StartedServer | None = None
        self._kept: list[str] = []

    @property
    def kind(self) -> str:
        """Whose arguments it takes."""
        dialect = self._machine.kind or getattr(self._contract.engine, "dialect", None)
        return "" if dialect is None else str(dialect.value)

    @property
    def command(self) -> tuple[str, ...]:
        """The machine's own words, without a contract's arguments."""
        return self._machine.command

    @property
    def running(self) -> StartedServer:
        """The server as it runs."""
        assert self._running is not None
        return self._running

    @property
    def ended(self) -> str:
        """How it ended without being asked to; empty where it runs, or is not started."""
        return "" if self._running is None else self._running.ended_by_now()

    def reached(self, contract: Contract) -> Contract:
        """A contract with the address at which the server is really asked."""
        if not self.is_free:
            return contract
        host = self.parts.netloc.rpartition(":")[0]
        url = urlunsplit(self.parts._replace(netloc=f"{host}:{self.port}"))
        return contract.model_copy(update={"engine": contract.engine.model_copy(update={"url": url})})

    def start(self, changes: Mapping[str, Scalar] | None = None) -> Greeting | None:
        """Start it, or start it anew, with some arguments changed; back when it has answered a whole request."""
        self.stop()
        launch = self.launch.with_arguments(changes or {})
        command = command_line(self._machine, launch, self.port, self._around.interpreter)
        refuse_taken(self.parts.hostname or "", self.port)
        self._progress.note(f"starting server {launch.server}")
        environment = {**self._machine.environment, **self._around.environment}
        server = self._running = StartedServer(launch.server, command, environment)
        try:
            server.await_ready(self._answers, self._machine.within_s)
            server.refuse_foreign(self.port)
            return self._greeted(server)
        except CannotRun as error:
            kept = self._out / FAILED_LOG.format(name=launch.server)
            if not server.tail():
                raise
            write_text(kept, server.tail())
            raise CannotRun(f"{error} (the end of its log is in {kept})") from None

    def stop(self) -> None:
        """End it, where it runs; what it last wrote is remembered."""
        if self._running is not None:
            running, self._running = self._running, None
            running.stop()
            self._kept.append(running.tail())

    def keep_log(self, folder: Path) -> None:
        """Write what its servers last wrote into a run's folder."""
        last = [] if self._running is None else [self._running.tail()]
        parts = [*self._kept, *last]
        write_text(
            folder / LOG_FILE, "".join(f"--- server {at} of {len(parts)}\n{text}" for at, text in enumerate(parts, 1))
        )

    def _answers(self) -> bool:
        """Whether it says that it is up; a server that does not know the question is up too, and is asked next."""
        engine = self._contract.engine
        assert isinstance(engine, ServedEngine)
        if isinstance(engine, KserveEngine) and engine.protocol == "grpc":
            asked = self.reached(self._contract).engine
            assert isinstance(asked, KserveEngine)
            return is_ready(asked, timeout_s=LOOK_S)
        host = self.parts.netloc.rpartition(":")[0] if self.parts.port is not None else self.parts.netloc
        where = f"{self.parts.scheme}://{host}:{self.port}{self._machine.ready}"
        try:
            answer = request("GET", where, timeout_s=LOOK_S, ca_file=engine.ca_file, verify=engine.verify_tls)
        except OSError:
            return False
        return answer.status < 500

    def _greeted(self, server: StartedServer) -> Greeting | None:
        """The first whole request: servers say that they are well and die of it."""
        try:
            return ask_server(self.reached(self._contract), self._progress.note)
        except CannotRun as error:
            ended = server.ended_by_now()
            if ended:
                raise CannotRun(f"{ended} (at its first request)") from None
            raise CannotRun(f"{error}; its last line: {server.last_line}") from None


@contextmanager
def serving(
    contract: Contract, around: Surroundings | None, progress: Progress, out: Path
) -> Iterator[ContractServer | None]:
    """The server that a contract has started, not running yet; None where it starts none. It is ended in every case."""
    engine = contract.engine
    if not isinstance(engine, ServedEngine) or engine.serve is None:
        yield None
        return
    server = ContractServer(contract, read_server(engine.serve.server), around, progress, out)
    try:
        yield server
    except CannotRun as error:
        ended = server.ended
        if ended and ended not in str(error):
            raise CannotRun(f"{contract.name}: {ended}") from error
        raise
    finally:
        server.stop()
        if server.folder is not None and not (server.folder / RESULT_FILE).exists():
            server.keep_log(server.folder)
