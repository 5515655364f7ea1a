"""What a task offers to the session, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from pydantic import JsonValue

from lynxbench.engines.torch.events import EventClock
from lynxbench.engines.torch.feeding import Feed
from lynxbench.engines.torch.model_loading import Source
from lynxbench.engines.torch.number_formats import Prepared
from lynxbench.engines.torch.pacing import Pace
from lynxbench.model.precision import Precision
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import Workload


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

    @property
    def vocabulary(self) -> int:
        """How many token ids the model knows."""
        return int(self.model.config.vocab_size)


class TaskWork(Protocol):
    """One task on one loaded model."""

    unit: str
    pace: Pace

    @property
    def feed(self) -> Feed | None:
        """Where its inputs come from; None where they lie on the device before the clock starts."""

    def compile(self, mode: str) -> None:
        """Replace the model's forward by a compiled one."""

    def replay(self) -> None:
        """Replace the model's forward by a CUDA graph of it; CannotRun where the task has none."""

    def step(self, index: int, marks: list[int]) -> int:
        """One iteration; stamps go into marks, the units of work come back."""

    def brief_step(self) -> None:
        """The same kernels as a step in as little time as possible, for looking at them."""

    def outputs(self) -> Outputs:
        """Answers on fixed inputs."""

    def facts(self) -> dict[str, JsonValue]:
        """What is asked and how, as `layer.name` keys."""
