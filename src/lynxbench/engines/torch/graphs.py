"""A step as a graph: what a contract's compile modes mean, and calls recorded once as a CUDA graph and replayed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from lynxbench.errors import CannotRun, first_line
from lynxbench.model.contract import Graph


@dataclass(frozen=True, slots=True)
class Compilation:
    """What torch.compile is told, and whether what comes out is recorded as one CUDA graph."""

    mode: str | None = None
    options: Mapping[str, bool | int] = field(default_factory=dict)
    recorded: bool = False
    backend: str = "inductor"

    def __call__(self, model: Any, *, dynamic: bool | None = None) -> Any:
        """The model compiled so."""
        options = dict(self.options) or None
        return torch.compile(model, mode=self.mode, options=options, dynamic=dynamic, backend=self.backend)


TUNED = {"coordinate_descent_tuning": True, "realize_opcount_threshold": 0, "realize_reads_threshold": 0}
"""Products of one row become kernels of the compiler's own, which are tuned one by one. What such a product reads is
written to memory first: worked out anew for every row of a weight, a norm or a gate costs more than the weight."""
TENSORRT = "torch_tensorrt"
"""The package, and the compiler that it registers."""
COMPILATIONS: dict[Graph, Compilation] = {
    Graph.COMPILE: Compilation("default"),
    Graph.COMPILE_REDUCE_OVERHEAD: Compilation("reduce-overhead"),
    Graph.COMPILE_MAX_AUTOTUNE: Compilation("max-autotune"),
    Graph.COMPILE_CUDA_GRAPH: Compilation("default", recorded=True),
    Graph.COMPILE_TUNED_CUDA_GRAPH: Compilation(options=TUNED, recorded=True),
    Graph.TENSORRT: Compilation(backend=TENSORRT),
}
COMPILERS = ("g++", "c++", "clang++")
WARM_UPS = 3
"""Calls before the recording: libraries choose their kernels and allocate their workspaces in the first ones."""


def check_compiler(device: torch.device, backend: str = "inductor") -> None:
    """CannotRun where torch.compile would fail for want of a compiler, long after it was started."""
    if backend == TENSORRT:
        if device.type != "cuda":
            raise CannotRun(f"engine.graph: tensorrt needs a CUDA device, not {device}; use compile or eager")
        if find_spec(TENSORRT) is None:
            raise CannotRun("engine.graph: tensorrt needs Torch-TensorRT: pip install torch-tensorrt, or use compile")
        import_module(TENSORRT)  # registers itself
        return
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ((named,) if named else COMPILERS)):
        wanted = f"CXX={named}" if named else "g++ or clang++"
        raise CannotRun(
            f"engine.graph: torch.compile needs a C++ compiler ({wanted} not found); install one or use eager"
        )
    if device.type == "cuda" and find_spec("triton") is None:
        raise CannotRun("engine.graph: torch.compile on a CUDA device needs triton: pip install triton, or use eager")


class Replay:
    """Called like the model; one recording for each shape of its tensors. Outputs live until the next call.

    Since they do, and one call follows the other, all recordings work in the same memory.
    """

    def __init__(self, call: Callable[..., Any], device: torch.device, warm_ups: int = WARM_UPS) -> None:
        self._call, self._device, self._warm_ups = call, device, warm_ups
        self._memory: Any = None
        self._recordings: dict[tuple[tuple[str, torch.Size], ...], _Recording] = {}

    def __call__(self, **arguments: Any) -> Any:
        """Replay the recording of these shapes; record it first where there is none yet."""
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        shape = tuple((name, tensor.shape) for name, tensor in tensors.items())
        if shape not in self._recordings:
            self._recordings[shape] = self._record(tensors, arguments)
        return self._recordings[shape].replay(tensors)

    def _record(self, tensors: dict[str, torch.Tensor], arguments: dict[str, Any]) -> _Recording:
        inputs = {name: tensor.clone() for name, tensor in tensors.items()}
        call = {**arguments, **inputs}
        side = torch.cuda.Stream(self._device)
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            for _ in range(self._warm_ups):
                self._call(**call)
        torch.cuda.current_stream(self._device).wait_stream(side)
        torch.cuda.synchronize(self._device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._memory):
                outputs = self._call(**call)
        except RuntimeError as error:
            line = first_line(error)
            raise CannotRun(f"does not apply: this step cannot be recorded as a CUDA graph ({line})") from error
        self._memory = graph.pool()
        return _Recording(graph, inputs, outputs)


class _Recording:
    """A recorded call: its inputs are copied in, its outputs are written anew by each replay."""

    def __init__(self, graph: torch.cuda.CUDAGraph, inputs: dict[str, torch.Tensor], outputs: Any) -> None:
        self._graph, self._inputs, self._outputs = graph, inputs, outputs

    def replay(self, tensors: dict[str, torch.Tensor]) -> Any:
        for name, tensor in tensors.items():
            self._inputs[name].copy_(tensor)
        self._graph.replay()
        return self._outputs
