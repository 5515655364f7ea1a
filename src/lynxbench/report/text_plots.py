"""Plots of an experiment in characters: intervals as whiskers, a cube, and two-way tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lynxbench.model.experiment import ExperimentDocument, FactorShown
from lynxbench.model.interval import Interval
from lynxbench.report import words
from lynxbench.report.experiment_words import change_words, corner, pair_gain, pair_mean


def whisker_lines(ratios: Sequence[Interval], width: int) -> list[str]:
    """Each interval between brackets on one common log scale, with a bar where nothing changes."""
    logs = [[math.log(x) for x in (r.low, r.estimate, r.high) if math.isfinite(x) and x > 0] for r in ratios]
    ends = [x for one in logs for x in one]
    reach = max((abs(x) for x in ends), default=0.1) or 0.1

    def place(value: float) -> int:
        return min(width - 1, max(0, round((value / reach + 1) / 2 * (width - 1))))

    lines = []
    for one in logs:
        cells = [" "] * width
        cells[place(0.0)] = "│"
        if len(one) == 3:
            for at in range(place(one[0]), place(one[2]) + 1):
                cells[at] = "─"
            cells[place(one[0])], cells[place(one[2])] = "├", "┤"
            cells[place(one[1])] = "●"
        elif one:
            cells[place(one[0])] = "○"
        lines.append("".join(cells))
    return lines


def cube_lines(document: ExperimentDocument) -> list[str]:
    """The eight corners, the third factor going back."""
    across, up, back = document.factors

    def at(i: int, j: int, k: int) -> str:
        cell = corner(document, (i, j, k))
        if cell is None:
            return "not in the design"
        return words.digits(cell.response.estimate, 4) if cell.response is not None else cell.status.value

    left, right = across.levels
    size = max(len(at(i, j, k)) for i in (0, 1) for j in (0, 1) for k in (0, 1)) + 1

    def edge(j: int, k: int) -> str:
        return f"{at(0, j, k):<{size}}{'─' * 12} {at(1, j, k)}"

    pad = " " * 6
    return [
        f"  {across.name}: left {left}, right {right};  {up.name}: below {up.levels[0]}, above {up.levels[1]};  "
        f"{back.name}: front {back.levels[0]}, back {back.levels[1]}",
        f"  {pad}{edge(1, 1)}",
        f"  {pad[:-2]}╱ │{' ' * (size + 9)}╱ │",
        f"  {edge(1, 0)}",
        f"  │   {pad[:-4]}│{' ' * (size + 9)}│   │",
        f"  │   {pad[:-4]}{edge(0, 1)}",
        f"  │ ╱{' ' * (size + 11)}│ ╱",
        f"  {edge(0, 0)}",
    ]


def interaction_lines(document: ExperimentDocument, first: FactorShown, second: FactorShown) -> list[str]:
    """Means at each pair of levels, and what the first factor's change does at each level of the second."""
    head = [f"{first.name} \\ {second.name}", *second.levels]
    rows = []
    for i, level in enumerate(first.levels):
        means = [pair_mean(document, first, second, i, j) for j in range(len(second.levels))]
        rows.append([level, *(words.digits(mean, 4) if mean is not None else "–" for mean in means)])
    gains = [pair_gain(document, first, second, j) for j in range(len(second.levels))]
    rows.append(
        [f"{first.levels[0]} → {first.levels[-1]}", *("–" if gain is None else change_words(gain) for gain in gains)]
    )
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return [
        "  " + "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=True)) for row in [head, *rows]
    ]
