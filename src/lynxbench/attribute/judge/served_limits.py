"""Which limit a server is at, by its own series beside the device's counters and its threads: each with its gain.

A limit is named where what it holds back is seen waiting (requests, a thread, the device), never from a share of time
alone. Gains are those of the model that each limit states; see docs/methodology/served-limits.md.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from lynxbench.attribute.judge.causes import CLEAR_LEAD, DOMINANT, HALF_REMOVED, gain_of, speedup
from lynxbench.attribute.judge.roofline import TYPICAL_EFFICIENCY
from lynxbench.attribute.judge.server_figures import CAUSES, WAITS, DeviceCondition, Limit, ServedFigures
from lynxbench.attribute.judge.unit_activity import BUSY
from lynxbench.attribute.read.launch_arguments import SEQUENCES, number_of
from lynxbench.model.activity import DeviceActivity
from lynxbench.model.attribution import FAR_BELOW_CEILING, NEAR_CEILING
from lynxbench.model.interval import Interval

ATTAINED_MEMORY, ATTAINED_ARITHMETIC = 0.87, 0.8
"""What good kernels reach by the counters themselves: a chain of plain passes 87 % of the memory's bandwidth, a healthy
prefill 80 % tensor activity (one H200, results/h200/benchmarks)."""
AT_LIMIT = 0.9
"""Of a limit, on average: between the end of one request and the start of the next a place is free for a step."""
ONE_CORE = 0.9
"""Of a core: a thread that runs for more of the time is what the others wait for, if they wait."""
MINORITY = 0.25
"""Of the requests: more of them are the load, and not amid it."""
PROCESSES_AT_WORK = 0.05
"""Of a core: a process of the server that runs for more takes part."""
REJECTED = 0.5
"""Of drafted tokens: with fewer accepted, most of the drafting is thrown away."""
WIDE_TYPES = ("float32", "float", "fp32")
NARROW_GAIN = (2.0, 16.0)
"""16 for 32 bits: half the bytes at the least; tensor cores against fp32 pipes at the most (H100 data sheet: 989 and 67
TFLOP/s dense)."""


def find_limits(figures: ServedFigures) -> list[Limit]:
    """Every limit that the evidence shows, those that gain most first; conditions of the device before all others."""
    held = [limit for each in figures.conditions if (limit := _held(figures, each)).share >= CLEAR_LEAD]
    found = [limit for find in _FINDERS for limit in find(figures) if limit.share >= CLEAR_LEAD]
    return [*sorted(held, key=_by_gain), *sorted(found, key=_by_gain)]


def _by_gain(limit: Limit) -> float:
    return -limit.gain.estimate


def _held(figures: ServedFigures, condition: DeviceCondition) -> Limit:
    """A condition of the device: it distorts every other quantity, so it comes first."""
    most = condition.most if condition.most > 1.0 else 2.0  # what nobody can say: half of the device, a slice of two
    usual = math.sqrt(most)
    if condition.cause == "clock" and figures.activity is not None and figures.activity.dram is not None:
        # What memory does not take goes with the clock of the arithmetic units; memory has a clock of its own.
        usual = speedup((1.0 - min(1.0, figures.activity.dram)) * (1.0 - 1.0 / most))
    elif condition.cause == "neighbour" and condition.most > 1.0:
        usual = min(most, 2.0)  # the driver gives two that want the device equal slices
    model = "at the most what it took of the device, or by how much it was slowed"
    return Limit(CAUSES[condition.cause], condition.evidence, Interval(1.0, usual, max(usual, most)), model)


# --- what lets requests into a step ---------------------------------------------------------------------------------


def _admission(figures: ServedFigures) -> Iterator[Limit]:
    """The batch, the cache or the tokens of a step: one of them keeps waiting requests out."""
    series, running = figures.series, figures.series.level("running")
    pinned = _token_limit(figures)
    if pinned is not None:
        yield pinned
    elif figures.queues and running > 0:
        more = (running + series.level("waiting")) / running
        gain, model = _gain_of_more(figures, more)
        waits = f"{series.level('waiting'):.0f} requests wait and {running:.0f} run"
        cached = series.level("cache_share")
        preempted = series.grown.get("preemptions", 0.0)
        if not math.isnan(cached) and (preempted > 0 or 1.0 - cached <= cached / running):
            put_out = f", and {preempted:.0f} were put out again" if preempted else ""
            says = f"the key-value cache is full: {cached:.0%} of it is used while {waits}{put_out}"
            yield Limit(CAUSES["cache"], says, gain, model)
        elif (full := _full_batch(figures)) is not None:
            limit, how, sure = full
            room = "" if math.isnan(cached) else f"; {cached:.0%} of the cache is used"
            says = f"the batch is full at {limit:.0f} requests ({how}): {waits}{room}"
            yield Limit(CAUSES["sequences"], says, gain, model, sure and not math.isnan(cached))


def _full_batch(figures: ServedFigures) -> tuple[float, str, bool] | None:
    """The size at which the batch stands, how that is known, and whether it is a limit that was set."""
    running = figures.series.gauges.get("running", np.empty(0))
    option, limit = _option(figures, "sequences")
    if limit is not None:
        at_limit = limit - float(running.mean()) < 1.0 or float(running.mean()) >= AT_LIMIT * limit
        return (limit, f"--{option} {limit:.0f}", True) if at_limit else None
    top = float(running.max())
    stands = float(np.mean(running >= top)) >= WAITS
    return (top, "it never holds more; the limit itself was not seen", False) if stands else None


def _token_limit(figures: ServedFigures) -> Limit | None:
    """Steps that are as full of tokens as they may be, while requests need more of them."""
    series, load = figures.series, figures.load
    option, limit = _option(figures, "tokens")
    steps = series.grown.get("iterations", 0.0)
    if limit is None or steps <= 0:
        return None
    done = series.grown.get("prompt_tokens", 0.0) - series.grown.get("cached_tokens", 0.0)
    a_step = (done + series.grown.get("output_tokens", 0.0)) / steps
    open_requests = np.nansum([series.level("running"), series.level("waiting")])
    # With room, every open request decodes in every step, and prompts are read as fast as answers end.
    wanted = open_requests * (1.0 + load.prompt_tokens / load.output_tokens) if load.output_tokens > 0 else math.nan
    if a_step < AT_LIMIT * limit or not wanted > limit:
        return None
    gain, model = _gain_of_more(figures, wanted / a_step)
    says = (
        f"steps are full: {a_step:.0f} tokens each of {limit:.0f} that one may hold (--{option}), "
        f"where the {open_requests:.0f} open requests could use {wanted:.0f}"
    )
    return Limit(CAUSES["tokens"], says, gain, model)


OPTIONS: dict[str, Mapping[str, tuple[str, ...]]] = {
    "sequences": SEQUENCES,
    "tokens": {"vllm": ("max-num-batched-tokens",)},
}
"""Launch arguments that set a limit; for tokens, only those that count prompt and answer tokens of a step together."""


def _option(figures: ServedFigures, limit: str) -> tuple[str, float | None]:
    for name in OPTIONS[limit].get(figures.series.server, ()):
        value = number_of(figures.arguments, name)
        if value is not None:
            return name, value
    return "", None


def _gain_of_more(figures: ServedFigures, more: float) -> tuple[Interval, str]:
    """What `more` times the tokens a step gain, where a share of the step grows with them and the rest does not.

    Arithmetic grows with tokens, reading weights does not. Whether the host's part grows is not known: at the most
    none of it does and kernels reach what good ones do, at the least all of the time that the device waits does and
    they come as far below as is still a fast path.
    """
    arithmetic = None if figures.activity is None else figures.activity.arithmetic
    if arithmetic is None or math.isnan(figures.idle):
        model = f"{more:.1f} times the tokens a step; how much longer it then takes, no counter of the device says"
        return Interval(1.0, math.sqrt(more), more), model
    grows = min(1.0, arithmetic / ATTAINED_ARITHMETIC)
    at_most = min(1.0, arithmetic / NEAR_CEILING + figures.idle)
    some = 1.0 + (more - 1.0) * HALF_REMOVED
    high, fair = (more / (1.0 + (more - 1.0) * share) for share in (grows, at_most))
    low = some / (1.0 + (some - 1.0) * at_most)
    model = (
        f"{more:.1f} times the tokens a step, of whose time {grows:.0%} (arithmetic, by good kernels) to {at_most:.0%} "
        "(by slower ones, and all the device's waits) grows with them; at the least half of what waits gets in"
    )
    return Interval(low, math.sqrt(fair * high), high), model


# --- what keeps the device waiting ------------------------------------------------------------------------------------


def _hosts(figures: ServedFigures) -> Iterator[Limit]:
    """Threads of the server that wait for a CPU, or that the device waits for."""
    thread, idle = figures.series.busiest, figures.idle
    if thread is None:
        return
    starved = _starved(figures)
    if starved is not None:
        yield starved
    elif idle >= CLEAR_LEAD:
        waits = f"the device waits {idle:.0%} of the time"
        eager = figures.series.server in CAUSES["eager"].flags and {"enforce-eager", "disable-cuda-graph"} & set(
            figures.arguments
        )
        gain = gain_of(Interval(idle, idle, idle))
        model = "the device's waits halved at the least, gone at the most"
        if eager:
            says = f"{waits} for kernels that the host starts one by one (--{min(eager)})"
            yield Limit(CAUSES["eager"], says, gain, model)
        elif thread.busiest >= ONE_CORE and not any(_speculation(figures)):
            # Where drafts are thrown away, the thread is busy with them: that is the cause, this its sign.
            says = f"{waits} while one thread of {thread.name} runs {thread.busiest:.0%} of it"
            yield Limit(CAUSES["host"], says, gain, model)


def _thread_holds(figures: ServedFigures) -> bool:
    """Whether the device waits, for a thread of the server that runs all the time."""
    thread = figures.series.busiest
    return thread is not None and thread.busiest >= ONE_CORE and figures.idle >= DOMINANT


def _starved(figures: ServedFigures) -> Limit | None:
    """Threads that were ready and had no CPU, by the kernel's account, or by their affinity where it keeps none."""
    series, idle = figures.series, figures.idle
    thread = series.busiest
    assert thread is not None
    at_work = [process for process in series.threads if process.cores >= PROCESSES_AT_WORK]
    waited = max((process.waited for process in at_work if not math.isnan(process.waited)), default=math.nan)
    share = max((value for value in (waited, series.throttled) if not math.isnan(value)), default=math.nan)
    allowed = min((process.allowed for process in at_work if not math.isnan(process.allowed)), default=math.nan)
    where = f" on the {allowed:.0f} CPU{'s' if allowed > 1 else ''} that they may use" if allowed <= 4 else ""
    if share >= CLEAR_LEAD:
        most = speedup(max(share, idle)) if not math.isnan(idle) else speedup(share)
        gain = Interval(speedup(share / 2), min(speedup(share), most), most)
        why = "a quota held them" if share == series.throttled else "others had the CPU"
        says = f"threads of the server were ready and waited {share:.0%} of the time ({why}){where}"
        return Limit(CAUSES["starved"], says, gain, "the waits for a CPU gone; at the most, all that the device waits")
    if math.isnan(share) and allowed == 1 and len(at_work) > 1 and idle >= DOMINANT:
        says = f"{len(at_work)} processes of the server share one CPU, and the device waits {idle:.0%} of the time"
        gain = gain_of(Interval(idle, idle, idle))
        return Limit(CAUSES["starved"], says, gain, "the device's waits halved at the least, gone at the most", False)
    return None


