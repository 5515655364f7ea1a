"""Memory that tensors lie in, followed without holding it: what it contains by a number, who made it, who read it."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lynxbench.engines.torch.value_calls import NOBODY, Memory
from lynxbench.engines.torch.value_tensors import storage_of

SMALL_BYTES = 4096
"""Of memory on the host that comes from outside, so much is looked at: tables and numbers that a step makes anew."""
SWEPT = 8192
"""So many new ones, and those that were freed are forgotten."""


class Numbers:
    """A number for everything that is told apart; the same thing has the same number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, thing: Hashable) -> int:
        """Its number: an old one where it is known."""
        return self._known.setdefault(thing, len(self._known))

    def fresh(self) -> int:
        """One that nothing else has."""
        return self.of(("fresh", len(self._known)))


class Memories:
    """All memory that was met."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._by_address: dict[int, Memory] = {}
        self._sweep_at = SWEPT

    def find(self, tensor: torch.Tensor) -> Memory | None:
        """Where a tensor lies, if it was met there."""
        return self._by_address.get(storage_of(tensor)._cdata)

    def meet(self, tensor: torch.Tensor) -> Memory:
        """Where an operand lies; what is there is nobody's work of these steps where it was not met before."""
        storage = storage_of(tensor)
        memory = self._by_address.get(storage._cdata)
        if memory is None:
            memory = self._add(storage)
            memory.content = self._outside(storage)
        elif storage.device.type == "cpu" and not storage.resizable():
            memory.content = self._outside(storage)  # others can write there and say nothing
        return memory

    def make(self, tensor: torch.Tensor, content: int) -> Memory | None:
        """Where a new result lies; None where that was met before."""
        storage = storage_of(tensor)
        if storage._cdata in self._by_address:
            return None
        memory = self._add(storage)
        memory.content = content
        return memory

    def end_step(self) -> None:
        """What wrote before is no work of the next step."""
        self._sweep()
        for memory in self._by_address.values():
            memory.writer, memory.made_of, memory.repeats = NOBODY, None, None

    def _add(self, storage: Any) -> Memory:
        if len(self._by_address) >= self._sweep_at:
            self._sweep()
            self._sweep_at = len(self._by_address) + SWEPT
        memory = Memory(StorageWeakRef(storage), 0)
        self._by_address[storage._cdata] = memory
        return memory

    def _sweep(self) -> None:
        self._by_address = {address: one for address, one in self._by_address.items() if not one.freed}

    def _outside(self, storage: Any) -> int:
        if storage.device.type == "cpu" and 0 < storage.nbytes() <= SMALL_BYTES:
            return self._numbers.of(("bytes", ctypes.string_at(storage.data_ptr(), storage.nbytes())))
        return self._numbers.fresh()
