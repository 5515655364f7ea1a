"""Searches for the best setting under noise: by a model of the landscape, by halving, by Optuna's TPE. No I/O.

All of them ask for one setting at a time and are told one fresh process's response, as a logarithm that is to become
large; a setting that failed, or that the accuracy gate refused, is told as None. One history gives one answer.
A format of numbers that the gate refused by far is not given up: its other settings are asked for after all others.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, product
from typing import Protocol

import numpy as np

from lynxbench.errors import CannotRun
from lynxbench.model.fields import Scalar
from lynxbench.stats.arrays import Floats
from lynxbench.stats.surrogate import Landscape, Parameters

Point = tuple[int, ...]
"""The position of each knob's value."""

MOST_POINTS = 20_000
"""Settings that the model looks at for every question; of a larger grid, a random part."""
RESERVE = 0.2
"""Of the trials, kept for measuring the leading settings again: one fresh process is luck."""
REFIT_EVERY = 4
FINALISTS = 3
NEIGHBOUR = 0.35
"""Distance, in ranges of knobs, over which a failure says something about others."""
FORMAT_KNOBS = ("workload.precision", "workload.precisions", "engine.kv_cache")
"""Knobs that name how numbers are held: what they lose is mostly their own. Of other knobs nobody can say that."""
ASKED_AGAIN = 20
"""How often TPE is asked for another setting where it names one that is to come last."""
HALVING_KEEP = 3
"""Successive halving keeps the best third (Li et al., Hyperband, 2018)."""


class Method(StrEnum):
    """How the next setting is chosen."""

    MODEL = "model"
    HALVING = "halving"
    TPE = "tpe"


