"""One gRPC question at a time: whether a server answers, what it says of itself, and Triton's statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from lynxbench.engines.kserve import TRITON_PHASES
from lynxbench.engines.kserve_grpc import GrpcReader, language_of_engine, prepare_call, read_entry
from lynxbench.errors import CannotRun
from lynxbench.load import protobuf
from lynxbench.load.grpc_call import CallAnswer, call
from lynxbench.load.load_record import RequestEnd
from lynxbench.load.plan import Target, parse_target
from lynxbench.load.protobuf import as_bytes, as_number, as_text, read_fields
from lynxbench.load.response_reading import OUTPUT
from lynxbench.model.serving import KserveEngine

TRIES = 3
"""As over HTTP: a server that drops one in ten requests is measured all the same."""
ASK_TIMEOUT_S = 5.0
STATISTICS: Final = (
    *((1, "success"), (2, "fail"), (3, "queue"), (4, "compute_input"), (5, "compute_infer"), (6, "compute_output")),
    *((7, "cache_hit"), (8, "cache_miss")),
)
"""Fields of InferStatistics."""
assert {name for _, name in STATISTICS} >= set(TRITON_PHASES)


def ask_inference(engine: KserveEngine, prepared: bytes) -> None:
    """The first inference; CannotRun says in one line why the server cannot be measured."""
    where, problem = f"{engine.url} (gRPC)", ""
    for _ in range(TRIES):
        try:
            answer = call(_target(engine), prepared, engine.timeouts.first_byte_s)
        except TimeoutError:
            raise CannotRun(f"{where}: no answer within {engine.timeouts.first_byte_s:g} s") from None
        except OSError as error:
            problem = f"the server does not answer ({error.strerror or error}); is it running?"
            continue
        if answer.is_good:
            _read(answer, language_of_engine(engine).reader(False), where)
            return
        problem = f"the server answers {answer.why}"
        if answer.end is not RequestEnd.GRPC_ERROR:
            problem = f"no gRPC answer ({answer.why}); is this the server's gRPC port?"
    raise CannotRun(f"{where}: {problem}")


def _read(answer: CallAnswer, reader: GrpcReader, where: str) -> None:
    try:
        kinds = [reader.event(message) for message in answer.messages]
    except ValueError as error:
        raise CannotRun(f"{where}: the answer cannot be read: {error}") from None
    if reader.failure:
        raise CannotRun(f"{where}: the server fails: {reader.failure[:200]}")
    if OUTPUT not in kinds:
        raise CannotRun(f"{where}: the answer has no output")


def _target(engine: KserveEngine) -> Target:
    return parse_target(engine.url, ca_file=engine.ca_file, verify=engine.verify_tls)


def tell(engine: KserveEngine, method: str, request: bytes = b"", *, timeout_s: float = ASK_TIMEOUT_S) -> bytes | str:
    """What the server says to a question; a text says why it says nothing."""
    try:
        answer = call(_target(engine), prepare_call(engine, method, request), timeout_s)
    except TimeoutError:
        return f"{method}: no answer within {timeout_s:g} s"
    except OSError as error:
        return f"{method}: {error.strerror or error}"
    if not answer.is_good:
        return f"{method}: {answer.why}"
    return answer.messages[0] if answer.messages else b""


def is_ready(engine: KserveEngine, *, timeout_s: float) -> bool:
    """Whether the server says that it is ready; one that does not know the question is up too."""
    said = tell(engine, "ServerReady", timeout_s=timeout_s)
    if isinstance(said, str):
        return "UNIMPLEMENTED" in said
    return (1, 1) in read_fields(said)


def named_model(model: str, version: str | None) -> bytes:
    """The request that names a model."""
    return protobuf.text(1, model) + (protobuf.text(2, version) if version else b"")


def parse_metadata(data: bytes) -> dict[str, JsonValue]:
    """ServerMetadata, in the form that it has over HTTP."""
    fields = list(read_fields(data))
    return {
        "name": _last(fields, 1),
        "version": _last(fields, 2),
        "extensions": [as_text(value) for field, value in fields if field == 3],
    }


def parse_model(data: bytes) -> dict[str, JsonValue]:
    """ModelMetadata, in the form that it has over HTTP."""
    fields = list(read_fields(data))
    tensors: dict[int, list[JsonValue]] = {4: [], 5: []}
    for field, value in fields:
        if field in tensors:
            entry = read_entry(as_bytes(value))
            tensors[field].append({"name": entry.name, "datatype": entry.datatype, "shape": list(entry.shape)})
    return {
        "name": _last(fields, 1),
        "versions": [as_text(value) for field, value in fields if field == 2],
        "platform": _last(fields, 3),
        "inputs": tensors[4],
        "outputs": tensors[5],
    }


def _last(fields: list[tuple[int, int | bytes]], wanted: int) -> str:
    return next((as_text(value) for field, value in reversed(fields) if field == wanted), "")


def statistics_document(data: bytes) -> bytes:
    """Triton's ModelStatistics as the JSON that it sends over HTTP, as far as that is read here."""
    models = [dict(_statistics(as_bytes(value))) for field, value in read_fields(data) if field == 1]
    return json.dumps({"model_stats": models}).encode()


def _statistics(data: bytes) -> Iterator[tuple[str, object]]:
    for field, value in read_fields(data):
        if field in (1, 2):
            yield ("name" if field == 1 else "version"), as_text(value)
        elif field in (4, 5):
            yield ("inference_count" if field == 4 else "execution_count"), as_number(value)
        elif field == 6:
            parts = dict(read_fields(as_bytes(value)))
            yield "inference_stats", {n: _duration(as_bytes(parts[at])) for at, n in STATISTICS if at in parts}


def _duration(data: bytes) -> dict[str, int]:
    parts = dict(read_fields(data))
    return {"count": as_number(parts.get(1, 0)), "ns": as_number(parts.get(2, 0))}
