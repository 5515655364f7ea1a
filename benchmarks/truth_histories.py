"""Histories on known truth: the ratio of two levels, steps where there are some and none where there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.signal import lfilter

import changepoints
from lynxbench.compare.levels import read_history
from lynxbench.model.history import History, HistoryPoint, Motion
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from lynxbench.stats.changepoints import Course, read_course
from truth_promise import Promise, rare_enough, usual_enough

Draw = Callable[[np.random.Generator], np.ndarray]
"""One history of noise or motion, in units of its noise."""

COVERED = 0.92
LONG_MEMORY = 0.70
"""Noise that remembers for longer than its first autocorrelation tells: the interval is too short, and this is all."""
DRIFT_COVERED = 0.80
FALSE_STEPS = 0.10
HALF = 0.50
FOUND = 0.90
NEAR = 3
SIGMA = 0.01
"""Of the level: one unit of a drawn history."""
F1 = 0.718
"""On the annotated histories, before a drift or a walk could take the place of steps."""


def noise(count: int, ar: float = 0.0, ma: tuple[float, ...] = (), tails: float = math.inf) -> Draw:
    """ARMA noise of variance one, from its stationary law."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        white = rng.standard_normal(count + 300)
        if math.isfinite(tails):
            white = rng.standard_t(tails, count + 300) / math.sqrt(tails / (tails - 2))
        response = lfilter([1.0, *ma], [1.0, -ar], np.eye(1, 600)[0])
        return lfilter([1.0, *ma], [1.0, -ar], white)[300:] / math.sqrt(float(response @ response))

    return draw


def plus(*parts: Draw) -> Draw:
    """Their sum."""
    return lambda rng: np.sum([part(rng) for part in parts], axis=0)


def times(factor: float, part: Draw) -> Draw:
    """Larger or smaller."""
    return lambda rng: factor * part(rng)


def line(count: int, total: float) -> Draw:
    """A slope, up or down."""
    return lambda rng: float(rng.choice([-1.0, 1.0])) * np.linspace(0.0, total, count)


def cycle(count: int, period: float, size: float) -> Draw:
    """A sine of this amplitude, with any phase."""
    return lambda rng: size * np.sin(2 * np.pi * (np.arange(count) / period + rng.random()))


def walk(count: int, size: float) -> Draw:
    """A random walk whose increments have this deviation."""
    return lambda rng: np.cumsum(rng.normal(0.0, size, count))


def curve(count: int, shape: Callable[[np.ndarray], np.ndarray], size: float) -> Draw:
    """A fixed curve over 0 to 1, up or down."""
    return lambda rng: float(rng.choice([-1.0, 1.0])) * size * shape(np.linspace(0.0, 1.0, count))


def long_memory(count: int, d: float) -> Draw:
    """Fractionally integrated noise: its autocorrelation falls as a power."""
    weights = np.cumprod(np.concatenate(([1.0], (np.arange(1, 2000) - 1 + d) / np.arange(1, 2000))))

    def draw(rng: np.random.Generator) -> np.ndarray:
        series = np.convolve(rng.standard_normal(count + 2000), weights)[2000 : 2000 + count]
        return series / math.sqrt(float(weights @ weights))

    return draw


