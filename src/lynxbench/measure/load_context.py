"""What gives reason to doubt a served run, and what its figures rest on that the requests do not show."""

from lynxbench.measure.cache_context import MADE_ALIKE, judge_cache
from lynxbench.model.asked_of_server import OTHER_FORMS
from lynxbench.model.contract import Contract, SloMetric
from lynxbench.model.load_figures import LoadFigures
from lynxbench.model.quantities import format_duration, format_ratio
from lynxbench.model.result import RULES
from lynxbench.model.serving import CacheState, OpenAiEngine
from lynxbench.model.workload import (
    ClosedArrival,
    EmpiricalLength,
    FixedLength,
    Length,
    LognormalLength,
    RampArrival,
    SaturatingArrival,
    Task,
    Workload,
)

LARGEST_FAILED = 0.01
"""Beyond one failure in a hundred the good requests are no longer a sample of all."""
LARGEST_LENGTH_MISS = 0.1
"""Prompts that are a tenth longer or shorter than agreed are other work."""
LARGEST_UNASKED_CACHE = 0.1
"""Of the input tokens, where the cache was to be avoided; less is the chat template every prompt begins with."""
BATCHED_INPUT = 11
"""The edition of the rules since which the texts of a request are counted together, as servers count them."""
LARGEST_SHORTER = 0.01
LARGEST_UNPACED = 0.01
"""The others are then no sample of all."""
LARGEST_LONGER = 0.01
"""An asked length is a bound to every server: more tokens make a throughput of what nobody ordered."""


def judge_requests(contract: Contract, load: LoadFigures, rules: int = RULES) -> list[str]:
    """Reasons to doubt that the load was the one agreed on."""
    doubts = []
    counted = load.accounting
    failed = counted.failures
    if counted.offered and failed > LARGEST_FAILED * counted.offered:
        kinds = ", ".join(f"{kind.replace('_', ' ')} {count}" for kind, count in counted.failed.items())
        doubts.append(f"{failed} of {counted.offered} requests failed ({kinds})")
    tokens = load.tokens
    if tokens.source == "unknown":
        doubts.append(
            "output tokens are unknown: the server sends no usage and no tokenizer is named; throughput is in requests"
        )
    # A reranker counts every document with its query, so that its count is not that of one input.
    agreed = _mean_length(None if contract.workload.rerank is not None else contract.workload.input_tokens)
    if agreed is not None and contract.workload.task is Task.EMBED and rules >= BATCHED_INPUT:
        agreed *= contract.workload.batch
    got = tokens.input_mean
    single = isinstance(contract.engine, OpenAiEngine) and contract.engine.turns == 1
    if agreed is not None and got is not None and single and abs(got / agreed - 1) > LARGEST_LENGTH_MISS:
        doubts.append(
            f"prompts had {got:.1f} tokens on average by the server's count, the contract asks for {agreed:.1f}"
        )
    if tokens.shorter_share is not None and tokens.shorter_share > LARGEST_SHORTER:
        doubts.append(f"{tokens.shorter_share:.1%} of the answers ended before the asked number of tokens")
    if tokens.longer_share is not None and tokens.longer_share > LARGEST_LONGER:
        mean = "" if tokens.output_mean is None else f" ({tokens.output_mean:.1f} on average)"
        doubts.append(
            f"{tokens.longer_share:.1%} of the answers have more output tokens than were asked for{mean}: the bound "
            "was ignored, or what is counted is not what was sent"
        )
    bounded = any(slo.metric is SloMetric.TIME_PER_TOKEN for slo in contract.objective.slo)
    if bounded and tokens.unpaced_share is not None and tokens.unpaced_share > LARGEST_UNPACED:
        doubts.append(
            f"{tokens.unpaced_share:.1%} of the answers show no time per token, which the objective bounds: their "
            "tokens came at once, or after others that were not sent"
        )
    share = load.cache.cached_share
    doubts += judge_cache(load.cache)
    unasked = load.cache.regime not in (CacheState.ALLOWED, *MADE_ALIKE)
    if unasked and share is not None and share > LARGEST_UNASKED_CACHE:
        doubts.append(f"{share:.0%} of the input tokens came from the prefix cache that was to be {load.cache.regime}")
    flown = load.instrument.preflight
    if flown is not None and flown.problems:
        doubts.append(f"the instrument before the run: {flown.problems[0]}")
    saturation = load.saturation
    if saturation is not None and saturation.passed_per_s is not None and not saturation.confirmed:
        doubts.append(f"saturation: {saturation.note}")
    return doubts


