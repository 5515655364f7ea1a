"""Steps held against what else can move a history: a line or slow curve, noise that remembers, a random walk.

The noise is an AR(1) under white noise, and at its end a random walk under white noise, in its innovations:
x_t = φ x_{t-1} + e_t - θ e_{t-1} with 0 <= θ <= φ <= 1. Steps and curve are regressors beside it (Box & Tiao 1975).
Noise and curve are chosen by their likelihood less a price (Schwarz 1978), once with all steps and once with none. The
steps stay if they gain enough together; then each that gains next to nothing beside the others is dropped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.history import Motion
from lynxbench.stats.arrays import Floats
from lynxbench.stats.factorial import ContrastEstimate

STEP_GAIN = 8.0  # -2 ln likelihood a step, all together: below it a slope, a slow cycle or a walk is as good an account
LEAST_GAIN = 3.0  # of a single step beside all the others
SURE = 0.01  # chance of a line where there is none: the price alone is lenient in short histories
LINE_COST = 1.5  # × ln n
CURVE_COST = 1.0  # for each column beyond the line
NOISE_COST = 1.0  # for each of φ and θ that is fitted
STEADY = [(phi, share * phi) for phi in (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95) for share in (0.0, 0.3, 0.6, 0.8)]
WALKS = [(1.0, theta) for theta in (0.0, 0.3, 0.5, 0.7, 0.8, 0.87, 0.92, 0.95, 0.97)]
NOISES = ((0.0, 0.0), *STEADY, *WALKS)
CURVES = (0, 1, 3, 5, 7)  # columns of a curve: none, a line, up to its cube, with one wave, with one and two waves
LEAST_SIGMA = 1e-6  # of the history's range: one without any noise still needs a scale
ROUNDING = 1e-12  # of the squares: what arithmetic leaves of none; of models that fit exactly the plainest stays
START = (0, 1)  # the first value and the level after it: whatever the noise was before the history, it is not judged
NormalEquations = tuple[npt.NDArray[np.float64], Floats, float]
VARIANTS = [(phi, theta, curve) for curve in CURVES for phi, theta in NOISES]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps that are left, the noise beside which they were judged, and how many columns of a curve run through."""

    values: Floats
    places: tuple[int, ...]
    phi: float
    theta: float
    curve: int
    slope: ContrastEstimate
    """Change of a line from end to end, over all kinds of noise by their weight."""

    @property
    def motion(self) -> Motion:
        """A curve that surely leads up or down is a drift; any other curve and a random walk are wandering."""
        if self.curve and self.slope.p < SURE:
            return Motion.DRIFT
        return Motion.WANDERING if self.curve > 1 or self.phi == 1 else Motion.LEVELS

    def step(self, place: int) -> ContrastEstimate:
        """The step at a place beside all else; unknown at the very start."""
        if place in START:
            return ContrastEstimate(math.nan, math.nan, 0.0)
        places = sorted({*self.places, place})
        gram, moments, power = _normal_equations(self.values, [*START, *places], self.phi, self.theta)
        used = len(START) + len(places) + self.curve
        gram, moments = gram[:used, :used], moments[:used]
        inverse = np.linalg.inv(gram)
        sizes = inverse @ moments
        at, degrees = len(START) + places.index(place), max(self.values.size - used, 1)
        error = math.sqrt(max(power - float(moments @ sizes), 0.0) / degrees * float(inverse[at, at]))
        return ContrastEstimate(float(sizes[at]), error, float(degrees))


def explain(values: Floats, places: Sequence[int]) -> Explanation:
    """Which of the steps stay beside noise and curve."""
    fits = [_normal_equations(values, [*START, *places], phi, theta) for phi, theta in NOISES]
    models, alone = _Models(values.size, fits, len(places)), _Models(values.size, fits, 0)
    alive = list(range(len(START), len(START) + len(places)))
    if alone.least() - models.least() < STEP_GAIN * len(alive):
        models, alive = alone, []
    while alive:
        without = models.scores(models.rest[:, None] + models.gain(alive)).min(axis=0)
        if without.min() - LEAST_GAIN > models.least():
            break
        dropped = alive[int(np.argmin(without))]
        models.drop(dropped)
        alive.remove(dropped)
    phi, theta, curve = VARIANTS[int(np.argmin(models.scores(models.rest)))]
    steps = tuple(places[at - len(START)] for at in alive)
    return Explanation(values, steps, phi, theta, curve, models.slope(len(alive)))


