"""The bytes of one answer: head, framing and events, cut as they come.

What servers usually send takes the short way; anything else the general one, and a property test holds the two equal
under every cut of every framing.
"""

import re
from abc import ABC, abstractmethod

from lynxbench.load.http import (
    LARGEST_CHUNK_LINE_BYTES,
    LARGEST_HEAD_BYTES,
    EventSplitter,
    Framing,
    Malformed,
    ResponseHead,
    parse_chunk_size,
    parse_head,
)
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.response_reading import FAILED, OUTPUT, ResponseReader

KEPT_ERROR_BYTES = 65_536
LARGEST_BODY_BYTES = 256 * 1024 * 1024
"""Thousands of vectors fit into it; what goes on beyond would fill the client's memory."""
_REMEMBERED = 256
"""Distinct heads and chunk lines remembered; servers repeat themselves, and a dict look-up is cheaper than parsing."""

# Plain ints: enum members cost a look-up more on every read.
_LENGTH, _CHUNKED = int(Framing.LENGTH), int(Framing.CHUNKED)
UNTIL_CLOSE = int(Framing.UNTIL_CLOSE)
_OK = int(RequestEnd.OK)
_STREAM_ERROR = int(RequestEnd.STREAM_ERROR)
_EMPTY = int(RequestEnd.EMPTY_ANSWER)

# One event in one chunk is what servers send: one pass of the regular-expression engine cuts a read into those.
# Whatever else follows falls into the second alternative whole, so that nothing is skipped, and takes the general way.
_EVENTS = re.compile(rb"([0-9a-fA-F]{1,8})\r\ndata: ([^\n]*)\n\n\r\n|[\s\S]+")
_END = b"0\r\n\r\n"