def _still(figures: ServedFigures) -> Iterator[Limit]:
    """Answers that stand still while others' long prompts are read."""
    load = figures.load
    amid = 0.0 < load.long_share <= MINORITY and load.long_tokens >= BUSY
    if amid and load.still >= CLEAR_LEAD:
        says = (
            f"{load.long_share:.0%} of the requests bring {load.long_tokens:.0%} of the prompt tokens, and answers of "
            f"all stand still for {load.still:.0%} of their time after the first token"
        )
        arithmetic = (figures.activity.arithmetic if figures.activity is not None else None) or 0.0
        work = min(1.0, arithmetic / NEAR_CEILING) * load.long_tokens
        gain = gain_of(Interval(load.still, load.still, max(load.still, work)))
        model = "the time that answers stand still, by half or whole; at the most the arithmetic of long prompts too"
        yield Limit(CAUSES["long_prompts"], says, gain, model)


def _network(figures: ServedFigures) -> Iterator[Limit]:
    if figures.network >= DOMINANT:
        share = Interval(figures.network, figures.network, figures.network)
        says = f"the client waits {figures.network:.0%} of a request beyond what the server counts"
        yield Limit(CAUSES["network"], says, gain_of(share), "that wait, by half or whole")


# --- what the device does that it need not ---------------------------------------------------------------------------


