"""Words for a history on known truth: step, drift, wandering, season by hour of day and day of week, or nothing shown.

Results lie at moments as teams take them: nightly, on weekdays, four a day, at random, in bursts with weeks between.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import numpy as np

from lynxbench.compare.levels import read_history
from lynxbench.model.history import History, HistoryPoint, SeasonKind
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision
from truth_promise import Promise, rare_enough, usual_enough

Moments = Callable[[np.random.Generator], np.ndarray]
"""When results were taken, in days since a Monday."""
Truth = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""What moves a history at these moments, in units of the noise of one result."""

SIGMA = 0.01
MONDAY = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
FALSE_SEASON = 0.02
FALSE_STEP = 0.10
HALF = 0.50
FOUND = 0.90
SEASONS = {kind.value for kind in SeasonKind}


def nightly(count: int) -> Moments:
    """At two in the morning, give or take twenty minutes."""
    return lambda rng: np.arange(count) + 2 / 24 + rng.normal(0, 20 / 1440, count)


def weekdays(weeks: int) -> Moments:
    """Nightly from Monday to Friday."""
    return lambda rng: np.sort(np.add.outer(7 * np.arange(weeks), np.arange(5)).ravel() + 2 / 24)


def spread(days: int, each: float) -> Moments:
    """So many a day, at any time."""
    return lambda rng: np.sort(rng.uniform(0, days, int(days * each)))


def hourly(days: int) -> Moments:
    """Every hour."""
    return lambda rng: np.arange(24 * days) / 24


def bursts(groups: int, each: int, apart: float) -> Moments:
    """Ten or so in two days, then nothing for weeks."""
    return lambda rng: np.sort(np.concatenate([g * apart + rng.uniform(0, 2, each) for g in range(groups)]))


def by_shift(weeks: int) -> Moments:
    """Nights on weekdays, noon at weekends: hour and day cannot be told apart."""
    days = np.arange(7 * weeks)
    return lambda rng: days + np.where(days % 7 >= 5, 12, 2) / 24


