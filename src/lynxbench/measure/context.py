"""The context without which a figure means nothing, in words a reader can check."""

from pathlib import PurePath

from lynxbench.model.contract import Contract, Protocol, Timing, TorchEngine
from lynxbench.model.quantities import format_duration, format_rate, format_ratio
from lynxbench.model.result import Conditions
from lynxbench.model.slices import slice_length_s
from lynxbench.model.workload import (
    Arrival,
    BurstArrival,
    CallableModel,
    ClosedArrival,
    EmpiricalLength,
    FixedLength,
    HubModel,
    Length,
    LognormalLength,
    ModelSource,
    PathModel,
    PresetModel,
    RampArrival,
    ReplayArrival,
    SaturatingArrival,
    ServedModel,
    UniformLength,
)
from lynxbench.stats.sketch import RELATIVE_ERROR


def conditions_of(contract: Contract, threads: int, clients: int | None = None) -> Conditions:
    """What was asked of the executor, and how."""
    workload, engine = contract.workload, contract.engine
    return Conditions(
        task=workload.task.value,
        model=_model_words(workload.model),
        batch=workload.batch,
        load=_arrival_words(workload.arrival),
        input_tokens=_length_words(workload.input_tokens),
        output_tokens=_length_words(workload.output_tokens),
        regime=contract.regime.value,
        engine=engine.name,
        graph=engine.graph.value if isinstance(engine, TorchEngine) else None,
        threads=clients or threads,  # beside clients it says nothing, and published results repeat them
        clients=clients,
        division=contract.optimisation.division.value,
        restarts_planned=contract.protocol.restarts,
        loosened=loosened(contract.protocol),
    )


def loosened(protocol: Protocol) -> tuple[str, ...]:
    """Where a contract asks for less than the default protocol: its results carry less."""
    default = Protocol()
    notes = []
    if protocol.restarts < default.restarts:
        word = "restart" if protocol.restarts == 1 else "restarts"
        notes.append(f"{protocol.restarts} {word} instead of {default.restarts}")
    if protocol.steady.drift > default.steady.drift:
        notes.append(
            f"drift up to ±{format_ratio(protocol.steady.drift)} instead of ±{format_ratio(default.steady.drift)}"
        )
    if protocol.min_duration_s < default.min_duration_s:
        shorter, usual = format_duration(protocol.min_duration_s), format_duration(default.min_duration_s)
        notes.append(f"at least {shorter} a process instead of {usual}")
    if protocol.confidence < default.confidence:
        notes.append(f"{format_ratio(protocol.confidence)} intervals instead of {format_ratio(default.confidence)}")
    if protocol.foreign_load > default.foreign_load:
        usual = format_ratio(default.foreign_load)
        notes.append(f"foreign load up to {format_ratio(protocol.foreign_load)} instead of {usual}")
    return tuple(notes)


def assumptions_of(contract: Contract) -> tuple[str, ...]:
    """Everything the figures rest on that the samples themselves do not show."""
    workload, protocol = contract.workload, contract.protocol
    lines = [
        f"The unit of repetition is a fresh process; intervals are {format_ratio(protocol.confidence)} over restarts "
        "(t on log run means).",
        f"Steady means that drift stays within ±{format_ratio(protocol.steady.drift)} by equivalence test, on means of "
        f"{format_duration(protocol.steady.window_s)} windows (or single iterations where those are longer).",
        "Throughput is work over the time spent inside iterations; the harness's own time between them is not counted.",
        "Objects alive after set-up are left out of the garbage collector's scans; what iterations allocate is not.",
        "Attribution is its own pass with the profiler on; it never supplies a timing figure.",
        "Ceilings are synthetic peaks of this executor: the envelope, not what a workload can reach.",
    ]
    if protocol.duration_s is not None:
        slice_text = format_duration(slice_length_s(protocol.duration_s))
        lines.append(
            f"An endurance run of {format_duration(protocol.duration_s)}: rolled up in slices of {slice_text}, which "
            "are its windows, with exact counts and sums; percentiles are read from sketches to "
            f"{format_ratio(RELATIVE_ERROR)} of their value; the slice in flight when a process dies is lost."
        )
    if isinstance(contract.engine, TorchEngine) and contract.engine.timing is Timing.DEVICE:
        lines.append(
            "Steps are timed by events on the device, from the end of one to the end of the next, without a wait for "
            "the host between them; making inputs and bringing them to the device is not counted."
        )
    if isinstance(workload.model, PresetModel):
        lines.append("Weights are random (seeded): speed is that of the shape, task accuracy is meaningless.")
    if isinstance(workload.arrival, ClosedArrival):
        lines.append("Closed loop: a slow executor is asked less often, so queueing is not part of the latency.")
    if workload.task.value == "generate":
        lines.append("Greedy decoding of exactly the asked number of tokens; the end-of-text token does not stop it.")
    return tuple(lines)


def _model_words(model: ModelSource) -> str:
    if isinstance(model, PresetModel):
        layers = f", {model.layers} layers" if model.layers else ""
        return f"{model.name} (random weights{layers})"
    if isinstance(model, PathModel):
        return model.path
    if isinstance(model, HubModel):
        return f"{model.id}@{model.revision}" if model.revision else f"{model.id} (revision not pinned)"
    if isinstance(model, ServedModel):
        return f"{model.name} (served)"
    if isinstance(model, CallableModel):
        return model.target
    return model.name


def _arrival_words(arrival: Arrival) -> str:
    match arrival:
        case ClosedArrival():
            together = ", started together" if arrival.start == "together" else ""
            return f"closed loop, {arrival.concurrency} at a time{together}"
        case RampArrival():
            return f"open loop, ramp {format_rate(arrival.from_per_s)} to {format_rate(arrival.to_per_s)}"
        case ReplayArrival():
            faster = "" if arrival.speed == 1 else f" at {arrival.speed:g} times its speed"
            return f"open loop, replay of {PurePath(arrival.path).name}{faster}"
        case SaturatingArrival():
            return "open loop, poisson at the largest rate that holds the objective"
        case BurstArrival():
            return f"open loop, bursts of {arrival.size}, {format_rate(arrival.rate_per_s)}"
        case _:
            return f"open loop, {arrival.process} {format_rate(arrival.rate_per_s)}"


def _length_words(length: Length | None) -> str | None:
    match length:
        case None:
            return None
        case FixedLength():
            return str(length.value)
        case UniformLength():
            return f"uniform {length.low}–{length.high}"
        case LognormalLength():
            return f"log-normal, median {length.median:g}, sigma {length.sigma:g}, {length.low}–{length.high}"
        case EmpiricalLength():
            return f"empirical, {len(length.values)} values from {min(length.values)} to {max(length.values)}"
