"""Sittings: which results are of one, what is learned from several, and how that is said. Pure.

A sitting is what a machine measured within a few hours: one day, one boot, one state of the room. Results that begin in
it are repetitions within it; only other sittings show how much sittings differ.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from lynxbench.model.comparison import NoiseBasis, SittingNoise
from lynxbench.model.history import HistoryPoint
from lynxbench.model.precision import Precision
from lynxbench.stats.sessions import FEWEST_SITTINGS, LevelVariance, learn_variance

SITTING = timedelta(hours=6)
"""Results of one machine that begin within so long are of one sitting: a working day or a night has two at most."""
TOGETHER = FEWEST_SITTINGS + 2


def in_one_sitting(first: str, second: str) -> bool:
    """Whether two beginnings are of one sitting; one that is no time is of none."""
    try:
        apart = datetime.fromisoformat(second) - datetime.fromisoformat(first)
    except (TypeError, ValueError):
        return False
    return abs(apart) <= SITTING


def group_by_sitting(results: Iterable[tuple[str, Sequence[float]]]) -> list[tuple[float, ...]]:
    """Figures of results by their beginnings, those of one sitting together."""
    sittings: list[tuple[str, list[float]]] = []
    for at, figures in sorted(results, key=lambda result: result[0]):
        if sittings and in_one_sitting(sittings[-1][0], at):
            sittings[-1][1].extend(figures)
        else:
            sittings.append((at, list(figures)))
    return [tuple(figures) for _, figures in sittings if figures]


def learn_from_points(points: Sequence[HistoryPoint]) -> LevelVariance:
    """From a series: sittings of each executor on each machine, about their own level."""
    groups: dict[tuple[str, str, str | None], list[tuple[str, Sequence[float]]]] = {}
    for point in points:
        if not point.doubtful and point.run_means and min(point.run_means) > 0:
            key = (point.instance_id, point.executor_id, point.weights)
            groups.setdefault(key, []).append((point.started_at, point.run_means))
    return learn_variance([group_by_sitting(results) for results in groups.values()])


def describe_noise(
    figure: str, precision: Precision, learned: LevelVariance | None, declared: float | None = None
) -> SittingNoise:
    """A/A noise in figures and words: as learned, else as declared, else that it is not known."""
    many = 0 if learned is None else learned.sittings
    if learned is not None and learned.known:
        restart, sitting = math.sqrt(learned.restart), math.sqrt(learned.sitting)
        node = math.sqrt(learned.node) if learned.nodes_known else None
        parts = [f"sittings {sitting:.2%}", f"restarts {restart:.2%}"]
        parts += [] if node is None else [f"nodes {node:.2%}"]
        return SittingNoise(
            figure=figure,
            precision=precision,
            basis=NoiseBasis.LEARNED,
            sittings=many,
            restart=restart,
            sitting=sitting,
            node=node,
            said=f"{', '.join(parts)} (standard deviations, from {many} sittings)",
        )
    if declared is not None:
        said = f"sittings {declared:.2%}: an assumption of the contract, for {_few(many)}"
        basis = NoiseBasis.DECLARED
    else:
        said = f"one sitting: {_few(many)}, and how much they differ is learned from {TOGETHER}"
        basis = NoiseBasis.ONE_SITTING
    return SittingNoise(figure=figure, precision=precision, basis=basis, sittings=many, sitting=declared, said=said)


def _few(many: int) -> str:
    return "1 other sitting is known" if many == 1 else f"{many or 'no'} other sittings are known"
