"""The instrument against a server that costs it nothing: its ceiling, and the error of its stamps on this machine.

At length when asked for, and quickly before every run, at the run's own load, recorded with the result.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np

from lynxbench.load import send_schedule as schedule
from lynxbench.load.driver import run_probe
from lynxbench.load.ground_truth import Behaviour, ServedOutcome
from lynxbench.load.instrument import judge
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, parse_target
from lynxbench.load.response_reading import Language, PlainRotation
from lynxbench.load.truth_process import running_server
from lynxbench.model.canonical import JsonValue, finite_or_none, plain_json
from lynxbench.model.load_figures import PreFlight
from lynxbench.model.serving import InstrumentBounds

STREAMS = (1, 32, 128, 512)
TRUE_TTFT_MS, TRUE_ITL_MS = 50.0, 10.0
LARGEST_TTFT_ERROR_MS, LARGEST_TTFT_P99_ERROR_MS = 0.5, 2.0
"""What this project promises of itself at 512 streams: a hundredth of a 50 ms first token, and its tail."""
LARGEST_ITL_ERROR = 0.01
OPEN_RATE_PER_S = 1000.0
CEILING_STREAMS = 64
_TOKENS = 32
CEILING_S, STAMPS_S, OPEN_S = 0.3, 0.5, 0.3
STAMP_TOKENS = 8
MOST_STREAMS = 512
LOWEST_RATE_PER_S, HIGHEST_RATE_PER_S = 50.0, 2000.0
"""Rates at which a third of a second says something about lateness."""
NEAR_CEILING = 0.5
"""A run that asks for more than half of what the client can do at all is said to be near its limit."""

BuildRequest = Callable[[str, int], bytes]
"""A request for that many tokens to a server at that base address."""


@dataclass(frozen=True, slots=True)
class ClientCeiling:
    """How much the client can do on one core, every event's JSON parsed."""

    tokens: int
    streams: int
    requests_per_s: float
    events_per_s: float
    cpu_us_per_request: float


@dataclass(frozen=True, slots=True)
class StampError:
    """What the client reported minus what the server logged."""

    streams: int
    requests: int
    ttft_mean_ms: float
    ttft_p99_ms: float
    itl_mean_relative: float
    itl_median_ms: float
    """Of the distances whose both ends were read alone; NaN where there are none."""
    coalesced_share: float
    client_void: bool


@dataclass(frozen=True, slots=True)
class OpenLoopCheck:
    """Punctuality on an absolute schedule."""

    rate_per_s: float
    achieved_per_s: float
    lateness_mean_ms: float
    lateness_p99_ms: float


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The instrument's own ceiling and error on this machine, now."""

    good: bool
    problems: tuple[str, ...]
    cores: int
    ceilings: tuple[ClientCeiling, ...]
    stamp_errors: tuple[StampError, ...]
    open_loop: OpenLoopCheck

    def document(self) -> JsonValue:
        """For programs; NaN becomes null."""
        return plain_json(asdict(self))


def check_instrument(language: Language, build: BuildRequest, quick: bool = False) -> SelfCheck:
    """Measure the client against the bundled server, each on a core of its own where there are two."""
    seconds = 1.0 if quick else 4.0
    with two_cores() as server_core:
        with running_server(Behaviour(), server_core) as server:
            ceilings = tuple(measure_ceiling(server.url, language, build, tokens, seconds) for tokens in (1, 64))
            open_loop = measure_open_loop(server.url, language, build, seconds)
        errors = tuple(measure_stamp_error(language, build, streams, seconds, server_core) for streams in STREAMS)
    problems = tuple(_problems(errors, open_loop))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return SelfCheck(not problems, problems, cores, ceilings, errors, open_loop)


