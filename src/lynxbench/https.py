"""One plain request over HTTP or HTTPS and its whole answer: for questions beside a measurement.

What is measured goes over the load driver's own wire, which knows when each byte came.
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from email.message import Message
from urllib.parse import urlsplit

from lynxbench.visible import visible_line

MOST_BYTES = 1 << 30
MOST_OF_A_PLACE = 200
"""Characters of another address that are shown."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back, whatever its status; a redirect is an answer, and not followed."""

    status: int
    headers: Message
    body: bytes

    @property
    def is_good(self) -> bool:
        """Whether the status says that it went well."""
        return 200 <= self.status < 300

    @property
    def leads_to(self) -> str:
        """Where a redirect points, in one line; empty where the answer is none."""
        place = str(self.headers.get("location", "")) if 300 <= self.status < 400 else ""
        return visible_line(place)[:MOST_OF_A_PLACE]


class AnswerTrickles(TimeoutError):
    """Bytes came, and the answer was not whole when the time for all of it was over."""


def request(
    method: str,
    url: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float,
    whole_s: float | None = None,
    most_bytes: int = MOST_BYTES,
    ca_file: str | None = None,
    verify: bool = True,
) -> HttpAnswer:
    """Ask once; OSError where no answer comes, TimeoutError where none comes in time, ValueError for no address.

    `timeout_s` bounds each wait, `whole_s` all of them: a server that sends a byte now and then never ends the first.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url[:200]!r} is no address of a server")
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=ca_file)
        if not verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.connect()
        with nullcontext() if whole_s is None else _ended_after(connection.sock, whole_s):
            connection.request(method, target, body, dict(headers or {}))
            answer = connection.getresponse()
            return HttpAnswer(answer.status, answer.headers, answer.read(most_bytes))
    except http.client.HTTPException as error:
        raise ConnectionError(str(error) or type(error).__name__) from error
    finally:
        connection.close()


@contextmanager
def _ended_after(sock: socket.socket, seconds: float) -> Iterator[None]:
    """Whatever is waited for on the socket ends when the time is over; AnswerTrickles then."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS or not, the reader sees the end

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if not late.is_set():
            raise
    finally:
        timer.cancel()
        if late.is_set():
            raise AnswerTrickles(f"no whole answer within {seconds:g} s") from None
