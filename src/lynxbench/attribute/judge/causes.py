"""What each category means: its words, its layer, where the symptom shows, what removes it and what that gains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer


@dataclass(frozen=True, slots=True)
class CategoryCause:
    """How a category reads, and whose it is. `rivals` are other layers that could be behind it, with the reason."""

    words: str
    """With its verb: `kernel launch and framework dispatch take`."""
    layer: Layer | None
    symptom: Layer | None
    next_step: str
    why: str
    rivals: tuple[tuple[Layer, str], ...] = ()

    def takes(self, amount: str) -> str:
        """`launch and dispatch take 58–66 % of a step`."""
        return f"{self.words} {amount} of a step"


CAUSES: dict[Category, CategoryCause] = {
    Category.COMPUTE: CategoryCause(
        "arithmetic takes",
        Layer.ACCELERATOR,
        Layer.ACCELERATOR,
        "compute in a lower precision, do less arithmetic (a smaller or sparser model), or use faster hardware",
        "operators run near the measured arithmetic ceiling",
        ((Layer.APPLICATION, "a smaller model or a lower precision needs less arithmetic"),),
    ),
    Category.MEMORY_BANDWIDTH: CategoryCause(
        "moving data between memory and the processor takes",
        Layer.ACCELERATOR,
        Layer.ACCELERATOR,
        "move fewer bytes (weights in fewer bits, a larger batch for each read of the weights), or use faster memory",
        "operators run near the measured memory ceiling",
        (
            (Layer.APPLICATION, "a larger batch or weights in fewer bits move fewer bytes for each unit of work"),
            (Layer.RUNTIME, "fused operators write fewer intermediate results"),
        ),
    ),
    Category.TRANSFER: CategoryCause(
        "copies between host and device take",
        Layer.APPLICATION,
        Layer.ACCELERATOR,
        "keep the data on the device; where it must move, copy from pinned memory and overlap it with the work before",
        "the program places its data on the other side of the link",
        ((Layer.SYSTEM, "a link narrower than it should be, or pageable memory, slows each copy"),),
    ),
    Category.LAUNCH: CategoryCause(
        "kernel launch and framework dispatch take",
        Layer.RUNTIME,
        Layer.SYSTEM,
        "compile the step or replay it as a graph, so that many small operators become few",
        "the step consists of operators too small for what starting each of them costs",
        (
            (Layer.APPLICATION, "a larger batch gives each operator more work for the same dispatch"),
            (Layer.FRAMEWORK, "the framework's cost of dispatching one operator"),
        ),
    ),
    Category.SYNCHRONIZATION: CategoryCause(
        "waiting for the device at synchronisation points takes",
        Layer.APPLICATION,
        Layer.ACCELERATOR,
        "remove the reads of device values inside the step (.item(), .cpu(), printing), or do them once at its end",
        "the program asks for a value before it may go on",
        ((Layer.FRAMEWORK, "an operator that synchronises on its own"),),
    ),
    Category.ALLOCATOR: CategoryCause(
        "allocating and freeing memory takes",
        Layer.FRAMEWORK,
        Layer.SYSTEM,
        "reuse buffers between steps, do not empty the cache in the loop, and tune or replace the allocator",
        "memory is asked for and given back inside the step",
        (
            (Layer.APPLICATION, "the program creates and drops temporary tensors in every step"),
            (Layer.SYSTEM, "the operating system's page handling makes each allocation dear"),
        ),
    ),
    Category.INPUT: CategoryCause(
        "preparing or awaiting the input takes",
        Layer.APPLICATION,
        Layer.ACCELERATOR,
        "prepare the input off the step's path: load and tokenise in workers ahead of time, and keep a batch ready",
        "the step cannot start before its input is there",
        ((Layer.SYSTEM, "slow storage, or too few cores for the input workers"),),
    ),
    Category.COMMUNICATION: CategoryCause(
        "communication between processes takes",
        Layer.SYSTEM,
        Layer.ACCELERATOR,
        "overlap communication with arithmetic, send less (larger shards, fewer bits), or use a faster interconnect",
        "the step waits for data of other processes",
        (
            (Layer.ACCELERATOR, "topology and link speed bound each exchange"),
            (Layer.APPLICATION, "the way the model is split decides how much is exchanged"),
        ),
    ),
    Category.QUEUEING: CategoryCause(
        "waiting in a queue takes",
        Layer.DEMAND,
        Layer.SERVING,
        "add capacity or admit fewer requests",
        "more is asked than the executor can serve",
    ),
    Category.NETWORK: CategoryCause(
        "the network takes", Layer.SYSTEM, Layer.SERVING, "shorten the path to the server", "requests travel"
    ),
    Category.IDLE: CategoryCause(
        "host code outside any operator takes",
        Layer.APPLICATION,
        Layer.ACCELERATOR,
        "profile the Python code between the operators (with_stack=True) and take it off the step's path",
        "nothing the framework knows of runs for long stretches inside the step",
        ((Layer.SYSTEM, "the process was not scheduled, or waited for the operating system"),),
    ),
    Category.UNATTRIBUTED: CategoryCause(
        "code that shows no operators takes",
        None,
        None,
        "profile again with more detail: record_shapes=True, and kernel profiling for compiled code",
        "the trace does not say what runs there",
    ),
}

SLOW_KERNELS = CategoryCause(
    "operators far below the measured ceilings take",
    Layer.RUNTIME,
    Layer.ACCELERATOR,
    "find out why the fast path is not taken: kernel library, memory layout, number of threads, other load",
    "the same machine ran bare kernels many times faster in this run",
    (
        (Layer.SYSTEM, "more threads than cores, other processes, or a low clock slow every kernel"),
        (Layer.APPLICATION, "shapes or layouts that no fast kernel exists for"),
    ),
)
NARROWER = CategoryCause(
    "products in full 32-bit floating point take",
    Layer.FRAMEWORK,
    Layer.ACCELERATOR,
    "allow TF32 for products (torch.backends.cuda.matmul.fp32_precision = 'tf32'), and check the accuracy",
    "the device multiplies the same numbers several times faster in TF32, which is switched off",
    ((Layer.APPLICATION, "the model's owner decides which precision its accuracy bears"),),
)
WIDER = CategoryCause(
    "products in a wider format than the contract's take",
    Layer.APPLICATION,
    Layer.ACCELERATOR,
    "compute in the contract's precision: look for tensors that numpy's or Python's defaults made wider (.dtype)",
    "the device multiplies the same numbers several times faster at the contract's precision",
    ((Layer.FRAMEWORK, "a library's default or a promotion of types made the operands wide"),),
)
COPIED = CategoryCause(
    "copying data from one place of memory to another takes",
    Layer.APPLICATION,
    Layer.ACCELERATOR,
    "write results where they will be read: preallocate and update in place; do not concatenate, clone or cast anew",
    "the copies run at the memory's speed, but what they move was there before and need not be moved",
    ((Layer.RUNTIME, "a layout or a format that the next kernel takes as it is makes the copy needless"),),
)
STALLED = CategoryCause(
    "waiting for a core takes",
    Layer.SYSTEM,
    Layer.RUNTIME,
    "give the process its cores: stop other load, pin threads, and use no more threads than there are cores",
    "single calls take many times as long as others with the same operands",
    ((Layer.APPLICATION, "the program itself runs more threads than there are cores"),),
)
UNFUSED = CategoryCause(
    "passes over memory that could be merged take",
    Layer.RUNTIME,
    Layer.ACCELERATOR,
    "fuse the chain of passes (compile the step, or use fused operators), so that intermediates never reach memory",
    "each pass runs near the memory ceiling, but most of what it moves is an intermediate result",
    ((Layer.APPLICATION, "the model is written as many small passes"),),
)
SMALL_KERNELS = CategoryCause(
    "kernels too small to fill the device take",
    Layer.RUNTIME,
    Layer.ACCELERATOR,
    "fuse the small kernels (compile the step, or use fused operators): each costs its start whatever it does",
    "the step's least work takes far less than the step, and most of the rest is the fixed cost of small kernels",
    (
        (Layer.APPLICATION, "a larger batch gives each kernel more work for the same start"),
        (Layer.FRAMEWORK, "operators written as many passes where one kernel would do"),
    ),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict before it is put into words."""

    bottleneck: Category
    bound: Bound
    layer: Layer | None
    """Whose it is; None where that stays open."""
    symptom: Layer | None
    weak: bool
    shares: Mapping[Category, float]
    gain: Interval
    next_step: str
    candidates: Mapping[Layer, str]
    """Layers that may be behind it, each with the reason."""
    reason: str = ""