@dataclass(frozen=True, slots=True)
class Space:
    """The knobs with their values; a knob is ordered where all of its values are numbers."""

    names: tuple[str, ...]
    values: tuple[tuple[Scalar, ...], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each knob."""
        return tuple(len(values) for values in self.values)

    @property
    def settings(self) -> int:
        """Of the whole grid."""
        return math.prod(self.sizes)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether neighbours are alike."""
        return tuple(all(_is_number(value) for value in values) for values in self.values)

    def at(self, point: Point) -> dict[str, Scalar]:
        """The setting of a point."""
        return {name: values[i] for name, values, i in zip(self.names, self.values, point, strict=True)}


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """One trial: a point, and its log response; None where it failed or was refused."""

    point: Point
    value: float | None
    far: bool = False
    """Whether the accuracy gate refused it with a loss far above what the contract allows."""


class Search(Protocol):
    """Asks for settings until the trials are used up."""

    def ask(self, history: Sequence[TrialOutcome], left: int) -> Point:
        """The next setting to try, with so many trials left including it."""

    def choose(self, history: Sequence[TrialOutcome]) -> Point | None:
        """The setting to confirm; None where nothing passed."""


def search_of(method: Method, space: Space, seed: int) -> Search:
    """A search by name; CannotRun where Optuna is asked for and not installed."""
    makers: dict[Method, Callable[[Space, int], Search]] = {
        Method.MODEL: ModelSearch,
        Method.HALVING: HalvingSearch,
        Method.TPE: TpeSearch,
    }
    return makers[method](space, seed)


def _passed(history: Sequence[TrialOutcome]) -> dict[Point, list[float]]:
    """Responses by setting, of those that never failed and that the gate never refused."""
    refused = {trial.point for trial in history if trial.value is None}
    values: dict[Point, list[float]] = {}
    for trial in history:
        if trial.value is not None and trial.point not in refused:
            values.setdefault(trial.point, []).append(trial.value)
    return values


def hopeless(space: Space, history: Sequence[TrialOutcome]) -> Callable[[Point], bool]:
    """Whether a setting's format of numbers was refused by far wherever it was tried: it comes last, and not never.

    Two settings at least, that differ in every other knob: else one broken value of another knob would be the format's
    fault. A format that passed once is free again. Whether the gate would refuse a further setting is not known.
    """
    wide = [knob for knob, size in enumerate(space.sizes) if size > 1]
    bad = set[tuple[int, int]]()
    for knob in (at for at, name in enumerate(space.names) if name in FORMAT_KNOBS):
        others = [other for other in wide if other != knob]
        passed = {trial.point[knob] for trial in history if trial.value is not None}
        far = {trial.point for trial in history if trial.far and trial.point[knob] not in passed}
        for one, another in combinations(sorted(far), 2):
            if others and one[knob] == another[knob] and all(one[other] != another[other] for other in others):
                bad.add((knob, one[knob]))
    return lambda point: any(point[knob] == value for knob, value in bad)


def _ranked(passed: Mapping[Point, Sequence[float]], points: Iterable[Point]) -> list[Point]:
    """Those of the settings that passed, by their mean, the best first."""
    return sorted((p for p in points if p in passed), key=lambda point: -sum(passed[point]) / len(passed[point]))


def shrunken_best(history: Sequence[TrialOutcome]) -> Point | None:
    """The point whose mean, drawn towards the mean of all by how seldom it was measured, is highest."""
    passed = _passed(history)
    if not passed:
        return None
    means = {point: sum(values) / len(values) for point, values in passed.items()}
    middle = sum(means.values()) / len(means)
    again = {point: values for point, values in passed.items() if len(values) > 1}
    within = [(value - means[point]) ** 2 for point, values in again.items() for value in values]
    noise = sum(within) / max(1, len(within) - len(again)) if within else 0.0
    between = max(sum((mean - middle) ** 2 for mean in means.values()) / max(1, len(means) - 1) - noise, 1e-12)

    def believed(point: Point) -> float:
        weight = between / (between + noise / len(passed[point]))
        return middle + weight * (means[point] - middle)

    return max(passed, key=believed)


class ModelSearch:
    """A Gaussian process over the grid; looks where improvement is expected, and measures the leaders again."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed
        self._grid = self._candidates()
        self._parameters: Parameters | None = None
        self._fitted_at = 0

    def ask(self, history: Sequence[TrialOutcome], left: int) -> Point:
        """First a spread over the grid, then where it is worth most, then the leaders once more."""
        total = len(history) + left
        first = min(max(len(self._space.names) + 3, 6), max(2, total // 3))
        known = [trial for trial in history if trial.value is not None]
        if len(history) < first or len(known) < 3:
            return self._spread(history)
        landscape = self._landscape(known)
        # What was measured is left to the end: every further look at a leader now is a setting that nobody ever sees.
        tried = {trial.point for trial in history}
        untried = self._first(self._grid[[_point(row) not in tried for row in self._grid]], history)
        if left <= max(FINALISTS, round(RESERVE * total)) or not len(untried):
            return self._again(history, landscape)
        worth = landscape.worth(untried) * self._can_run(untried, history)
        return _point(untried[int(np.argmax(worth))])

    def choose(self, history: Sequence[TrialOutcome]) -> Point | None:
        """The measured setting that is believed to be best."""
        known = [trial for trial in history if trial.value is not None]
        if len({trial.point for trial in known}) < 3:
            return shrunken_best(history)
        landscape = self._landscape(known, anew=True)
        points = sorted(_passed(history))
        if not points:
            return None
        mean, _ = landscape.believed(np.array(points, dtype=np.float64))
        return points[int(np.argmax(mean))]

    def _apart(self, points: Floats, tried: Sequence[TrialOutcome]) -> Floats:
        """How far points are from those that were tried, in ranges of knobs."""
        sizes = np.array([max(size - 1, 1) for size in self._space.sizes])
        apart = np.abs(points[:, None, :] - np.array([trial.point for trial in tried], dtype=np.float64)[None, :, :])
        return np.asarray(np.where(np.array(self._space.ordered), apart / sizes, apart > 0).sum(axis=2))

    def _can_run(self, points: Floats, history: Sequence[TrialOutcome]) -> Floats:
        """How likely settings are to run at all, by how their neighbours fared."""
        ran = np.array([trial.value is not None for trial in history], dtype=np.float64)
        if ran.all():
            return np.ones(len(points))
        near = np.exp(-((self._apart(points, history) / NEIGHBOUR) ** 2))
        return np.asarray((near @ ran + 0.5) / (near.sum(axis=1) + 0.5))

    def _again(self, history: Sequence[TrialOutcome], landscape: Landscape) -> Point:
        passed = _passed(history)
        points = sorted(passed)
        if not points:
            return self._spread([trial for trial in history if trial.value is not None])
        mean, deviation = landscape.believed(np.array(points, dtype=np.float64))
        leaders = np.argsort(-(mean + 0.5 * deviation))[:FINALISTS]
        return min((points[int(i)] for i in leaders), key=lambda point: len(passed[point]))

    def _landscape(self, known: Sequence[TrialOutcome], *, anew: bool = False) -> Landscape:
        points = np.array([trial.point for trial in known], dtype=np.float64)
        values = np.array([trial.value for trial in known], dtype=np.float64)
        stale = anew or self._parameters is None or len(known) >= self._fitted_at + REFIT_EVERY
        given = None if stale else self._parameters
        landscape = Landscape(self._space.ordered, self._space.sizes, points, values, given)
        if stale:
            self._parameters, self._fitted_at = landscape.parameters, len(known)
        return landscape

    def _first(self, points: Floats, history: Sequence[TrialOutcome]) -> Floats:
        """Those that do not come last, as long as there are any."""
        if not any(trial.far for trial in history):
            return points
        last = hopeless(self._space, history)
        before = points[[not last(_point(row)) for row in points]]
        return before if len(before) else points

    def _spread(self, history: Sequence[TrialOutcome]) -> Point:
        """The candidate that is furthest from what was tried; ties fall by the seed."""
        points = self._grid[np.random.default_rng(self._seed + len(history)).permutation(len(self._grid))]
        if not history:
            return _point(points[0])
        nearest = self._apart(points, history).min(axis=1)
        untried = points[nearest > 0]
        if len(untried):
            points = self._first(untried, history)
            nearest = self._apart(points, history).min(axis=1)
        return _point(points[int(np.argmax(nearest))])

    def _candidates(self) -> Floats:
        if self._space.settings <= MOST_POINTS:
            every = product(*(range(size) for size in self._space.sizes))
            return np.array(list(every), dtype=np.float64)
        generator = np.random.default_rng(self._seed)
        drawn = [generator.integers(0, size, MOST_POINTS) for size in self._space.sizes]
        return np.unique(np.stack(drawn, axis=1), axis=0).astype(np.float64)


def _point(row: Floats) -> Point:
    return tuple(int(x) for x in row)


class HalvingSearch:
    """Many settings once, the best third of them again, and so on: what leads is measured most."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._seed = space, seed

    def ask(self, history: Sequence[TrialOutcome], left: int) -> Point:
        """The next setting of the rung that is not complete."""
        rungs = self._rungs(len(history) + left)
        order = self._order(rungs[0])
        done = list(history)
        first = len(order[: rungs[0]])
        if len(done) < first:
            return self._next(order, done)
        taken = first
        members = list(dict.fromkeys(trial.point for trial in done[:first]))
        for size in rungs[1:]:
            members = _ranked(_passed(done[:taken]), members)[:size]
            if not members:
                break
            if len(done) < taken + len(members):
                return members[len(done) - taken]
            taken += len(members)
        return self.choose(history) or order[0]

    def choose(self, history: Sequence[TrialOutcome]) -> Point | None:
        """The best mean, drawn in by how seldom it was measured."""
        return shrunken_best(history)

    def _next(self, order: Sequence[Point], done: Sequence[TrialOutcome]) -> Point:
        """Of the first rung, the next in order; what is to come last gives way to others while there are any."""
        tried, last = {trial.point for trial in done}, hopeless(self._space, done)
        untried = [point for point in order if point not in tried]
        return next((point for point in untried if not last(point)), untried[0])

    def _rungs(self, total: int) -> list[int]:
        """Sizes n, n/3, n/9 … down to one, with n as large as the trials allow."""
        size = min(self._space.settings, total)
        while size > 1 and sum(self._ladder(size)) > total:
            size -= 1
        return self._ladder(size)

    @staticmethod
    def _ladder(size: int) -> list[int]:
        rungs = [size]
        while rungs[-1] > 1:
            rungs.append(max(1, rungs[-1] // HALVING_KEEP))
        return rungs

    def _order(self, size: int) -> list[Point]:
        generator = np.random.default_rng(self._seed)
        if self._space.settings <= MOST_POINTS:
            chosen = generator.permutation(self._space.settings)
            return [tuple(row) for row in np.stack(np.unravel_index(chosen, self._space.sizes), axis=1).tolist()]
        drawn = [tuple(int(generator.integers(0, s)) for s in self._space.sizes) for _ in range(4 * size)]
        return list(dict.fromkeys(drawn))


class TpeSearch:
    """Optuna's tree-structured Parzen estimator, asked and told; the choice is ours, since one trial is luck."""

    def __init__(self, space: Space, seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise CannotRun(
                "search tpe needs Optuna: pip install 'lynxbench[tune]', or use model or halving"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna, self._space, self._seed = optuna, space, seed

    def ask(self, history: Sequence[TrialOutcome], left: int) -> Point:
        """Replay the history into a study of the same seed, and ask it; the last trials go to the leaders."""
        total = len(history) + left
        if left <= max(FINALISTS, round(RESERVE * total)):
            passed = _passed(history)
            leaders = _ranked(passed, passed)[:FINALISTS]
            if leaders:
                return min(leaders, key=lambda point: len(passed[point]))
        optuna = self._optuna
        study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(seed=self._seed + len(history), constant_liar=False),
        )
        spread = {
            name: optuna.distributions.CategoricalDistribution(list(range(size)))
            for name, size in zip(self._space.names, self._space.sizes, strict=True)
        }
        worst = min((trial.value for trial in history if trial.value is not None), default=0.0)
        for outcome in history:
            value = worst - 1.0 if outcome.value is None else outcome.value
            given = dict(zip(self._space.names, outcome.point, strict=True))
            study.add_trial(optuna.trial.create_trial(params=given, distributions=spread, value=value))
        last = hopeless(self._space, history)
        for _ in range(ASKED_AGAIN):
            trial = study.ask(spread)
            point = tuple(int(trial.params[name]) for name in self._space.names)
            if not last(point):
                break
        return point

    def choose(self, history: Sequence[TrialOutcome]) -> Point | None:
        """The best mean, drawn in by how seldom it was measured."""
        return shrunken_best(history)
