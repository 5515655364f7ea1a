"""A server whose truth is known: a fixed schedule in the OpenAI language, faults on demand, a log of what it did.

For tests, demonstrations and the instrument's self-check. It is no model: every token is " the".
"""

from __future__ import annotations

import asyncio
import heapq
import json
import os
import ssl
from array import array
from dataclasses import dataclass
from enum import IntEnum
from time import perf_counter_ns

import msgspec
import numpy as np

from lynxbench.errors import BadInput
from lynxbench.load.timers import PreciseTimer
from lynxbench.model.samples import Int64


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
    role_at_start: bool = False
    """An empty role delta at arrival, which is not a token."""
    split_writes: bool = False
    """Each event in two writes, cut in the middle."""
    close_after: int | None = None
    """Answers after which a connection, still advertised as kept alive, closes on the next request."""
    usage: bool = True
    end_marker: bool = True
    cert_file: str | None = None
    key_file: str | None = None

    def __post_init__(self) -> None:
        for name in ("drop", "http500", "stall"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(f"{name} {getattr(self, name)} must be a share from 0 to 1")
        if self.drop + self.http500 + self.stall > 1:
            raise BadInput("the shares of drop, http500 and stall add up to more than 1")
        if (
            self.ttft_ms < 0
            or self.itl_ms < 0
            or (self.tokens is not None and self.tokens < 1)
            or self.tokens_per_event < 1
        ):
            raise BadInput("delays must not be negative; token counts are at least 1")


class Outcome(IntEnum):
    """What the server did with a request."""

    OPEN = 0
    OK = 1
    DROP = 2
    HTTP500 = 3
    STALL = 4
    CLIENT_CLOSED = 5


@dataclass(frozen=True, slots=True)
class Truth:
    """What happened, by the server's own clock (the host's monotonic clock, as the client's)."""

    arrival_ns: Int64
    first_ns: Int64
    last_ns: Int64
    events: Int64
    outcome: Int64
    connections: int

    def count(self, outcome: Outcome) -> int:
        """Requests that ended so."""
        return int(np.count_nonzero(self.outcome == outcome))


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Ask(msgspec.Struct):
    stream: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream_options: _StreamOptions | None = None


_decode_ask = msgspec.json.Decoder(_Ask).decode
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_COMMON = '"id":"truth-1","created":1700000000,"model":"ground-truth"'


def _chunk(text: str) -> bytes:
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


def _answer(status: str, body: str, kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode()


def _event(chat: bool, tokens: int, last: bool) -> bytes:
    text = json.dumps(" the" * tokens)
    finish = '"length"' if last else "null"
    if chat:
        choice = f'{{"index":0,"delta":{{"content":{text}}},"finish_reason":{finish}}}'
        return _chunk(f'data: {{{_COMMON},"object":"chat.completion.chunk","choices":[{choice}]}}\n\n')
    choice = f'{{"index":0,"text":{text},"finish_reason":{finish}}}'
    return _chunk(f'data: {{{_COMMON},"object":"text_completion","choices":[{choice}]}}\n\n')


_ROLE = _chunk(
    f'data: {{{_COMMON},"object":"chat.completion.chunk",'
    '"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
)


class GroundTruthServer:
    """The server's shared state: its schedule, its log and its connections."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.ttft_ns = int(behaviour.ttft_ms * 1e6)
        self.itl_ns = int(behaviour.itl_ms * 1e6)
        self.arrival, self.first, self.last = array("q"), array("q"), array("q")
        self.events, self.outcome = array("q"), array("q")
        self.connections = 0
        self._due: list[tuple[int, int, _Stream]] = []
        self._order = 0
        self._cached: dict[tuple[bool, int, bool], bytes] = {}

    async def listen(self, host: str, port: int) -> asyncio.Server:
        """Start to answer."""
        loop = asyncio.get_running_loop()
        self._timer = PreciseTimer(loop, self._fire)
        tls = None
        if self.behaviour.cert_file is not None:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(self.behaviour.cert_file, self.behaviour.key_file)
        return await loop.create_server(lambda: _Peer(self), host, port, backlog=4096, ssl=tls)

    def admit(self) -> tuple[int, Outcome]:
        """Log an arrival; which request it is, and how it shall end."""
        number = len(self.arrival)
        self.arrival.append(perf_counter_ns())
        for column in (self.first, self.last, self.events, self.outcome):
            column.append(0)
        spot = (number * 37 + 50) % 100  # 37 and 100 share no divisor: every hundred requests visit every spot once
        for outcome, share in (
            (Outcome.DROP, self.behaviour.drop),
            (Outcome.HTTP500, self.behaviour.http500),
            (Outcome.STALL, self.behaviour.stall),
        ):
            spot -= round(share * 100)
            if spot < 0:
                return number, outcome
        return number, Outcome.OK

    def event(self, chat: bool, tokens: int, last: bool) -> bytes:
        """One chunk with that many tokens."""
        key = (chat, tokens, last)
        found = self._cached.get(key)
        if found is None:
            found = self._cached[key] = _event(*key)
        return found

    def schedule(self, stream: _Stream, at_ns: int) -> None:
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


class _Stream:
    """One answer being given."""

    __slots__ = ("_base_ns", "_chat", "_left", "_number", "_outcome", "_peer", "_sent", "_server", "_total", "_usage")

    def __init__(
        self, server: GroundTruthServer, peer: _Peer, number: int, outcome: Outcome, chat: bool, ask: _Ask
    ) -> None:
        self._server, self._peer, self._number, self._outcome, self._chat = server, peer, number, outcome, chat
        behaviour = server.behaviour
        self._total = behaviour.tokens or ask.max_completion_tokens or ask.max_tokens or 16
        self._left = self._total
        self._sent = 0
        self._usage = behaviour.usage and ask.stream_options is not None and ask.stream_options.include_usage
        self._base_ns = server.arrival[number]

    def begin(self) -> None:
        server = self._server
        if server.ttft_ns == 0 and server.itl_ns == 0:
            self._peer.write(_STREAM_HEAD, whole=True)
            pieces = []
            while self._left:
                piece, over = self._next()
                pieces.append(piece)
                if over:
                    break
            self._peer.write(b"".join(pieces))
            self._over()
            return
        head = _STREAM_HEAD + (_ROLE if server.behaviour.role_at_start and self._chat else b"")
        self._peer.write(head, whole=True)
        server.schedule(self, self._base_ns + server.ttft_ns)

    def step(self) -> int:
        """Send what is due now; the moment of the next event, or 0 at the end."""
        if self._peer.closed:
            return 0
        piece, over = self._next()
        self._peer.write(piece)
        if over:
            self._over()
            return 0
        return self._base_ns + self._server.ttft_ns + self._sent * self._server.itl_ns

    def _next(self) -> tuple[bytes, bool]:
        """The next event and whether it is the last thing sent."""
        server, behaviour = self._server, self._server.behaviour
        tokens = min(behaviour.tokens_per_event, self._left)
        self._left -= tokens
        now = perf_counter_ns()
        if self._sent == 0:
            server.first[self._number] = now
        server.last[self._number] = now
        self._sent += 1
        server.events[self._number] = self._sent
        piece = server.event(self._chat, tokens, self._left == 0)
        if self._outcome is Outcome.DROP and self._total - self._left >= self._total / 2:
            return piece, True
        return (piece + self._tail(), True) if self._left == 0 else (piece, False)

    def _tail(self) -> bytes:
        tail = b""
        if self._usage:
            kind = "chat.completion.chunk" if self._chat else "text_completion"
            usage = f'{{"prompt_tokens":10,"completion_tokens":{self._total},"total_tokens":{self._total + 10}}}'
            tail += _chunk(f'data: {{{_COMMON},"object":"{kind}","choices":[],"usage":{usage}}}\n\n')
        if self._server.behaviour.end_marker:
            tail += _chunk("data: [DONE]\n\n")
        return tail + b"0\r\n\r\n"

    def _over(self) -> None:
        self._server.outcome[self._number] = self._outcome
        if self._outcome is Outcome.DROP:
            self._peer.hang_up()
        else:
            self._peer.answered()


class _Peer(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, server: GroundTruthServer) -> None:
        self._server = server
        self._held = b""
        self._served = 0
        self._number = -1
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._server.connections += 1
        plain = transport.get_extra_info("ssl_object") is None
        self._fd = transport.get_extra_info("socket").fileno() if plain else -1

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._fd = -1
        if self._number >= 0 and self._server.outcome[self._number] == Outcome.OPEN:
            self._server.outcome[self._number] = Outcome.CLIENT_CLOSED

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        length = 0
        for line in self._held[:end].split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        if len(self._held) < end + 4 + length:
            return
        head, body = self._held[:end], self._held[end + 4 : end + 4 + length]
        self._held = self._held[end + 4 + length :]
        limit = self._server.behaviour.close_after
        if limit is not None and self._served >= limit:
            self.hang_up()
            return
        self._serve(head.split(b" ", 2)[:2], body)

    def _serve(self, what: list[bytes], body: bytes) -> None:
        method, path = what[0], what[1].partition(b"?")[0]
        if method == b"POST" and path in (b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"):
            try:
                ask = _decode_ask(body)
            except msgspec.DecodeError as error:
                self.write(_answer("400 Bad Request", json.dumps({"error": {"message": str(error)}})))
                return
            self._infer(path, ask)
        elif path == b"/v1/models":
            self.write(
                _answer(
                    "200 OK", '{"object":"list","data":[{"id":"ground-truth","object":"model","max_model_len":32768}]}'
                )
            )
        elif path in (b"/health", b"/ping", b"/"):
            self.write(_answer("200 OK", "{}"))
        elif path == b"/metrics":
            count = len(self._server.arrival)
            text = f"# TYPE ground_truth_requests_total counter\nground_truth_requests_total {count}\n"
            self.write(_answer("200 OK", text, "text/plain; version=0.0.4"))
        else:
            self.write(_answer("404 Not Found", '{"error":{"message":"no such path"}}'))

    def _infer(self, path: bytes, ask: _Ask) -> None:
        server = self._server
        number, outcome = server.admit()
        self._number = number
        if outcome is Outcome.HTTP500:
            server.outcome[number] = outcome
            self.write(_answer("500 Internal Server Error", '{"error":{"message":"a fault on demand"}}'))
            self.answered()
        elif outcome is Outcome.STALL:
            server.outcome[number] = outcome
            self.write(_STREAM_HEAD, whole=True)
        elif ask.stream and path != b"/v1/embeddings":
            _Stream(server, self, number, outcome, path == b"/v1/chat/completions", ask).begin()
        else:
            tokens = server.behaviour.tokens or ask.max_completion_tokens or ask.max_tokens or 16
            delay_ns = server.ttft_ns + (tokens - 1) * server.itl_ns
            if path == b"/v1/embeddings":
                vector = '{"object":"embedding","index":0,"embedding":[0.1,0.2]}'
                body = f'{{"object":"list","data":[{vector}],"usage":{{"prompt_tokens":10,"total_tokens":10}}}}'
                delay_ns = server.ttft_ns
            else:
                text = json.dumps(" the" * tokens)
                said = (
                    f'"message":{{"role":"assistant","content":{text}}}'
                    if path == b"/v1/chat/completions"
                    else f'"text":{text}'
                )
                usage = f'"usage":{{"prompt_tokens":10,"completion_tokens":{tokens},"total_tokens":{tokens + 10}}}'
                body = f'{{{_COMMON},"choices":[{{"index":0,{said},"finish_reason":"length"}}],{usage}}}'
            _Whole(server, self, number, outcome, body, delay_ns)

    def write(self, data: bytes, whole: bool = False) -> None:
        """Send, past the transport's queue where possible, so that the log says when bytes left."""
        if self.closed:
            return
        if self._server.behaviour.split_writes and not whole and len(data) > 2:
            middle = len(data) // 2
            self._send(data[:middle])
            data = data[middle:]
        self._send(data)

    def _send(self, data: bytes) -> None:
        if self._fd >= 0 and self._transport.get_write_buffer_size() == 0:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                pass
            except OSError:
                self._transport.abort()
                self.closed = True
                return
        if data:
            self._transport.write(data)

    def answered(self) -> None:
        """A whole answer was given."""
        self._served += 1
        self._number = -1

    def hang_up(self) -> None:
        """Close without another word."""
        self._number = -1
        self.closed = True
        self._transport.close()


class _Whole(_Stream):
    """An answer that is not streamed."""

    __slots__ = ("_body",)

    def __init__(
        self, server: GroundTruthServer, peer: _Peer, number: int, outcome: Outcome, body: str, delay_ns: int
    ) -> None:
        super().__init__(server, peer, number, outcome, False, _Ask())
        self._body = body
        if delay_ns == 0:
            self.step()
        else:
            server.schedule(self, self._base_ns + delay_ns)

    def step(self) -> int:
        server, number = self._server, self._number
        if self._peer.closed:
            return 0
        server.first[number] = server.last[number] = perf_counter_ns()
        server.events[number] = 1
        server.outcome[number] = self._outcome
        if self._outcome is Outcome.DROP:
            self._peer.hang_up()
        else:
            self._peer.write(_answer("200 OK", self._body))
            self._peer.answered()
        return 0