def served_assumptions(contract: Contract) -> tuple[str, ...]:
    """Everything the figures rest on that the requests themselves do not show."""
    workload, protocol = contract.workload, contract.protocol
    lines = [
        "The unit of repetition is a fresh client with a schedule of its own seed; the server is not restarted. "
        f"Intervals are {format_ratio(protocol.confidence)} over restarts (t on log run means).",
        f"Steady means that drift stays within ±{format_ratio(protocol.steady.drift)} by equivalence test, on what was "
        f"completed in windows of {format_duration(protocol.steady.window_s)} (wider where they hold too few).",
        "Latency counts from the scheduled arrival; time per token is a request's mean after its first token.",
        "Percentiles are of answered requests due while counting; in the objective a failed request took for ever.",
        "Throughput is what came out while counting; tokens are the server's count or a tokenizer's, never events.",
        "The precision is the server's and declared; accuracy is not measured over HTTP."
        if contract.accuracy is None
        else "Answers were asked greedily after the load, a few at a time; they carry no figure of speed.",
    ]
    arrival = workload.arrival
    if isinstance(arrival, ClosedArrival):
        lines.append("Closed loop: a slow server is asked less often, so queueing is not part of the latency.")
    elif isinstance(arrival, RampArrival):
        lines.append("A ramp is not steady by design; its figures are means over it.")
    elif isinstance(arrival, SaturatingArrival):
        lines.append("The saturation pair is for Poisson arrivals; burstier ones saturate earlier.")
    lines += _asked_work(workload)
    if workload.task is Task.GENERATE and isinstance(contract.engine, OpenAiEngine):
        engine = contract.engine
        forced = engine.dialect.forces_length and workload.answers is None and workload.prompts is None
        forced = forced and engine.endpoint not in OTHER_FORMS
        lines.append(
            "Answers have exactly the asked number of tokens; the end-of-text token does not stop them."
            if forced
            else _unforced(engine, workload)
        )
    return tuple(lines)


def _asked_work(workload: Workload) -> list[str]:
    """What a contract asks beyond lengths and arrivals."""
    lines = []
    if workload.prompts is not None:
        lines.append("Prompts come from a file of the user's: its hash is recorded, its text is in no file of the run.")
    if workload.is_sessions:
        lines.append(
            "An arrival is a session: a call is due its recorded gap after all that it waits for have ended; a call "
            "that fails ends what waits for it."
        )
    if workload.rerank is not None:
        lines.append("Counted are documents of answers that scored all of theirs; their order is not judged.")
    if workload.audio is not None:
        lines.append("Counted are seconds of sound that were answered; made sound is no speech: words are not judged.")
    if workload.cancel is not None:
        lines.append(
            "Requests that the client gives up count as cancelled: in the first token if one came (else as long as it "
            "was waited for), in no latency and in no throughput."
        )
    if workload.models:
        lines.append(
            "Percentiles and throughput are over all models together; the models stand beside each other below."
        )
    if workload.answers is not None:
        lines.append("Answers are checked for their form (types, required keys, listed values), not for being right.")
    return lines


def _unforced(engine: OpenAiEngine, workload: Workload) -> str:
    dialect = engine.dialect
    if engine.endpoint in OTHER_FORMS:
        return f"Endpoint {engine.endpoint} cannot force the length of an answer: the model may end it early."
    if workload.answers is not None:
        return "An answer of a form ends where the model ends it; the asked number of tokens is a bound."
    if dialect.forces_length:
        return "Answers have the asked number of tokens where the file or the contract names one; else they end alone."
    return f"Dialect {dialect} cannot force the length of an answer: the model may end it early."


def _mean_length(length: Length | None) -> float | None:
    match length:
        case FixedLength():
            return float(length.value)
        case EmpiricalLength():
            return sum(length.values) / len(length.values)
        case LognormalLength() | None:
            return None  # its cut-offs move the mean; the server's count is shown beside the contract's words
        case _:
            return (length.low + length.high) / 2