def swelling(count: int, size: float) -> Draw:
    """Noise that is so much louder in its second half."""
    return lambda rng: rng.standard_normal(count) * np.where(np.arange(count) < count // 2, 1.0, size)


def two_modes(count: int, apart: float) -> Draw:
    """Each result in one of two modes, by chance."""
    return lambda rng: rng.standard_normal(count) + apart * (rng.random(count) < 0.3)


def spikes(count: int, share: float, size: float) -> Draw:
    """Lone results far off."""
    return lambda rng: size * (rng.random(count) < share)


def steps(count: int, *at: tuple[int, float]) -> Draw:
    """The level jumps by so much at each place."""
    return lambda rng: np.sum([size * (np.arange(count) >= place) for place, size in at], axis=0)


RATIOS: tuple[tuple[str, Draw, int, int], ...] = (
    *((f"AR({phi}), 30 + 30", noise(60, phi), 30, 60) for phi in (0.0, 0.3, 0.5, 0.7)),
    *((f"AR({phi}), {n} + {n}", noise(2 * n, phi), n, 2 * n) for n in (6, 8, 10) for phi in (0.0, 0.5, 0.7)),
    ("AR(0.7), 6 + 50", noise(56, 0.7), 6, 56),
    ("AR(0.7), 100 + 100", noise(200, 0.7), 100, 200),
    ("MA(0.8), 10 + 10", noise(20, 0.0, (0.8,)), 10, 20),
    ("MA(0.6, 0.6, 0.6), 25 + 25", noise(50, 0.0, (0.6, 0.6, 0.6)), 25, 50),
    ("MA(-0.5), 10 + 10", noise(20, 0.0, (-0.5,)), 10, 20),
    ("a week's season, 10 + 10", plus(noise(20), cycle(20, 7, 1.5)), 10, 20),
    ("a week's season, 30 + 30", plus(noise(60), cycle(60, 7, 1.5)), 30, 60),
    ("a season of 24, 60 + 60", plus(noise(120), cycle(120, 24, 1.0)), 60, 120),
    ("AR(0.8) under white noise, 60 + 60", plus(times(0.7, noise(120, 0.8)), times(0.7, noise(120))), 60, 120),
    ("heavy tails, AR(0.5), 10 + 10", noise(20, 0.5, (), 3.0), 10, 20),
    ("three times as loud after, 40 + 8", lambda rng: noise(48, 0.3)(rng) * np.repeat([1.0, 3.0], [40, 8]), 40, 48),
    ("three times as loud before, 8 + 40", lambda rng: noise(48, 0.3)(rng) * np.repeat([3.0, 1.0], [8, 40]), 8, 48),
)
"""Name, noise, where the level and the record change, and how many results there are."""

NO_STEPS: tuple[tuple[str, Draw], ...] = (
    *((f"slope of {total} over {n}", plus(noise(n), line(n, total))) for n in (100, 300) for total in (3, 6, 12, 30)),
    *(
        (f"cycle of {n // periods} and size {size} over {n}", plus(noise(n), cycle(n, n / periods, size)))
        for n, periods, size in ((300, 1, 3), (300, 2, 3), (300, 4, 3), (300, 3, 8), (150, 1, 4), (600, 10, 4))
    ),
    *((f"walk of {n}", walk(n, 1.0)) for n in (60, 100, 300, 1000)),
    ("walk of 0.1 under noise, 300", plus(noise(300), walk(300, 0.1))),
    ("AR(0.5) of 1,000", noise(1000, 0.5)),
    ("AR(0.7) of 300", noise(300, 0.7)),
    ("AR(0.9) of 300", noise(300, 0.9)),
    ("AR(0.97) of 300", noise(300, 0.97)),
    ("AR(0.5) of 30", noise(30, 0.5)),
    ("walk with a drift", plus(walk(300, 1.0), line(300, 60))),
    ("a parabola", plus(noise(300), curve(300, lambda t: 4 * t * (1 - t), 8.0))),
    ("two cycles", plus(noise(400), cycle(400, 130, 3), cycle(400, 57, 2))),
    ("long memory, d = 0.3", long_memory(500, 0.3)),
    ("heavy tails, 500", noise(500, 0.2, (), 3.0)),
    ("twice as loud in its second half", swelling(300, 2.0)),
    ("five times as loud in its second half", swelling(300, 5.0)),
    ("two modes by chance", two_modes(300, 6.0)),
    ("a week's season", plus(noise(300), cycle(300, 7, 3))),
    ("a season of 24", plus(noise(300), cycle(300, 24, 3))),
    ("a slope with spikes", plus(noise(300), line(300, 8), spikes(300, 0.02, 20.0))),
    ("a few readings, rounded", lambda rng: np.round(noise(200, 0.5)(rng) / 1.5) * 1.5),
)

HARD: tuple[tuple[str, Draw], ...] = (
    *((f"walk of {q} under noise, 300", plus(noise(300), walk(300, q))) for q in (0.3, 1.0)),
    ("a ramp between two levels", plus(noise(300), curve(300, lambda t: np.clip(3 * t - 1, 0, 1), 8.0))),
    ("a warm-up that settles", plus(noise(300), curve(300, lambda t: np.exp(-6 * t), 8.0))),
    ("a kink", plus(noise(300), curve(300, lambda t: np.maximum(t - 0.5, 0), 16.0))),
    ("slope of 6 in AR(0.5), 300", plus(noise(300, 0.5), line(300, 6))),
    ("AR(0.7) of 2,000", noise(2000, 0.7)),
)
"""No steps either, and often taken for some: only that they are told apart more often than not is promised."""

STEPS: tuple[tuple[str, Draw, tuple[int, ...]], ...] = (
    ("5 in 24 results", plus(noise(24), steps(24, (12, 5.0))), (12,)),
    ("4 in 60 results", plus(noise(60), steps(60, (35, 4.0))), (35,)),
    ("3 in 200 results", plus(noise(200), steps(200, (80, 3.0))), (80,)),
    ("4 in AR(0.5), 200", plus(noise(200, 0.5), steps(200, (120, 4.0))), (120,)),
    ("6 in AR(0.7), 200", plus(noise(200, 0.7), steps(200, (90, -6.0))), (90,)),
    ("two, in AR(0.3)", plus(noise(240, 0.3), steps(240, (80, 4.0), (160, -3.5))), (80, 160)),
    ("there and back in 20", plus(noise(300), steps(300, (140, 6.0), (160, -6.0))), (140, 160)),
    ("a staircase of four", plus(noise(250), steps(250, *((50 * i, 4.0) for i in (1, 2, 3, 4)))), (50, 100, 150, 200)),
    ("5 on a slope of 2", plus(noise(200), line(200, 2), steps(200, (100, 5.0))), (100,)),
    ("6 on a slope of 3, up or down", plus(noise(300), line(300, 3), steps(300, (150, 6.0))), (150,)),
    ("5 beside spikes", plus(noise(200), spikes(200, 0.02, 25.0), steps(200, (110, 5.0))), (110,)),
    ("5 with heavy tails", plus(noise(200, 0.0, (), 3.0), steps(200, (110, 5.0))), (110,)),
    ("5 beside a week's season", plus(noise(200), cycle(200, 7, 1.5), steps(200, (90, 5.0))), (90,)),
    ("5, twice as loud after", plus(swelling(200, 2.0), steps(200, (100, 5.0))), (100,)),
)

MOVING_STEPS: tuple[tuple[str, Draw, tuple[int, ...]], ...] = (
    ("6 beside a slow cycle", plus(noise(300), cycle(300, 150, 1.5), steps(300, (170, 6.0))), (170,)),
    ("14 in a walk", plus(walk(200, 1.0), steps(200, (100, 14.0))), (100,)),
)
"""Steps beside strong motion: found more often than not, and others may be named with them."""

WORDS: tuple[tuple[str, Draw, tuple[Motion, ...]], ...] = (
    ("noise", noise(200), (Motion.LEVELS,)),
    ("AR(0.5)", noise(200, 0.5), (Motion.LEVELS,)),
    ("a step of 6", plus(noise(200), steps(200, (90, 6.0))), (Motion.LEVELS,)),
    ("a slope of 5", plus(noise(200), line(200, 5)), (Motion.DRIFT,)),
    ("a slope of 8 in AR(0.5)", plus(noise(200, 0.5), line(200, 8)), (Motion.DRIFT,)),
    ("a walk", walk(200, 1.0), (Motion.DRIFT, Motion.WANDERING)),
    ("a slow cycle", plus(noise(300), cycle(300, 150, 4)), (Motion.DRIFT, Motion.WANDERING)),
)


def history(logs: np.ndarray, record_at: int | None = None) -> History:
    """A history of throughputs with these logarithms, whose system layer changes in the record at one place."""
    after = len(logs) if record_at is None else record_at
    points = [
        HistoryPoint.model_construct(
            result_id=f"{i:064d}",
            started_at=f"{i:06d}",
            executor_id="b" if i >= after else "a",
            instance_id="",
            layer_ids={Layer.SYSTEM: "b" if i >= after else "a"},
            weights=None,
            run_means=(),
            estimate=100 * math.exp(value),
            low=None,
            high=None,
            unit="items/s",
            doubtful=False,
        )
        for i, value in enumerate(logs)
    ]
    return read_history(points, contract_id="", contract="", precision=Precision.FP32)


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Ratios, steps that are none, steps that are some, words, the size of a drift, and annotated histories."""
    courses = max(20, runs // 4)  # a course takes forty milliseconds
    for number, (name, draw, place, count) in enumerate(RATIOS):
        rng = np.random.default_rng([seed, 1, number])
        times_drawn = 2 * runs if count <= 20 else runs
        share = sum(_covers(draw(rng), place, rng) for _ in range(times_drawn)) / times_drawn
        bound = LONG_MEMORY if "under white" in name else COVERED
        words = f"the interval of the ratio of two levels holds it in {bound:.0%} or more"
        yield Promise(f"levels, {name}", words, share, bound, usual_enough(share, times_drawn, bound))
    for number, (name, draw) in enumerate((*NO_STEPS, *HARD)):
        rng = np.random.default_rng([seed, 2, number])
        share = float(np.mean([bool(_course(draw(rng)).changes) for _ in range(courses)]))
        bound = FALSE_STEPS if number < len(NO_STEPS) else HALF
        words = f"called a step in at most {bound:.0%}"
        yield Promise(f"no step, {name}", words, share, bound, rare_enough(share, courses, bound))
    for number, (name, draw, places) in enumerate((*STEPS, *MOVING_STEPS)):
        rng = np.random.default_rng([seed, 3, number])
        alone = number < len(STEPS)
        share = float(np.mean([_finds(draw(rng), places, alone=alone) for _ in range(courses)]))
        bound = FOUND if alone else HALF
        words = f"each found{', and nothing else,' if alone else ''} in {bound:.0%} or more"
        yield Promise(f"step, {name}", words, share, bound, usual_enough(share, courses, bound))
    for number, (name, draw, right) in enumerate(WORDS):
        rng = np.random.default_rng([seed, 4, number])
        share = float(np.mean([_course(draw(rng)).motion in right for _ in range(courses)]))
        words = f"called {' or '.join(right)} in 90 % or more"
        yield Promise(f"word, {name}", words, share, FOUND, usual_enough(share, courses, FOUND))
    for number, (name, draw) in enumerate((("white noise", noise(200)), ("AR(0.5)", noise(200, 0.5)))):
        rng = np.random.default_rng([seed, 5, number])
        share = float(np.mean([_holds_drift(draw(rng)) for _ in range(courses)]))
        words = "a slowdown of 8 % is a drift whose interval holds it in 80 % or more"
        yield Promise(f"drift, {name}", words, share, DRIFT_COVERED, usual_enough(share, courses, DRIFT_COVERED))
    series, true = changepoints.load()
    found = [[change.index for change in changepoints.read_course(values).changes] for values in series]
    f1 = changepoints.figures(changepoints.counts(found, true))["f1"]
    yield Promise("86 annotated histories", "F1 of .718 or more, as before", f1, F1, f1 >= F1)


def _course(series: np.ndarray) -> Course:
    return read_course(100 * np.exp(SIGMA * series))


def _covers(series: np.ndarray, place: int, rng: np.random.Generator) -> bool:
    """Whether the effect at a place is right, whose record changed; its truth is anything from none to 3 sigmas."""
    truth = SIGMA * float(rng.uniform(-3, 3))
    logs = SIGMA * series + truth * (np.arange(len(series)) >= place)
    near = [change for change in history(logs, place).changes if abs(change.index - place) <= NEAR]
    return len(near) == 1 and near[0].effect.low <= math.exp(truth) <= near[0].effect.high


def _finds(series: np.ndarray, places: tuple[int, ...], *, alone: bool) -> bool:
    indices = [change.index for change in _course(series).changes]
    found = all(any(abs(index - place) <= NEAR for index in indices) for place in places)
    return found and (not alone or len(indices) == len(places))


def _holds_drift(series: np.ndarray) -> bool:
    course = _course(series + np.linspace(0.0, math.log(0.92) / SIGMA, len(series)))
    return course.motion is Motion.DRIFT and course.trend.low <= 0.92 <= course.trend.high