def measure_preflight(
    language: Language, build: BuildRequest, load: ClosedLoop | OpenLoop, duration_s: float
) -> PreFlight:
    """Ceiling, stamp error and lateness against the bundled server in about two seconds."""
    rate_per_s = len(load.offsets_ns) / duration_s if isinstance(load, OpenLoop) else math.nan
    streams = load.concurrency if isinstance(load, ClosedLoop) else min(64, max(1, round(rate_per_s)))
    streams = min(streams, MOST_STREAMS)
    with two_cores() as core:
        open_loop = None
        with running_server(Behaviour(), core) as server:
            ceiling = measure_ceiling(server.url, language, build, 1, CEILING_S)
            if math.isfinite(rate_per_s):
                tested_per_s = min(max(rate_per_s, LOWEST_RATE_PER_S), HIGHEST_RATE_PER_S)
                open_loop = measure_open_loop(server.url, language, build, OPEN_S, tested_per_s)
        error = measure_stamp_error(language, build, streams, STAMPS_S, core, STAMP_TOKENS)
    problems = list(_stamp_problems(error))
    if math.isfinite(rate_per_s) and rate_per_s > NEAR_CEILING * ceiling.requests_per_s:
        problems.append(
            f"{rate_per_s:.0f} requests/s are asked of a client that can send {ceiling.requests_per_s:.0f} at most"
        )
    return PreFlight(
        streams=streams,
        requests_per_s=finite_or_none(ceiling.requests_per_s) or 0.0,
        events_per_s=finite_or_none(ceiling.events_per_s) or 0.0,
        ttft_error_mean_ms=finite_or_none(error.ttft_mean_ms),
        ttft_error_p99_ms=finite_or_none(error.ttft_p99_ms),
        itl_error=finite_or_none(error.itl_mean_relative),
        lateness_mean_ms=None if open_loop is None else finite_or_none(open_loop.lateness_mean_ms),
        problems=tuple(problems),
    )


def measure_ceiling(url: str, language: Language, build: BuildRequest, tokens: int, seconds: float) -> ClientCeiling:
    """What one core of the client can do at most, against a server that answers at once."""
    record = run_probe(_plan(url, language, build, tokens, ClosedLoop(CEILING_STREAMS), seconds))
    good = record.kind == RequestEnd.OK
    span_s = (int(record.last_ns.max()) - record.start_ns) / 1e9 if good.any() else float("nan")
    done = int(np.count_nonzero(good))
    cpu_s = float(np.mean(record.health[0].cpu_share)) * span_s
    return ClientCeiling(
        tokens, CEILING_STREAMS, done / span_s, float(record.events[good].sum()) / span_s, cpu_s / max(done, 1) * 1e6
    )


def measure_stamp_error(
    language: Language, build: BuildRequest, streams: int, seconds: float, core: int | None, tokens: int = _TOKENS
) -> StampError:
    """How far the client's stamps are from the server's log at so many streams."""
    behaviour = Behaviour(ttft_ms=TRUE_TTFT_MS, itl_ms=TRUE_ITL_MS)
    answer_ms = TRUE_TTFT_MS + (tokens - 1) * TRUE_ITL_MS
    # Starts are spread over one answer: in lockstep, the queue at the server's own sends would be what is measured.
    load = ClosedLoop(streams, ramp_up_s=answer_ms / 1e3 if streams > 1 else 0.0)
    with running_server(behaviour, core) as server:
        record = run_probe(_plan(server.url, language, build, tokens, load, max(seconds, 2.5 * answer_ms / 1e3)))
        truth = server.stop()
    whole = truth.outcome == ServedOutcome.OK
    true_ttft = (truth.first_ns - truth.arrival_ns)[whole] / 1e6
    true_itl = ((truth.last_ns - truth.first_ns)[whole] / 1e6 / (truth.events[whole] - 1)).mean()
    ttft = record.server_first_token_s() * 1e3
    gaps = record.gaps()
    clean = gaps.seconds[gaps.clean]
    return StampError(
        streams=streams,
        requests=len(ttft),
        ttft_mean_ms=float(ttft.mean() - true_ttft.mean()),
        ttft_p99_ms=float(np.quantile(ttft, 0.99) - np.quantile(true_ttft, 0.99)),
        itl_mean_relative=float(gaps.seconds.mean() * 1e3 / true_itl - 1),
        itl_median_ms=float(np.median(clean) * 1e3) if len(clean) else float("nan"),
        coalesced_share=record.coalesced_share,
        client_void=judge(record).void,
    )


