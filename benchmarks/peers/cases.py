"""What every client is asked to do, and what it is asked to report."""

from __future__ import annotations

from dataclasses import dataclass, field

TTFT_MS, ITL_MS = 50.0, 10.0
STAMP_TOKENS = 32
IDLE_LIMIT_S = 5.0
"""For the case with stalled answers, to every client that can be told a limit; their own would only end it later."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement: how the server behaves and what load the client offers."""

    name: str
    server: tuple[str, ...]
    tokens: int
    concurrency: int = 0
    """Requests open at a time; 0 in an open loop."""
    rate_per_s: float = 0.0
    requests: int | None = None
    """Where the case fixes the number; else clients run for some seconds, or for a number that takes about as long."""
    limit_s: float = 180.0
    """A client that is not done by then is ended, and that is its result."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a client says it saw; None where it does not say."""

    ttft_mean_ms: float | None = None
    ttft_p99_ms: float | None = None
    itl_mean_ms: float | None = None
    itl_median_ms: float | None = None
    ok: int | None = None
    failed: int | None = None
    extra: dict[str, object] = field(default_factory=dict)


def stamps(streams: int, *options: str, name: str = "") -> Case:
    """Time to first token and between tokens, where the truth is 50 ms and 10 ms."""
    rounds = 20 if streams == 1 else 6 if streams < 512 else 5
    server = ("--ttft", f"{TTFT_MS:g}", "--itl", f"{ITL_MS:g}", "--tokens", str(STAMP_TOKENS), *options)
    return Case(name or f"stamps_{streams}", server, STAMP_TOKENS, concurrency=streams, requests=streams * rounds)


ONE_TOKEN = Case("one_token", ("--no-token-log", "--tokens", "1"), 1, concurrency=64)
MANY_TOKENS = Case("64_tokens", ("--no-token-log", "--tokens", "64"), 64, concurrency=64)
STAMPS = tuple(stamps(streams) for streams in (1, 32, 128, 512))
ROLE = stamps(32, "--role-at-start", name="role_at_start")
OPEN = Case("open_loop_1000", ("--ttft", "20", "--no-token-log", "--tokens", "1"), 1, rate_per_s=1000.0, requests=3000)
FAULTS = Case(
    "faults",
    ("--ttft", "5", "--itl", "1", "--tokens", "8", "--drop", ".05", "--http500", ".05", "--stall", ".01"),
    8,
    concurrency=32,
    requests=1000,
    limit_s=60.0,
)
ALL = (ONE_TOKEN, MANY_TOKENS, *STAMPS, ROLE, OPEN, FAULTS)
