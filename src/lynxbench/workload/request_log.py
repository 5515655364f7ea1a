"""A production request log as columns: arrival, prompt tokens, output tokens, and what else it holds.

Columns are known under the names that public traces and servers use: Azure LLM traces (TIMESTAMP, ContextTokens,
GeneratedTokens), Mooncake (timestamp in milliseconds, input_length, output_length), OpenAI's `usage`, and the usual
generic ones; any other name can be given. `log_rows` knows the forms that logs come in.
"""

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path

import numpy as np

from lynxbench.errors import BadInput
from lynxbench.model.load_figures import SourceFile
from lynxbench.model.samples import Float64, Int64
from lynxbench.plain_files import read_plain
from lynxbench.tables import read_table
from lynxbench.workload.log_rows import NumberedRow, Row, decoded_text, parse_local_time, rows_of

COLUMNS: dict[str, list[str]] = read_table("workload/data/log_columns.toml")
"""What each column may be called, in lower case; the first that is there is taken."""
LONGEST_LENGTH = 1_000_000
"""Tokens of one request that a contract can express; more is an error in the log."""
SNIFFED_ROWS = 200
"""Rows whose names are looked at to know the columns."""
FIRST_FAILURE = 400
"""HTTP states from here on are failures."""
FAILED_WORDS = frozenset({"error", "failed", "failure", "timeout", "timed out", "cancelled", "canceled", "aborted"})
NO_COLUMNS: Mapping[str, str] = {}
_OTHERS = ("output", "duration", "session", "status", "error")
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
    failed: int = 0
    """Requests that ended in an error, those without a length included, which are in no other column."""
    prefixes: tuple[tuple[int, ...], ...] | None = None
    """The hashes of each input's blocks, where the log has `hash_ids` (Mooncake): equal leading ones are equal text."""
    file: SourceFile | None = None
    """Which file it was read from."""

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
    status: str | None = None
    error: str | None = None


def parse_columns(given: Sequence[str]) -> dict[str, str]:
    """`input=tokens_in` as a person gives it: what a column holds, and how this log calls it."""
    columns: dict[str, str] = {}
    for text in given:
        what, equals, name = text.partition("=")
        if not equals or what not in COLUMNS or not name.strip():
            known = ", ".join(COLUMNS)
            raise BadInput(f"--column {text!r}: write what it holds and its name, as input=tokens_in; one of {known}")
        columns[what] = name.strip().lower()
    return columns


def read_log(path: Path, columns: Mapping[str, str] = NO_COLUMNS) -> RequestLog:
    """The requests of a file; what cannot be used is refused with its line. `columns` are those of other names."""
    data = _read_bytes(path)
    log = parse_log(decoded_text(data, str(path)), str(path), columns)
    digest = hashlib.sha256(data).hexdigest()
    file = SourceFile(what="trace", file=path.name, sha256=digest, size_bytes=len(data), rows=len(log))
    return replace(log, file=file)


def read_arrivals(path: Path, columns: Mapping[str, str] = NO_COLUMNS) -> tuple[Float64, int]:
    """When requests came, in seconds and in order, and how many of them failed: an access log knows no more."""
    source = str(path)
    names, rows = _opened(decoded_text(_read_bytes(path), source), source, columns, needed=("arrival",))
    moments: list[float] = []
    failed = 0
    for line, row in rows:
        moments.append(_moment(row, names, f"{source}:{line}"))
        failed += _has_failed(row, names)
    if len(moments) < 2:
        raise BadInput(f"{source}: holds {_how_many(len(moments))}; a demand needs at least 2")
    return np.sort(np.array(moments)), failed


