"""How far a contract's workload is from a production log, dimension by dimension, against what chance would show."""

import math
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from lynxbench.model.contract import Contract
from lynxbench.model.plain_numbers import plain
from lynxbench.model.quantities import format_duration
from lynxbench.model.samples import Float64, Int64
from lynxbench.model.serving import OpenAiEngine
from lynxbench.model.workload import (
    Arrival,
    BurstArrival,
    ClosedArrival,
    ConstantArrival,
    GammaArrival,
    Length,
    RampArrival,
    ReplayArrival,
    SaturatingArrival,
    Workload,
)
from lynxbench.stats.autocorrelation import effective_count
from lynxbench.workload.production import (
    STEADY_GAPS,
    arrival_burstiness,
    concurrency,
    length_cdf,
    token_distance,
)
from lynxbench.workload.request_log import RequestLog
from lynxbench.workload.time_scales import SCALES_S, day_shape, dispersion, expected_dispersion, stamp_step_s

TOKENS_LIMIT = 0.10
"""A tenth of the tokens in other requests: about what a change of 10 % in mean length does to the load."""
CORRELATION_LIMIT = 0.20
"""Rank correlation of prompt and answer that the contract lacks; it explains 4 % of the variance."""
BURST_LIMIT = 0.20
RATE_LIMIT = 0.20
"""Relative: a queue's waiting time at 80 % utilisation doubles within this."""
DISPERSION_LIMIT = 0.5
"""Log ratio of dispersions: what 1.65 times as much adds to a queue's waiting time is a quarter to a half of it."""
SESSION_LIMIT = 0.2
THINK_LIMIT = 0.5
"""Log ratio of think times: a prefix cache forgets by their order of magnitude."""
SHORTEST_THINK_S = 0.1
"""Added to think times before they are held against each other; less is a program's and no person's."""
DAY_LIMIT = 0.10
"""Share of requests in another hour of the day than a stationary load has them; a swing by a third of the mean."""
MIX_LIMIT = 0.15
"""Share of requests in another of the nine size classes."""
RESAMPLES = 200
TAIL = 0.99
"""Chance is bounded at this level, beyond a limit: at least 95 % of undrifted logs must not differ anywhere."""
CHANCE = 2.576 * math.sqrt(2)
"""The same level in standard errors of a difference: the contract was fitted to a sample, too."""
FEWEST_REQUESTS = 50
FOGGY = 1.5
"""Chance differences beyond so many limits: not seeing a difference would mean nothing."""


class Likeness(StrEnum):
    """What a dimension shows."""

    LIKE = "like production"
    DIFFERS = "differs"
    TOO_FEW = "too few requests"
    NOT_RECORDED = "not in the log"
    NOT_SHOWN = "not shown"
    """The log is too short, or its stamps too coarse, for this time scale: neither like nor different."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension: its distance, what chance alone reaches, and from where on it matters."""

    name: str
    measure: str
    distance: float
    noise: float
    limit: float
    verdict: Likeness
    says: str

    def document(self) -> dict[str, object]:
        """Plain values."""
        values = asdict(self) | {"verdict": self.verdict.value}
        unknown = [name for name, value in values.items() if isinstance(value, float) and not math.isfinite(value)]
        return values | dict.fromkeys(unknown)


@dataclass(frozen=True, slots=True)
class Representativeness:
    """All dimensions, and a sentence."""

    source: str
    requests: int
    dimensions: tuple[Dimension, ...]

    @property
    def verdict(self) -> Likeness:
        """`differs` as soon as one dimension does; `too few requests` where one could not be judged."""
        verdicts = {dimension.verdict for dimension in self.dimensions}
        return next((v for v in (Likeness.DIFFERS, Likeness.TOO_FEW) if v in verdicts), Likeness.LIKE)

    def sentence(self) -> str:
        """The whole in one sentence."""
        groups = {v: [d.name for d in self.dimensions if d.verdict is v] for v in Likeness}
        judged = len(groups[Likeness.LIKE]) + len(groups[Likeness.DIFFERS])
        parts = [
            f"like production in {len(groups[Likeness.LIKE])} of {judged} dimensions that {self.requests} requests show"
        ]
        if groups[Likeness.DIFFERS]:
            parts.append(f"differs in {', '.join(groups[Likeness.DIFFERS])}")
        if groups[Likeness.TOO_FEW]:
            parts.append(f"too few requests for {', '.join(groups[Likeness.TOO_FEW])}")
        if groups[Likeness.NOT_SHOWN]:
            parts.append(f"not shown: {', '.join(groups[Likeness.NOT_SHOWN])}")
        return "; ".join(parts)

    def render(self) -> str:
        """For people: the sentence, then a line a dimension."""
        lines = [self.sentence()]
        for dimension in self.dimensions:
            away, noise, limit = dimension.distance, dimension.noise, dimension.limit
            chance = f"{noise:.3f}" if math.isfinite(noise) else "unknown"
            figures = f"{away:6.3f} (chance {chance}, limit {limit:.2f})" if dimension.measure else ""
            lines.append(f"  {dimension.name:<19}{dimension.verdict.value:<18}{figures:<40}{dimension.says}")
        return "\n".join(lines) + "\n"

    def document(self) -> dict[str, object]:
        """Plain values."""
        return {
            "log": self.source,
            "requests": self.requests,
            "verdict": self.verdict.value,
            "sentence": self.sentence(),
            "dimensions": [dimension.document() for dimension in self.dimensions],
        }


