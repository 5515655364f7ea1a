"""A writer that is killed with -9 in the middle of its work, and what it had acknowledged by then."""

from __future__ import annotations

import hashlib
import os
import signal
import time
import warnings

from ledgers import decision, key_of, sealed
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute


def acknowledged_before_kill(url: str, name: str, wait_s: float) -> set[str]:
    """Fork a writer, kill it after `wait_s`, and return the SHA-256 of every envelope it said was stored.

    A fork, not a fresh process: hundreds of kills would otherwise be spent on imports.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads here do not matter: the child never comes back
        child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _append_for_ever(url, name, writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as stream:
            assert stream.readline() == b"ready\n", "the writer could not open the ledger"
            time.sleep(wait_s)
            os.kill(child, signal.SIGKILL)
            lines = stream.read().split(b"\n")
    finally:
        _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended before it was killed"
    return {line.decode() for line in lines[:-1]}  # what follows the last line break was cut off in the middle


def stored_in(url: str) -> set[str]:
    """The SHA-256 of every envelope of a ledger, which opens and whose tree is the tree of its entries."""
    with Ledger(url) as ledger:
        head = recompute(ledger)
        assert head == ledger.head()
        return {hashlib.sha256(one.envelope.to_bytes()).hexdigest() for one in ledger.read_all(range(head.size))}


def _append_for_ever(url: str, name: str, writing: int) -> None:
    key = key_of("alpha")
    with Ledger(url) as ledger:
        os.write(writing, b"ready\n")
        number = 0
        while True:
            envelope = sealed(decision(f"{name} {number}"), key)
            ledger.append(envelope)
            os.write(writing, hashlib.sha256(envelope.to_bytes()).hexdigest().encode() + b"\n")
            number += 1
