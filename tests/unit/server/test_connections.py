"""Which connections stay where there is no room for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from lynxbench.server.connections import ConnectionBook


@dataclass(eq=False)
class Held:
    """A connection as the book sees it."""

    address: str
    is_idle: bool = True
    dropped: list[bool] = field(default_factory=list)

    def drop(self) -> None:
        self.dropped.append(True)


def admitted(book: ConnectionBook, *held: Held) -> list[bool]:
    return [book.admit(cast(Any, one)) for one in held]


def test_one_address_takes_no_more_than_its_part() -> None:
    book = ConnectionBook(most=100, most_an_address=3)
    greedy = [Held("a") for _ in range(5)]
    assert admitted(book, *greedy) == [True, True, True, False, False]
    assert admitted(book, Held("b")) == [True]
    book.leave(cast(Any, greedy[4]))  # one that was refused leaves nothing behind
    assert book.count == 4
    book.leave(cast(Any, greedy[0]))
    assert admitted(book, Held("a"), Held("a")) == [True, False]


def test_there_is_room_for_a_newcomer_while_somebody_is_idle() -> None:
    book = ConnectionBook(most=6, most_an_address=None)
    crowd, few = [Held("crowd") for _ in range(4)], [Held("few") for _ in range(2)]
    admitted(book, *few, *crowd)
    crowd[0].is_idle = False  # somebody is being answered
    assert admitted(book, Held("new")) == [True]
    assert [len(one.dropped) for one in crowd] == [0, 1, 0, 0], "the oldest idle one of whoever has most"
    assert not any(one.dropped for one in few)
    assert book.count == 6


def test_nobody_who_is_being_answered_makes_room() -> None:
    book = ConnectionBook(most=2, most_an_address=None)
    busy = [Held("a", is_idle=False), Held("b", is_idle=False)]
    assert admitted(book, *busy, Held("c")) == [True, True, False]
    assert not any(one.dropped for one in busy)


def test_nothing_stays_of_those_who_left() -> None:
    book = ConnectionBook(most=10, most_an_address=5)
    for number in range(1000):
        held = Held(f"address {number}")
        admitted(book, held)
        book.leave(cast(Any, held))
        book.leave(cast(Any, held))
    assert book.count == 0
    assert not book._by_address