def _speculation(figures: ServedFigures) -> Iterator[Limit]:
    drafting = figures.series.speculation
    if drafting is None or drafting.accepted_share is None or drafting.drafted_a_step is None:
        return
    if drafting.accepted_share >= REJECTED:
        return
    a_step, drafted = drafting.tokens_a_step, drafting.drafted_a_step
    most = (1.0 + drafted) / a_step
    says = (
        f"of {drafted:.1f} tokens drafted a step {drafting.accepted_share:.0%} are accepted: {a_step:.2f} a step "
        "of an answer come of it"
    )
    model = f"no drafting: at the least as if it were free, at the most as if each of {drafted:.0f} drafts were a step"
    usual = math.sqrt(most / a_step)
    if _thread_holds(figures):
        # A draft is a round of the host's like a step; without them the device's waits may go too.
        usual, most = most, max(most, most * speedup(figures.idle) / speedup(figures.idle / 2))
        model += ", as the host sees them, and half of the device's waits gone with them"
    yield Limit(CAUSES["speculation"], says, Interval(1.0 / a_step, usual, most), model)


def _kernels(figures: ServedFigures) -> Iterator[Limit]:
    """A device that works all the time, and not on a fast path."""
    activity, dtype = figures.activity, figures.arguments.get("dtype", "")
    if activity is None or not figures.busy >= BUSY:
        return
    if dtype in WIDE_TYPES:
        low, high = NARROW_GAIN
        wide = activity.fp32 is not None and activity.fp32 >= CLEAR_LEAD
        says = f"the server computes in {dtype} (--dtype), and the device works {figures.busy:.0%} of the time"
        estimate = math.sqrt(low * high) if wide else low
        yield Limit(CAUSES["wide"], says, Interval(1.0, estimate, high), "half the bytes to tensor-core arithmetic")
    elif figures.reached <= FAR_BELOW_CEILING:
        usual = min(1.0, figures.reached / TYPICAL_EFFICIENCY)
        gain = Interval(1.0, speedup(figures.busy * (1.0 - usual)), speedup(figures.busy * (1.0 - figures.reached)))
        says = (
            f"kernels run {figures.busy:.0%} of the time, and in it the busier of arithmetic and memory is used for "
            f"{figures.reached:.0%} alone"
        )
        yield Limit(CAUSES["slow_kernels"], says, gain, "kernels as near their ceiling as good ones come", False)


