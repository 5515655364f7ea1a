"""A server's own profiler: what a contract asks of it, and what its traces came to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lynxbench.model.attribution import Attribution
from lynxbench.model.document import Document
from lynxbench.model.fields import Seconds, Sha256


class ProfilePass(Document):
    """A short load after the measured one, with the server's profiler on; no figure is taken from it."""

    duration_s: Annotated[Seconds, Field(alias="duration", gt=0, le=60)] = 2.0
    # A trace of some seconds is written in up to minutes, by the server's own word (vLLM: 100 requests, ten minutes).
    wait_s: Annotated[Seconds, Field(alias="wait", gt=0, le=3600)] = 300.0


class KernelJoin(Document):
    """A trace laid over the requests of its pass, by the time of day that both know."""

    busy: float
    """Of the time in which a request was open, the share in which the device (or an operator on the host) worked."""
    outside: float
    """Of that work, the share at moments without a request of the pass."""
    requests: int
    """Requests that were open during some of the trace."""
    work_ms_per_request: float | None
    """Work while they were open, over their number; requests share a batch, so it is no request's own."""


class ProfileTrace(Document):
    """A trace that the server wrote, as it is kept beside the run."""

    file: str
    sha256: Sha256
    bytes: int


class ServerKernels(Document):
    """The kernels of the server: from a pass of its own, and never from the measured load."""

    missing: str = ""
    """Why there is no verdict from it; empty where there is one."""
    duration_s: float = 0.0
    offered: int = 0
    ok: int = 0
    traces: tuple[ProfileTrace, ...] = ()
    judged: str | None = None
    """The trace that is judged: the one with most of the work."""
    device: str | None = None
    join: KernelJoin | None = None
    attribution: Attribution | None = None