def hold_against(contract: Contract, log: RequestLog) -> Representativeness:
    """How far a contract is from a log: its workload, and the conversations that its engine holds."""
    engine = contract.engine
    turns, think_s = (engine.turns, engine.think_s) if isinstance(engine, OpenAiEngine) else (1, 0.0)
    return distance(contract.workload, log, turns=turns, think_s=think_s)


def distance(workload: Workload, log: RequestLog, *, turns: int = 1, think_s: float = 0.0) -> Representativeness:
    """Hold a workload against a log. A difference counts once it exceeds its limit by more than chance explains."""
    random = np.random.default_rng(0)
    dimensions: list[Dimension] = []
    if workload.input_tokens is not None:
        dimensions.append(_lengths("input lengths", workload.input_tokens, log.input_tokens, random))
    if workload.output_tokens is not None:
        recorded = np.zeros(len(log), dtype=np.int64) if log.output_tokens is None else log.output_tokens
        answered = recorded > 0
        if not answered.any():
            dimensions.append(_missing("output lengths", "the log has no output tokens"))
        else:
            inputs, outputs = log.input_tokens[answered], recorded[answered]
            dimensions.append(_lengths("output lengths", workload.output_tokens, outputs, random))
            if workload.input_tokens is not None:
                dimensions.append(_dependence(inputs, outputs))
                dimensions.append(_mix(workload.input_tokens, workload.output_tokens, inputs, outputs, random))
    dimensions += _arrivals(workload.arrival, log, turns)
    dimensions += _scales(workload.arrival, log, turns, random)
    dimensions += _sessions(log, turns, think_s)
    return Representativeness(log.source, len(log), tuple(dimensions))


def _decide(
    name: str,
    measure: str,
    figures: tuple[float, float, float],
    says: str,
    count: float,
    unseen: Likeness = Likeness.TOO_FEW,
) -> Dimension:
    away, noise, limit = figures
    if away - noise > limit:
        verdict = Likeness.DIFFERS
    elif count < FEWEST_REQUESTS or not noise <= FOGGY * limit:
        verdict = unseen
    else:
        verdict = Likeness.LIKE
    return Dimension(name, measure, away, noise, limit, verdict, says)


def _missing(name: str, says: str, verdict: Likeness = Likeness.NOT_RECORDED) -> Dimension:
    return Dimension(name, "", math.nan, math.nan, math.nan, verdict, says)


def _lengths(name: str, length: Length, values: Int64, random: np.random.Generator) -> Dimension:
    count = effective_count(values)
    noise = _length_noise(values, count, random)
    says = f"log: median {np.median(values):.0f}, mean {values.mean():.0f}, p99 {np.quantile(values, 0.99):.0f} tokens"
    measure = "share of tokens misplaced (Wasserstein / mean)"
    return _decide(name, measure, (token_distance(length, values), noise, TOKENS_LIMIT), says, count)


def _length_noise(values: Int64, count: float, random: np.random.Generator) -> float:
    """What two samples of one distribution differ by: the log's own, and the one that the contract was fitted to.

    The second sample is not known any more; it is taken to be as large as this one.
    """
    lengths, counts = np.unique(values, return_counts=True)
    widths = np.diff(lengths).astype(np.float64)
    size = max(2, int(count))
    drawn = random.multinomial(size, counts / counts.sum(), size=(RESAMPLES, 2)).cumsum(axis=2)[:, :, :-1] / size
    away = (np.abs(drawn[:, 0] - drawn[:, 1]) * widths).sum(axis=1) / values.mean()
    return float(np.quantile(away, TAIL)) if len(lengths) > 1 else 0.0


