"""What a probe is: where to send, what, when, and when to give up. Picklable, so that processes can share it."""

import math
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from lynxbench.errors import BadInput
from lynxbench.load.leaving import LeavingRule
from lynxbench.load.response_reading import Language, Script
from lynxbench.model.samples import Int64

DEFAULT_DRAIN_S = 30.0
"""How long open requests may finish after the last one was due."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server listens."""

    host: str
    port: int
    tls: bool = False
    ca_file: str | None = None
    verify: bool = True


def parse_target(url: str, *, ca_file: str | None = None, verify: bool = True) -> Target:
    """The target of a base address such as "https://models.example/v1"."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"server address {url!r} must look like http://host:port or https://host/v1")
    if parts.username or parts.password:
        raise BadInput("a server address must not carry a password; name an environment variable for the key instead")
    try:
        port = parts.port
    except ValueError:
        raise BadInput(f"server address {url!r} has a port that is not one; ports are 1 to 65535") from None
    tls = parts.scheme == "https"
    return Target(parts.hostname, port or (443 if tls else 80), tls, ca_file, verify)


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A fixed number of requests is open at any time; each answer calls for the next request."""

    concurrency: int
    requests: int | None = None
    ramp_up_s: float = 0.0
    """Spread of the first requests. Zero starts all at once, which servers may answer in lockstep for the whole run."""


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests are due on an absolute schedule, whatever the server does."""

    offsets_ns: Int64


class TicketTimeouts:
    """How long to wait, in nanoseconds; all are on by default."""

    __slots__ = ("connect_ns", "first_byte_ns", "idle_ns", "total_ns")

    def __init__(
        self, connect_s: float = 10.0, first_byte_s: float = 120.0, idle_s: float = 60.0, total_s: float = 600.0
    ) -> None:
        for name, value in (("connect", connect_s), ("first byte", first_byte_s), ("idle", idle_s), ("total", total_s)):
            if not 0 < value < 1e6:
                raise ValueError(f"{name} timeout {value} s must be positive and finite: a run must end")
        self.connect_ns = int(connect_s * 1e9)
        self.first_byte_ns = int(first_byte_s * 1e9)
        self.idle_ns = int(idle_s * 1e9)
        self.total_ns = int(total_s * 1e9)

    @property
    def shortest_ns(self) -> int:
        """The first moment after which anything can have timed out."""
        return min(self.connect_ns, self.first_byte_ns, self.idle_ns, self.total_ns)


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One probe."""

    target: Target
    script: Script
    language: Language
    load: ClosedLoop | OpenLoop
    duration_s: float
    """No request is issued after this; an open-loop schedule may end sooner."""
    drain_s: float = DEFAULT_DRAIN_S
    timeouts: TicketTimeouts = field(default_factory=TicketTimeouts)
    processes: int = 0
    """0 runs in the calling process; more are spawned, each with its part of the load."""
    keep_text: bool = False
    preconnect: int = 0
    """Connections opened before the clock starts. Closed loops open all of theirs; open loops none unless told: some
    servers give a thread to every open connection, used or not."""
    max_connections: int = 16_384
    think_s: float = 0.0
    """Between an answer and the next turn of its conversation."""
    leaving: LeavingRule | None = None
    """Requests that the client gives up by itself."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.duration_s) and self.duration_s > 0):
            raise BadInput(f"load duration {self.duration_s} s must be positive and finite")
        if not (math.isfinite(self.drain_s) and self.drain_s >= 0):
            raise BadInput(f"drain bound {self.drain_s} s must be zero or more, and finite: a run must end")
        if self.max_connections < 1 or self.processes < 0 or self.think_s < 0:
            raise BadInput("max_connections must be at least 1; processes and think time must not be negative")
        if isinstance(self.load, ClosedLoop) and self.load.concurrency < 1:
            raise BadInput(f"concurrency {self.load.concurrency} must be at least 1")
        if isinstance(self.load, ClosedLoop) and self.processes > self.load.concurrency:
            raise BadInput(f"{self.processes} client processes cannot share a concurrency of {self.load.concurrency}")

    @property
    def over_http2(self) -> bool:
        """Whether its requests are gRPC calls; what they are written for is said by who reads the answers."""
        return bool(getattr(self.language, "over_http2", False))

    @property
    def shortest_wait_ns(self) -> int:
        """The first moment after which a request can be over without an answer."""
        left_ns = 0 if self.leaving is None else self.leaving.after_ns
        return min(self.timeouts.shortest_ns, left_ns) if left_ns else self.timeouts.shortest_ns
