"""One gRPC call and its whole answer, by the driver's own connection: for questions before and after a run."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lynxbench.errors import CannotRun
from lynxbench.load.connecting import Way, find_way
from lynxbench.load.event_loop import new_event_loop
from lynxbench.load.grpc_wire import GrpcConnection
from lynxbench.load.load_record import RequestEnd, RowStore
from lynxbench.load.plan import Target, TicketTimeouts
from lynxbench.load.response_reading import OUTPUT, UNKNOWN_TOKENS
from lynxbench.load.wire import Connection, Ticket


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What came of a call."""

    end: RequestEnd
    messages: tuple[bytes, ...]
    why: str
    """In the server's words where it has any; empty where it went well."""

    @property
    def is_good(self) -> bool:
        """Whether the server said that all went well; an answer without a message may be one."""
        return self.end in (RequestEnd.OK, RequestEnd.EMPTY_ANSWER)


@dataclass(slots=True)
class _KeepingReader:
    """Takes every message as it is."""

    messages: list[bytes] = field(default_factory=list)
    finished: bool = False
    output_tokens: int = UNKNOWN_TOKENS
    input_tokens: int = UNKNOWN_TOKENS
    cached_tokens: int = UNKNOWN_TOKENS
    reasoning_tokens: int = UNKNOWN_TOKENS
    failure: str = ""
    answering: bool = False

    def begin(self, number: int = 0) -> None:
        self.messages.clear()

    def event(self, data: bytes) -> int:
        self.messages.append(data)
        return OUTPUT

    def body(self, data: bytes, inference_header_bytes: int) -> int:
        return self.event(data)

    def text(self) -> str:
        return ""


class _OneCall:
    """Hands out one ticket and waits for its end."""

    def __init__(self, call: bytes, timeout_s: float) -> None:
        self._call, self._timeout_s = call, timeout_s
        self._reader = _KeepingReader()
        self._why: list[str] = []

    async def ask(self, way: Way) -> CallAnswer:
        self._end: asyncio.Future[RequestEnd] = asyncio.get_running_loop().create_future()
        connection = GrpcConnection(self, self._reader, RowStore(), TicketTimeouts())
        try:
            async with asyncio.timeout(self._timeout_s):
                await way.connect(connection)
                connection.send(Ticket(0, 0, self._call))
                end = await self._end
        finally:
            messages = tuple(self._reader.messages)
            connection.close()
        return CallAnswer(end, messages, "" if end is RequestEnd.OK else "; ".join(self._why) or end.word)

    def answered(self, connection: Connection, ticket: Ticket, kind: int) -> None:
        if not self._end.done():
            self._end.set_result(RequestEnd(kind))

    def refused(self, ticket: Ticket) -> None:
        self._why.append("the server did not take the call")
        if not self._end.done():
            self._end.set_result(RequestEnd.RESET)

    def gone(self, connection: Connection) -> None:
        return None

    def note(self, text: str) -> None:
        self._why.append(text)


def call(target: Target, prepared: bytes, timeout_s: float) -> CallAnswer:
    """Make one call on a connection of its own; OSError (TimeoutError too) where nobody answers."""

    async def whole() -> CallAnswer:
        try:
            way = await find_way(asyncio.get_running_loop(), target, over_http2=True)
        except CannotRun as error:
            raise OSError(str(error)) from None
        return await _OneCall(prepared, timeout_s).ask(way)

    def run() -> CallAnswer:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(whole())

    with ThreadPoolExecutor(1) as pool:  # whoever asks may be inside an event loop already
        return pool.submit(run).result()