def _dependence(inputs: Int64, outputs: Int64) -> Dimension:
    """Rank correlation of prompt and answer; a contract draws them independently, so its own is zero."""
    count = min(effective_count(inputs), effective_count(outputs))
    if inputs.min() == inputs.max() or outputs.min() == outputs.max():
        rho = 0.0
    else:
        rho = float(np.corrcoef(_ranks(inputs), _ranks(outputs))[0, 1])
    noise = 2.576 / math.sqrt(max(count - 3, 1.0))  # 99 %, Fisher's transformation near zero
    says = f"log: rank correlation {round(rho, 2) + 0.0:+.2f}; the contract's lengths are independent"
    return _decide(
        "length correlation", "difference of rank correlation", (abs(rho), noise, CORRELATION_LIMIT), says, count
    )


def _ranks(values: Int64) -> Float64:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[place], dtype=np.float64)


def _mix(
    input_length: Length, output_length: Length, inputs: Int64, outputs: Int64, random: np.random.Generator
) -> Dimension:
    """Nine classes: short, middle and long prompts by short, middle and long answers, cut at the log's thirds."""
    cuts = [np.quantile(values, (1 / 3, 2 / 3), method="inverted_cdf") for values in (inputs, outputs)]
    edges = [length_cdf(length, cut) for length, cut in zip((input_length, output_length), cuts, strict=True)]
    thirds = [np.diff(np.concatenate(([0.0], edge, [1.0]))) for edge in edges]
    expected = np.outer(*thirds).ravel()
    classes = 3 * np.searchsorted(cuts[0], inputs, side="left") + np.searchsorted(cuts[1], outputs, side="left")
    recorded = np.bincount(classes, minlength=9) / len(inputs)
    count = min(effective_count(inputs), effective_count(outputs))
    size = max(2, int(count))
    drawn = random.multinomial(size, recorded, size=(RESAMPLES, 2)) / size
    noise = float(np.quantile(np.abs(drawn[:, 0] - drawn[:, 1]).sum(axis=1) / 2, TAIL))
    away = float(np.abs(recorded - expected).sum() / 2)
    says = f"{away:.0%} of requests are in another class of prompt and answer size"
    return _decide("mix", "share of requests in another of 9 size classes", (away, noise, MIX_LIMIT), says, count)


def _arrivals(arrival: Arrival, log: RequestLog, turns: int) -> list[Dimension]:
    if isinstance(arrival, ReplayArrival):
        says = "the contract replays a trace, which has arrivals of its own"
        return [_missing("burstiness", says), _missing("rate", says)]
    if isinstance(arrival, ClosedArrival):
        return [_missing("burstiness", "the contract is a closed loop and has none"), _open_at_once(arrival, log)]
    burst = arrival_burstiness(log)
    wanted = _variation(arrival, burst.by)
    larger = max(wanted, burst.variation, STEADY_GAPS / BURST_LIMIT)  # two clocks are alike, whatever their jitter
    away, noise = abs(wanted - burst.variation) / larger, CHANCE * burst.error / larger
    says = f"log: coefficient of variation {burst.variation:.2f} (by {burst.by}); contract: {wanted:.2f}"
    measure = "relative difference of the gaps' coefficient of variation"
    uneven = _decide("burstiness", measure, (away, noise, BURST_LIMIT), says, len(log))
    if isinstance(arrival, SaturatingArrival):
        return [uneven, _missing("rate", "the contract searches for its rate")]
    own = (arrival.from_per_s + arrival.to_per_s) / 2 if isinstance(arrival, RampArrival) else arrival.rate_per_s
    own *= turns  # what arrives by itself opens a conversation
    rate = (len(log) - 1) / log.span_s
    shift, noise = abs(math.log(rate / own)), CHANCE * max(burst.variation, 0.1) / math.sqrt(len(log))
    says = f"log: {plain(rate, 3)} /s on average; contract: {plain(own, 3)} /s"
    return [uneven, _decide("rate", "log ratio of mean rates", (shift, noise, RATE_LIMIT), says, len(log))]


def _scales(arrival: Arrival, log: RequestLog, turns: int, random: np.random.Generator) -> list[Dimension]:
    """Dispersion from a second to an hour, and the shape of a day; a scale that the log cannot show is not agreed."""
    if isinstance(arrival, ReplayArrival | ClosedArrival):
        return [_missing("dispersion", "the contract has no arrival process of its own to hold against the log's")]
    dimensions = []
    step_s = stamp_step_s(log.arrival_s)
    measure = "log ratio of the counts' variance over mean"
    for scale_s in SCALES_S:
        found = dispersion(log.arrival_s, log.span_s, scale_s, step_s)
        low, high = expected_dispersion(arrival, found.mean, turns)
        name = f"dispersion {format_duration(scale_s)}"
        if found.error(high) == math.inf or scale_s < 2 * step_s:
            why = f"stamps step by {step_s:g} s" if scale_s < 2 * step_s else f"{found.windows} windows in the log"
            dimensions.append(_missing(name, why, Likeness.NOT_SHOWN))
            continue
        figures = found.away(low, high), CHANCE * found.error(high), DISPERSION_LIMIT
        contract = f"{plain(low, 3)}" if low == high else f"{plain(low, 3)} to {plain(high, 3)}"
        says = f"log: {plain(found.index, 3)} in {found.windows} windows; contract: {contract}"
        dimensions.append(_decide(name, measure, figures, says, len(log), Likeness.NOT_SHOWN))
    return [*dimensions, _day(arrival, log, turns, random)]


