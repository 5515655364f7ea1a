"""A model of a noisy landscape over a grid of settings: which setting is best, and where to look next. Pure.

A Gaussian process on log response (Rasmussen and Williams, 2006) whose covariance adds what each knob does alone to
what they do in pairs and together: most landscapes are nearly additive, and those that are not must not be missed. Its
parameters are those of highest marginal likelihood. Where to look next is augmented expected improvement (Huang, Allen,
Notz and Zeng, 2006): a setting that was measured already is worth less another time, but may be worth it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lynxbench.stats.arrays import Floats

LENGTHS = (0.15, 0.4, 1.0, 2.5, 8.0)
"""Of a knob, in units of its whole range; the last means that it hardly matters."""
SHARES = ((0.9, 0.1), (0.6, 0.35), (0.4, 0.55), (0.2, 0.4), (0.1, 0.1))
"""Of the variance: what knobs do each on their own, and in pairs; the rest is what all do together."""
NOISES = (1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
"""Variance between repetitions over the variance between settings."""
SWEEPS = 2


@dataclass(frozen=True, slots=True)
class Parameters:
    """What the covariance is made of."""

    lengths: tuple[float, ...]
    shares: tuple[float, float]
    noise: float


class Landscape:
    """What is believed about every setting after some measurements."""

    def __init__(
        self,
        ordered: Sequence[bool],
        sizes: Sequence[int],
        points: Floats,
        values: Floats,
        parameters: Parameters | None = None,
    ) -> None:
        self._ordered, self._sizes = tuple(ordered), tuple(sizes)
        self._points = points
        self.centre, self._scale = float(values.mean()), float(values.std()) or 1.0
        self._values = (values - self.centre) / self._scale
        self.parameters = parameters or self._fitted()
        self._solve()

    def believed(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the noise-free response at settings."""
        cross = self._covariance(points, self._points, self.parameters)
        mean = self._level + cross @ self._weights
        solved = np.linalg.solve(self._lower, cross.T)
        variance = np.maximum(1.0 - (solved**2).sum(axis=0), 1e-12)
        return self.centre + self._scale * mean, self._scale * np.sqrt(variance)

    def worth(self, points: Floats) -> Floats:
        """Augmented expected improvement over the best setting that was measured."""
        from scipy.special import ndtr

        measured, _ = self.believed(self._points)
        best = float(measured.max())
        mean, deviation = self.believed(points)
        gap = (mean - best) / deviation
        density = np.exp(-(gap**2) / 2) / math.sqrt(2 * math.pi)
        improvement = deviation * (gap * ndtr(gap) + density)
        noise = self._scale * math.sqrt(self.parameters.noise)
        return np.asarray(improvement * (1 - noise / np.sqrt(deviation**2 + noise**2)))

    def _solve(self) -> None:
        noisy = self._noisy(self.parameters)
        self._lower = np.linalg.cholesky(noisy)
        ones = self._twice(np.ones(len(self._values)))
        self._level = float(ones @ self._values) / float(ones.sum())
        self._weights = self._twice(self._values - self._level)

    def _twice(self, right: Floats) -> Floats:
        return np.linalg.solve(self._lower.T, np.linalg.solve(self._lower, right))

    def _noisy(self, parameters: Parameters) -> Floats:
        covariance = self._covariance(self._points, self._points, parameters)
        return np.asarray(covariance + (parameters.noise + 1e-9) * np.eye(len(self._values)))

    def _covariance(self, a: Floats, b: Floats, parameters: Parameters) -> Floats:
        alone = np.zeros((len(a), len(b)))
        squares = np.zeros((len(a), len(b)))
        together = np.ones((len(a), len(b)))
        for column, (ordered, size) in enumerate(zip(self._ordered, self._sizes, strict=True)):
            apart = np.abs(a[:, column][:, None] - b[:, column][None, :])
            apart = apart / max(size - 1, 1) if ordered else (apart > 0).astype(float)
            reach = math.sqrt(3) * apart / parameters.lengths[column]
            part = (1 + reach) * np.exp(-reach)  # Matérn 3/2
            alone += part
            squares += part**2
            together *= part
        count = len(self._sizes)
        on_own, in_pairs = parameters.shares
        mixed = on_own * alone / count + (1 - on_own - in_pairs) * together
        if count < 2:
            return np.asarray(mixed + in_pairs * together)
        pairs = (alone**2 - squares) / (count * (count - 1))  # mean over pairs of the product of their parts
        return np.asarray(mixed + in_pairs * pairs)

    def _fitted(self) -> Parameters:
        best = Parameters((1.0,) * len(self._sizes), SHARES[1], 0.03)
        highest = self._likelihood(best)
        for _ in range(SWEEPS):
            for part in range(len(self._sizes) + 2):
                for option in self._neighbours(best, part):
                    likelihood = self._likelihood(option)
                    if likelihood > highest + 1e-9:
                        best, highest = option, likelihood
        return best

    def _neighbours(self, at: Parameters, part: int) -> list[Parameters]:
        """The same parameters with one of them changed: noise, shares, or one knob's length."""
        if part == 0:
            return [Parameters(at.lengths, at.shares, noise) for noise in NOISES]
        if part == 1:
            return [Parameters(at.lengths, shares, at.noise) for shares in SHARES]
        column = part - 2
        changed = [(*at.lengths[:column], length, *at.lengths[column + 1 :]) for length in LENGTHS]
        return [Parameters(lengths, at.shares, at.noise) for lengths in changed]

    def _likelihood(self, parameters: Parameters) -> float:
        try:
            lower = np.linalg.cholesky(self._noisy(parameters))
        except np.linalg.LinAlgError:
            return -math.inf
        ones, values = np.ones(len(self._values)), self._values
        half_ones, half = np.linalg.solve(lower, ones), np.linalg.solve(lower, values)
        level = float(half_ones @ half) / float(half_ones @ half_ones)
        rest = half - level * half_ones
        count = len(values)
        variance = float(rest @ rest) / count
        # The overall variance is profiled out; a weak prior keeps knobs from being called irrelevant too early.
        prior = -0.05 * sum(math.log(length) ** 2 for length in parameters.lengths)
        return -0.5 * count * math.log(max(variance, 1e-12)) - float(np.log(np.diag(lower)).sum()) + prior
