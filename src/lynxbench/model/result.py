"""The result document: what other programs may rely on. Keys are stable within a schema version."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from lynxbench.model.activity import DeviceActivity, EnergyBeside
from lynxbench.model.attribution import Attribution, Ceiling
from lynxbench.model.canonical import content_id
from lynxbench.model.contract import Contract
from lynxbench.model.document import Bounds, Document
from lynxbench.model.endurance import Endurance
from lynxbench.model.executor import Executor, FieldChange
from lynxbench.model.fields import Sha256
from lynxbench.model.figures import Figure
from lynxbench.model.job import ExecutedAs, Skip
from lynxbench.model.load_figures import LoadFigures, RecordFile
from lynxbench.model.precision import Native, Precision
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.model.verdicts import ValidityVerdict as ValidityVerdict

RULES = 15
"""Edition of the rules that turn samples into figures and these into verdicts. 1: the first. 2: a limit seen in less
than a hundredth of the readings is no doubt; a step whose kernels show no operands is held against the least work of
its workload. 3: intervals of percentiles cover the spread between processes; an open loop's latency must be steady too,
and its fill-up is left out; outliers that grow are a doubt; copies and formats wider than the contract's are the
software's, however near their ceilings they run; energy is that of the run's own devices. 4: a gain is what a fix
leaves of a step, and its range is a prediction interval; launches that block are a doubt. 5: what lays operands out
anew is the software's; kernels of unknown work forbid the word hardware-bound where they could hide a gain of 1.3. 6:
hardware-bound is said of whole steps; an operator's work is held against all pieces of its kernel. 7: results of which
little is read are the software's; hardware-bound says that it takes the work as needed; where launches and waits are
level, the gain's range covers the removal of either and of both; accuracy is undetermined where the reference's
answers ignore the prompt or prefer no token. 8: pages from a disk that nobody waited for are no doubt; gains on a CPU
leave an operator's start behind, reach as far as merged calls do, and products in 64 bits are the software's. 9: large
rows that are only written in another order are copies, and so the software's. 10: a pass writes what
its operands make together, and is merged with a reduction that reads its result at once; steps that mostly sort say so;
work inside wrappers is counted once, and far below a ceiling is said of what is. 11: beside a device, operators that
work on the host and start nothing are host work, however short; products in a dear order, and those of which a diagonal
is read, are the software's; without copies or waits, at the most nothing else holds the host up; answers whose tokens
were not seen to come one after the other show no time per token; the texts of a request to embed are counted together,
and answers that end early in all runs; a server that holds more requests than its clients have open was asked by
others, which is a doubt and forbids blame. 12: work that was seen to be needless where a step was followed value by
value (done twice, read by nobody, on zeros, in parts that read one weight anew) is the software's; a model name that a
server does not list is a doubt, and so are answers that do not depend on the prompts; a time per token counts what
came after the first event. 13: no product is the hardware's whose factor the step wrote out from far fewer numbers;
work that is the same in each step while other inputs change, and fetches by number that a slice would spare, are the
software's; running sums write what they read; where work is not known, the gain is not said to be none. 14: a gain is
counted by the clock of the step without the profiler. 15: nothing is said of the speed of work that operands do not
tell, nor of passes that caches fed; sums over calls are held against the mean step; a memory ceiling that another
contradicts is left out; faster kernels are promised by nobody; unread results and dear orders are the software's on a
CPU too, as are results of products that a mask drops, rows that were multiplied before, results that are read or
returned in part, products of whole numbers, gradients that only gather, and memory that is mapped anew in each step;
convolutions are counted by their own orders; nobody is blamed on a CPU for operators between near and far, or far below
the ceilings of other work."""

INVENTED_FIGURES = "The example carries no samples: its figures are invented."
"""Among the assumptions of a result that nobody measured; no ledger but the example's own takes one."""


class Validity(Document):
    """`void` figures are shown to nobody as the executor's; `doubtful` ones carry their reasons."""

    verdict: ValidityVerdict
    reasons: tuple[str, ...] = ()


class Excluded(Document):
    """Time that was executed and not counted, by phase."""

    phase: str
    seconds: float
    iterations: int


class Steady(Document):
    """The steady-state verdict over all processes of a precision; the worst process decides."""

    verdict: SteadyVerdict
    reason: str
    drift: Bounds
    counted_s: float
    counted_iterations: int
    executed_s: float
    excluded: tuple[Excluded, ...]
    per_process: tuple[str, ...]


class Percentile(Document):
    """One percentile of a latency in milliseconds; bounds are null where the samples cannot resolve it."""

    percentile: float
    low: float | None
    estimate: float | None
    high: float | None
    resolved: bool


class Governor(Document):
    """What held the sustained figure under the peak, where something was seen."""

    cause: str
    evidence: str


