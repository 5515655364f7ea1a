"""What the driver needs of the language a server speaks. Engines satisfy these shapes; they do not import them."""

from typing import Final, Protocol

NOTHING: Final = 0
"""An event that carries no output: an empty or role-only delta, usage, a comment."""
OUTPUT: Final = 1
"""An event that carries output. It may be one token, several or part of one: it is never counted as a token."""
END: Final = 2
"""The end marker (`[DONE]`)."""
FAILED: Final = 3
"""The server says inside a 200 response that it failed."""

UNKNOWN_TOKENS: Final = -1
MOST_TOKENS: Final = 2**31 - 1
"""No answer has more: a larger number counts nothing, and a record could not hold every one."""


class ResponseReader(Protocol):
    """Reads the responses of one connection, one after the other."""

    finished: bool
    """The answer said itself that it is complete (a finish reason or the end marker)."""
    output_tokens: int
    """From the server's usage; UNKNOWN_TOKENS where it gave none. Where no tokens are made, the units of work done."""
    input_tokens: int
    cached_tokens: int
    """Input tokens the server says came from its prefix cache; UNKNOWN_TOKENS where it does not say."""
    failure: str
    """What the server said after FAILED."""
    answering: bool
    """Output of the answer itself has come; what a model thinks aloud before it is output too, and no answer."""
    reasoning_tokens: int
    """Of the output tokens, those before the answer; UNKNOWN_TOKENS where the server does not say."""

    def begin(self, number: int = 0) -> None:
        """A new response starts, to the arrival of that number."""

    def event(self, data: bytes) -> int:
        """Read one server-sent event: NOTHING, OUTPUT, END or FAILED; ValueError when it is not readable."""

    def body(self, data: bytes, inference_header_bytes: int) -> int:
        """Read a whole body that is not a stream; same answers."""

    def text(self) -> str:
        """What was said, where the reader was asked to keep it; else empty."""


class Language(Protocol):
    """Makes readers. Must be picklable: worker processes get a copy.

    One whose attribute `over_http2` is true is of gRPC: its requests are prepared calls (`http2.pack_call`), and every
    message is read as an event.
    """

    def reader(self, keep_text: bool) -> ResponseReader:
        """A reader for one connection."""


class Script(Protocol):
    """Says what is sent. Must be picklable. Requests are complete HTTP/1.1 requests, head and body."""

    @property
    def stands_alone(self) -> bool:
        """No request has a next turn, so answers need not be kept."""

    def first(self, number: int) -> bytes:
        """The request of arrival `number`, or the opening turn of conversation `number`."""

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """The next turn of a conversation after these answers; None when it is over."""


class PlainRotation:
    """The plainest script: prepared requests, taken in turn."""

    stands_alone = True

    def __init__(self, requests: tuple[bytes, ...]) -> None:
        if not requests:
            raise ValueError("a rotation needs at least one request")
        self.requests = requests

    def first(self, number: int) -> bytes:
        """Requests rotate by arrival number."""
        return self.requests[number % len(self.requests)]

    def follow(self, number: int, answers: tuple[str, ...]) -> bytes | None:
        """Every request stands alone."""
        return None
