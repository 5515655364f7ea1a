"""What a fresh client is told, what it tells besides its requests, and the plan that follows from a contract."""

from pathlib import Path

import numpy as np

from lynxbench.engines.asking import TokenCalibration
from lynxbench.engines.served import Exchange
from lynxbench.load.leaving import leaving_rule
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, TicketTimeouts, parse_target
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.fields import Scalar
from lynxbench.model.load_figures import AlikeAnswers, AnswerFigures, ExpectedCache, SourceFile
from lynxbench.model.serving import ServedEngine
from lynxbench.model.workload import ReplayArrival
from lynxbench.workload.request_log import RequestLog, read_log
from lynxbench.workload.session_files import read_sessions

RECORD_FILE = "record.npz"
SATURATION_FILE = "saturation.json"
CEILING_FILE = "ceiling.npz"


class ClientFleet(Document):
    """Clients on other hosts: the Ray cluster they are started in, and on which of its nodes."""

    address: str
    nodes: str | None = None


class ClientHost(Document):
    """One client of a fleet: where it was, and how far its clock was from the one that the record is on."""

    process: int
    node: str
    clock_offset_ns: int
    clock_bound_ns: int
    lost: str = ""


class ClientJob(Document):
    """What one fresh client does."""

    index: int
    restart: int
    contract: Contract
    clients: int
    salt: int = 0
    """Makes this run's prompts other than those of every run before, which a server's cache may still hold."""
    rate_per_s: float | None = None
    """The rate a search has claimed: the run is a Poisson one at this rate."""
    search: bool = False
    calibration: TokenCalibration | None = None
    """How the server counts words, where it was asked before."""
    fleet: ClientFleet | None = None
    """Where the clients are, when they are not processes of this machine."""
    launched: dict[str, Scalar] | None = None
    """What an intervention changed of the arguments that the contract launches its server with; {} where nothing."""


class ClientFacts(Document):
    """What the requests themselves do not show."""

    unit: str
    has_tokens: bool
    tokens: str
    asked_output_mean: float | None
    shorter_share: float | None
    distinct_prompts: int | None
    clients: int
    saturated: str = ""
    hosts: tuple[ClientHost, ...] = ()
    """Where the clients were on other hosts."""
    size: int = 0
    """Prepared requests, asked in turn; which model each asks follows from it."""
    sources: tuple[SourceFile, ...] = ()
    expected: ExpectedCache | None = None
    """What a cache without end would have held."""
    reset: str = ""
    session_calls: tuple[int, ...] = ()
    """Calls of each recorded session, in turn."""
    answers: AnswerFigures | None = None
    longer_share: float | None = None
    """Answers of more tokens than were asked for."""
    alike: AlikeAnswers | None = None
    """Whether answers to different prompts are alike."""
    first_share: float | None = None
    """Of an answer, what its first event held, where events hold several tokens."""


def read_trace(contract: Contract) -> RequestLog | None:
    """The trace a contract replays, if it replays one; of sessions the moments at which they start."""
    arrival, prompts = contract.workload.arrival, contract.workload.prompts
    if isinstance(arrival, ReplayArrival) and prompts is not None:
        return read_sessions(prompts.file, prompts.sha256).arrivals()
    return read_log(Path(arrival.path)) if isinstance(arrival, ReplayArrival) else None


def plan_of(
    contract: Contract, exchange: Exchange, load: ClosedLoop | OpenLoop, duration_s: float, clients: int
) -> LoadPlan:
    """One probe of a contract."""
    engine = contract.engine
    assert isinstance(engine, ServedEngine)
    waits = engine.timeouts
    most = load.concurrency if isinstance(load, ClosedLoop) else clients
    return LoadPlan(
        target=parse_target(engine.url, ca_file=engine.ca_file, verify=engine.verify_tls),
        script=exchange.script,
        language=exchange.language,
        load=load,
        duration_s=duration_s,
        drain_s=waits.drain_s,
        timeouts=TicketTimeouts(waits.connect_s, waits.first_byte_s, waits.idle_s, waits.total_s),
        processes=min(clients, most),
        keep_text=exchange.keep_text,
        think_s=getattr(engine, "think_s", 0.0),
        leaving=leaving_rule(contract.workload.cancel, contract.workload.seed),
    )


def seed_of(contract: Contract, run: int) -> int:
    """A schedule seed of its own for every run of a contract."""
    return int(np.random.SeedSequence((contract.workload.seed, run)).generate_state(1)[0])
