"""The ground-truth server in the KServe v2 language over gRPC: the same schedule, faults and log as over HTTP.

A call whose input `answers` holds a number is answered so often where it is streamed. Answers are short, so it does not
wait for leave to send; leave to send a request is given piece by piece, as servers do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final

from lynxbench import __version__
from lynxbench.load import http2, protobuf
from lynxbench.load.direct_write import write_answer
from lynxbench.load.ground_truth import GroundTruthServer, ServedOutcome
from lynxbench.load.hpack import HeaderDecoder, encode_headers
from lynxbench.load.http import Malformed
from lynxbench.load.http2 import MessageSplitter
from lynxbench.load.protobuf import as_bytes, as_text, read_fields

SERVICE: Final = "/inference.GRPCInferenceService/"
FAULTS: Final = ("error-body", "error-event", "cut", "empty", "other", "shape")
"""Those of the server that this form knows: an error status, the word of an error in a stream, an end without a status,
no output, bytes that are no message, values that do not fill their shape."""
_HEAD: Final = encode_headers(((":status", "200"), ("content-type", "application/grpc")))
_TRUE: Final = protobuf.number(1, 1)


def _status(code: int, text: str = "") -> tuple[tuple[str, str], ...]:
    return (("grpc-status", str(code)), *((("grpc-message", text),) if text else ()))


def _answer(streamed: bool, fault: str) -> bytes:
    """A ModelInferResponse of one number, within a ModelStreamInferResponse where it is streamed."""
    if fault == "other":
        return b"\xff\xff\xff"
    output = protobuf.text(1, "output") + protobuf.text(2, "FP32") + protobuf.numbers(3, (1,))
    body = protobuf.text(1, "ground-truth") + protobuf.text(2, "1")
    if fault != "empty":
        body += protobuf.text(5, output) + protobuf.text(6, b"\0\0\0?"[: 2 if fault == "shape" else 4])
    return protobuf.text(2, body) if streamed else body


class _Call:
    """One inference being answered."""

    __slots__ = (
        "_base_ns", "_fault", "_itl_ns", "_number", "_outcome", "_peer", "_sent", "_server", "_stream", "_streamed",
        "_total", "_ttft_ns",
    )  # fmt: skip

    def __init__(
        self, server: GroundTruthServer, peer: GrpcPeer, stream: int, outcome: ServedOutcome, number: int, total: int,
        streamed: bool,
    ) -> None:  # fmt: skip
        self._server, self._peer, self._stream, self._outcome, self._number = server, peer, stream, outcome, number
        self._streamed, self._sent = streamed, 0
        self._fault = server.behaviour.fault if outcome is ServedOutcome.WRONG else ""
        self._total = server.behaviour.tokens or total
        self._base_ns, scale = server.occupy(number, server.ttft_ns + (self._total - 1) * server.itl_ns)
        self._ttft_ns, self._itl_ns = int(server.ttft_ns * scale), int(server.itl_ns * scale)

    def begin(self) -> None:
        waits_ns = self._ttft_ns + (0 if self._streamed else (self._total - 1) * self._itl_ns)
        if waits_ns or self._itl_ns:
            self._peer.write(http2.frame(http2.HEADERS, http2.END_HEADERS, self._stream, _HEAD))
            self._server.schedule(self, self._base_ns + waits_ns)
            return
        pieces, over = [http2.frame(http2.HEADERS, http2.END_HEADERS, self._stream, _HEAD)], False
        while not over:
            piece, over = self._next()
            pieces.append(piece)
        self._peer.write(b"".join(pieces))
        self._over()

    # Written out as in truth_peer.py: a call more for every event would lower what the server can do.
    def step(self) -> int:
        """Send what is due now; the moment of the next answer, or 0 at the end."""
        if self._peer.closed or self._stream not in self._peer.calls:
            return 0
        piece, over = self._next()
        self._peer.write(piece)
        if over:
            self._over()
            return 0
        return self._base_ns + self._ttft_ns + self._sent * self._itl_ns

    def _next(self) -> tuple[bytes, bool]:
        """The next bytes and whether they are the last."""
        server, number, fault = self._server, self._number, self._fault
        total = self._total if self._streamed else 1
        now = perf_counter_ns()
        if self._sent == 0:
            server.first[number] = now
        server.last[number] = now
        self._sent += 1
        half = self._sent >= total / 2
        if self._outcome is ServedOutcome.DROP and half:
            return self._data(_answer(True, "")) if self._streamed else b"", True
        if fault == "error-body" or (fault == "error-event" and not self._streamed):
            return self._end(3, "a fault on demand"), True
        server.events[number] = self._sent
        if fault == "error-event" and half:
            return self._data(protobuf.text(1, "a fault on demand")) + self._end(0), True
        if fault == "cut" and half:
            return self._data(_answer(self._streamed, ""), http2.END_STREAM), True
        piece = self._data(_answer(self._streamed, fault))
        return (piece + self._end(0), True) if self._sent >= total else (piece, False)

    def _data(self, message: bytes, flags: int = 0) -> bytes:
        return http2.frame(http2.DATA, flags, self._stream, http2.message(message))

    def _end(self, code: int, text: str = "") -> bytes:
        flags = http2.END_HEADERS | http2.END_STREAM
        return http2.frame(http2.HEADERS, flags, self._stream, encode_headers(_status(code, text)))

    def _over(self) -> None:
        self._server.outcome[self._number] = self._outcome
        if self._outcome is ServedOutcome.DROP:
            self._peer.hang_up()
        else:
            self._peer.answered(self._stream)


class _Asked:
    """A call that is still being read."""

    __slots__ = ("messages", "path", "splitter")

    def __init__(self, path: str) -> None:
        self.path, self.splitter = path, MessageSplitter()
        self.messages: list[bytes] = []


class GrpcPeer(asyncio.Protocol):
    """One client's connection, from the preface on."""

    def __init__(self, server: GroundTruthServer, transport: asyncio.Transport) -> None:
        self._server, self._transport = server, transport
        plain = transport.get_extra_info("ssl_object") is None
        self._fd = transport.get_extra_info("socket").fileno() if plain else -1
        self._held = b""
        self._begun = False
        self._decoder = HeaderDecoder()
        self._asked: dict[int, _Asked] = {}
        self._served = self._last = 0
        self.calls: dict[int, int] = {}
        """Calls that are not answered yet: the number in the log, by stream."""
        self.closed = False
        self.write(http2.settings({http2.TABLE_SIZE: 0}))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._fd = -1
        for stream in list(self.calls):
            self._left(stream)

    def data_received(self, data: bytes) -> None:
        self._held += data
        if not self._begun:
            if len(self._held) < len(http2.PREFACE):
                return
            self._begun, self._held = True, self._held[len(http2.PREFACE) :]
        try:
            frames, self._held = http2.split_frames(self._held)
            for kind, flags, stream, payload in frames:
                self._take(kind, flags, stream, payload)
        except ValueError:
            self.hang_up()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == http2.SETTINGS and not flags & http2.ACK:
            self.write(http2.frame(http2.SETTINGS, http2.ACK, 0))
        elif kind == http2.PING and not flags & http2.ACK:
            self.write(http2.frame(http2.PING, http2.ACK, 0, payload))
        elif kind == http2.RESET:
            self._left(stream)
        elif kind == http2.HEADERS:
            if not flags & http2.END_HEADERS:
                raise Malformed("a header block in several frames")
            headers = dict(self._decoder.decode(http2.unpadded(flags, payload)))
            self._asked[stream] = _Asked(headers.get(":path", ""))
        elif kind == http2.DATA and stream in self._asked:
            asked = self._asked[stream]
            asked.messages += asked.splitter.feed(http2.unpadded(flags & ~http2.PRIORITY, payload))
            if payload and not flags & http2.END_STREAM:
                self.write(http2.window(0, len(payload)) + http2.window(stream, len(payload)))
            elif payload:
                self.write(http2.window(0, len(payload)))
        if flags & http2.END_STREAM and kind in (http2.HEADERS, http2.DATA) and stream in self._asked:
            self._serve(stream, self._asked.pop(stream))

    def _serve(self, stream: int, asked: _Asked) -> None:
        limit = self._server.behaviour.close_after
        if limit is not None and self._served >= limit:
            self.write(http2.frame(http2.GOAWAY, 0, 0, self._last.to_bytes(4) + bytes(4)))
            self.hang_up()
            return
        self._last = stream
        method = asked.path.removeprefix(SERVICE)
        request = asked.messages[0] if asked.messages else b""
        if method in ("ModelInfer", "ModelStreamInfer"):
            self._infer(stream, request, method == "ModelStreamInfer")
            return
        answer = self._about(method, request)
        if answer is None:
            self._refuse(stream, 12, f"no such method: {asked.path}")
            return
        flags = http2.END_HEADERS | http2.END_STREAM
        self.write(
            http2.frame(http2.HEADERS, http2.END_HEADERS, stream, _HEAD)
            + http2.frame(http2.DATA, 0, stream, http2.message(answer))
            + http2.frame(http2.HEADERS, flags, stream, encode_headers(_status(0)))
        )

    def _infer(self, stream: int, request: bytes, streamed: bool) -> None:
        server = self._server
        number, outcome = server.admit()
        self.calls[stream] = number
        if outcome is ServedOutcome.HTTP500:
            server.outcome[number] = outcome
            self._refuse(stream, 13, "a fault on demand")
            self.answered(stream)
        elif outcome is ServedOutcome.STALL:
            server.outcome[number] = outcome
            self.write(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, _HEAD))
        else:
            _Call(server, self, stream, outcome, number, asked_answers(request), streamed).begin()

    def _refuse(self, stream: int, code: int, text: str) -> None:
        block = _HEAD + encode_headers(_status(code, text))
        self.write(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, stream, block))

    def _about(self, method: str, request: bytes) -> bytes | None:
        if method in ("ServerLive", "ServerReady", "ModelReady"):
            return _TRUE
        if method == "ServerMetadata":
            return protobuf.text(1, "ground-truth") + protobuf.text(2, __version__) + protobuf.text(3, "statistics")
        name = next((as_text(value) for field, value in read_fields(request) if field == 1), "")
        if method == "ModelMetadata":
            tensor = protobuf.text(1, "output") + protobuf.text(2, "FP32") + protobuf.numbers(3, (1,))
            about = protobuf.text(1, name) + protobuf.text(2, "1") + protobuf.text(3, "ground-truth")
            return about + protobuf.text(5, tensor)
        return self._statistics(name) if method == "ModelStatistics" else None

    def _statistics(self, model: str) -> bytes:
        """In Triton's form: all of the time is inference, unless slots made calls wait."""
        truth = self._server.truth()
        good = truth.outcome == ServedOutcome.OK
        count, spent_ns = int(good.sum()), int((truth.last_ns - truth.arrival_ns)[good].sum())
        done = protobuf.number(1, count) + protobuf.number(2, spent_ns)
        stats = protobuf.text(1, done) + protobuf.text(5, done)
        counts = protobuf.number(4, count) + protobuf.number(5, count)
        return protobuf.text(1, protobuf.text(1, model) + protobuf.text(2, "1") + counts + protobuf.text(6, stats))

    def write(self, data: bytes) -> None:
        """Send, past the transport's queue where possible, so that the log says when bytes left."""
        if not self.closed and not write_answer(self._transport, self._fd, data):
            self.closed = True

    def answered(self, stream: int) -> None:
        """A whole answer was given."""
        self._served += 1
        self.calls.pop(stream, None)

    def hang_up(self) -> None:
        """Close without another word."""
        self.calls.clear()
        self.closed = True
        self._transport.close()

    def _left(self, stream: int) -> None:
        """The client gave a call up."""
        self._asked.pop(stream, None)
        number = self.calls.pop(stream, None)
        if number is not None and self._server.outcome[number] == ServedOutcome.OPEN:
            self._server.outcome[number] = ServedOutcome.CLIENT_CLOSED


def asked_answers(request: bytes) -> int:
    """How often a call asks to be answered; once where it does not say."""
    fields: Sequence[tuple[int, int | bytes]] = list(read_fields(request))
    named = [as_bytes(value) for field, value in fields if field == 5]
    raws = [as_bytes(value) for field, value in fields if field == 7]
    for entry, raw in zip(named, raws, strict=False):
        if (1, b"answers") in read_fields(entry) and len(raw) >= 4:
            return max(1, int.from_bytes(raw[:4], "little"))
    return 1
