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
from lynxbench.plain_files import LARGEST_EVIDENCE_BYTES, PIECE_BYTES, unfolds_too_far

Row = Mapping[str, object]
NumberedRow = tuple[int, Row]

DEEPEST = 4
"""Objects within objects of a row that are looked into."""
SNIFFED_LINES = 50
_GZIP = b"\x1f\x8b"
_REQUEST = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+)[^"]*" (?P<status>\d{3})\b')
_BRACKETED = re.compile(r"\[(?P<time>\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]")
"""nginx and Apache: `[16/Nov/2026:10:00:00 +0000]`."""
_LEADING = re.compile(r"\s*\[?(?P<time>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?)")
"""uvicorn, under vLLM and SGLang, with a format that begins with a time."""
_METHOD = re.compile(r"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT)\b")
AROUND = frozenset({"invoke_agent", "create_agent", "execute_tool", "invoke_workflow"})
"""Operations of the GenAI conventions that are no request of a model."""
_TOOK = re.compile(r"\b(?:rt|request_time)[=:] ?\"?(?P<seconds>\d+(?:\.\d+)?)")


def decoded_text(data: bytes, source: str) -> str:
    """The text of a log, unpacked where it is gzip."""
    if data.startswith(_GZIP):
        data = _unpacked(data, source)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start}); a request log is JSON lines or CSV"
        raise BadInput(f"{source}: {problem}") from None


def parse_local_time(text: str) -> float:
    """A moment as nginx and Apache write it: `16/Nov/2026:10:00:00 +0000`; ValueError otherwise."""
    return datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").timestamp()


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
                if unfolds_too_far(size, len(data)):
                    raise BadInput(f"{source}: unpacks to over {size:,} bytes from {len(data):,}; no log does")
                if size > LARGEST_EVIDENCE_BYTES:
                    raise BadInput(f"{source}: unpacks to over {LARGEST_EVIDENCE_BYTES:,} bytes; give a part of it")
                pieces.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{source}: is no whole gzip file ({first_line(error)})") from None
    return b"".join(pieces)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json_rows(text: str, source: str) -> Iterator[NumberedRow]:
    for line, row in _objects_over_lines(text) or _objects_by_line(text, source):
        yield from ((line, request) for request in _requests_in(row))


