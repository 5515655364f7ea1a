"""Timeouts are always on, and a request without an answer still has a whole row."""

from __future__ import annotations

import pytest

from lynxbench.load.load_record import COLUMNS, RequestEnd
from lynxbench.load.response_reading import UNKNOWN_TOKENS
from lynxbench.load.ticket import Ticket, TicketTimeouts, unanswered_row


@pytest.mark.parametrize("name", ["connect_s", "first_byte_s", "idle_s", "total_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_no_timeout_can_be_switched_off(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="a run must end"):
        TicketTimeouts(**{name: value})


def test_the_shortest_timeout_is_the_first_that_can_end_anything() -> None:
    assert TicketTimeouts(connect_s=2, first_byte_s=3, idle_s=0.5, total_s=9).shortest_ns == 500_000_000


def test_an_unanswered_row_has_every_column() -> None:
    ticket = Ticket(7, 1000, b"")
    ticket.sent_ns, ticket.connect_ns, ticket.retries, ticket.turn = 1500, 20, 1, 2
    row = dict(zip(COLUMNS, unanswered_row(ticket, 3, RequestEnd.CUT_OFF), strict=True))
    assert {name: value for name, value in row.items() if value} == {
        "number": 7,
        "turn": 2,
        "process": 3,
        "scheduled_ns": 1000,
        "sent_ns": 1500,
        "connect_ns": 20,
        "output_tokens": UNKNOWN_TOKENS,
        "input_tokens": UNKNOWN_TOKENS,
        "cached_tokens": UNKNOWN_TOKENS,
        "kind": int(RequestEnd.CUT_OFF),
        "retries": 1,
    }
