"""Words and selections that every view of an experiment shares."""

from collections.abc import Mapping
from math import exp, isfinite, log

from lynxbench.model.experiment import CellShown, EffectShown, ExperimentDocument, FactorShown
from lynxbench.model.fields import Scalar
from lynxbench.model.interval import Interval
from lynxbench.report import words


def setting_words(setting: Mapping[str, Scalar]) -> str:
    """`engine.threads 2, engine.graph compile`."""
    values = ", ".join(f"{name} {scalar_words(value)}" for name, value in setting.items())
    return words.clean(values) or "as the contract has it"


def scalar_words(value: Scalar) -> str:
    """A setting's value as a contract writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def cell_levels(cell: CellShown, document: ExperimentDocument) -> list[str]:
    """A cell's levels in the order of the factors."""
    return [cell.levels[factor.name] for factor in document.factors]


def effect_title(effect: EffectShown) -> str:
    """`threads 2` or `threads 2 × graph compile`."""
    return " × ".join(f"{name} {level}" for name, level in zip(effect.factors, effect.levels, strict=True))


def gain_words(ratio: Interval) -> str:
    """A ratio with its interval: `1.53× [1.49, 1.57]`."""
    if not isfinite(ratio.estimate):
        return "unknown"
    if not ratio.known:
        return f"{ratio.estimate:.3f}× [no interval]"
    return f"{ratio.estimate:.3f}× [{ratio.low:.3f}, {ratio.high:.3f}]"


def change_words(ratio: float) -> str:
    """`+12 %` of a bare ratio."""
    return words.percent(ratio - 1, signed=True)


def order_words(after: tuple[str, ...]) -> str:
    """When an order gives that: first of all, or after others."""
    return f"after {' and '.join(after)}" if after else "made first"


def corner(document: ExperimentDocument, at: tuple[int, int, int]) -> CellShown | None:
    """The cell at a corner of the cube; None where the design has no such cell."""
    wanted = {factor.name: factor.levels[i] for factor, i in zip(document.factors, at, strict=True)}
    return next((cell for cell in document.cells if cell.levels == wanted), None)


def pair_mean(document: ExperimentDocument, first: FactorShown, second: FactorShown, i: int, j: int) -> float | None:
    """Geometric mean of the response at two levels over all others; None where one of those cells is missing."""
    cells = [
        cell
        for cell in document.cells
        if cell.levels[first.name] == first.levels[i] and cell.levels[second.name] == second.levels[j]
    ]
    known = [cell.response.estimate for cell in cells if cell.response is not None and cell.response.estimate > 0]
    if not known or len(known) < len(cells):
        return None
    return exp(sum(log(value) for value in known) / len(known))


def pair_gain(document: ExperimentDocument, first: FactorShown, second: FactorShown, j: int) -> float | None:
    """What the last level of one factor does over its first, at a level of the other."""
    before = pair_mean(document, first, second, 0, j)
    after = pair_mean(document, first, second, len(first.levels) - 1, j)
    return after / before if before and after else None
