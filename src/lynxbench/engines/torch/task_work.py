"""What a task is given and what it offers to the session; how inputs come to the device, and how a step ends."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import JsonValue

from lynxbench.engines.torch.device import synchronise
from lynxbench.engines.torch.events import EventClock
from lynxbench.engines.torch.graphs import Compilation, Replay
from lynxbench.engines.torch.model_loading import Source
from lynxbench.engines.torch.number_formats import Prepared
from lynxbench.model.interventions import Change
from lynxbench.model.precision import KvCache, Precision
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength, Workload
from lynxbench.workload.lengths import AnyLength

Batch = dict[str, torch.Tensor]

STAGED_BATCHES = 64
"""Prestaged inputs rotate through so many batches: enough that no cache holds them all, little enough to keep."""
IN_FLIGHT = 3
"""Steps under way at most once synchronisation is removed: the queue stays short, and throughput is the device's."""


@dataclass(slots=True)
class Loaded:
    """A model on its device at its precision, with all a task needs to feed it."""

    model: Any
    source: Source
    tokenizer: Any | None
    workload: Workload
    precision: Precision
    device: torch.device
    prepared: Prepared
    reload: Callable[[], Any]
    """The same model again as it was before any training step."""
    clock: EventClock | None = None
    """Where the device times the steps."""
    merged: bool = False
    """Whether products of one input were made one product."""
    kv_cache: KvCache = KvCache.COMPUTED
    """What keys and values are kept in."""

    @property
    def vocabulary(self) -> int:
        """How many token ids the model knows."""
        return int(self.model.config.vocab_size)


class Feed:
    """Makes the inputs of a step on the host and brings them to the device; interventions change how."""

    def __init__(self, make: Callable[[int], Batch], device: torch.device) -> None:
        self._make, self._device = make, device
        self._staged: list[Batch] = []
        self._by_shape: dict[tuple[torch.Size, ...], Batch] = {}
        self.at: Callable[[int], Batch] = self._plain

    def change(self, change: Change) -> None:
        """Feed differently from now on; changes that are not about inputs change nothing."""
        if change is Change.PRESTAGE:
            self._staged = [self._plain(index) for index in range(STAGED_BATCHES)]
            self.at = self._prestaged
        elif change is Change.PIN:
            self.at = self._pinned
        elif change is Change.NO_TRANSFER:
            self.at = self._resident

    def _plain(self, index: int) -> Batch:
        return self._moved(self._make(index))

    def _prestaged(self, index: int) -> Batch:
        return self._staged[index % STAGED_BATCHES]

    def _pinned(self, index: int) -> Batch:
        batch = self._make(index)
        return {name: tensor.pin_memory().to(self._device, non_blocking=True) for name, tensor in batch.items()}

    def _resident(self, index: int) -> Batch:
        """The inputs are made as ever, and a batch of their shape that the device already has is used."""
        batch = self._make(index)
        shape = tuple(tensor.shape for tensor in batch.values())
        if shape not in self._by_shape:
            self._by_shape[shape] = self._moved(batch)
        return self._by_shape[shape]

    def _moved(self, batch: Batch) -> Batch:
        return {name: tensor.to(self._device) for name, tensor in batch.items()}


class Pace:
    """Ends a step: the host waits for its device, or, where that is taken away, for a step a few steps back."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._under_way: deque[torch.cuda.Event] = deque()
        self._handed_over = False
        self.waits = True

    def stop_waiting(self) -> None:
        """Remove the synchronisation at the end of each step (CUDA)."""
        self.waits = False

    def hand_over(self) -> None:
        """Leave the end of a step to a clock of the device: nothing is waited for here."""
        self.waits, self._handed_over = False, True

    def end_step(self) -> None:
        """The work is finished when it returns, unless waiting was removed."""
        if self._handed_over:
            return
        if self.waits:
            synchronise(self._device)
            return
        end = torch.cuda.Event()
        end.record()
        self._under_way.append(end)
        if len(self._under_way) > IN_FLIGHT:
            self._under_way.popleft().synchronize()


class TaskWork(ABC):
    """One task on one loaded model; `step` calls `_forward`, which compiling and recording replace."""

    unit: str
    feed: Feed | None = None
    """Where its inputs come from; None where they lie on the device before the clock starts."""

    def __init__(self, loaded: Loaded, length: AnyLength | None) -> None:
        self._loaded, self._length = loaded, length
        self._forward: Any = loaded.model
        self.pace = Pace(loaded.device)

    def compile(self, compilation: Compilation) -> None:
        """Replace the model's forward by a compiled one; lengths vary unless they are fixed."""
        self._forward = compilation(self._loaded.model, dynamic=not isinstance(self._length, FixedLength))

    def replay(self) -> None:
        """Replace the model's forward by a CUDA graph for each shape that comes; CannotRun where there is none."""
        self._forward = Replay(self._forward, self._loaded.device)

    @abstractmethod
    def step(self, index: int, marks: list[int]) -> int:
        """One iteration; stamps go into marks, the units of work come back."""

    def brief_step(self) -> None:
        """The same kernels as a step in as little time as possible, for looking at them."""
        self.step(0, [])

    @abstractmethod
    def outputs(self) -> Outputs:
        """Answers on fixed inputs."""

    @abstractmethod
    def facts(self) -> dict[str, JsonValue]:
        """What is asked and how, as `layer.name` keys."""