def parse_log(text: str, source: str = "<log>", columns: Mapping[str, str] = NO_COLUMNS) -> RequestLog:
    """The same from text."""
    names, rows = _opened(text, source, columns)
    table: list[tuple[float, int, int, float]] = []
    sessions: list[str] = []
    prefixes: list[tuple[int, ...]] = []
    failed = 0
    for line, row in rows:
        has_failed = _has_failed(row, names)
        failed += has_failed
        if has_failed and row.get(names.input) in (None, ""):
            continue  # it was asked and never counted: no length is known of it
        whole = {**row, names.output: row.get(names.output) or 0} if has_failed and names.output else row
        table.append(_parse_row(whole, names, f"{source}:{line}"))
        prefixes.append(_parse_hashes(row.get("hash_ids"), f"{source}:{line}"))
        if names.session:
            sessions.append(str(row.get(names.session) or f"\0{line}"))  # without a name it stands alone
    if len(table) < 2:
        raise BadInput(f"{source}: holds {_how_many(len(table))}; a workload needs at least 2")
    return _sorted_log(source, table, sessions, prefixes, names, failed)


def _read_bytes(path: Path) -> bytes:
    try:
        return read_plain(path)
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; name a request log (JSON lines or CSV)") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None


def _opened(
    text: str, source: str, given: Mapping[str, str], needed: Sequence[str] = ("arrival", "input")
) -> tuple[_Columns, Iterator[NumberedRow]]:
    """The columns by the names of the first rows, as a request that failed may lack what others have; and all rows."""
    rows = rows_of(text, source)
    first = list(islice(rows, SNIFFED_ROWS))
    if not first:
        raise BadInput(f"{source}: holds 0 requests; a workload needs at least 2")
    names = {name for _, row in first for name in row}
    return _find_columns(names, f"{source}:{first[0][0]}", given, needed), chain(first, rows)


def _has_failed(row: Row, columns: _Columns) -> bool:
    status = row.get(columns.status) if columns.status else None
    if status not in (None, "") and _is_number(str(status)):
        return float(str(status)) >= FIRST_FAILURE
    if str(status).lower() in FAILED_WORDS:
        return True
    error = row.get(columns.error) if columns.error else None
    return error not in (None, "", False, 0, "0", "false", "False", "None", "null")


def _sorted_log(
    source: str,
    table: list[tuple[float, int, int, float]],
    sessions: list[str],
    prefixes: list[tuple[int, ...]],
    columns: _Columns,
    failed: int,
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
        failed=failed,
        prefixes=tuple(prefixes[place] for place in order) if any(prefixes) else None,
    )


def _find_columns(names: Collection[str], where: str, given: Mapping[str, str], needed: Sequence[str]) -> _Columns:
    found = {column: next((name for name in known if name in names), None) for column, known in COLUMNS.items()}
    for column, name in given.items():
        if name not in names:
            raise BadInput(f"--column {column}={name}: {where} has no {name}; it has {', '.join(sorted(names)[:12])}")
        found[column] = name
    for column in needed:
        if found[column] is None:
            what = "arrival time" if column == "arrival" else "prompt length"
            beside = "; an access log has none, and can be a --demand-log" if "path" in names else ""
            line = f"{where}: has no {what}; name that column one of {', '.join(COLUMNS[column])}"
            raise BadInput(f"{line}, or give its name with --column {column}=NAME{beside}")
    return _Columns(found["arrival"] or "", found["input"] or "", *(found[name] for name in _OTHERS))


def _moment(row: Row, columns: _Columns, where: str) -> float:
    milliseconds = columns.arrival.endswith("_ms") or columns.input == "input_length"
    return _parse_moment(row.get(columns.arrival), milliseconds, f"{where}: {columns.arrival}")


def _parse_row(row: Row, columns: _Columns, where: str) -> tuple[float, int, int, float]:
    arrival = _moment(row, columns, where)
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
    if text[2:3] == "/":
        with suppress(ValueError):
            return parse_local_time(text)
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


def _parse_hashes(value: object, where: str) -> tuple[int, ...]:
    if value is None or value == "":
        return ()
    if not isinstance(value, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in value):
        raise BadInput(f"{where}: hash_ids is {_shown(value)}; it is a list of whole numbers, one a block")
    return tuple(value)


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


def _how_many(requests: int) -> str:
    return "1 request" if requests == 1 else f"{requests} requests"
