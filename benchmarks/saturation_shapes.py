"""The servers that a saturation search is held against, and the capacity of each: exact, or by long simulation.

The capacity of a server that varies is the largest Poisson rate whose long-run share of late requests is within the
bound, over the stationary law of its speed. Capacities are kept in saturation_truth.json by the name of the shape; a
shape without one is simulated and added. Shapes that were never looked at while the rule was made are in `UNSEEN`.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from lynxbench.load.saturation_judge import LatencyBound
from simulated_queues import Draw, deterministic, exponential, hyperexponential, lognormal
from simulated_servers import (
    FIRST_TOKEN,
    PER_TOKEN,
    STILL,
    WHOLE,
    Batcher,
    LateBursts,
    MachineMaker,
    Pace,
    RateLimited,
    Shape,
    Sharing,
    Slots,
    Stepping,
    Steps,
    World,
)

TRUTH_FILE = Path(__file__).with_name("saturation_truth.json")
TRUTH_WORLDS, TRUTH_REQUESTS = 6, 1_000_000
"""Independent servers and requests of each at every rate that is tried."""


# --- draws and machines ----------------------------------------------------------------------------------------------


def scaled(draw: Draw, mean_s: float) -> Draw:
    """The same law with another mean."""
    return lambda rng, size: mean_s * draw(rng, size)


def uniform(low_s: float, high_s: float) -> Draw:
    """Even between two ends."""
    return lambda rng, size: rng.uniform(low_s, high_s, size)


def pareto(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1, tail index 2.5: the variance is finite, the third moment is not."""
    return 0.6 * (1 + rng.pareto(2.5, size))


def two_classes(rng: np.random.Generator, size: int) -> np.ndarray:
    """Mean 1: 1 % of the requests are 20 times as long as the others."""
    return np.where(rng.random(size) < 0.01, 20.0, 1.0) / 1.19 * rng.uniform(0.8, 1.2, size)


def slots(count: int, draw: Draw) -> MachineMaker:
    """First come, first served."""
    return lambda rng: Slots(count, draw, rng)


def sharing(speeds: list[float], draw: Draw) -> MachineMaker:
    """A batch that grows; `speeds[n - 1]` is each request's speed with n of them."""
    return lambda rng: Sharing(speeds, draw, rng)


def stepping(steps: Steps, prompts: Draw, lengths: Draw) -> MachineMaker:
    """Continuous batching."""
    return lambda rng: Stepping(steps, prompts, lengths, rng)


def batched_speeds(most: int, growth: float) -> list[float]:
    """Each token takes 1 + growth × (n - 1) times as long with n in the batch."""
    return [1 / (1 + growth * (n - 1)) for n in range(1, most + 1)]


# --- speeds ----------------------------------------------------------------------------------------------------------


