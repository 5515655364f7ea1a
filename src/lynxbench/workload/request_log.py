"""A production request log as columns: arrival, prompt tokens, output tokens, and what else it holds.

Reads JSON lines and CSV under the names that public traces and servers use: Azure LLM traces (TIMESTAMP, ContextTokens,
GeneratedTokens), Mooncake (timestamp in milliseconds, input_length, output_length), and the usual generic ones.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from lynxbench.errors import BadInput
from lynxbench.model.samples import Float64, Int64
from lynxbench.plain_files import read_plain
from lynxbench.tables import read_table

COLUMNS: dict[str, list[str]] = read_table("workload/data/log_columns.toml")
"""What each column may be called, in lower case; the first that is there is taken."""
LONGEST_LENGTH = 1_000_000
"""Tokens of one request that a contract can express; more is an error in the log."""
_NOT_SECONDS = 1e11
"""Seconds since 1970 beyond the year 5000 are milliseconds, a thousand times more are microseconds, and so on."""


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Requests by arrival. Moments count from the first arrival."""

    source: str
    arrival_s: Float64
    input_tokens: Int64
    output_tokens: Int64 | None
    duration_s: Float64 | None
    session: Int64 | None
    """The same number for requests of one session."""
    reordered: int
    """Rows that stood before an earlier arrival; logs are often written at completion."""

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def span_s(self) -> float:
        """From the first arrival to the last."""
        return float(self.arrival_s[-1]) if len(self) else 0.0


@dataclass(frozen=True, slots=True)
class _Columns:
    arrival: str
    input: str
    output: str | None
    duration: str | None
    session: str | None


def read_log(path: Path) -> RequestLog:
    """The requests of a JSON-lines or CSV file; what cannot be used is refused with its line."""
    try:
        text = read_plain(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; name a request log (JSON lines or CSV)") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8 text (byte {error.start}); a request log is JSON lines or CSV") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
    return parse_log(text, str(path))


def parse_log(text: str, source: str = "<log>") -> RequestLog:
    """The same from text; JSON lines start with a brace, anything else is CSV with a header."""
    rows = _json_rows(text, source) if text.lstrip()[:1] == "{" else _csv_rows(text, source)
    columns: _Columns | None = None
    table: list[tuple[float, int, int, float]] = []
    sessions: list[str] = []
    for line, row in rows:
        where = f"{source}:{line}"
        if columns is None:
            columns = _find_columns(row, where)
            milliseconds = columns.arrival.endswith("_ms") or columns.input == "input_length"
        table.append(_parse_row(row, columns, milliseconds, where))
        if columns.session:
            sessions.append(str(row.get(columns.session) or f"\0{line}"))  # without a name it stands alone
    if columns is None or len(table) < 2:
        raise BadInput(f"{source}: holds {len(table)} requests; a workload needs at least 2")
    return _sorted_log(source, table, sessions, columns)


def _sorted_log(
    source: str, table: list[tuple[float, int, int, float]], sessions: list[str], columns: _Columns
) -> RequestLog:
    recorded = np.array([row[0] for row in table])
    order = np.argsort(recorded, kind="stable")
    arrival = recorded[order]
    if arrival[-1] <= arrival[0]:
        raise BadInput(f"{source}: every request has the same arrival time; arrivals are needed to see the load")
    codes = np.unique(sessions, return_inverse=True)[1].astype(np.int64)[order] if columns.session else None
    return RequestLog(
        source=source,
        arrival_s=arrival - arrival[0],
        input_tokens=np.array([row[1] for row in table], dtype=np.int64)[order],
        output_tokens=np.array([row[2] for row in table], dtype=np.int64)[order] if columns.output else None,
        duration_s=np.array([row[3] for row in table])[order] if columns.duration else None,
        session=codes,
        reordered=int((np.diff(recorded) < 0).sum()),
    )