class Accuracy(Document):
    """Fidelity to the reference precision on the same inputs, and the task's own metric where labels exist."""

    reference: Precision
    is_reference: bool
    metrics: dict[str, float | None]
    """relative-error, cosine, top1, perplexity, perplexity-change, task, task-change … as the task has them."""
    task_metric: str | None = None
    inputs: str
    """What was fed in, with its hash."""
    loss: float | None = None
    """The loss in the policy's metric."""
    verdict: Literal["reference", "go", "no-go", "undetermined", "not measured", "no policy"]
    notes: Annotated[tuple[str, ...], Field(exclude_if=lambda notes: not notes)] = ()
    """What a server could not give, and whether a difference stands out of its own noise."""
    against: Annotated[Sha256 | None, Field(exclude_if=lambda against: against is None)] = None
    """The result whose answers are the reference, where another server gave them."""


class SloOutcome(Document):
    """Whether one bound of the objective held."""

    metric: str
    percentile: float
    at_most_ms: float
    measured: Percentile
    verdict: Literal["met", "missed", "unresolved"]


class PrecisionResult(Document):
    """Everything measured at one precision."""

    precision: Precision
    skipped: Skip | None = None
    throughput: Figure | None = None
    latency_ms: dict[str, tuple[Percentile, ...]] = {}
    """By metric: `latency` an iteration, and for generation `time-to-first-token` and `time-per-token`."""
    peak: Figure | None = None
    sustained: Figure | None = None
    governed_by: Governor | None = None
    steady: Steady | None = None
    accuracy: Accuracy | None = None
    native: Native = Native.UNKNOWN
    executed: ExecutedAs | None = None
    memory_bytes: int | None = None
    device_memory_bytes: int | None = None
    energy_j_per_unit: Figure | None = None
    slo: tuple[SloOutcome, ...] = ()
    validity: Validity
    restarts: int = 0
    run_means: tuple[float, ...] = ()
    attribution: Attribution | None = None
    attribution_missing: str | None = None
    """Why there is no attribution."""
    load: LoadFigures | None = None
    """Where a server was asked: the load, every request's end, the instrument, the saturation."""
    energy_j_per_request: Figure | None = None
    """Where a request is more than one unit."""
    activity: DeviceActivity | None = None
    """How busy the device's units were while samples were counted, by its own counters."""
    energy_beside: EnergyBeside | None = None
    """Whose energy the figures are; None in results that added up every device of the machine."""
    endurance: Endurance | None = None
    """How it held, where the contract asks for a duration."""

    @model_serializer(mode="wrap")
    def _without_what_is_new(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What came after the first results is left out where it is not known: older results keep their ids."""
        written: dict[str, Any] = write(self)
        for name in ("energy_j_per_request", "activity", "energy_beside", "endurance"):
            if getattr(self, name) is None:
                written.pop(name, None)
        return written


class Conditions(Document):
    """The context without which the figures mean nothing."""

    task: str
    model: str
    batch: int
    load: str
    input_tokens: str | None
    output_tokens: str | None
    regime: str
    engine: str
    graph: str | None
    threads: int
    division: str
    restarts_planned: int
    clients: int | None = None
    """Client processes, where a server was asked; `threads` then says nothing."""
    loosened: tuple[str, ...] = ()
    """Where the contract asks for less than the default protocol does, in words."""


class SamplesFile(RecordFile):
    """The columnar file with every timed sample."""

    marks: int


class Result(Document):
    """One run of one contract on one executor."""

    schema_version: Literal[1] = 1
    lynxbench_version: str
    result_id: str = ""
    run_id: str
    started_at: str
    finished_at: str
    measuring_s: float
    contract_id: str
    executor_id: str
    instance_id: str
    contract: Contract
    executor: Executor
    executor_drift: tuple[FieldChange, ...] = ()
    conditions: Conditions
    per_precision: tuple[PrecisionResult, ...]
    attribution: Attribution | None
    validity: Validity
    ceilings: tuple[Ceiling, ...] = ()
    assumptions: tuple[str, ...]
    samples: SamplesFile
    rules: int = 1
    """The edition of the rules by which its verdicts were reached; results without it are of the first."""

    @property
    def invented(self) -> bool:
        """Whether it says itself that nobody measured it."""
        return INVENTED_FIGURES in self.assumptions

    def document(self) -> dict[str, object]:
        """The JSON document."""
        return self.model_dump(mode="json", by_alias=True)

    def computed_id(self) -> str:
        """SHA-256 of the canonical document without its id."""
        body = self.document()
        body.pop("result_id")
        return content_id(body)  # type: ignore[arg-type]

    def sealed(self) -> Result:
        """The same result carrying its id."""
        return self.model_copy(update={"result_id": self.computed_id()})
