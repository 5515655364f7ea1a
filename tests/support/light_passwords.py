"""Passwords that cost next to nothing to hash."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def light_passwords() -> Iterator[None]:
    """A fifth of a second for each is for attackers; `test_passwords.py` asks a process of its own for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lynxbench.server.access.SCRYPT_N", 2)
        patch.setattr("lynxbench.server.access.SCRYPT_P", 1)
        yield
