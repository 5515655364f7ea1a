"""Which cause bounds a contract's results over time, and when another one took over. Pure.

A result names its cause once, with its own doubt; so one result that names another is no news. A place counts where the
causes before and after differ by more than the same causes in random order would, and another one leads after it.
"""

from collections import Counter
from collections.abc import Sequence

from lynxbench.model.history import CauseMove, HistoryPoint
from lynxbench.model.layers import Layer
from lynxbench.stats.composition import find_shifts

FEWEST = 3
"""Results that name a cause, without which it leads nothing."""
NEWEST = 400
"""Results that are looked at: what bounded one long before these is history."""


def find_cause_moves(points: Sequence[HistoryPoint]) -> tuple[CauseMove, ...]:
    """Every place at which another cause took over, oldest first; doubtful results say nothing of it."""
    named = [(index, point.cause) for index, point in enumerate(points) if point.names_cause][-NEWEST:]
    causes = [cause for _, cause in named]
    chances = {shift.index: shift.p for shift in find_shifts(causes)}
    edges = [0, *chances, len(causes)]
    moves = []
    for start, place, end in zip(edges, edges[1:], edges[2:], strict=False):
        edge, chance = place, chances[place]
        before, led = Counter(causes[start:edge]).most_common(1)[0]
        after, leads = Counter(causes[edge:end]).most_common(1)[0]
        if before == after or min(led, leads) < FEWEST:
            continue  # the mixture changed and not its leader, or hardly anybody names one
        edge = causes.index(after, edge)
        last, first = points[named[edge - 1][0]], points[named[edge][0]]
        moves.append(
            CauseMove(
                index=named[edge][0],
                result_id=first.result_id,
                at=first.started_at,
                before=before,
                after=after,
                led=(led, edge - start),
                leads=(leads, end - edge),
                p=chance,
                layers_changed=_layers_between(last, first),
                model_changed=last.weights != first.weights,
            )
        )
    return tuple(moves)


def _layers_between(before: HistoryPoint, after: HistoryPoint) -> tuple[Layer, ...]:
    return tuple(layer for layer in Layer if before.layer_ids.get(layer) != after.layer_ids.get(layer))