def white(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Nothing at all."""
    return np.zeros(len(t))


def forgetful(days: float, size: float) -> Truth:
    """Noise that is forgotten within so many days (a room's temperature, a neighbour's job)."""

    def draw(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        values = np.empty(len(t))
        values[0] = rng.normal(0, size)
        for i, gap in enumerate(np.diff(t), start=1):
            keeps = math.exp(-max(gap, 0.0) / days)
            values[i] = keeps * values[i - 1] + size * math.sqrt(1 - keeps**2) * rng.normal()
        return values

    return draw


def remembers(phi: float) -> Truth:
    """Each result remembers the one before, however long ago."""

    def draw(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        values = np.zeros(len(t))
        for i in range(1, len(t)):
            values[i] = phi * values[i - 1] + math.sqrt(1 - phi**2) * rng.normal()
        return 2 * values

    return draw


def walk(size: float) -> Truth:
    """A walk in time: its variance grows by so much a day."""
    return lambda t, rng: np.cumsum(rng.normal(0, 1, len(t)) * size * np.sqrt(np.maximum(np.diff(t, prepend=t[0]), 0)))


def cycle(days: float, size: float) -> Truth:
    """A sine of any phase."""
    return lambda t, rng: size * np.sin(2 * np.pi * (t / days + rng.random()))


def office_hours(size: float) -> Truth:
    """Lower from nine to five."""
    return lambda t, rng: -size * ((t % 1 > 9 / 24) & (t % 1 < 17 / 24))


def weekend(size: float) -> Truth:
    """Higher on Saturday and Sunday."""
    return lambda t, rng: size * (np.floor(t) % 7 >= 5)


def line(size: float) -> Truth:
    """A drift in time, up or down."""
    return lambda t, rng: size * float(rng.choice([-1, 1])) * (t - t[0]) / (t[-1] - t[0])


def step(size: float, share: float = 0.55) -> Truth:
    """A step among the results."""
    return lambda t, rng: size * (np.arange(len(t)) >= int(share * len(t)))


def louder_days(size: float) -> Truth:
    """Noise that is louder from nine to five, about the same level."""
    return lambda t, rng: size * rng.standard_normal(len(t)) * ((t % 1 > 9 / 24) & (t % 1 < 17 / 24))


def heavy(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise with heavy tails."""
    return rng.standard_t(3, len(t))


def outliers(share: float, size: float) -> Truth:
    """Lone results far off."""
    return lambda t, rng: size * (rng.random(len(t)) < share)


def plus(*parts: Truth) -> Truth:
    """Their sum."""
    return lambda t, rng: np.sum([part(t, rng) for part in parts], axis=0)


NO_SEASON: tuple[tuple[str, Moments, Truth], ...] = (
    ("noise, four a day", spread(60, 4), white),
    ("noise, hourly", hourly(14), white),
    ("noise, nightly", nightly(90), white),
    ("noise, weekdays", weekdays(16), white),
    ("noise in bursts", bursts(10, 12, 20), white),
    ("noise, thirty results", spread(30, 1), white),
    ("AR(0.7), nightly", nightly(120), remembers(0.7)),
    ("AR(0.9), hourly", hourly(14), remembers(0.9)),
    ("AR(0.5), four a day", spread(60, 4), remembers(0.5)),
    ("forgotten in six hours", spread(60, 4), forgetful(0.25, 3)),
    ("forgotten in a day", spread(60, 4), forgetful(1, 3)),
    ("forgotten in three days, hourly", hourly(14), forgetful(3, 3)),
    ("forgotten in five days, nightly", nightly(120), forgetful(5, 3)),
    ("a walk, four a day", spread(60, 4), walk(1)),
    ("a step, four a day", spread(60, 4), step(6)),
    ("two steps, nightly", nightly(120), plus(step(6, 0.3), step(-6, 0.7))),
    ("a drift, four a day", spread(60, 4), line(8)),
    ("a cycle of 30 hours", spread(60, 4), cycle(30 / 24, 3)),
    ("a cycle of 19 hours", spread(60, 4), cycle(19 / 24, 3)),
    ("a cycle of ten days, nightly", nightly(120), cycle(10, 3)),
    ("a cycle of five days, nightly", nightly(120), cycle(5, 3)),
    ("a cycle of 20 days", spread(60, 4), cycle(20, 4)),
    ("outliers, four a day", spread(60, 4), outliers(0.03, 20)),
    ("outliers, nightly", nightly(90), outliers(0.03, 20)),
    ("heavy tails, four a day", spread(60, 4), heavy),
    ("louder from nine to five", spread(60, 4), louder_days(3)),
    ("AR(0.95), nightly", nightly(200), remembers(0.95)),
    ("a walk, hourly", hourly(14), walk(3)),
    ("a wave a day where weekends are measured at another hour", by_shift(16), cycle(1, 3)),
)

SEASONAL: tuple[tuple[str, Moments, Truth, SeasonKind], ...] = (
    ("a wave a day, four a day", spread(60, 4), cycle(1, 2), SeasonKind.HOUR_OF_DAY),
    ("a wave a day, hourly", hourly(14), cycle(1, 2), SeasonKind.HOUR_OF_DAY),
    ("office hours, four a day", spread(60, 4), office_hours(3), SeasonKind.HOUR_OF_DAY),
    ("a wave a day in bursts", bursts(10, 12, 20), cycle(1, 3), SeasonKind.HOUR_OF_DAY),
    ("a wave a day and a step", spread(60, 4), plus(cycle(1, 2), step(6)), SeasonKind.HOUR_OF_DAY),
    ("a wave a day and a drift", spread(60, 4), plus(cycle(1, 2), line(8)), SeasonKind.HOUR_OF_DAY),
    ("a wave a day and outliers", spread(60, 4), plus(cycle(1, 2), outliers(0.03, 20)), SeasonKind.HOUR_OF_DAY),
    ("a wave a day in slow noise", spread(60, 4), plus(cycle(1, 3), forgetful(3, 2)), SeasonKind.HOUR_OF_DAY),
    ("weekends, nightly", nightly(120), weekend(3), SeasonKind.DAY_OF_WEEK),
    ("weekends in slow noise, nightly", nightly(120), plus(weekend(4), forgetful(10, 2)), SeasonKind.DAY_OF_WEEK),
    ("weekends and a step, nightly", nightly(120), plus(weekend(3), step(6)), SeasonKind.DAY_OF_WEEK),
    ("weekends, four a day", spread(60, 4), weekend(3), SeasonKind.DAY_OF_WEEK),
)

NOTHING: tuple[tuple[str, Moments, Truth], ...] = (
    ("twelve results of a wave a day", spread(6, 2), cycle(1, 4)),
    ("three weeks of weekends", nightly(21), weekend(4)),
    ("fifteen results with a step", nightly(15), step(8)),
    ("noise, four a day", spread(60, 4), white),
    ("noise, nightly", nightly(90), white),
    ("outliers, nightly", nightly(90), outliers(0.03, 20)),
)

UNEQUAL: tuple[tuple[str, Moments, Truth, str], ...] = (
    ("a drift in bursts, three weeks apart", bursts(8, 12, 21), line(12), "drift"),
    ("a drift in bursts, five of them", bursts(5, 16, 30), line(12), "drift"),
    ("a drift, dense at first", lambda rng: np.sort(100 * rng.random(150) ** 3), line(10), "drift"),
    ("a step within a burst", bursts(6, 24, 21), step(6, 0.4), "step"),
    ("a step, at random moments", lambda rng: np.sort(100 * rng.random(120) ** 2), step(5), "step"),
)


def history(moments: np.ndarray, values: np.ndarray) -> History:
    """A history of throughputs at these moments."""
    points = [
        HistoryPoint.model_construct(
            result_id=f"{i:064d}",
            started_at=datetime.fromtimestamp(MONDAY + 86_400 * day, UTC).isoformat(),
            executor_id="a",
            instance_id="",
            layer_ids={Layer.SYSTEM: "a"},
            weights=None,
            run_means=(),
            estimate=100 * math.exp(SIGMA * value),
            low=None,
            high=None,
            unit="items/s",
            doubtful=False,
        )
        for i, (day, value) in enumerate(zip(moments, values, strict=True))
    ]
    return read_history(points, contract_id="", contract="", precision=Precision.FP32)


def words_of(moments: Moments, truth: Truth, rng: np.random.Generator) -> set[str]:
    """What is said of one drawn history."""
    at = moments(rng)
    return set(history(at, truth(at, rng) + rng.standard_normal(len(at))).words)


def promises(seed: int, runs: int) -> Iterator[Promise]:
    """Seasons that are none, seasons that are some, nothing where there is nothing, and unequal spacing."""
    histories = max(20, runs // 4)
    for number, (name, moments, truth) in enumerate(NO_SEASON):
        rng = np.random.default_rng([seed, 1, number])
        share = float(np.mean([bool(words_of(moments, truth, rng) & SEASONS) for _ in range(histories)]))
        words = f"called seasonal in at most {FALSE_SEASON:.0%}"
        yield Promise(f"no season, {name}", words, share, FALSE_SEASON, rare_enough(share, histories, FALSE_SEASON))
    for number, (name, moments, truth, kind) in enumerate(SEASONAL):
        rng = np.random.default_rng([seed, 2, number])
        said = [words_of(moments, truth, rng) for _ in range(histories)]
        share = float(np.mean([each & SEASONS == {kind.value} for each in said]))
        words = f"called seasonal by {kind.value}, and by nothing else, in {FOUND:.0%} or more"
        yield Promise(f"season, {name}", words, share, FOUND, usual_enough(share, histories, FOUND))
        if "step" in name:
            share = float(np.mean(["step" in each for each in said]))
            words = f"the step is found beside it in {FOUND:.0%} or more"
            yield Promise(f"season, {name}", words, share, FOUND, usual_enough(share, histories, FOUND))
        elif "noise" not in name:
            share = float(np.mean(["step" in each for each in said]))
            bound = HALF if "drift" in name else FALSE_STEP  # only that it is told apart more often than not
            words = f"called a step in at most {bound:.0%}"
            yield Promise(f"season, {name}", words, share, bound, rare_enough(share, histories, bound))
    for number, (name, moments, truth) in enumerate(NOTHING):
        rng = np.random.default_rng([seed, 3, number])
        share = float(np.mean([not words_of(moments, truth, rng) for _ in range(histories)]))
        words = f"nothing is said in {FOUND:.0%} or more"
        yield Promise(f"nothing, {name}", words, share, FOUND, usual_enough(share, histories, FOUND))
    for number, (name, moments, truth, word) in enumerate(UNEQUAL):
        rng = np.random.default_rng([seed, 4, number])
        said = [words_of(moments, truth, rng) for _ in range(histories)]
        share = float(np.mean([word in each and not ({"step", "drift"} - {word}) & each for each in said]))
        bound = HALF if "dense" in name else FOUND  # only that it is told apart more often than not
        words = f"called a {word}, and not the other, in {bound:.0%} or more"
        yield Promise(f"unequal, {name}", words, share, bound, usual_enough(share, histories, bound))