def _day(arrival: Arrival, log: RequestLog, turns: int, random: np.random.Generator) -> Dimension:
    """The hours of the day against a load that knows none."""
    counts = day_shape(log.arrival_s, log.span_s)
    if counts is None or counts.sum() == 0:
        return _missing("daily shape", f"{plain(log.span_s / 3600, 3)} h are less than a day", Likeness.NOT_SHOWN)
    hours, total = len(counts), float(counts.sum())
    away = float(np.abs(counts / total - 1 / hours).sum() / 2)
    spread = math.sqrt(expected_dispersion(arrival, total / hours, turns)[1] / (hours * total))
    chance = np.abs(random.standard_normal((RESAMPLES, hours)) * spread * math.sqrt(2)).sum(axis=1) / 2
    says = f"log: {counts.min() / counts.mean():.2f} to {counts.max() / counts.mean():.2f} of the mean by hour"
    figures = away, float(np.quantile(chance, TAIL)), DAY_LIMIT
    return _decide("daily shape", "share of requests in another hour", figures, says, total, Likeness.NOT_SHOWN)


def _sessions(log: RequestLog, turns: int, think_s: float) -> list[Dimension]:
    """Requests of one user or conversation, and how long passes between an answer and the next of them."""
    if log.session is None:
        return [_missing("sessions", "the log does not say which requests belong together")]
    counts = np.unique(log.session, return_counts=True)[1]
    mean, many = float(counts.mean()), len(counts)
    noise = CHANCE * float(counts.std(ddof=1)) / mean / math.sqrt(many) if many > 1 else math.inf
    says = f"log: {plain(mean, 3)} requests in each of {many} sessions; contract: {turns}"
    figures = abs(math.log(mean / turns)), noise, SESSION_LIMIT
    held = _decide("sessions", "log ratio of requests in a session", figures, says, many)
    if turns == 1:
        return [held]
    if log.duration_s is None:
        return [held, _missing("think time", "the log has no durations, so when an answer ended is not known")]
    order = np.lexsort((log.arrival_s, log.session))
    follows = np.diff(log.session[order]) == 0
    ends = (log.arrival_s + log.duration_s)[order]
    pauses = (log.arrival_s[order][1:] - ends[:-1])[follows]
    pauses = np.maximum(pauses[np.isfinite(pauses)], 0.0)
    if len(pauses) < 2:
        return [held, _missing("think time", "no session has a second request with a known pause before it")]
    logs = np.log(pauses + SHORTEST_THINK_S)
    noise = CHANCE * 1.2533 * float(logs.std(ddof=1)) / math.sqrt(len(logs))  # a median's, for a normal spread
    away = abs(float(np.median(logs)) - math.log(think_s + SHORTEST_THINK_S))
    says = f"log: {plain(np.median(pauses), 3)} s between an answer and the next request; contract: {think_s:g} s"
    return [held, _decide("think time", "log ratio of think times", (away, noise, THINK_LIMIT), says, len(pauses))]


def _variation(arrival: Arrival, by: str) -> float:
    """The coefficient of variation that a contract's arrivals would show."""
    if isinstance(arrival, ConstantArrival):
        return 0.0
    if isinstance(arrival, GammaArrival):
        return arrival.variation
    if isinstance(arrival, BurstArrival):  # m at once: m - 1 gaps of nothing, then an exponential one m times the mean
        return math.sqrt(2 * arrival.size - 1 if by == "gaps" else arrival.size)
    return 1.0


def _open_at_once(arrival: ClosedArrival, log: RequestLog) -> Dimension:
    recorded = concurrency(log)
    if recorded is None:
        return _missing("concurrency", "the log has no durations, so how many requests were open is not known")
    shift = abs(math.log(max(recorded.mean, 1e-9) / arrival.concurrency))
    noise = CHANCE / math.sqrt(len(log))
    says = f"log: {plain(recorded.mean, 3)} open on average, {recorded.peak} at most; contract: {arrival.concurrency}"
    return _decide("concurrency", "log ratio of mean concurrency", (shift, noise, RATE_LIMIT), says, len(log))
