"""Memory that tensors lie in, followed without holding it: what it contains by a number, who made it, who read it."""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

if TYPE_CHECKING:
    from lynxbench.engines.torch.value_calls import Call
    from lynxbench.engines.torch.value_structure import Made

SMALL_BYTES = 4096
"""Of memory on the host that comes from outside, so much is looked at: tables and numbers that a step makes anew."""
NOBODY = -1
SWEPT = 8192
"""So many new ones, and those that were freed are forgotten."""

storage_of = torch._C.TensorBase.untyped_storage  # not the one on `Tensor`, whose callers are watched


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


class Memory:
    """One storage. Only weakly held: as long as this lives its address is no other's, but its bytes may go."""

    __slots__ = ("blank", "content", "gradient", "made_of", "maker", "own", "read", "weak", "writer")

    def __init__(self, weak: StorageWeakRef, content: int) -> None:
        self.weak = weak
        self.content = content
        self.writer = NOBODY
        """The step's operation that wrote it last."""
        self.maker: Call | None = None
        """The call whose result it is."""
        self.read = False
        self.blank = False
        self.gradient = False
        self.own = False
        """An operator of the steps that are followed wrote it."""
        self.made_of: Made | None = None
        """Of what the step made it; None of as many numbers as it has elements."""

    @property
    def freed(self) -> bool:
        """Whether no tensor lies in it any more."""
        return bool(self.weak.expired())


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
            memory.writer, memory.made_of = NOBODY, None

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


def whole_of(tensor: torch.Tensor) -> bool:
    """Whether a tensor covers its memory."""
    taken: int = tensor.numel() * tensor.element_size()
    return taken == int(storage_of(tensor).nbytes()) and tensor.is_contiguous()


def geometry_of(tensor: torch.Tensor) -> Hashable:
    """How it lies in its memory."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    return tensor.dtype, sizes, strides, tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()


def tensors_in(arguments: Any) -> Iterator[torch.Tensor]:
    """Of an argument or a result: itself, or those of a list."""
    if isinstance(arguments, torch.Tensor):
        yield arguments
    elif isinstance(arguments, (list, tuple)):
        for one in arguments:
            yield from tensors_in(one)