def json_objects(text: str, source: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Every object of a JSON text, with its line: one a line, or each over several, or an array of them."""
    if text.lstrip()[:1] == "[":
        return ((place, row) for place, row in enumerate(_parsed_array(text, source), 1))
    return iter(_objects_over_lines(text) or _objects_by_line(text, source))


def _objects_by_line(text: str, source: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, record in enumerate(text.splitlines(), 1):
        if not record.strip():
            continue
        try:
            row = json.loads(record)
        except json.JSONDecodeError as error:
            raise BadInput(f"{source}:{line}: is not JSON ({error.msg}); one object a line is expected") from None
        except ValueError:
            raise BadInput(f"{source}:{line}: holds a number of thousands of digits") from None
        except RecursionError:
            raise BadInput(f"{source}:{line}: is nested too deep for a request") from None
        if not isinstance(row, dict):
            raise BadInput(f"{source}:{line}: is no JSON object; one object a line is expected")
        yield line, row


def _objects_over_lines(text: str) -> list[tuple[int, Mapping[str, object]]] | None:
    """Objects one after the other, each over several lines, as exporters print them; None where one ends its line."""
    decoder, rows, place, line = json.JSONDecoder(), list[tuple[int, Mapping[str, object]]](), 0, 1
    while (begin := _after_space(text, place)) < len(text):
        line, place = line + text.count("\n", place, begin), begin
        if not rows and _is_json(text[begin:].split("\n", 1)[0]):
            return None
        try:
            row, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):  # not JSON, or a number of thousands of digits
            return None
        if not isinstance(row, dict):
            return None
        rows.append((line, row))
        line, place = line + text.count("\n", begin, end), end
    return rows


def _after_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or a number of thousands of digits
        return False
    return True


def _requests_in(row: Mapping[str, object]) -> Iterator[Row]:
    """The requests that one object tells of: itself, or those among its spans."""
    if named_value(row, "resourceSpans") is not None:
        yield from _span_rows(row)
        return
    attributes = row.get("attributes")
    if isinstance(attributes, Mapping) and any(str(name).startswith("gen_ai.") for name in attributes):
        yield from _request_of(row, attributes, row.get("start_time"), row.get("end_time"))
        return
    flat = _flat(row)
    line = str(flat.get("request") or flat.get("request_method") or "")
    if _METHOD.match(line) is None or line.startswith("POST"):  # an access log in JSON: nothing else asks a model
        yield flat


def _array_rows(text: str, source: str) -> Iterator[NumberedRow]:
    for place, row in enumerate(_parsed_array(text, source), 1):
        yield from ((place, request) for request in _requests_in(row))


def _parsed_array(text: str, source: str) -> Iterator[Mapping[str, object]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):  # not JSON, or a number of thousands of digits
        raise BadInput(f"{source}: begins like a JSON array and is none; give JSON lines, an array or CSV") from None
    for place, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise BadInput(f"{source}: element {place} is no JSON object; one object a request is expected")
        yield row


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
    for span in spans_in(document):
        times = (whole_number(named_value(span, name)) for name in ("startTimeUnixNano", "endTimeUnixNano"))
        yield from _request_of(span, attributes_of(span), *times)


def spans_in(document: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Every span of an OTLP document, whatever it speaks of."""
    for resource in objects_in(named_value(document, "resourceSpans")):
        for scope in objects_in(
            named_value(resource, "scopeSpans") or named_value(resource, "instrumentationLibrarySpans")
        ):
            yield from objects_in(scope.get("spans"))


def attributes_of(span: Mapping[str, object]) -> dict[str, object]:
    """The attributes of an OTLP span by their names."""
    return {str(one.get("key")): _value(one.get("value")) for one in objects_in(span.get("attributes"))}


def _request_of(
    span: Mapping[str, object], attributes: Mapping[str, object], begin: object, end: object
) -> Iterator[Row]:
    """The request of a span; what an agent or a tool did around it is counted by the spans of its own requests."""
    is_request = any(name.startswith("gen_ai.") for name in attributes)
    if not is_request or attributes.get("gen_ai.operation.name") in AROUND:
        return
    status = span.get("status")
    code = named_value(status, "code") or named_value(status, "statusCode") if isinstance(status, Mapping) else None
    yield {
        "arrival": begin,
        "prompt_tokens": first_of(attributes, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "completion_tokens": first_of(attributes, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "duration": _between(begin, end),
        "session": first_of(attributes, "gen_ai.conversation.id", "session.id"),
        "error": attributes.get("error.type") or (code in (2, "STATUS_CODE_ERROR", "ERROR") and "error") or None,
    }


def _between(begin: object, end: object) -> float | None:
    """Seconds from one moment to another, in nanoseconds or as dates; None where one is not known."""
    if isinstance(begin, int) and isinstance(end, int):
        return (end - begin) / 1e9
    if not isinstance(begin, str) or not isinstance(end, str):
        return None
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except (ValueError, TypeError):
        return None


def named_value(document: Mapping[str, object], name: str) -> object:
    """A value whatever the spelling of its name: `startTimeUnixNano`, `start_time_unix_nano`."""
    wanted = name.lower()
    return next((value for key, value in document.items() if key.replace("_", "").lower() == wanted), None)


def objects_in(value: object) -> Iterable[Mapping[str, object]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _value(value: object) -> object:
    """The value of an attribute, whatever its type is called; whole numbers are written as text."""
    if not isinstance(value, Mapping):
        return value
    whole = named_value(value, "intValue")
    if whole is not None:
        return whole_number(whole)
    return next(iter(value.values()), None)


def whole_number(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None


def first_of(attributes: Mapping[str, object], *names: str) -> object:
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
        return parse_local_time(bracketed["time"])
    leading = _LEADING.match(record)
    if leading is None:
        how = "nginx's `$time_local`, `docker logs --timestamps`, a uvicorn format that begins with `%(asctime)s`"
        raise BadInput(f"{where}: a request without a time; write the log with one: {how}")
    return leading["time"].replace(",", ".")
