"""`steady` and `changepoints`: verdicts on a series that anybody measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lynxbench.measure.foreign_series import SeriesFile, SeriesSteadiness
    from lynxbench.model.interval import Interval
    from lynxbench.stats.changepoints import ChangePoint

FileArgument = Annotated[Path, typer.Argument(help="CSV, JSON or JSON lines.", show_default=False)]
ColumnOption = Annotated[str | None, typer.Option("--column", help="The column of values; chosen by name if omitted.")]
TimeOption = Annotated[str | None, typer.Option("--time", help="The column of times; recognised by name if omitted.")]
WhereOption = Annotated[
    list[str] | None, typer.Option("--where", help="Keep rows with NAME=VALUE; may be given more than once.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def steady(
    file: FileArgument,
    column: ColumnOption = None,
    time: TimeOption = None,
    where: WhereOption = None,
    drift: Annotated[str, typer.Option("--drift", help="Drift that still counts as steady.")] = "1 %",
    window: Annotated[
        str | None, typer.Option("--window", help='Average over windows, such as "1 s"; needs times.')
    ] = None,
    higher_is_better: Annotated[
        bool | None,
        typer.Option(
            "--higher-is-better/--lower-is-better", help="Direction; taken from the column's name if omitted."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether a series has reached steady state, and how its sustained level compares with its burst."""
    from lynxbench.measure.foreign_series import direction_of, judge_group, read_series
    from lynxbench.model.verdicts import SteadyVerdict

    bound = _quantity("--drift", drift)
    if not 0 < bound < 1:
        raise _bad("--drift", f"{drift!r} is not between 0 and 100 %")
    width = None if window is None else _quantity("--window", window)
    if width is not None and width <= 0:
        raise _bad("--window", f"{window!r} is not a duration")
    series = read_series(file, column=column, time=time, where=where or ())
    direction = direction_of(series.column) if higher_is_better is None else higher_is_better
    groups = [
        judge_group(group, drift_bound=bound, window_s=width, higher_is_better=direction) for group in series.groups
    ]
    main = groups[series.groups.index(series.main)]
    if as_json:
        _print_json(_steady_document(series, main, groups, bound))
    else:
        print(_steady_text(series, main, groups, bound))
    if main.judgement.verdict is not SteadyVerdict.STEADY:
        raise typer.Exit(1)


def changepoints(
    file: FileArgument,
    column: ColumnOption = None,
    time: TimeOption = None,
    where: WhereOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the places where the level of a history changed."""
    from lynxbench.measure.foreign_series import read_series
    from lynxbench.stats.changepoints import find_changes

    series = read_series(file, column=column, time=time, where=where or ())
    found = [find_changes(group.values) for group in series.groups]
    main = series.groups.index(series.main)
    if as_json:
        _print_json(_changes_document(series, main, found))
    else:
        print(_changes_text(series, main, found))


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
        "drift": _interval(judged.drift),
        "tail_shift": _interval(judged.tail_shift),
        "sustained": _interval(judged.level),
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


def _changes_document(series: SeriesFile, main: int, found: list[tuple[ChangePoint, ...]]) -> dict[str, object]:
    return {
        "points": _points(found[main]),
        "group": series.groups[main].label,
        "rows": int(series.groups[main].values.size),
        "file": series.source,
        "column": series.column,
        "split_by": series.split_by or None,
        "groups": [
            {"group": group.label, "rows": int(group.values.size), "points": _points(changes)}
            for group, changes in zip(series.groups, found, strict=True)
        ],
    }


def _points(changes: tuple[ChangePoint, ...]) -> list[dict[str, object]]:
    return [{"index": c.index, "change": c.change, "p": c.p, "before": c.before, "after": c.after} for c in changes]


def _interval(interval: Interval) -> dict[str, object]:
    return {"low": interval.low, "estimate": interval.estimate, "high": interval.high}


def _print_json(document: object) -> None:
    import json

    print(json.dumps(_without_nan(document), ensure_ascii=False, allow_nan=False, indent=2))


def _without_nan(value: object) -> object:
    """JSON has no NaN: what is not known is null."""
    import math

    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list) else value


# --- text ------------------------------------------------------------------------------------------------------------


def _steady_text(series: SeriesFile, main: SeriesSteadiness, groups: list[SeriesSteadiness], bound: float) -> str:
    lines = [_verdict_line(main, bound), *_figures(main, series.column)]
    others = [group for group in groups if group is not main]
    if others:
        lines += ["", f"{len(groups)} groups by {series.split_by}, each judged on its own; above: {main.label}"]
        lines += [f"  {group.label}: {_verdict_line(group, bound)}" for group in others]
    return "\n".join(lines)


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
        "too short": f" (too short): drift within ±{bound * 100:.3g} % cannot be shown yet",
        "no level": " (no level): relative drift has no meaning around zero",
    }
    return f"{judged.verdict}{words.get(str(judged.reason), f' ({judged.reason})')}"


def _figures(group: SeriesSteadiness, column: str) -> list[str]:
    judged = group.judgement
    unit = f" of {group.window_s:g} s" if group.window_s else ""
    after = f" ({group.truncate_s:.3g} s)" if group.truncate_s == group.truncate_s else ""
    lines = [
        f"  counted    {judged.counted} of {judged.truncate + judged.counted} {'windows' if unit else 'points'}{unit}"
        f"; left out: the first {group.truncate} of {group.rows} rows{after}",
        f"  drift      {_percent(judged.drift)}    last third − first third {_percent(judged.tail_shift)}",
        f"  sustained  {judged.level.estimate:.6g}  [{judged.level.low:.6g}, {judged.level.high:.6g}]  {column}",
    ]
    if group.burst is not None and group.under_burst == group.under_burst:
        side = "under" if group.under_burst >= 0 else "over"
        lines.append(
            f"  burst      {group.burst.mean:.6g} over {group.burst.count} rows from row {group.burst.start}: "
            f"the sustained rate is {abs(group.under_burst):.1%} {side} it"
        )
    if judged.outliers:
        lines.append(f"  outliers   {judged.outliers} clipped for the tests, kept in the mean")
    if judged.period:
        lines.append(f"  cycle      every {judged.period} points, {judged.cycle_range:.1%} from low to high")
    return lines


def _changes_text(series: SeriesFile, main: int, found: list[tuple[ChangePoint, ...]]) -> str:
    lines = []
    order = [main, *(i for i in range(len(found)) if i != main)]
    for i in order:
        group, changes = series.groups[i], found[i]
        count = "no change" if not changes else "1 change" if len(changes) == 1 else f"{len(changes)} changes"
        where = f" in {group.label}" if group.label else ""
        lines.append(f"{count}{where}: {series.column}, {group.values.size} rows")
        lines += [
            f"  row {c.index:<6} {c.change:+8.2%}   {c.before:.6g} → {c.after:.6g}   p {c.p:.1g}" for c in changes
        ]
    return "\n".join(lines)


def _percent(interval: Interval) -> str:
    if not interval.known:
        return "unknown"
    return f"{interval.estimate:+.2%} [{interval.low:+.2%}, {interval.high:+.2%}]"


def _quantity(option: str, text: str) -> float:
    from lynxbench.model.quantities import parse_duration, parse_ratio

    try:
        return parse_ratio(text) if option == "--drift" else parse_duration(text)
    except ValueError as problem:
        raise _bad(option, str(problem)) from None


def _bad(option: str, problem: str) -> Exception:
    from lynxbench.errors import BadSeries

    return BadSeries(f"{option}: {problem}")
