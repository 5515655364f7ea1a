"""Ways past PyTorch's operators, watched while a step is followed: what is read there, or hides the rest."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

READING = (
    "numpy",
    "tolist",
    "data_ptr",
    "storage",
    "untyped_storage",
    "_typed_storage",
    "share_memory_",
    "__dlpack__",
    "__reduce_ex__",
)
"""Methods of a tensor by which others come to its elements."""
_ABSENT = object()


def hidden_before() -> str | None:
    """Why a step of this process cannot be followed, where that shows before it is tried."""
    compiler = sys.modules.get("torch._dynamo.utils")
    if compiler is not None and compiler.counters["stats"]["unique_graphs"]:
        return "code was compiled"
    return None


@contextmanager
def watched(
    exposed: Callable[[Any], None], differentiated: Callable[[Any], None], hide: Callable[[str], None]
) -> Iterator[None]:
    """`exposed` gets each tensor whose elements somebody comes to; `differentiated` what gradients are asked of; `hide`
    the reason why not all is seen."""

    def reading(tensor: Any, *_: object, **__: object) -> None:
        exposed(tensor)

    def asking(outputs: Any = (), *_: object, tensors: Any = (), **__: object) -> None:
        differentiated((outputs, tensors))

    def hiding(why: str) -> Callable[..., None]:
        return lambda *_, **__: hide(why)

    with ExitStack() as undone:
        for name in READING:
            undone.enter_context(_before(torch.Tensor, name, reading))
        for name in ("backward", "grad"):  # a tensor's own method calls the one of the module
            undone.enter_context(_before(torch.autograd, name, asking))
        for owner, name, why in _hiding_calls():
            undone.enter_context(_before(owner, name, hiding(why)))
        yield


def _hiding_calls() -> Iterator[tuple[Any, str, str]]:
    yield torch.cuda.CUDAGraph, "replay", "a CUDA graph was replayed"
    yield torch._C.ScriptFunction, "__call__", "TorchScript ran"
    yield torch._C.ScriptMethod, "__call__", "TorchScript ran"
    yield threading.Thread, "start", "another thread was started"
    yield ThreadPoolExecutor, "submit", "another thread worked"
    kernels = sys.modules.get("triton.runtime.jit")
    if kernels is not None and hasattr(kernels, "JITFunction"):
        yield kernels.JITFunction, "run", "a Triton kernel ran"


@contextmanager
def _before(owner: Any, name: str, told: Callable[..., None]) -> Iterator[None]:
    """Something is told of each call of a method; all is as it was afterwards."""
    method = getattr(owner, name, None)
    own = vars(owner).get(name, _ABSENT)
    if method is None:
        yield
        return

    @wraps(method)
    def told_first(*arguments: Any, **words: Any) -> Any:
        told(*arguments, **words)
        return method(*arguments, **words)

    try:
        setattr(owner, name, told_first)
    except (TypeError, AttributeError):
        yield
        return
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
