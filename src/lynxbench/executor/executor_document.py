"""The executor as a JSON document: written, and read back with suspicion."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from lynxbench.errors import BadResult
from lynxbench.executor.compatibility import CompatibilityFinding
from lynxbench.executor.native_precisions import PrecisionSupport
from lynxbench.model.executor import EXECUTOR_SCHEMA, Executor
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.reading import read_text

LARGEST_DOCUMENT_BYTES = 64 * 1024 * 1024


def executor_document(
    executor: Executor,
    compatibility: Sequence[CompatibilityFinding] = (),
    conditions: Sequence[CompatibilityFinding] = (),
    precisions: Sequence[PrecisionSupport] = (),
) -> dict[str, JsonValue]:
    """Ids, layers and what was concluded from them."""
    return {
        "schema_version": executor.schema_version,
        "executor_id": executor.executor_id,
        "instance_id": executor.instance_id,
        "layers": executor.model_dump(mode="json")["layers"],
        "compatibility": [finding.model_dump(mode="json") for finding in compatibility],
        "conditions": [finding.model_dump(mode="json") for finding in conditions],
        "precisions": [support.model_dump(mode="json") for support in precisions],
    }


def read_executor(path: Path | str) -> Executor:
    """The executor of an executor document or of a result document that holds one."""
    text = read_text(path, "an executor or result document", largest_bytes=LARGEST_DOCUMENT_BYTES)
    return parse_executor(text, str(path))


def parse_executor(text: str, file: str = "<executor>") -> Executor:
    """The executor in a JSON text; its ids are recomputed and must be the ones it states."""
    try:
        document = parse_strict_json(text)
    except NotStrictJson as problem:
        where = file if problem.line is None else f"{file}:{problem.line}"
        raise BadResult(f"{where}: {problem}") from None
    if not isinstance(document, dict):
        raise BadResult(f"{file}: must be a JSON object with `layers`, or a result document with `executor`")
    inner = document.get("executor", document)
    if not isinstance(inner, dict) or "layers" not in inner:
        raise BadResult(f"{file}: holds no executor: expected `layers`, or `executor` with `layers` in it")
    version = inner.get("schema_version", EXECUTOR_SCHEMA)
    if version != EXECUTOR_SCHEMA or isinstance(version, bool):
        raise BadResult(f"{file}: executor schema {version!r}; this program reads {EXECUTOR_SCHEMA}")
    try:
        executor = Executor.model_validate_json(json.dumps({"schema_version": version, "layers": inner["layers"]}))
        ids = {"executor_id": executor.executor_id, "instance_id": executor.instance_id}
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if part != "[key]")
        raise BadResult(f"{file}: executor.{key}: {first['msg']}") from None
    except (ValueError, RecursionError) as problem:  # a number or a depth that has no canonical form
        raise BadResult(f"{file}: executor: {problem}") from None
    for name, computed in ids.items():
        stated = inner.get(name, document.get(name))
        if stated is not None and stated != computed:
            raise BadResult(f"{file}: {name} is not the hash of its fields ({computed[:12]}…): the file was changed")
    return executor