def markov(slow_s: float, fast_s: float, low: float = 0.7, high: float = 0.85) -> Pace:
    """Exponential stretches at full speed and at a speed drawn anew for each slow one."""

    def pace(rng: np.random.Generator, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        slow = (np.arange(first, first + count) % 2 == 1) if first else _from_law(rng, slow_s, fast_s, count)
        seconds = rng.exponential(1.0, count) * np.where(slow, slow_s, fast_s)
        return seconds, np.where(slow, rng.uniform(low, high, count), 1.0)

    return pace


def _from_law(rng: np.random.Generator, slow_s: float, fast_s: float, count: int) -> np.ndarray:
    """A first block that begins slow as often as the server is; it ends fast, so that the next begins fast."""
    slow = np.arange(count) % 2 == 1
    if rng.random() < slow_s / (slow_s + fast_s):
        slow[0] = True
        slow[1:] = np.arange(1, count) % 2 == 0
        slow[-1] = True
    return slow


def periodic(period_s: float, speed: float, share: float = 0.2) -> Pace:
    """Slow for a fixed share of each period; the search begins anywhere in it."""

    def pace(rng: np.random.Generator, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        slow = np.arange(first, first + count) % 2 == 1
        seconds = np.where(slow, share, 1 - share) * period_s
        if first == 0:
            seconds[0] *= rng.random()
        return seconds, np.where(slow, speed, 1.0)

    return pace


def stalls(every_s: float, shortest_s: float = 0.5, longest_s: float = 5.0) -> Pace:
    """Nothing is done for a while, at random moments."""

    def pace(rng: np.random.Generator, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        still = np.arange(first, first + count) % 2 == 1
        seconds = np.where(still, rng.uniform(shortest_s, longest_s, count), rng.exponential(every_s, count))
        return seconds, np.where(still, STILL, 1.0)

    return pace


def warm_up(seconds: float, speed: float) -> Pace:
    """Slow at the start of the search only."""

    def pace(rng: np.random.Generator, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        cold = np.arange(first, first + count) == 0
        return np.where(cold, seconds, 1e6), np.where(cold, speed, 1.0)

    return pace


def leak(loss_per_s: float, floor: float = 0.8, piece_s: float = 10.0) -> Pace:
    """Slower and slower, down to a floor."""

    def pace(rng: np.random.Generator, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        age_s = np.arange(first, first + count) * piece_s
        return np.full(count, piece_s), np.maximum(1 - loss_per_s * age_s, floor)

    return pace


# --- the shapes ------------------------------------------------------------------------------------------------------


def p(percentile: float, limit_s: float, name: str = WHOLE) -> LatencyBound:
    """A bound as contracts write it."""
    return LatencyBound(limit_s, 1 - percentile / 100, name)


STATIONARY, VARYING, SHORT, RARE, UNSEEN_STATIONARY, UNSEEN_VARYING = (
    frozenset({tag}) for tag in ("stationary", "varying", "short", "rare", "unseen stationary", "unseen varying")
)
_DECODE = batched_speeds(64, 0.02)
_LLAMA = Steps(4.9e-3, 2.3e-5, 2.6e-5)
"""About what vLLM 0.26 takes on an H200 for 8 billion parameters in bf16: 1.4, 46, 59 and 66 requests/s were measured
with 1, 64, 128 and 256 in flight, 327 tokens in and 138 out; these steps give 1.5, 45, 59 and 70."""
_FAST_BATCH = batched_speeds(32, 0.05)


def _sharing_ceiling(speeds: list[float], mean_s: float) -> float:
    return max(n * speed for n, speed in enumerate(speeds, 1)) / mean_s


def _stationary() -> tuple[Shape, ...]:
    return (
        Shape("M/M/1 p99", slots(1, exponential), (p(99, 10.0),), 1.0, tags=STATIONARY),
        Shape("M/M/8 p99", slots(8, exponential), (p(99, 7.0),), 8.0, tags=STATIONARY),
        Shape("M/M/64 p99", slots(64, exponential), (p(99, 6.0),), 64.0, tags=STATIONARY),
        Shape("M/M/64 p95", slots(64, exponential), (p(95, 3.5),), 64.0, tags=STATIONARY),
        Shape("M/D/8 p99", slots(8, deterministic), (p(99, 3.0),), 8.0, tags=STATIONARY),
        Shape("M/lognormal/8 p99", slots(8, lognormal), (p(99, 12.0),), 8.0, tags=STATIONARY),
        Shape("M/hyperexp/32 p95", slots(32, hyperexponential), (p(95, 6.0),), 32.0, tags=STATIONARY),
        Shape("M/Pareto/16 p99", slots(16, pareto), (p(99, 8.0),), 16.0, tags=STATIONARY),
        Shape("two classes /16 p95", slots(16, two_classes), (p(95, 4.0),), 16.0, tags=STATIONARY),
        Shape("constant 20 s /32 p99", slots(32, uniform(19.8, 20.2)), (p(99, 30.0),), 1.6, tags=STATIONARY),
        Shape("long answers /64 p95", slots(64, uniform(10.0, 30.0)), (p(95, 40.0),), 3.2, tags=STATIONARY),
        Shape("batcher 16 p99", lambda rng: Batcher(16, 0.05, 0.005), (p(99, 0.4),), 16 / 0.13, tags=STATIONARY),
        Shape("processor sharing p95", sharing([1 / n for n in range(1, 513)], exponential), (p(95, 12.0),), 1.0,
              tags=STATIONARY),
        Shape("decode batch p99", sharing(_DECODE, uniform(1.0, 3.0)), (p(99, 1.0, FIRST_TOKEN), p(95, 6.5)),
              _sharing_ceiling(_DECODE, 2.0), first_s=0.1, tags=STATIONARY),
        Shape("ten times inside", sharing(_FAST_BATCH, uniform(0.05, 0.15)), (p(99, 1.0, FIRST_TOKEN),),
              _sharing_ceiling(_FAST_BATCH, 0.1), first_s=0.05, tags=STATIONARY),
        Shape("rate limiter 50/s p99", lambda rng: RateLimited(Slots(64, scaled(exponential, 0.1), rng), 50.0, 10.0),
              (p(99, 1.0),), 50.0, tags=STATIONARY),
        Shape("late bursts p99", lambda rng: LateBursts(lambda rate: 2.9e-4 * (rate / 30) ** 8, 0.3, 2.0, rng),
              (p(99, 1.0),), 60.0, tags=STATIONARY),
        Shape("late bursts p95", lambda rng: LateBursts(lambda rate: 1.5e-3 * (rate / 30) ** 8, 0.3, 2.0, rng),
              (p(95, 1.0),), 60.0, tags=STATIONARY),
    )  # fmt: skip


def _varying() -> tuple[Shape, ...]:
    unit, quick = slots(8, exponential), slots(8, scaled(exponential, 0.1))
    bound, quick_bound = (p(99, 7.0),), (p(99, 0.7),)
    return (
        Shape("Markov 1 s slow of 5", unit, bound, 8.0, markov(1, 4), every_s=5, tags=VARYING),
        Shape("Markov 12 s slow of 60", unit, bound, 8.0, markov(12, 48), every_s=60, tags=VARYING),
        Shape("Markov 60 s slow of 300", unit, bound, 8.0, markov(60, 240), every_s=300, tags=VARYING),
        Shape("periodic 1 s", unit, bound, 8.0, periodic(1.0, 0.7), every_s=1, tags=VARYING),
        Shape("periodic 60 s", unit, bound, 8.0, periodic(60.0, 0.75), every_s=60, tags=VARYING),
        Shape("p95 Markov 12 s of 60", slots(8, exponential), (p(95, 6.0),), 8.0, markov(12, 48), every_s=60,
              tags=VARYING),
        Shape("/32 Markov 12 s of 60", slots(32, exponential), (p(99, 7.0),), 32.0, markov(12, 48), every_s=60,
              tags=VARYING),
        Shape("/32 p95 periodic 60 s", slots(32, exponential), (p(95, 4.0),), 32.0, periodic(60, 0.8), every_s=60,
              tags=VARYING),
        Shape("M/D/8 Markov 12 s of 60", slots(8, deterministic), (p(99, 3.0),), 8.0, markov(12, 48), every_s=60,
              tags=VARYING),
        Shape("100 ms Markov 1 s of 5", quick, quick_bound, 80.0, markov(1, 4), every_s=5, tags=VARYING),
        Shape("100 ms Markov 12 s of 60", quick, quick_bound, 80.0, markov(12, 48), every_s=60, tags=VARYING),
        Shape("100 ms periodic 60 s", quick, quick_bound, 80.0, periodic(60.0, 0.75), every_s=60, tags=VARYING),
        Shape("decode Markov 12 s of 60", sharing(_DECODE, uniform(1.0, 3.0)),
              (p(99, 1.0, FIRST_TOKEN), p(95, 6.5)), _sharing_ceiling(_DECODE, 2.0), markov(12, 48), first_s=0.1,
              every_s=60, tags=VARYING),
        Shape("stalls every 20 s p95", unit, (p(95, 6.0),), 8.0, stalls(20.0), every_s=20, tags=VARYING),
        Shape("stalls every 200 s p99", unit, bound, 8.0, stalls(200.0), every_s=200, tags=VARYING),
        Shape("100 ms stalls every 100 s", quick, quick_bound, 80.0, stalls(100.0, 0.5, 1.5), every_s=100,
              tags=VARYING),
        Shape("warm-up 20 s", quick, quick_bound, 80.0, warm_up(20.0, 0.5), settle_s=60.0, tags=VARYING),
    )  # fmt: skip


def _rare() -> tuple[Shape, ...]:
    """Disturbances that come less often than a search is long: what it claims is too much, and it must say so."""
    quick, quick_bound = slots(8, scaled(exponential, 0.02)), (p(99, 0.14),)
    return (
        Shape("20 ms stalls every hour", quick, quick_bound, 400.0, stalls(3600.0, 60.0, 120.0), every_s=3600,
              tags=RARE),
        Shape("20 ms Markov 10 min of an hour", quick, quick_bound, 400.0, markov(600, 3000), every_s=3600,
              tags=RARE),
    )  # fmt: skip


def _unseen() -> tuple[Shape, ...]:
    """Never looked at while the rule was made: other slow factors, duty cycles, laws and machines."""
    quick = slots(4, scaled(exponential, 0.05))
    return (
        Shape("M/M/3 p90", slots(3, exponential), (p(90, 4.0),), 3.0, tags=UNSEEN_STATIONARY),
        Shape("M/Pareto/4 p95", slots(4, pareto), (p(95, 7.0),), 4.0, tags=UNSEEN_STATIONARY),
        Shape("two classes /6 p99", slots(6, two_classes), (p(99, 25.0),), 6.0, tags=UNSEEN_STATIONARY),
        Shape("batcher 64 p95", lambda rng: Batcher(64, 0.2, 0.01), (p(95, 1.2),), 64 / 0.84, tags=UNSEEN_STATIONARY),
        Shape("late bursts p90", lambda rng: LateBursts(lambda rate: 3.2e-3 * (rate / 20) ** 12, 0.1, 3.0, rng),
              (p(90, 1.0),), 40.0, tags=UNSEEN_STATIONARY),
        Shape("half the time at 55 % of the speed", slots(8, exponential), (p(99, 10.0),), 8.0,
              markov(20, 20, 0.5, 0.6), every_s=40, tags=UNSEEN_VARYING),
        Shape("a twentieth at 35 %", slots(8, exponential), (p(95, 6.0),), 8.0, markov(5, 95, 0.3, 0.4), every_s=100,
              tags=UNSEEN_VARYING),
        Shape("periodic 20 s, a tenth at half", slots(16, lognormal), (p(99, 12.0),), 16.0, periodic(20, 0.5, 0.1),
              every_s=20, tags=UNSEEN_VARYING),
        Shape("periodic 120 s, half at 90 %", slots(32, hyperexponential), (p(95, 6.0),), 32.0,
              periodic(120, 0.9, 0.5), every_s=120, tags=UNSEEN_VARYING),
        Shape("batcher with stalls", lambda rng: Batcher(16, 0.05, 0.005), (p(95, 0.4),), 16 / 0.13,
              stalls(30.0, 0.2, 2.0), every_s=30, tags=UNSEEN_VARYING),
        Shape("Pareto, Markov 3 s of 30", slots(16, pareto), (p(99, 8.0),), 16.0, markov(3, 27, 0.6, 0.8), every_s=30,
              tags=UNSEEN_VARYING),
        Shape("two classes, Markov 30 s of 90", slots(16, two_classes), (p(95, 4.0),), 16.0, markov(30, 60),
              every_s=90, tags=UNSEEN_VARYING),
        Shape("50 ms /4 Markov 6 s of 20, 600 s", quick, (p(99, 0.5),), 80.0, markov(6, 14), budget_s=600.0,
              every_s=20, tags=UNSEEN_VARYING),
        Shape("5 ms /4 Markov 10 s of 40, 600 s", slots(4, scaled(exponential, 0.005)), (p(99, 0.05),), 800.0,
              markov(10, 30), budget_s=600.0, every_s=40, tags=UNSEEN_VARYING),
    )  # fmt: skip


def _short() -> tuple[Shape, ...]:
    """The default budget of 600 s, or less."""
    named = {shape.name: shape for shape in (*_stationary(), *_varying())}
    quick = slots(8, scaled(exponential, 0.1))
    return (
        *(replace(named[name], name=f"{name}, 600 s", budget_s=600.0, tags=SHORT)
          for name in ("M/M/8 p99", "M/M/64 p95", "constant 20 s /32 p99", "long answers /64 p95", "batcher 16 p99",
                       "decode batch p99", "two classes /16 p95", "100 ms Markov 12 s of 60", "100 ms periodic 60 s")),
        replace(named["ten times inside"], name="ten times inside, 90 s", budget_s=90.0, tolerance=0.15, tags=SHORT),
        replace(named["decode batch p99"], name="decode batch, 90 s", budget_s=90.0, tolerance=0.15, tags=SHORT),
        Shape("100 ms /8 p99, 600 s", quick, (p(99, 0.7),), 80.0, budget_s=600.0, tags=SHORT),
        Shape("20 ms /8 p99, 600 s", slots(8, scaled(exponential, 0.02)), (p(99, 0.14),), 400.0, budget_s=600.0,
              tags=SHORT),
        Shape("20 ms Markov 1 s of 5, 600 s", slots(8, scaled(exponential, 0.02)), (p(99, 0.14),), 400.0,
              markov(1, 4), budget_s=600.0, every_s=5, tags=SHORT),
        Shape("never met, 600 s", slots(8, exponential), (p(99, 1.0),), 8.0, budget_s=600.0, tags=SHORT),
    )  # fmt: skip


def _continuous() -> tuple[Shape, ...]:
    """Continuous batching: sharp knees, answers that hang together for as long as they take, clients that start."""
    bounds = (p(99, 1.0, FIRST_TOKEN), p(95, 0.05, PER_TOKEN))
    one_length = stepping(_LLAMA, scaled(deterministic, 327), scaled(deterministic, 138))
    filled = _LLAMA.rate_per_s(256, 327, 138)
    like_vllm = Shape("continuous", one_length, bounds, filled, tokens=138, between_s=4.0, tolerance=0.15, tags=SHORT)
    drawn = stepping(_LLAMA, uniform(100, 900), scaled(lognormal, 138))
    few = replace(_LLAMA, most=32)
    tight = replace(like_vllm, bounds=(p(95, 0.012, PER_TOKEN),))
    return (
        replace(like_vllm, name="continuous, 90 s", budget_s=90.0),
        replace(like_vllm, name="continuous, 300 s", budget_s=300.0),
        replace(tight, name="continuous, 12 ms a token, 90 s", budget_s=90.0),
        replace(tight, name="continuous, 12 ms a token, 300 s", budget_s=300.0),
        replace(like_vllm, name="continuous, drawn lengths, 180 s", make=drawn, budget_s=180.0,
                ceiling_per_s=_LLAMA.rate_per_s(256, 500, 138), bounds=(p(99, 1.0, FIRST_TOKEN), p(95, 12.0))),
        replace(like_vllm, name="continuous, 32 at once, 180 s", budget_s=180.0,
                make=stepping(few, scaled(deterministic, 327), scaled(deterministic, 138)),
                ceiling_per_s=few.rate_per_s(32, 327, 138)),
        replace(like_vllm, name="continuous, slow 12 s of 60, 300 s", budget_s=300.0, pace=markov(12, 48), every_s=60),
        replace(like_vllm, name="continuous, stalls every 20 s, 300 s", budget_s=300.0, pace=stalls(20.0, 0.5, 2.0),
                bounds=(p(90, 1.0, FIRST_TOKEN), p(95, 0.05, PER_TOKEN)), every_s=20),
    )  # fmt: skip


SHAPES = (*_stationary(), *_varying(), *_short(), *_continuous(), *_rare(), *_unseen())


# --- the truth -------------------------------------------------------------------------------------------------------


def late_over_allowed(shape: Shape, rate_per_s: float, worlds: int, requests: int, seed: int) -> float:
    """The long-run share of late requests over the allowed one, of the bound that is worst."""
    shares = []
    for world in range(worlds):
        probe = World(shape, seed + world, start_s=shape.settle_s).start(rate_per_s)
        probe.take(requests // 10)
        pieces = [probe.take(requests // 10) > [bound.limit_s for bound in shape.bounds] for _ in range(9)]
        shares.append(np.concatenate(pieces).mean(axis=0))
    allowed = np.array([bound.violations for bound in shape.bounds])
    return float((np.mean(shares, axis=0) / allowed).max())


def simulated_capacity(shape: Shape, worlds: int = TRUTH_WORLDS, requests: int = TRUTH_REQUESTS) -> float:
    """By halving on the same random numbers at every rate, first roughly; 0 where an idle server misses a bound."""
    if late_over_allowed(shape, 0.02 * shape.ceiling_per_s, 1, requests // 4, 5) > 1:
        return 0.0
    low, high = 0.02 * shape.ceiling_per_s, 1.05 * shape.ceiling_per_s
    for count, steps in ((1, 7), (worlds, 7)):
        for _ in range(steps):
            middle = (low + high) / 2
            share = late_over_allowed(shape, middle, count, requests, 5)
            low, high = (middle, high) if share <= 1 else (low, middle)
        if count == 1:
            low, high = low * 0.97, min(high * 1.03, 1.05 * shape.ceiling_per_s)
    return math.sqrt(low * high)


def true_capacity(shape: Shape) -> float:
    """From the file where the shape is the one that was simulated."""
    known = json.loads(TRUTH_FILE.read_text()) if TRUTH_FILE.exists() else {}
    key = re.sub(r", \d+ s$", "", shape.name)  # without its budget
    if key not in known:
        known[key] = simulated_capacity(shape)
        TRUTH_FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return float(known[key])
