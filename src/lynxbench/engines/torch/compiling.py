"""Graph transformation: which mode a contract's word means, and what it needs from the machine."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import torch

from lynxbench.errors import CannotRun
from lynxbench.model.contract import Graph

COMPILE_MODES: dict[Graph, str] = {
    Graph.COMPILE: "default",
    Graph.COMPILE_REDUCE_OVERHEAD: "reduce-overhead",
    Graph.COMPILE_MAX_AUTOTUNE: "max-autotune",
}
COMPILERS = ("g++", "c++", "clang++")


def check_compiler(device: torch.device) -> None:
    """CannotRun where torch.compile would fail for want of a compiler, long after it was started."""
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ((named,) if named else COMPILERS)):
        wanted = f"CXX={named}" if named else "g++ or clang++"
        raise CannotRun(
            f"engine.graph: torch.compile needs a C++ compiler ({wanted} not found); install one or use eager"
        )
    if device.type == "cuda" and find_spec("triton") is None:
        raise CannotRun("engine.graph: torch.compile on a CUDA device needs triton: pip install triton, or use eager")