def _json_rows(text: str, source: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, record in enumerate(text.splitlines(), 1):
        if not record.strip():
            continue
        try:
            row = json.loads(record)
        except json.JSONDecodeError as error:
            raise BadInput(f"{source}:{line}: is not JSON ({error.msg}); one object a line is expected") from None
        except RecursionError:
            raise BadInput(f"{source}:{line}: is nested too deep for a request") from None
        if not isinstance(row, dict):
            raise BadInput(f"{source}:{line}: is no JSON object; one object a line is expected")
        yield line, {str(key).strip().lower(): value for key, value in row.items()}


def _csv_rows(text: str, source: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    reader = csv.reader(text.splitlines(), strict=True)
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                if len(set(header)) != len(header):
                    raise BadInput(f"{source}:{reader.line_num}: the header names a column twice")
                continue
            if len(cells) != len(header):
                raise BadInput(f"{source}:{reader.line_num}: has {len(cells)} cells where the header has {len(header)}")
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise BadInput(f"{source}:{reader.line_num}: is not CSV ({error})") from None


def _find_columns(row: Mapping[str, object], where: str) -> _Columns:
    named = {column: next((name for name in names if name in row), None) for column, names in COLUMNS.items()}
    arrival, prompt = named["arrival"], named["input"]
    if arrival is None or prompt is None:
        missing, column = ("arrival time", "arrival") if arrival is None else ("prompt length", "input")
        raise BadInput(f"{where}: has no {missing}; name that column one of {', '.join(COLUMNS[column])}")
    return _Columns(arrival, prompt, named["output"], named["duration"], named["session"])


def _parse_row(
    row: Mapping[str, object], columns: _Columns, milliseconds: bool, where: str
) -> tuple[float, int, int, float]:
    arrival = _parse_moment(row.get(columns.arrival), milliseconds, f"{where}: {columns.arrival}")
    prompt = _parse_tokens(row.get(columns.input), 1, f"{where}: {columns.input}")
    output = _parse_tokens(row.get(columns.output), 0, f"{where}: {columns.output}") if columns.output else 0
    duration = math.nan
    if columns.duration:
        duration = _parse_duration(row.get(columns.duration), columns.duration, f"{where}: {columns.duration}")
    return arrival, prompt, output, duration


def _parse_number(value: object, where: str) -> float:
    number = math.nan
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):  # text that is no number; an integer beyond every float
            number = float(value)
    if not math.isfinite(number):
        raise BadInput(f"{where} is {_shown(value)}, not a number")
    return number


def _parse_moment(value: object, milliseconds: bool, where: str) -> float:
    if isinstance(value, str) and not _is_number(value):
        return _parse_date(value.strip(), where)
    number = _parse_number(value, where)
    if number < 0:
        raise BadInput(f"{where} is {_shown(value)}: an arrival before time began")
    if milliseconds and number < _NOT_SECONDS:
        return number / 1e3
    for factor in (1.0, 1e3, 1e6, 1e9):
        if number / factor < _NOT_SECONDS:
            return number / factor
    raise BadInput(f"{where} is {_shown(value)}: not a moment in seconds, milliseconds, microseconds or nanoseconds")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parse_date(text: str, where: str) -> float:
    whole, dot, fraction = text.partition(".")
    digits = len(fraction) - len(fraction.lstrip("0123456789"))
    # Traces write up to nine digits of a second; Python's reader takes six, so the fraction is added by hand.
    rest = fraction[digits:]
    try:
        moment = datetime.fromisoformat(whole + rest)
    except ValueError:
        raise BadInput(f"{where} is {_shown(text)}; write seconds or a date such as 2024-05-10 00:00:00.123") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() + (float(f"0.{fraction[:digits]}") if dot and digits else 0.0)


def _parse_tokens(value: object, least: int, where: str) -> int:
    number = _parse_number(value, where)
    if number != int(number) or not least <= number <= LONGEST_LENGTH:
        raise BadInput(f"{where} is {_shown(value)}; tokens are whole numbers from {least} to {LONGEST_LENGTH:,}")
    return int(number)


def _parse_duration(value: object, column: str, where: str) -> float:
    if value is None or value == "":
        return math.nan  # a request that never ended has none
    number = _parse_number(value, where)
    if number < 0:
        raise BadInput(f"{where} is {_shown(value)}: a duration is not negative")
    return number / 1e3 if column.endswith("_ms") else number


def _shown(value: object) -> str:
    if value is None:
        return "missing"
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
