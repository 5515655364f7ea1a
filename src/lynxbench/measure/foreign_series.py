"""A series that somebody else measured: CSV or JSON in, named groups of finite values out."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from lynxbench.errors import BadSeries
from lynxbench.measure.series_table import Cell, Table, number_in, parse_table
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.plain_files import read_plain
from lynxbench.stats.arrays import Floats
from lynxbench.stats.batches import BestRun, best_run, means_by_time
from lynxbench.stats.steady import SteadyJudgement, SteadyReason, judge_steady

MIN_VALUES = 3  # below it there is nothing to judge; from here to 12 the verdict is `inconclusive (too short)`
MAX_GROUPS = 50
MIN_WINDOWS = 24  # one-second means are taken when the run gives at least this many
DEFAULT_WINDOW_S = 1.0
BURST_VALUES = 2  # consecutive values that make a burst: one alone would be the luckiest noise

VALUE_NAMES = (
    "value", "values", "ms", "latency_ms", "latency", "duration_ms", "duration", "step_ms", "throughput",
    "tokens_per_s", "tokens_per_second", "requests_per_s", "samples_per_s", "rate", "qps", "tflops", "x", "y", "mean",
)  # fmt: skip
TIME_NAMES = ("unix_s", "unix_ms", "unix_ns", "timestamp", "time", "t", "time_s", "t_s", "elapsed_s", "elapsed", "ts",
              "seconds", "date", "datetime", "start_ns", "start_s", "end_ns", "end_s")  # fmt: skip
HIGHER_IS_BETTER = re.compile(
    r"throughput|(^|_)rate$|per_s(ec(ond)?)?$|/s$|flops|bandwidth|(^|_)(qps|rps|tps|ips|fps|gbps)($|_)"
)
LOWER_IS_BETTER = re.compile(r"(^|[_ .])(ms|us|ns|s|sec|seconds|latency|duration|ttft|tpot|itl|time)($|[_ .\[])")
TIME_UNITS = {"_ns": 1e-9, "_us": 1e-6, "_ms": 1e-3, "_s": 1.0}
LARGEST_VALUE = 1e100  # squares and sums of larger ones overflow, and would show no change
EPOCH_UNITS = ((1e17, 1e-9), (1e14, 1e-6), (1e11, 1e-3))  # Unix times this large count ns, µs, ms
HEX = re.compile(r"0[xX][0-9a-fA-F]+$")
Rows = list[int]


@dataclass(frozen=True, slots=True)
class SeriesGroup:
    """Values in order, with their times in seconds where the file gives them."""

    label: str  # `phase=warm`, or empty where nothing splits the file
    values: Floats
    time_s: Floats | None = None
    backwards: bool = False  # there are times, and the rows are not in their order


@dataclass(frozen=True, slots=True)
class SeriesFile:
    """What was picked from a file, and why it can be named back."""

    source: str
    column: str
    time_column: str
    split_by: str
    groups: tuple[SeriesGroup, ...]

    @property
    def main(self) -> SeriesGroup:
        """The longest group, the first of equals."""
        return max(self.groups, key=lambda group: group.values.size)


@dataclass(frozen=True, slots=True)
class SeriesSteadiness:
    """The judgement of one group, in rows and seconds of the file it came from, with burst against sustained."""

    label: str
    judgement: SteadyJudgement
    rows: int
    window_s: float  # 0: the rows themselves were judged
    truncate: int  # rows
    truncate_s: float  # NaN without times
    higher_is_better: bool | None
    burst: BestRun | None

    @property
    def under_burst(self) -> float:
        """By which share the sustained rate lies under the burst rate; NaN where the direction is unknown."""
        if self.burst is None or self.higher_is_better is None:
            return math.nan
        fast, slow = self.burst.mean, self.judgement.level.estimate
        if not self.higher_is_better:
            fast, slow = slow, fast
        return 1 - slow / fast if fast > 0 else math.nan


def read_series(
    path: Path | str, *, column: str | None = None, time: str | None = None, where: Sequence[str] = ()
) -> SeriesFile:
    """Read a CSV, JSON or JSON-lines file and pick its series."""
    try:
        raw = read_plain(Path(path))
    except OSError as problem:
        raise BadSeries(f"{path}: cannot be read ({problem.strerror or problem})") from None
    if b"\0" in raw:
        raise BadSeries(f"{path}: is binary; a series is CSV or JSON text")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadSeries(f"{path}: is not UTF-8 text (byte {problem.start}); a series is CSV or JSON text") from None
    return parse_series(text, source=str(path), column=column, time=time, where=where)


def parse_series(
    text: str,
    *,
    source: str = "<series>",
    column: str | None = None,
    time: str | None = None,
    where: Sequence[str] = (),
) -> SeriesFile:
    """Pick value column, time column and groups from CSV or JSON text; what is malformed is one line of BadSeries."""
    if not text.strip():
        raise BadSeries(f"{source}: is empty; give CSV with a header or a JSON list of numbers")
    table = parse_table(text, source)
    rows = list(range(len(next(iter(table.values())))))
    filtered = set()
    for condition in where:
        name, matching = _matching(table, condition, source)
        rows = [row for row in rows if row in matching]
        filtered.add(name)
    if not rows:
        raise BadSeries(f"{source}: no row satisfies {' and '.join(where)}")
    value_name = _named(table, column, source) if column else _choose_value(table, time, source)
    time_name = _named(table, time, source) if time else _choose_time(table, value_name)
    values = _numbers(table[value_name], rows, value_name, source)
    times = _times(table[time_name], rows, time_name, source, strict=time is not None) if time_name else None
    split = _choose_split(table, rows, {value_name, time_name, *filtered})
    groups = _split(split, table[split] if split else [], rows, values, times)
    label = " ".join(where)
    named = tuple(replace(group, label=" ".join(filter(None, (label, group.label)))) for group in groups)
    longest = max(named, key=lambda group: group.values.size)
    if longest.values.size < MIN_VALUES:
        raise BadSeries(
            f"{source}: column {value_name} has {longest.values.size} value(s); "
            f"a series needs at least {MIN_VALUES}, and a verdict of steady at least 12"
        )
    return SeriesFile(source, value_name, time_name if times is not None else "", split, named)


def judge_group(
    group: SeriesGroup,
    *,
    drift_bound: float = 0.01,
    window_s: float | None = None,
    higher_is_better: bool | None = None,
) -> SeriesSteadiness:
    """Judge a group on window means where it is finely timed (one second unless told), else on its rows."""
    width = _window(group, window_s)
    if width > 0 and group.time_s is not None:
        means = means_by_time(group.time_s, group.values, width)
        judgement = judge_steady(means.mean, drift_bound=drift_bound)
        truncate = int(means.first[judgement.truncate])
    else:
        judgement = judge_steady(group.values, drift_bound=drift_bound)
        truncate = judgement.truncate
    if group.backwards:  # what moves with time is not seen in another order of the rows
        judgement = replace(judgement, verdict=SteadyVerdict.INCONCLUSIVE, reason=SteadyReason.ORDER)
    return SeriesSteadiness(
        label=group.label,
        judgement=judgement,
        rows=int(group.values.size),
        window_s=width,
        truncate=truncate,
        truncate_s=float(group.time_s[truncate] - group.time_s[0]) if group.time_s is not None else math.nan,
        higher_is_better=higher_is_better,
        burst=None
        if higher_is_better is None
        else best_run(group.values, BURST_VALUES, higher_is_better=higher_is_better),
    )


def direction_of(column: str) -> bool | None:
    """Whether higher is better, by the name of the column; None where the name does not say."""
    name = column.strip().lower()
    if HIGHER_IS_BETTER.search(name):
        return True
    return False if LOWER_IS_BETTER.search(name) else None


def _window(group: SeriesGroup, wanted_s: float | None) -> float:
    if group.time_s is None:
        if wanted_s is not None and group.backwards:
            raise BadSeries("a window needs rows in the order of their times: sort the file by its time column")
        if wanted_s is not None:
            raise BadSeries("a window needs times: name the time column with --time")
        return 0.0
    spacing = float(np.median(np.diff(group.time_s))) if group.values.size > 1 else math.inf
    span = float(group.time_s[-1] - group.time_s[0])
    if wanted_s is not None:
        return wanted_s if spacing <= wanted_s / 2 else 0.0
    return DEFAULT_WINDOW_S if spacing <= DEFAULT_WINDOW_S / 2 and span >= MIN_WINDOWS * DEFAULT_WINDOW_S else 0.0


# --- table to columns ------------------------------------------------------------------------------------------------


def _is_numeric(cells: Sequence[Cell]) -> bool:
    filled = [cell for cell in cells if cell not in (None, "")]
    return bool(filled) and all(number_in(cell) is not None for cell in filled)


def _named(table: Table, name: str, source: str) -> str:
    if name in table:
        return name
    alike = [c for c in table if _plain(c) == _plain(name)]
    if len(alike) == 1:
        return alike[0]
    raise BadSeries(f"{source}: no column {name!r}; there are {', '.join(table)}")


def _plain(name: str) -> str:
    """`power.draw [W]` is asked for as `power.draw`."""
    return name.split("[")[0].strip().lower()


def _choose_value(table: Table, time: str | None, source: str) -> str:
    numeric = [name for name, cells in table.items() if _is_numeric(cells) and name != time]
    if not numeric:
        raise BadSeries(f"{source}: no numeric column{_first_flaw(table)}")
    if len(table) > len(numeric) and all(_plain(name) in TIME_NAMES for name in numeric):  # times are no values
        name = next(name for name in table if name not in numeric)
        raise BadSeries(
            f"{source}: column {name}, row 1 holds {str(table[name][0])[:40]!r}; every value must be a finite number, "
            f"with a point for its decimals and without a unit"
        )
    if len(numeric) == 1:
        return numeric[0]
    by_name = {_plain(name): name for name in reversed(numeric)}
    for preferred in VALUE_NAMES:
        if preferred in by_name:
            return by_name[preferred]
    others = [name for name in numeric if _plain(name) not in TIME_NAMES]
    telling = [name for name in others if direction_of(name) is not None]
    varying = [name for name in others if len(set(table[name])) > 1]
    for choice in (others, telling, varying):
        if len(choice) == 1:
            return choice[0]
    raise BadSeries(f"{source}: several numeric columns ({', '.join(numeric)}); choose one with --column")


def _first_flaw(table: Table) -> str:
    """Where the most nearly numeric column goes wrong."""
    name, cells = max(table.items(), key=lambda item: sum(number_in(cell) is not None for cell in item[1]))
    if not any(number_in(cell) is not None for cell in cells):
        return f" among {', '.join(table)}"
    row = next(i for i, cell in enumerate(cells) if cell not in (None, "") and number_in(cell) is None)
    return f": {name} comes nearest, but row {row + 1} holds {str(cells[row])[:40]!r}"


def _choose_time(table: Table, value: str) -> str:
    by_name = {_plain(name): name for name in reversed(list(table)) if name != value}
    return next((by_name[name] for name in TIME_NAMES if name in by_name), "")


def _numbers(cells: Sequence[Cell], rows: Rows, name: str, source: str) -> Floats:
    values = np.empty(len(rows))
    for i, row in enumerate(rows):
        number = number_in(cells[row])
        if number is None or not math.isfinite(number):
            held = "nothing" if cells[row] in (None, "") else repr(str(cells[row])[:40])
            raise BadSeries(f"{source}: column {name}, row {row + 1} holds {held}; every value must be a finite number")
        if abs(number) > LARGEST_VALUE:
            raise BadSeries(f"{source}: column {name}, row {row + 1} holds {number:.3g}; no unit makes that a figure")
        values[i] = number
    return values


def _times(cells: Sequence[Cell], rows: Rows, name: str, source: str, *, strict: bool) -> Floats | None:
    """Seconds; a column that was only guessed and does not serve is passed over."""
    picked = [cells[row] for row in rows]
    times = np.array([_instant(cell) for cell in picked])
    if not np.all(np.isfinite(times)):
        if strict:
            row = int(np.flatnonzero(~np.isfinite(times))[0])
            raise BadSeries(
                f"{source}: time column {name} holds {str(picked[row])[:40]!r}; seconds or ISO 8601 would do"
            )
        return None
    unit = next((scale for ending, scale in TIME_UNITS.items() if name.lower().endswith(ending)), None)
    if unit is None:
        unit = next((scale for least, scale in EPOCH_UNITS if float(times[0]) > least), 1.0)
    return np.asarray(times * unit, dtype=np.float64)


def _instant(cell: Cell) -> float:
    number = number_in(cell)
    if number is not None:
        return number
    try:
        return datetime.fromisoformat(str(cell).replace("/", "-")).timestamp()
    except ValueError:
        return math.nan


def _matching(table: Table, condition: str, source: str) -> tuple[str, set[int]]:
    name, equals, wanted = condition.partition("=")
    if not equals:
        raise BadSeries(f"{condition!r} is no condition; --where phase=steady would be one")
    column, wanted = _named(table, name.strip(), source), wanted.strip()
    number = number_in(wanted)
    matching = {
        row
        for row, cell in enumerate(table[column])
        if cell == wanted or (number is not None and number_in(cell) == number)
    }
    if not matching:
        known = ", ".join(list(dict.fromkeys(str(cell) for cell in table[column]))[:8])
        raise BadSeries(f"{source}: no row has {column}={wanted}; there are {known}")
    return column, matching


def _choose_split(table: Table, rows: Rows, taken: set[str]) -> str:
    """The first column of words that puts the rows into a few groups; codes and identifiers are not words."""
    for name, cells in table.items():
        if name in taken or _plain(name) in TIME_NAMES:
            continue
        words = [cells[row] for row in rows]
        if all(map(_is_word, words)) and 2 <= len(set(words)) <= min(MAX_GROUPS, len(words) // MIN_VALUES):
            return name
    return ""


def _is_word(cell: Cell) -> bool:
    return isinstance(cell, str) and bool(cell) and number_in(cell) is None and not HEX.match(cell)


def _split(name: str, cells: Sequence[Cell], rows: Rows, values: Floats, times: Floats | None) -> list[SeriesGroup]:
    if not name:
        return [_group("", values, times)]
    words = np.array([cells[row] for row in rows])
    groups = []
    for word in dict.fromkeys(words.tolist()):
        mine = words == word
        groups.append(_group(f"{name}={word}", values[mine], times[mine] if times is not None else None))
    return groups


def _group(label: str, values: Floats, times: Floats | None) -> SeriesGroup:
    """Times that run backwards tell no order: the rows' own order stands, and that is said."""
    backwards = times is not None and bool(np.any(np.diff(times) < 0))
    return SeriesGroup(label, values, None if backwards else times, backwards)
