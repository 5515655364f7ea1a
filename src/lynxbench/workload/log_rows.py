"""The rows of a request log, whoever wrote it: JSON, OpenTelemetry spans, CSV, access logs, each also packed.

A row maps names in lower case to values. What is nested is there by its path (`usage.prompt_tokens`), and by its last
name where nothing further out has that name.
"""

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from lynxbench.errors import BadInput, first_line
from lynxbench.plain_files import LARGEST_EVIDENCE_BYTES, PIECE_BYTES

Row = Mapping[str, object]
NumberedRow = tuple[int, Row]

DEEPEST = 4
"""Objects within objects of a row that are looked into."""
SNIFFED_LINES = 50
SPANS = "resourcespans"
_GZIP = b"\x1f\x8b"
_REQUEST = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+)[^"]*" (?P<status>\d{3})\b')
_BRACKETED = re.compile(r"\[(?P<time>\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]")
"""nginx and Apache: `[16/Nov/2026:10:00:00 +0000]`."""
_LEADING = re.compile(r"\s*\[?(?P<time>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)")
"""uvicorn, under vLLM and SGLang, with a format that begins with a time."""
_TOOK = re.compile(r"\b(?:rt|request_time)=(?P<seconds>\d+(?:\.\d+)?)")


def decoded_text(data: bytes, source: str) -> str:
    """The text of a log, unpacked where it is gzip."""
    if data.startswith(_GZIP):
        data = _unpacked(data, source)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start}); a request log is JSON lines or CSV"
        raise BadInput(f"{source}: {problem}") from None


def rows_of(text: str, source: str) -> Iterator[NumberedRow]:
    """Every request with its line; what a form of log says beside requests is left out."""
    start = text.lstrip()[:1]
    if start == "{":
        return _json_rows(text, source)
    if start == "[" and not _is_access_log(text):
        return _array_rows(text, source)
    return _access_rows(text, source) if _is_access_log(text) else _csv_rows(text, source)


def _unpacked(data: bytes, source: str) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            while piece := stream.read(PIECE_BYTES):
                size += len(piece)
                if size > LARGEST_EVIDENCE_BYTES:
                    raise BadInput(f"{source}: unpacks to over {LARGEST_EVIDENCE_BYTES:,} bytes; give a part of it")
                pieces.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{source}: is no whole gzip file ({first_line(error)})") from None
    return b"".join(pieces)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json_rows(text: str, source: str) -> Iterator[NumberedRow]:
    whole = _whole(text) if SPANS in text[:4096].lower() else None
    if whole is not None:  # one document over many lines
        yield from ((1, row) for row in _span_rows(whole))
        return
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
        flat = _flat(row)
        yield from ((line, span) for span in _span_rows(row)) if SPANS in flat else ((line, flat),)


def _array_rows(text: str, source: str) -> Iterator[NumberedRow]:
    try:
        rows = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise BadInput(f"{source}: begins like a JSON array and is none; give JSON lines, an array or CSV") from None
    for place, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise BadInput(f"{source}: element {place} is no JSON object; one object a request is expected")
        yield place, _flat(row)


def _whole(text: str) -> Mapping[str, object] | None:
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _flat(row: Mapping[str, object], depth: int = 0) -> dict[str, object]:
    """Names and paths; what is further out keeps its name."""
    flat = {str(key).strip().lower(): value for key, value in row.items()}
    if depth >= DEEPEST:
        return flat
    for name, value in list(flat.items()):
        if isinstance(value, Mapping):
            for inner, nested in _flat(value, depth + 1).items():
                flat.setdefault(f"{name}.{inner}", nested)
                flat.setdefault(inner, nested)
    return flat


# --- OpenTelemetry: spans of the GenAI conventions, as OTLP writes them in JSON ---------------------------------------


def _span_rows(document: Mapping[str, object]) -> Iterator[Row]:
    """One row a span that speaks of a model's request; spans of other things are none."""
    for span in _spans(document):
        attributes = {str(one.get("key")): _value(one.get("value")) for one in _objects(span.get("attributes"))}
        if not any(name.startswith("gen_ai.") for name in attributes):
            continue
        begin, end = (_whole_number(span.get(name)) for name in ("startTimeUnixNano", "endTimeUnixNano"))
        status = span.get("status")
        code = status.get("code") if isinstance(status, Mapping) else None
        yield {
            "arrival": begin,
            "prompt_tokens": _first(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
            "completion_tokens": _first(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
            "duration": None if begin is None or end is None else (end - begin) / 1e9,
            "session": _first(attributes, "gen_ai.conversation.id", "session.id"),
            "error": attributes.get("error.type") or (code in (2, "STATUS_CODE_ERROR") and "error") or None,
        }


def _spans(document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for resource in _objects(_get(document, "resourceSpans")):
        for scope in _objects(resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans")):
            yield from _objects(scope.get("spans"))


def _get(document: Mapping[str, object], name: str) -> object:
    return next((value for key, value in document.items() if key.lower() == name.lower()), None)


def _objects(value: object) -> Iterable[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _value(value: object) -> object:
    """The value of an attribute, whatever its type is called; whole numbers are written as text."""
    if not isinstance(value, Mapping):
        return value
    if "intValue" in value:
        return _whole_number(value["intValue"])
    return next(iter(value.values()), None)


def _whole_number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def _first(attributes: Mapping[str, object], *names: str) -> object:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


# --- CSV and access logs --------------------------------------------------------------------------------------------


def _csv_rows(text: str, source: str) -> Iterator[NumberedRow]:
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


def _is_access_log(text: str) -> bool:
    head = text[: SNIFFED_LINES * 1000].splitlines()[:SNIFFED_LINES]
    return any(_REQUEST.search(line) for line in head)


def _access_rows(text: str, source: str) -> Iterator[NumberedRow]:
    """Requests that were posted, with their times and how they ended; a model is not asked by any other method."""
    for line, record in enumerate(text.splitlines(), 1):
        request = _REQUEST.search(record)
        if request is None or request["method"] != "POST":
            continue
        took = _TOOK.search(record)
        yield (
            line,
            {
                "timestamp": _access_time(record, f"{source}:{line}"),
                "path": request["path"],
                "status": request["status"],
                "duration": None if took is None else took["seconds"],
            },
        )


def _access_time(record: str, where: str) -> object:
    bracketed = _BRACKETED.search(record)
    if bracketed is not None:
        return datetime.strptime(bracketed["time"], "%d/%b/%Y:%H:%M:%S %z").timestamp()
    leading = _LEADING.match(record)
    if leading is None:
        raise BadInput(f"{where}: a request without a time; write the log with one, such as nginx's `$time_local`")
    return leading["time"].replace(",", ".")