def measure_open_loop(
    url: str, language: Language, build: BuildRequest, seconds: float, rate_per_s: float = OPEN_RATE_PER_S
) -> OpenLoopCheck:
    """Punctuality at a rate, against a server that answers at once."""
    offsets = schedule.poisson(rate_per_s, seconds, seed=1)
    record = run_probe(_plan(url, language, build, 1, OpenLoop(offsets), seconds))
    late = record.lateness_ns() / 1e6
    scheduled = record.scheduled_ns[-1] - record.scheduled_ns[0]
    took = record.sent_ns.max() - record.sent_ns[record.sent_ns > 0].min()
    return OpenLoopCheck(
        rate_per_s, rate_per_s * float(scheduled / took), float(late.mean()), float(np.quantile(late, 0.99))
    )


def _plan(
    url: str, language: Language, build: BuildRequest, tokens: int, load: ClosedLoop | OpenLoop, seconds: float
) -> LoadPlan:
    return LoadPlan(parse_target(url), PlainRotation((build(url, tokens),)), language, load, seconds, drain_s=5.0)


def _problems(errors: tuple[StampError, ...], open_loop: OpenLoopCheck) -> Iterator[str]:
    for error in errors:
        yield from _stamp_problems(error)
    late_ms, bound_ms = open_loop.lateness_mean_ms, InstrumentBounds().mean_lateness_s * 1e3
    if late_ms > bound_ms:
        yield f"requests at {open_loop.rate_per_s:.0f} /s go out {late_ms:.2f} ms late (bound {bound_ms:.0f} ms)"


def _stamp_problems(error: StampError) -> Iterator[str]:
    at = f"at {error.streams} streams"
    if abs(error.ttft_mean_ms) > LARGEST_TTFT_ERROR_MS:
        yield f"time to first token is {error.ttft_mean_ms:+.2f} ms off {at} (bound {LARGEST_TTFT_ERROR_MS} ms)"
    if abs(error.ttft_p99_ms) > LARGEST_TTFT_P99_ERROR_MS:
        yield f"its 99th percentile is {error.ttft_p99_ms:+.2f} ms off {at} (bound {LARGEST_TTFT_P99_ERROR_MS} ms)"
    if abs(error.itl_mean_relative) > LARGEST_ITL_ERROR:
        yield f"inter-token time is {error.itl_mean_relative:+.1%} off {at} (bound {LARGEST_ITL_ERROR:.0%})"


@contextmanager
def two_cores() -> Iterator[int | None]:
    """Keep this process off the last core, which the server gets; None where there is only one."""
    if not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2:
        yield None
        return
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    os.sched_setaffinity(0, set(cores[:-1]))
    try:
        yield cores[-1]
    finally:
        os.sched_setaffinity(0, before)


def render_selfcheck(check: SelfCheck) -> str:
    """The check for people: the verdict first."""
    lines = []
    if check.good:
        lines.append("INSTRUMENT GOOD: what it reports is the server's, up to the errors below.")
    else:
        lines.append("INSTRUMENT NOT GOOD ENOUGH HERE, NOW:")
        lines += [f"  - {problem}" for problem in check.problems]
        lines.append("  Other work on this machine is the usual cause: stop it, or drive the load from another host.")
    lines.append("")
    lines.append(f"ceiling, one core, {CEILING_STREAMS} streams, every event's JSON parsed")
    lines += [
        f"  {c.tokens:>3} tokens a request   {c.requests_per_s:>9,.0f} requests/s   {c.events_per_s:>9,.0f} events/s"
        f"   {c.cpu_us_per_request:>7.1f} µs CPU a request"
        for c in check.ceilings
    ]
    lines.append(
        f"stamps against the server's log ({TRUE_TTFT_MS:.0f} ms to first token, {TRUE_ITL_MS:.0f} ms between tokens)"
    )
    lines.append("  streams   TTFT error mean / p99 ms   inter-token mean error   median ms   read together")
    lines += [
        f"  {e.streams:>7}   {e.ttft_mean_ms:>+15.3f} / {e.ttft_p99_ms:<+7.3f}  {e.itl_mean_relative:>+20.2%}   "
        f"{e.itl_median_ms:>9.3f}   {e.coalesced_share:>13.1%}"
        for e in check.stamp_errors
    ]
    o = check.open_loop
    lines.append(
        f"open loop at {o.rate_per_s:.0f} /s: {o.achieved_per_s:.1f} /s sent, "
        f"{o.lateness_mean_ms:.3f} ms late on average, {o.lateness_p99_ms:.3f} ms at p99"
    )
    return "\n".join(lines)
