"""A server whose truth is known: a fixed schedule in the OpenAI language, faults on demand, a log of what it did.

For tests, demonstrations and the instrument's self-check. It is no model: every token is " the".
"""

import asyncio
import heapq
from array import array
from dataclasses import dataclass
from enum import IntEnum
from time import perf_counter_ns
from typing import Literal, Protocol

import numpy as np

from lynxbench.errors import BadInput
from lynxbench.load.timers import PreciseTimer
from lynxbench.load.truth_prompts import BlockCache, prompt_words
from lynxbench.model.samples import Int64

FAULTS = ("error-body", "error-event", "cut", "no-usage", "empty", "other", "fewer", "shape")
"""An error as a JSON body; as an event half-way; a stream that ends well framed before its last event; no usage where
the form has one; nothing said; JSON of another kind; fewer results, or less sound, than was sent; over gRPC, values
that do not fill their shape."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server does. Shares are met exactly over every hundred requests, in whole percents."""

    ttft_ms: float = 0.0
    itl_ms: float = 0.0
    tokens: int | None = None
    """Of every answer, whatever the request says."""
    tokens_per_event: int = 1
    drop: float = 0.0
    """Share of streams cut half-way."""
    http500: float = 0.0
    stall: float = 0.0
    """Share of streams that send their head and then nothing."""
    wrong: float = 0.0
    """Share of answers of status 200 that are wrong in this way:"""
    fault: str = "error-body"
    role_at_start: bool = False
    """An empty role delta at arrival, which is not a token."""
    split_writes: bool = False
    """Each event in two writes, cut in the middle."""
    close_after: int | None = None
    """Answers after which a connection, still advertised as kept alive, closes on the next request."""
    usage: bool = True
    end_marker: bool = True
    slots: int | None = None
    """Requests served at the same time; others wait in order of arrival. None serves all at once."""
    service: Literal["fixed", "exponential"] = "fixed"
    """Exponential scales all delays of a request by a seeded draw of mean 1: with slots, an M/M/k server."""
    prefix_cache: bool = False
    """Whether a body seen before is answered with cached input tokens in its usage."""
    shows_queue: bool = False
    """Whether it exposes what stands in its slots and before them, under vLLM's names."""
    cache_block: int | None = None
    """Words of a block of a prefix cache that keeps whole leading blocks; usage then counts the words of prompts."""
    cache_blocks: int | None = None
    """Blocks that it holds; None holds all."""
    count_words: bool = False
    """Whether usage counts the words of a prompt as its tokens, without a cache too."""
    reasoning: int = 0
    """Tokens at the beginning of every streamed answer of a chat, Responses or Messages that are reasoning."""
    says: str | None = None
    """What every chat answer says, cut into its tokens; of a tool called, the arguments."""
    tool: str | None = None
    """The tool that every chat answer calls."""
    other_models_ms: float = 0.0
    """How much later the first token of a model comes that is not called ground-truth."""
    quotes: bool = False
    """Whether a refusal says back what it was asked."""
    cert_file: str | None = None
    key_file: str | None = None

    def __post_init__(self) -> None:
        for name in ("drop", "http500", "stall", "wrong"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(f"{name} {getattr(self, name)} must be a share from 0 to 1")
        if self.drop + self.http500 + self.stall + self.wrong > 1:
            raise BadInput("the shares of drop, http500, stall and wrong add up to more than 1")
        if self.wrong and self.fault not in FAULTS:
            raise BadInput(f"no such fault: {self.fault!r}; there are {', '.join(FAULTS)}")
        if (
            self.ttft_ms < 0
            or self.itl_ms < 0
            or (self.tokens is not None and self.tokens < 1)
            or self.tokens_per_event < 1
        ):
            raise BadInput("delays must not be negative; token counts are at least 1")
        if self.slots is not None and self.slots < 1:
            raise BadInput(f"slots {self.slots} must be at least 1")


class ServedOutcome(IntEnum):
    """What the server did with a request."""

    OPEN = 0
    OK = 1
    DROP = 2
    HTTP500 = 3
    STALL = 4
    CLIENT_CLOSED = 5
    WRONG = 6


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened, by the server's own clock (the host's monotonic clock, as the client's)."""

    arrival_ns: Int64
    first_ns: Int64
    last_ns: Int64
    events: Int64
    outcome: Int64
    connections: int

    def count(self, outcome: ServedOutcome) -> int:
        """Requests that ended so."""
        return int(np.count_nonzero(self.outcome == outcome))


PROMPT_TOKENS = 10
"""What usage says of every prompt."""
CACHED_TOKENS = 8
"""What usage says came from the cache, where a body repeats."""


class Answering(Protocol):
    """An answer being given on the server's schedule."""

    def step(self) -> int:
        """Send what is due now; the moment of the next event, or 0 at the end."""


class GroundTruthServer:
    """The server's shared state: its schedule, its log and its connections."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.ttft_ns = int(behaviour.ttft_ms * 1e6)
        self.itl_ns = int(behaviour.itl_ms * 1e6)
        self.arrival, self.first, self.last = array("q"), array("q"), array("q")
        self.events, self.outcome = array("q"), array("q")
        self.connections = 0
        self.cache_queries = self.cache_hits = 0
        self._seen: set[bytes] = set()
        block = behaviour.cache_block
        self._blocks = None if block is None else BlockCache(block, behaviour.cache_blocks)
        self._due: list[tuple[int, int, Answering]] = []
        self._order = 0
        self._free = [0] * (behaviour.slots or 0)
        self._random = np.random.default_rng(1)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to keep time on a loop."""
        self._timer = PreciseTimer(loop, self._fire)

    def admit(self) -> tuple[int, ServedOutcome]:
        """Log an arrival; which request it is, and how it shall end."""
        number = len(self.arrival)
        self.arrival.append(perf_counter_ns())
        for column in (self.first, self.last, self.events, self.outcome):
            column.append(0)
        spot = (number * 37 + 50) % 100  # 37 and 100 share no divisor: every hundred requests visit every spot once
        for outcome, share in (
            (ServedOutcome.DROP, self.behaviour.drop),
            (ServedOutcome.HTTP500, self.behaviour.http500),
            (ServedOutcome.STALL, self.behaviour.stall),
            (ServedOutcome.WRONG, self.behaviour.wrong),
        ):
            spot -= round(share * 100)
            if spot < 0:
                return number, outcome
        return number, ServedOutcome.OK

    def occupy(self, number: int, service_ns: int) -> tuple[int, float]:
        """When the service of an admitted request begins, and by how much its delays are scaled.

        Service times are known on arrival, so the queue needs no more than the moments at which slots become free.
        """
        scale = float(self._random.exponential()) if self.behaviour.service == "exponential" else 1.0
        arrival = self.arrival[number]
        if not self._free:
            return arrival, scale
        start = max(arrival, self._free[0])
        heapq.heapreplace(self._free, start + int(service_ns * scale))
        return start, scale

    def queue(self) -> tuple[int, int]:
        """How many requests are being served now, and how many wait for a slot."""
        unanswered = self.outcome.count(ServedOutcome.OPEN)
        served = min(unanswered, self.behaviour.slots or unanswered)
        return served, unanswered - served

    def look_up(self, body: bytes) -> tuple[int, int]:
        """Input tokens of a body, and those that the prefix cache holds."""
        counts = self.behaviour.count_words or self._blocks is not None
        words = prompt_words(body) if counts else []
        tokens, cached = len(words) if counts else PROMPT_TOKENS, 0
        if self._blocks is not None:
            cached = self._blocks.look_up(words)
        elif self.behaviour.prefix_cache and body in self._seen:
            cached = CACHED_TOKENS
        if self.has_cache:
            self.cache_queries += tokens
            self.cache_hits += cached
        if self.behaviour.prefix_cache:
            self._seen.add(body)
        return tokens, cached

    @property
    def has_cache(self) -> bool:
        """Whether there is a prefix cache to look into."""
        return self.behaviour.prefix_cache or self._blocks is not None

    def empty_cache(self) -> None:
        """Forget every prompt."""
        self._seen.clear()
        if self._blocks is not None:
            self._blocks.empty()

    def schedule(self, stream: Answering, at_ns: int) -> None:
        """Wake the stream at that moment."""
        self._order += 1
        heapq.heappush(self._due, (at_ns, self._order, stream))
        if self._due[0][2] is stream:
            self._timer.arm(at_ns)

    def truth(self) -> Truth:
        """The log so far."""
        columns = (self.arrival, self.first, self.last, self.events, self.outcome)
        arrival, first, last, events, outcome = (np.array(column, dtype=np.int64) for column in columns)
        return Truth(arrival, first, last, events, outcome, self.connections)

    def _fire(self) -> None:
        due = self._due
        while due and due[0][0] <= perf_counter_ns():
            stream = due[0][2]
            following = stream.step()
            if following:
                self._order += 1
                heapq.heapreplace(due, (following, self._order, stream))
            else:
                heapq.heappop(due)
        if due:
            self._timer.arm(due[0][0])