_FINDERS = (_admission, _hosts, _still, _network, _speculation, _kernels)


# --- the device itself, and the load ----------------------------------------------------------------------------------


def floor_share(activity: DeviceActivity) -> tuple[float, float]:
    """Share of the time that the work would take at what good kernels reach, at the least and at the most.

    At the least memory and arithmetic work at the same time, at the most they take turns (decoding and prompts do).
    """
    memory, arithmetic = (activity.dram or 0.0) / ATTAINED_MEMORY, (activity.arithmetic or 0.0) / ATTAINED_ARITHMETIC
    return min(1.0, max(memory, arithmetic)), min(1.0, memory + arithmetic)


def find_ceiling(figures: ServedFigures) -> Limit | None:
    """The device's own ceiling, where its counters show that kernels come near it and the device hardly waits."""
    activity = figures.activity
    if activity is None or not figures.idle < CLEAR_LEAD:
        return None
    reached, _ = floor_share(activity)
    if reached < NEAR_CEILING:
        return None
    in_memory = (activity.dram or 0.0) / ATTAINED_MEMORY >= (activity.arithmetic or 0.0) / ATTAINED_ARITHMETIC
    cause, words = (CAUSES["memory"], "memory") if in_memory else (CAUSES["arithmetic"], "arithmetic")
    used = (activity.dram if in_memory else activity.arithmetic) or 0.0
    says = (
        f"the device's {words} is used for {used:.0%} of its most, {reached:.0%} of what good kernels reach, and it "
        f"waits {figures.idle:.0%} of the time"
    )
    gain = Interval(1.0, speedup(1.0 - min(1.0, reached / TYPICAL_EFFICIENCY)), speedup(1.0 - reached))
    return Limit(cause, says, gain, "kernels as good as good ones, at the most as the best")


def find_demand(figures: ServedFigures) -> Limit | None:
    """A server that waits for its clients: nothing queues, and device and threads have time left."""
    thread = figures.series.busiest
    quiet = thread is None or thread.wanted < ONE_CORE
    known = "waiting" in figures.series.gauges
    if figures.queues or not known or not figures.idle >= DOMINANT or not quiet:
        return None
    says = f"nothing waits in the server, and the device has nothing to do for {figures.idle:.0%} of the time"
    return Limit(CAUSES["demand"], says, Interval(1.0, 1.0, 1.0), "none: another load is another question")
