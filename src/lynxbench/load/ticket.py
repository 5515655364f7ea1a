"""One request on its way, and how long it is waited for."""

from __future__ import annotations

from lynxbench.load.load_record import RequestEnd
from lynxbench.load.response_reading import UNKNOWN_TOKENS


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


class Ticket:
    """One request on its way: what is due, when, and what already happened to it."""

    __slots__ = ("answers", "connect_ns", "number", "request", "retries", "scheduled_ns", "sent_ns", "turn")

    def __init__(self, number: int, scheduled_ns: int, request: bytes) -> None:
        self.number = number
        self.turn = 0
        self.scheduled_ns = scheduled_ns
        self.request = request
        self.sent_ns = 0
        self.connect_ns = 0
        self.retries = 0
        self.answers: tuple[str, ...] = ()


def unanswered_row(ticket: Ticket, part: int, kind: RequestEnd) -> tuple[int, ...]:
    """A row of the record, in the order of its columns, for a request that got no answer."""
    unknown = UNKNOWN_TOKENS
    return (
        *(ticket.number, ticket.turn, part, ticket.scheduled_ns, ticket.sent_ns, ticket.connect_ns),
        *(0, 0, 0, 0, 0, unknown, unknown, unknown, int(kind), 0, 0, ticket.retries, 0),
    )
