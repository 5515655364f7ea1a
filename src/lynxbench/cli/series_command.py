"""`steady` and `changepoints`: verdicts on a series that anybody measured."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import typer

from lynxbench.cli.answers import answer
from lynxbench.cli.options import AS_JSON
from lynxbench.cli.terminal import as_lines
from lynxbench.errors import BadSeries, ExitCode
from lynxbench.measure.foreign_series import (
    SeriesFile,
    SeriesSteadiness,
    direction_of,
    judge_group,
    read_series,
)
from lynxbench.model.history import LEVELS_NEED, Motion
from lynxbench.model.interval import Interval
from lynxbench.model.plain_numbers import plain
from lynxbench.model.quantities import parse_duration, parse_ratio
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.stats.changepoints import Course, read_course

FILE = typer.Argument(help="CSV, JSON or JSON lines.", show_default=False)
COLUMN = typer.Option(None, "--column", help="The column of values; chosen by name if omitted.")
TIME = typer.Option(None, "--time", help="The column of times; recognised by name if omitted.")
WHERE = typer.Option([], "--where", help="Keep rows with NAME=VALUE; may be given more than once.")


def steady(
    file: Path = FILE,
    column: str | None = COLUMN,
    time: str | None = TIME,
    where: list[str] = WHERE,
    drift: str = typer.Option("1 %", "--drift", help="Drift that still counts as steady."),
    window: str | None = typer.Option(None, "--window", help='Average over windows, such as "1 s"; needs times.'),
    higher_is_better: bool | None = typer.Option(
        None, "--higher-is-better/--lower-is-better", help="Direction; taken from the column's name if omitted."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Say whether a series has reached steady state, and how its sustained level compares with its burst."""
    bound = _quantity("--drift", drift, parse_ratio)
    if not 0 < bound < 1:
        raise BadSeries(f"--drift: {drift!r} is not between 0 and 100 %")
    width = None if window is None else _quantity("--window", window, parse_duration)
    if width is not None and width <= 0:
        raise BadSeries(f"--window: {window!r} is not a duration")
    series = read_series(file, column=column, time=time, where=where)
    direction = direction_of(series.column) if higher_is_better is None else higher_is_better
    groups = [
        judge_group(group, drift_bound=bound, window_s=width, higher_is_better=direction) for group in series.groups
    ]
    main = groups[series.groups.index(series.main)]
    answer(
        as_json,
        lambda: _steady_document(series, main, groups, bound),
        lambda: _steady_text(series, main, groups, bound),
    )
    if main.judgement.verdict is not SteadyVerdict.STEADY:
        raise typer.Exit(ExitCode.VERDICT_NO)


def changepoints(
    file: Path = FILE,
    column: str | None = COLUMN,
    time: str | None = TIME,
    where: list[str] = WHERE,
    as_json: bool = AS_JSON,
) -> None:
    """Find the places where the level of a history changed."""
    series = read_series(file, column=column, time=time, where=where)
    courses = [read_course(group.values) for group in series.groups]
    main = series.groups.index(series.main)
    answer(
        as_json,
        lambda: _changes_document(series, main, courses),
        lambda: _changes_text(series, main, courses),
    )


# --- documents -------------------------------------------------------------------------------------------------------


def _steady_document(
    series: SeriesFile, main: SeriesSteadiness, groups: list[SeriesSteadiness], bound: float
) -> dict[str, object]:
    return {
        **_steadiness(main),
        "drift_bound": bound,
        "file": series.source,
        "column": series.column,
        "time_column": series.time_column or None,
        "times_run_backwards": series.main.backwards,
        "split_by": series.split_by or None,
        "groups": [_steadiness(group) for group in groups],
    }


def _steadiness(group: SeriesSteadiness) -> dict[str, object]:
    judged = group.judgement
    return {
        "group": group.label,
        "verdict": str(judged.verdict),
        "reason": str(judged.reason),
        "truncate": group.truncate,
        "truncate_s": group.truncate_s,
        "rows": group.rows,
        "window_s": group.window_s or None,
        "points": judged.truncate + judged.counted,
        "counted_points": judged.counted,
        "drift": asdict(judged.drift),
        "tail_shift": asdict(judged.tail_shift),
        "sustained": asdict(judged.level),
        "burst": None
        if group.burst is None
        else {"value": group.burst.mean, "row": group.burst.start, "rows": group.burst.count},
        "sustained_under_burst": group.under_burst,
        "higher_is_better": group.higher_is_better,
        "outliers": judged.outliers,
        "n_eff": judged.n_eff,
        "phi": judged.phi,
        "cycle": {"period_points": judged.period, "range": judged.cycle_range} if judged.period else None,
    }


