"""Plots of an experiment in characters: effects with their whiskers, and a cube."""

import math
from collections.abc import Sequence

from lynxbench.model.experiment import ExperimentAnalysis, ExperimentDocument
from lynxbench.model.interval import Interval
from lynxbench.report import words
from lynxbench.report.experiment_words import corner, effect_title

LONGEST_TITLE = 40
CHANGE = 24
"""Room for a change with its interval."""
SHORTEST_WHISKER, LONGEST_WHISKER = 8, 44


def effect_lines(analysis: ExperimentAnalysis, width: int) -> list[str]:
    """Each effect with its interval and whisker; below it, what it cannot be told apart from."""
    known = [effect for effect in analysis.effects if math.isfinite(effect.ratio.estimate)]
    titles = [effect_title(effect) for effect in known]
    size = min(max(map(len, titles), default=0), LONGEST_TITLE, width - CHANGE - 4)
    lines = [
        f"{words.percent(analysis.confidence)} intervals; * differs from nothing after Holm;",
        "interactions are over the product of single effects",
    ]
    room = min(LONGEST_WHISKER, width - size - CHANGE - 4)
    ratios = [effect.ratio for effect in known]
    whiskers = whisker_lines(ratios, room) if room >= SHORTEST_WHISKER else [""] * len(known)
    for effect, title, whisker in zip(known, titles, whiskers, strict=True):
        short, mark = words.shortened(title, size), "*" if effect.sure else " "
        lines.append(f"{short:<{size}} {mark} {words.change_text(effect.ratio):<{CHANGE}} {whisker}")
        lines += [f"    {effect.contexts}"] if effect.contexts else []
        lines += [f"    or any of: {', '.join(effect.aliases)}"] if effect.aliases else []
    missing = [effect_title(effect) for effect in analysis.effects if not math.isfinite(effect.ratio.estimate)]
    lines += ["cannot be estimated, cells are missing:", *(f"    {title}" for title in missing)] if missing else []
    return lines


def whisker_lines(ratios: Sequence[Interval], width: int) -> list[str]:
    """Each interval between brackets on one common log scale, with a bar where nothing changes."""
    logs = [[math.log(x) for x in (r.low, r.estimate, r.high) if math.isfinite(x) and x > 0] for r in ratios]
    ends = [x for points in logs for x in points]
    reach = max((abs(x) for x in ends), default=0.1) or 0.1

    def place(value: float) -> int:
        return min(width - 1, max(0, round((value / reach + 1) / 2 * (width - 1))))

    lines = []
    for points in logs:
        cells = [" "] * width
        cells[place(0.0)] = "│"
        if len(points) == 3:
            for at in range(place(points[0]), place(points[2]) + 1):
                cells[at] = "─"
            cells[place(points[0])], cells[place(points[2])] = "├", "┤"
            cells[place(points[1])] = "●"
        elif points:
            cells[place(points[0])] = "○"
        lines.append("".join(cells))
    return lines


def cube_lines(document: ExperimentDocument, width: int) -> list[str]:
    """The eight corners, the third factor going back."""
    across, up, back = document.factors

    def at(i: int, j: int, k: int) -> str:
        cell = corner(document, (i, j, k))
        if cell is None:
            return "not in the design"
        return words.digits(cell.response.estimate, 4) if cell.response is not None else cell.status.value

    size = max(len(at(i, j, k)) for i in (0, 1) for j in (0, 1) for k in (0, 1)) + 1

    def edge(j: int, k: int) -> str:
        return f"{at(0, j, k):<{size}}{'─' * 12} {at(1, j, k)}"

    sides = ((across, "left", "right"), (up, "below", "above"), (back, "front", "back"))
    return [
        *(f"{factor.name}: {low} {factor.levels[0]}, {high} {factor.levels[1]}" for factor, low, high in sides),
        f"      {edge(1, 1)}",
        f"    ╱ │{' ' * (size + 9)}╱ │",
        edge(1, 0),
        f"│     │{' ' * (size + 9)}│   │",
        f"│     {edge(0, 1)}",
        f"│ ╱{' ' * (size + 11)}│ ╱",
        edge(0, 0),
    ]
