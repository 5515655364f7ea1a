"""What the pipeline hands to one fresh process, and what that process hands back beside its samples."""

from enum import StrEnum

from pydantic import JsonValue

from lynxbench.model.attribution import Ceiling
from lynxbench.model.contract import Contract
from lynxbench.model.document import Document
from lynxbench.model.executor import Field
from lynxbench.model.interventions import Change
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Native, Precision


class Job(Document):
    """One fresh process: one precision, once. Extra passes run after the timed window, never inside it."""

    index: int
    restart: int
    contract: Contract
    precision: Precision
    threads: int
    take_outputs: bool = False
    take_profile: bool = False
    take_ceilings: bool = False
    known_ceilings: tuple[Ceiling, ...] = ()
    """What this executor reached in earlier runs, to be re-checked; () measures from nothing."""
    reference_step_s: float | None = None
    """Step time at the reference precision, once known: what an emulated precision is estimated from."""
    own_packages: bool = False
    """Whether it runs in an environment of its own, whose packages are not those the host's layers were read from."""
    measured_s: float = 0.0
    """What earlier attempts at this process measured, where the contract asks for a duration."""
    change: Change | None = None
    """What an intervention changes inside the engine; None measures the contract as it stands."""


class ExecutedAs(Document):
    """How the engine says a precision was executed: the kernels and casts that ran decide."""

    native: Native
    how: str
    kernels: tuple[str, ...] = ()
    toolchain: str = ""


class Skip(Document):
    """A precision that was not measured, and why."""

    reason: str
    estimated_s: float | None = None


class JobStatus(StrEnum):
    """How a process ended."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


class FailureKind(StrEnum):
    """A failure that is not the executor's doing."""

    OWN_CODE = "own code"
    """The user's function is not there, or raised."""
    FULL_DISK = "full disk"


class JobReport(Document):
    """Everything a process knows beside its samples; written once, at its end."""

    status: JobStatus
    setup_ns: tuple[int, int] | None = None
    compile_ns: tuple[int, int] | None = None
    unit: str = ""
    facts: dict[str, JsonValue] = {}
    fields: dict[Layer, dict[str, Field]] = {}
    executed: ExecutedAs | None = None
    ceilings: tuple[Ceiling, ...] = ()
    peak_memory_bytes: int | None = None
    peak_device_memory_bytes: int | None = None
    stop_reason: str = ""
    trace: str | None = None
    """Name of the profiler's trace in the attempt's folder."""
    skip: Skip | None = None
    error: str | None = None
    failure: FailureKind | None = None
    """Of what kind an error is, where it is not the executor's."""
