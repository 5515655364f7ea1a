"""One training step: forward, backward, AdamW, on rotating batches."""

import contextlib
from typing import Any

import numpy as np
import torch
from pydantic import JsonValue

from lynxbench.engines.torch.classify import Batches
from lynxbench.engines.torch.graphs import Compilation
from lynxbench.engines.torch.number_formats import FORMATS
from lynxbench.engines.torch.task_work import Loaded, TaskWork
from lynxbench.errors import CannotRun
from lynxbench.model.precision import Precision
from lynxbench.model.samples import Outputs
from lynxbench.model.workload import FixedLength
from lynxbench.workload.lengths import typical
from lynxbench.workload.presets import ModelFamily

LEARNING_RATE = 1e-5
"""Small enough that pretrained weights stay sane over a long run; the cost of a step does not depend on it."""
JUDGED_STEPS = 3
JUDGED_GRADIENT = 4096
"""Numbers of the gradient kept for the comparison of precisions: from the first and the last matrix of the model."""


def mixed_dtype(precision: Precision) -> torch.dtype | None:
    """What the forward pass runs in under autocast; None where nothing is mixed."""
    dtype = FORMATS[precision].dtype
    return None if dtype is torch.float32 else dtype


class Train(TaskWork):
    """fp32 weights and optimiser state; fp16 and bf16 run the forward pass under autocast (mixed precision)."""

    unit = "sample"

    def __init__(self, loaded: Loaded) -> None:
        self._batches = Batches(loaded)
        super().__init__(loaded, self._batches.length)
        self._trainee = _Trainee(loaded, loaded.model, None)
        self.feed = self._batches.feed

    def replay(self) -> None:
        """An optimiser and a loss scaler that look at their numbers on the host cannot be recorded."""
        raise CannotRun("does not apply: a training step with its optimiser is not recorded as a CUDA graph")

    def compile(self, compilation: Compilation) -> None:
        """Compile forward and backward."""
        self._trainee = _Trainee(self._loaded, self._loaded.model, compilation)

    def step(self, index: int, marks: list[int]) -> int:
        """Forward, backward, update."""
        loss = self._trainee.step(self._batches.of(index))
        if self.pace.waits:
            float(loss)  # as a training loop that logs its loss
        self.pace.end_step()
        return self._loaded.workload.batch

    def outputs(self) -> Outputs:
        """Losses of the first steps from the untrained state (dropout off), and part of the first gradient."""
        fresh = _Trainee(self._loaded, self._loaded.reload(), None, dropout=False)
        losses: list[float] = []
        gradient: Any = None
        for index in range(JUDGED_STEPS):
            losses.append(float(fresh.step(self._batches.of(index))))
            if index == 0:
                gradient = fresh.gradient()
        arrays = {"losses": np.asarray(losses, dtype=np.float64), "gradient": gradient}
        return Outputs(kind="training", arrays=arrays, inputs=f"first {JUDGED_STEPS} batches of {self._batches.origin}")

    def facts(self) -> dict[str, JsonValue]:
        """Optimiser, mixed precision, inputs."""
        mixed = mixed_dtype(self._loaded.precision)
        facts: dict[str, JsonValue] = {
            "demand.inputs": self._batches.origin,
            "application.optimiser": f"AdamW, learning rate {LEARNING_RATE:g}, {self._trainee.implementation}",
            "application.mixed_precision": "none"
            if mixed is None
            else f"autocast to {mixed}, fp32 weights" + (", loss scaling" if mixed is torch.float16 else ""),
            "serving.batching": f"static, {self._loaded.workload.batch} rows",
        }
        if not self._batches.is_vision:
            fixed = isinstance(self._batches.length, FixedLength)
            facts["demand.tokens_per_sample"] = typical(self._batches.length)
            facts["demand.lengths"] = (
                "exact, no padding" if fixed else "drawn per step, shared by the batch, no padding"
            )
        return facts


class _Trainee:
    """A model with its optimiser: what a step changes."""

    def __init__(self, loaded: Loaded, model: Any, compilation: Compilation | None, *, dropout: bool = True) -> None:
        self._model = model.train(dropout)  # random masks would be taken for an effect of the precision
        self._family = loaded.source.family
        self._device = loaded.device
        self._mixed = mixed_dtype(loaded.precision)
        self._forward: Any = model if compilation is None else compilation(model)
        fused = loaded.device.type == "cuda"
        self.implementation = "fused" if fused else "one parameter at a time"
        self._optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=fused, foreach=False)
        self._scaler = torch.amp.GradScaler(loaded.device.type, enabled=self._mixed is torch.float16)

    def step(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """One update; returns the loss, still on its device."""
        self._optimiser.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self._forward(**batch, labels=self._labels(batch)).loss
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(self._optimiser)
        self._scaler.step(self._optimiser)
        self._scaler.update()
        detached: torch.Tensor = loss.detach()
        return detached

    def _autocast(self) -> Any:
        return torch.autocast(self._device.type, dtype=self._mixed) if self._mixed else contextlib.nullcontext()

    def _labels(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        if self._family is ModelFamily.DECODER:
            return batch["input_ids"]
        rows = next(iter(batch.values())).shape[0]
        return torch.arange(rows, device=self._device) % int(self._model.config.num_labels)

    def gradient(self) -> Any:
        """Numbers at equal distances from the gradients of the first and of the last matrix that is no embedding."""
        matrices = [
            parameter.grad
            for name, parameter in self._model.named_parameters()
            if parameter.grad is not None and parameter.dim() > 1 and "embed" not in name
        ]
        half = JUDGED_GRADIENT // 2
        parts = [_spread_over(gradient, half) for gradient in (matrices[0], matrices[-1])]
        return torch.cat(parts).cpu().numpy()


def _spread_over(gradient: torch.Tensor, count: int) -> torch.Tensor:
    flat = gradient.detach().float().flatten()
    return flat[:: max(len(flat) // count, 1)][:count]