def _changes_document(series: SeriesFile, main: int, courses: list[Course]) -> dict[str, object]:
    groups = [
        {
            "group": group.label,
            "rows": int(group.values.size),
            "too_few": group.values.size < LEVELS_NEED,
            "points": [asdict(change) for change in course.changes],
            "motion": str(course.motion),
            "trend": asdict(course.trend),
        }
        for group, course in zip(series.groups, courses, strict=True)
    ]
    named = {
        "file": series.source,
        "column": series.column,
        "times_run_backwards": series.main.backwards,
        "split_by": series.split_by or None,
    }
    return {**groups[main], **named, "groups": groups}


# --- text ------------------------------------------------------------------------------------------------------------


def _steady_text(series: SeriesFile, main: SeriesSteadiness, groups: list[SeriesSteadiness], bound: float) -> str:
    lines = [_verdict_line(main, bound), *_figures(main, series.column), *_order(series)]
    others = [group for group in groups if group is not main]
    if others:
        lines += ["", f"{len(groups)} groups by {series.split_by}, each judged on its own; above: {main.label}"]
        lines += [f"  {group.label}: {_verdict_line(group, bound)}" for group in others]
    return as_lines(lines)


def _order(series: SeriesFile) -> list[str]:
    if not series.main.backwards:
        return []
    name = series.time_column
    several = "where they are several series, keep one with --where"
    return [f"  order      {name} runs backwards: rows count as they stand; sort them by {name}, or {several}"]


def _verdict_line(group: SeriesSteadiness, bound: float) -> str:
    judged = group.judgement
    words = {
        "": "",
        "drift": " (drift): the level keeps moving",
        "step": " (step): the level jumped",
        "late": " (late): it settled, if at all, in the second half",
        "excursion": " (excursion): a stretch departs from the rest",
        "cycle": " (cycle): stationary over whole cycles, so measure over whole cycles",
        "outliers": " (outliers): they crowd into one half of the run",
        "too short": f" (too short): drift within ±{plain(bound * 100, 3)} % cannot be shown yet",
        "no level": " (no level): relative drift has no meaning around zero",
        "order": " (order): the rows are not in the order of their times, so nothing that moves with time shows",
    }
    return f"{judged.verdict}{words.get(str(judged.reason), f' ({judged.reason})')}"


def _figures(group: SeriesSteadiness, column: str) -> list[str]:
    judged = group.judgement
    unit = f" of {group.window_s:g} s" if group.window_s else ""
    after = f" ({plain(group.truncate_s, 3)} s)" if group.truncate_s == group.truncate_s else ""
    low, level, high = (plain(bound, 6) for bound in (judged.level.low, judged.level.estimate, judged.level.high))
    lines = [
        f"  counted    {judged.counted} of {judged.truncate + judged.counted} {'windows' if unit else 'points'}{unit}"
        f"; left out: the first {group.truncate} of {group.rows} rows{after}",
        f"  drift      {_percent(judged.drift)}    last third − first third {_percent(judged.tail_shift)}",
        f"  sustained  {level}  [{low}, {high}]  {column}",
    ]
    if group.burst is not None and group.under_burst == group.under_burst:
        side = "under" if group.under_burst >= 0 else "over"
        lines.append(
            f"  burst      {plain(group.burst.mean, 6)} over {group.burst.count} rows from row {group.burst.start}: "
            f"the sustained rate is {abs(group.under_burst):.1%} {side} it"
        )
    if judged.outliers:
        lines.append(f"  outliers   {judged.outliers} clipped for the tests, kept in the mean")
    if judged.period:
        lines.append(f"  cycle      every {judged.period} points, {judged.cycle_range:.1%} from low to high")
    return lines


def _changes_text(series: SeriesFile, main: int, courses: list[Course]) -> str:
    lines = []
    order = [main, *(i for i in range(len(courses)) if i != main)]
    for i in order:
        group, points = series.groups[i], courses[i].changes
        count = "no change" if not points else "1 change" if len(points) == 1 else f"{len(points)} changes"
        if group.values.size < LEVELS_NEED:
            count = f"{group.values.size} of {LEVELS_NEED} rows: too few to tell"
        where = f" in {group.label}" if group.label else ""
        lines.append(f"{count}{where}: {series.column}, {group.values.size} rows")
        lines += [
            f"  row {c.index:<6} {c.change:+8.2%}   {plain(c.before, 6)} → {plain(c.after, 6)}   p {plain(c.p, 1)}"
            for c in points
        ]
        if courses[i].motion is not Motion.LEVELS:
            trend = courses[i].trend
            change = Interval(trend.low - 1, trend.estimate - 1, trend.high - 1)
            lines.append(f"  {courses[i].motion:<10} {_percent(change)} from its start to its end, in no step")
    return as_lines([*lines, *_order(series)])


def _percent(interval: Interval) -> str:
    if not interval.known:
        return "unknown"
    low, estimate, high = (round(bound, 4) + 0.0 for bound in (interval.low, interval.estimate, interval.high))
    return f"{estimate:+.2%} [{low:+.2%}, {high:+.2%}]"


def _quantity(option: str, text: str, parse: Callable[[str], float]) -> float:
    try:
        return parse(text)
    except ValueError as problem:
        raise BadSeries(f"{option}: {problem}") from None
