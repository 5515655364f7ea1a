"""What is written past the queue leaves whole and in order, and a peer that is gone is said."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from lynxbench.load.direct_write import write_answer, write_request

LARGE = bytes(range(256)) * 40_000


class Queue:
    """A transport's side of it: what was left to it, and whether it was aborted."""

    def __init__(self, queued: int = 0) -> None:
        self.kept = b""
        self.aborted = False
        self._queued = queued

    def write(self, data: Any) -> None:
        self.kept += bytes(data)

    def get_write_buffer_size(self) -> int:
        return self._queued

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def received(end: socket.socket) -> bytes:
    parts = []
    while True:
        try:
            part = end.recv(1 << 20)
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def test_what_fits_leaves_at_once(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    queue: Any = Queue()
    assert write_request(queue, ours.fileno(), b"asked") == ours.fileno()
    assert write_answer(queue, ours.fileno(), b"answered")
    assert received(theirs) == b"askedanswered"
    assert queue.kept == b""


def test_what_does_not_fit_is_the_transports_and_so_is_all_that_follows(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    queue: Any = Queue()
    assert write_request(queue, ours.fileno(), LARGE) == -1
    assert write_request(queue, -1, b"next") == -1
    first = received(theirs)
    assert 0 < len(first) < len(LARGE)
    assert first + queue.kept == LARGE + b"next"


def test_an_answer_waits_behind_what_is_queued(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    queue: Any = Queue(queued=1)
    assert write_answer(queue, ours.fileno(), b"later")
    assert (received(theirs), queue.kept) == (b"", b"later")
    free: Any = Queue()
    assert write_answer(free, ours.fileno(), LARGE)
    assert received(theirs) + free.kept == LARGE


def test_a_peer_that_is_gone_is_aborted_and_gets_no_more(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.close()
    asked: Any = Queue()
    write_request(asked, ours.fileno(), b"asked")
    answered: Any = Queue()
    assert not write_answer(answered, ours.fileno(), b"answered")
    assert (asked.aborted, answered.aborted) == (True, True)
    assert asked.kept == answered.kept == b""