# --- what removing a cause gains ------------------------------------------------------------------------------------

DOMINANT = 0.4
"""A bottleneck below this share is named, and marked weak."""
CLEAR_LEAD = 0.1
"""… so is one that leads the next category by less."""
HALF_REMOVED = 0.5
"""A fix may remove only this much of a category: the low end of a gain."""
MOST_REMOVABLE = 0.99
NO_GAIN = Interval(1.0, 1.0, 1.0)


def speedup(removed: float) -> float:
    """How many times faster a step is without a share of its time."""
    return 1.0 / (1.0 - min(max(removed, 0.0), MOST_REMOVABLE))


def gain_of(share: Interval, residual: float = 0.0) -> Interval:
    """What removing a share of the step gains: half of its low end at the least, all of its high end at the most.

    `residual` is the share that a fix leaves behind.
    """
    low = max(0.0, share.low - residual) * HALF_REMOVED
    estimate = max(low, share.estimate - residual)
    high = max(share.high - residual * HALF_REMOVED, estimate)
    return Interval(speedup(low), speedup(estimate), speedup(high))


def is_close(shares: Sequence[float]) -> bool:
    """Whether no share dominates, or the largest hardly leads the next."""
    first, second = (*sorted(shares, reverse=True), 0.0, 0.0)[:2]
    return first < DOMINANT or first - second < CLEAR_LEAD