class _Models:
    """Every noise with every curve: least squares of all regressors that are still in."""

    def __init__(self, count: int, fits: Sequence[NormalEquations], steps: int) -> None:
        self._count = count
        self._line = len(START) + steps
        width = self._line + CURVES[-1]
        self._inverse = np.zeros((len(VARIANTS), width, width))
        self._sizes = np.zeros((len(VARIANTS), width))
        within = [*range(self._line), *range(-CURVES[-1], 0)]  # of all steps the first, and the curve
        grams = np.stack([gram[np.ix_(within, within)] for gram, _, _ in fits])
        moments = np.stack([on[within] for _, on, _ in fits])
        powers = np.tile([power for _, _, power in fits], len(CURVES))
        self.rest = powers.copy()
        for order, curve in enumerate(CURVES):
            own, used = slice(order * len(NOISES), (order + 1) * len(NOISES)), self._line + curve
            self._inverse[own, :used, :used] = np.linalg.inv(grams[:, :used, :used])
            self._sizes[own, :used] = np.einsum("mij,mj->mi", self._inverse[own, :used, :used], moments[:, :used])
            self.rest[own] -= np.einsum("mi,mi->m", moments[:, :used], self._sizes[own, :used])
        self.rest[self.rest < ROUNDING * powers] = 0.0
        costs = [
            NOISE_COST * ((0 < phi < 1) + (theta > 0)) + LINE_COST * (curve > 0) + CURVE_COST * max(curve - 1, 0)
            for phi, theta, curve in VARIANTS
        ]
        # Short histories fit anything: the price rises as values run out (Hurvich & Tsai 1989).
        spare = np.array([max(count - self._line - curve - 2, 1) for _, _, curve in VARIANTS])
        self._cost = np.array(costs) * math.log(count) * count / spare

    def least(self) -> float:
        """The score of the best model."""
        return float(self.scores(self.rest).min())

    def scores(self, rest: Floats) -> Floats:
        """-2 ln likelihood and the price of noise and curve, for each model."""
        logs = self._count * np.log(rest + self._count * LEAST_SIGMA**2)
        return np.asarray(logs + (self._cost if rest.ndim == 1 else self._cost[:, None]), dtype=np.float64)

    def gain(self, which: Sequence[int]) -> Floats:
        """What each regressor takes off the squares of each model."""
        return np.asarray(self._sizes[:, which] ** 2 / self._inverse[:, which, which], dtype=np.float64)

    def drop(self, which: int) -> None:
        """Take a regressor out of the models: the sweep of its row."""
        column, size = self._inverse[:, :, which].copy(), self._sizes[:, which].copy()
        pivot = column[:, which].copy()
        self.rest += size**2 / pivot
        self._sizes -= column * (size / pivot)[:, None]
        self._inverse -= column[:, :, None] * column[:, None, :] / pivot[:, None, None]

    def slope(self, steps: int) -> ContrastEstimate:
        """The line from end to end: its mean over all noises by their weight, what they disagree on in its error."""
        lined, degrees = slice(len(NOISES), 2 * len(NOISES)), max(self._count - len(START) - steps - 1, 1)
        scores = (self.scores(self.rest) - self._cost)[lined]  # without the price, which leans to noise without memory
        weights = np.exp((scores.min() - scores) / 2)
        weights /= weights.sum()
        sizes = self._sizes[lined, self._line]
        mean = float(weights @ sizes)
        within = self._inverse[lined, self._line, self._line] * self.rest[lined] / degrees
        return ContrastEstimate(mean, math.sqrt(float(weights @ (within + (sizes - mean) ** 2))), float(degrees))


def _normal_equations(values: Floats, starts: Sequence[int], phi: float, theta: float) -> NormalEquations:
    """X'X, X'y and y'y of steps that begin at `starts` and of the widest curve, all as innovations of this noise.

    A step's innovations are 1 at its start and fall to (1-φ)/(1-θ) as θ^k: sums over them need no matrix of steps.
    """
    from scipy.signal import lfilter

    count, at = values.size, np.asarray(starts)
    line = np.linspace(-0.5, 0.5, count)
    waves = (turn(2 * np.pi * wave * line) for wave in (1, 2) for turn in (np.cos, np.sin))
    white = lfilter([1.0, -phi], [1.0, -theta], np.stack([line, line**2, line**3, *waves, values]))
    lasting, fading = (1 - phi) / (1 - theta), (phi - theta) / (1 - theta)
    tails = np.cumsum(white[:, ::-1], axis=1)[:, ::-1]
    faded = lfilter([1.0], [1.0, -theta], white[:, ::-1])[:, ::-1]
    across = lasting * tails[:, at] + fading * faded[:, at]
    left = count - np.maximum.outer(at, at)
    apart = theta ** np.abs(np.subtract.outer(at, at))
    once, twice = (1 - theta**left) / (1 - theta), (1 - theta ** (2 * left)) / (1 - theta**2)
    steps = lasting**2 * left + lasting * fading * (1 + apart) * once + fading**2 * apart * twice
    products = white @ white.T
    gram = np.block([[steps, across[:-1].T], [across[:-1], products[:-1, :-1]]])
    return gram, np.append(across[-1], products[:-1, -1]), float(products[-1, -1])