class AnswerStream(ABC):
    """What has been read of the answer under way; a connection is one, so that no read costs a call more."""

    __slots__ = (
        "_body", "_bytes", "_carry", "_chunk_left", "_events", "_first_answer_ns", "_first_byte_ns", "_first_token_ns",
        "_head", "_last_ns", "_outcome", "_reads", "_splitter", "reader",
    )  # fmt: skip

    # Shared on purpose: all connections of a run talk to one server.
    _heads: dict[bytes, ResponseHead] = {}
    _sizes: dict[bytes, int] = {}

    def __init__(self, reader: ResponseReader) -> None:
        self.reader = reader
        self._splitter = EventSplitter()
        self._reads: list[int] = []
        self._body: list[bytes] = []
        self._head: ResponseHead | None
        self._carry: bytes
        self._first_byte_ns: int
        self._first_token_ns: int
        self._first_answer_ns: int
        self._last_ns: int
        self._bytes: int
        self._events: int
        self._reset()

    @abstractmethod
    def _say(self, text: str) -> None:
        """Something a failing response said."""

    @abstractmethod
    def _finish(self, kind: int, *, reusable: bool) -> None:
        """The answer is over; `reusable` says whether the connection is in step."""

    def _read(self, data: bytes, now: int) -> None:
        if self._carry:
            data = self._carry + data
            self._carry = b""
        position = 0
        head = self._head
        while head is None:
            end = data.find(b"\r\n\r\n", position)
            if end < 0:
                if len(data) - position > LARGEST_HEAD_BYTES:
                    raise Malformed(f"no end of the response head in {LARGEST_HEAD_BYTES} bytes")
                self._carry = data[position:]
                return
            raw = data[position:end]
            position = end + 4
            head = self._heads.get(raw)
            if head is None:
                head = parse_head(raw)
                if len(self._heads) >= _REMEMBERED:
                    self._heads.clear()
                self._heads[raw] = head
            if head.status < 200:
                head = None  # an interim response; the real one follows
        if self._head is None:
            self._head = head
            self._chunk_left = head.length if head.framing == _LENGTH else 0
        if head.framing == _CHUNKED:
            self._read_chunks(data, position, now, head.event_stream and head.good)
        else:
            self._read_plain(data, position, now, head)

    def _read_chunks(self, data: bytes, position: int, now: int, events: bool) -> None:
        size_of = self._sizes.get
        find = data.find
        length = len(data)
        read_event = self.reader.event
        outputs = 0
        left = self._chunk_left  # data and its CRLF still to come of the current chunk
        if left:
            taken = min(left - 2, length) if left > 2 else 0
            if taken:
                piece = data[:taken]
                if events:
                    outputs += self._read_events(self._splitter.feed(piece))
                else:
                    self._keep(piece)
            skip = min(left - taken, length - taken) if taken == max(left - 2, 0) else 0
            position = taken + skip
            self._chunk_left = left = left - position
        if not left:
            splitter = self._splitter
            if events and not splitter.held:
                for line, event in _EVENTS.findall(data, position):
                    size = size_of(line)
                    if size is None:
                        if not line:
                            break
                        size = self._parse_size(line)
                    if size != len(event) + 8:
                        break  # it only looked like one event in one chunk
                    position += size + len(line) + 4
                    what = read_event(event)
                    if what == OUTPUT:
                        outputs += 1
                    elif what == FAILED:
                        self._outcome = _STREAM_ERROR
            if data[position:] == _END:
                if outputs:
                    self._note_outputs(outputs, now)
                self._end_of_body(complete=True)
                return
            while True:
                line_end = find(b"\r\n", position)
                if line_end < 0:
                    if length - position > LARGEST_CHUNK_LINE_BYTES:
                        raise Malformed("a chunk size line without an end")
                    self._carry = data[position:]
                    break
                line = data[position:line_end]
                size = size_of(line)
                if size is None:
                    size = self._parse_size(line)
                start = line_end + 2
                if size == 0:
                    end = start + 2
                    if data[start:end] != b"\r\n":
                        blank = find(b"\r\n\r\n", start)
                        if blank < 0:
                            if length - position > LARGEST_HEAD_BYTES:
                                raise Malformed("trailers without an end")
                            self._carry = data[position:]
                            break
                        end = blank + 4
                    if outputs:
                        self._note_outputs(outputs, now)
                    self._end_of_body(complete=end == length)
                    return
                stop = start + size
                position = stop + 2
                if events:
                    outputs += self._read_events(splitter.feed(data[start:stop]))
                else:
                    self._keep(data[start:stop])
                if position >= length:
                    self._chunk_left = position - length
                    break
        if outputs:
            self._note_outputs(outputs, now)

    def _read_plain(self, data: bytes, position: int, now: int, head: ResponseHead) -> None:
        piece = data[position:] if position else data
        extra = False
        if head.framing == _LENGTH:
            extra = len(piece) > self._chunk_left
            piece = piece[: self._chunk_left]
            self._chunk_left -= len(piece)
        if head.event_stream and head.good:
            outputs = self._read_events(self._splitter.feed(piece))
            if outputs:
                self._note_outputs(outputs, now)
        else:
            self._keep(piece)
        if head.framing == _LENGTH and self._chunk_left == 0:
            self._end_of_body(complete=not extra)

    def _parse_size(self, line: bytes) -> int:
        size = parse_chunk_size(line)
        if len(self._sizes) >= _REMEMBERED * 16:
            self._sizes.clear()
        self._sizes[line] = size
        return size

    def _read_events(self, events: list[bytes]) -> int:
        outputs = 0
        for data in events:
            what = self.reader.event(data)
            if what == OUTPUT:
                outputs += 1
            elif what == FAILED:
                self._outcome = _STREAM_ERROR
        return outputs

    def _note_outputs(self, outputs: int, now: int) -> None:
        if self._first_token_ns == 0:
            self._first_token_ns = now
        if self._first_answer_ns == 0 and self.reader.answering:
            self._first_answer_ns = now
        self._events += outputs
        self._reads += (now, outputs)

    def _keep(self, piece: bytes) -> None:
        head = self._head
        if head is not None and not head.good and sum(map(len, self._body)) > KEPT_ERROR_BYTES:
            return
        if self._bytes > LARGEST_BODY_BYTES:
            raise Malformed(f"no end of the answer in {LARGEST_BODY_BYTES >> 20} MiB")
        self._body.append(piece)

    def _end_of_body(self, complete: bool) -> None:
        """The framing says that the body is over; `complete` also says that the connection is in step."""
        head = self._head
        assert head is not None
        outcome = self._outcome
        now = self._last_ns
        if not head.good:
            outcome = int(RequestEnd.HTTP_ERROR)
            self._say(f"{head.status}: {b''.join(self._body)[:200].decode('utf-8', 'replace')}")
        elif head.event_stream:
            if self._splitter.held:
                outputs = self._read_events(self._splitter.flush())
                outcome = self._outcome
                if outputs:
                    self._note_outputs(outputs, now)
            if head.framing == UNTIL_CLOSE and not self.reader.finished and outcome == _OK:
                outcome = int(RequestEnd.RESET)  # nothing but the answer itself can say that it is whole
        elif body := b"".join(self._body):
            what = self.reader.body(body, head.inference_header_bytes)
            if what == FAILED:
                outcome = _STREAM_ERROR
            elif what == OUTPUT:
                self._note_outputs(1, now)
        if outcome == _STREAM_ERROR:
            self._say(f"stream error: {self.reader.failure[:200]}")
        elif outcome == _OK and self._events and head.event_stream and not self.reader.finished:
            outcome = _STREAM_ERROR  # framed as if it were whole: somebody between server and client closed it
            self._say("stream error: the answer broke off before its last event")
        elif outcome == _OK and not self._events:
            outcome = _EMPTY
            claimed = f", {self.reader.output_tokens} tokens by its usage" if self.reader.output_tokens > 0 else ""
            self._say(f"empty answer: {head.status} without output{claimed}")
        self._finish(outcome, reusable=complete and head.keep_alive)

    def _reset(self) -> None:
        self._head = None
        self._carry = b""
        self._chunk_left = 0
        self._first_byte_ns = 0
        self._first_token_ns = 0
        self._first_answer_ns = 0
        self._last_ns = 0
        self._bytes = 0
        self._events = 0
        self._outcome = _OK
        if self._reads:
            self._reads.clear()
        if self._body:
            self._body.clear()
        self._splitter.held = b""
