"""A model's call recorded once as a CUDA graph and replayed: the same kernels without the host between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lynxbench.errors import CannotRun

WARM_UPS = 3
"""Calls before the recording: libraries choose their kernels and allocate their workspaces in the first ones."""


class Replay:
    """Called like the model; one recording for each shape of its tensors. Outputs live until the next call."""

    def __init__(self, call: Callable[..., Any], device: torch.device, warm_ups: int = WARM_UPS) -> None:
        self._call, self._device, self._warm_ups = call, device, warm_ups
        self._recorded: dict[tuple[tuple[str, torch.Size], ...], _Recording] = {}

    def __call__(self, **arguments: Any) -> Any:
        """Replay the recording of these shapes; record it first where there is none yet."""
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        shape = tuple((name, tensor.shape) for name, tensor in tensors.items())
        recording = self._recorded.get(shape)
        if recording is None:
            recording = self._recorded[shape] = self._record(tensors, arguments)
        return recording.replay(tensors)

    def _record(self, tensors: dict[str, torch.Tensor], arguments: dict[str, Any]) -> _Recording:
        held = {name: tensor.clone() for name, tensor in tensors.items()}
        call = {**arguments, **held}
        aside = torch.cuda.Stream(self._device)
        aside.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(aside):
            for _ in range(self._warm_ups):
                self._call(**call)
        torch.cuda.current_stream(self._device).wait_stream(aside)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                outputs = self._call(**call)
        except RuntimeError as error:
            line = str(error).strip().splitlines()[0]
            raise CannotRun(f"does not apply: this step cannot be recorded as a CUDA graph ({line})") from error
        return _Recording(graph, held, outputs)


class _Recording:
    def __init__(self, graph: torch.cuda.CUDAGraph, held: dict[str, torch.Tensor], outputs: Any) -> None:
        self._graph, self._held, self._outputs = graph, held, outputs

    def replay(self, tensors: dict[str, torch.Tensor]) -> Any:
        for name, tensor in tensors.items():
            self._held[name].copy_(tensor)
        self._graph.replay()
        return self._outputs
