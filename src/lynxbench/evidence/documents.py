"""Result documents on disk: written whole or not at all, read strictly, and held against their own ids."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import ValidationError
from rfc8785 import CanonicalizationError

from lynxbench.errors import BadResult
from lynxbench.evidence.sample_file import hash_file
from lynxbench.model.canonical import JsonValue, content_id
from lynxbench.model.document import first_problem
from lynxbench.model.result import Result
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

MAX_RESULT_BYTES = 256 << 20
RESULT_FILE = "result.json"


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all: a reader never sees half of it, also after a crash."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def write_result(path: Path, result: Result) -> None:
    """Write a sealed result document."""
    write_text(path, json.dumps(result.document(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_result(path: Path) -> Result:
    """A result document, whose id matches its content; BadResult in one line otherwise."""
    if path.is_dir():
        path = path / RESULT_FILE
    data = read_bytes(path)
    result, identifier = parse_identified(data, str(path))
    if result.result_id != identifier:
        raise BadResult(f"{path}: result_id does not match the content; the document was changed after it was sealed")
    if result.contract_id != result.contract.contract_id:
        raise BadResult(
            f"{path}: contract_id does not match the contract inside; the document was put together wrongly"
        )
    if result.executor_id != result.executor.executor_id:
        raise BadResult(
            f"{path}: executor_id does not match the executor inside; the document was put together wrongly"
        )
    return result


def parse_result(data: bytes, file: str) -> Result:
    """The document's value; does not check ids."""
    _parse_plain(data, file)
    return parse_sealed(data, file)


def parse_identified(data: bytes, file: str) -> tuple[Result, str]:
    """The document's value, and the id of what is written; does not hold one against the other."""
    plain = _parse_plain(data, file)
    return parse_sealed(data, file), _plain_id(plain, file)


def parse_sealed(data: bytes, file: str) -> Result:
    """The value of bytes that were looked at closely when they were sealed and are the same still; checks no id."""
    try:
        return Result.model_validate_json(data)
    except ValidationError as error:
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise BadResult(f"{file}: {first_problem(error)}{more}") from None


def _parse_plain(data: bytes, file: str) -> dict[str, JsonValue]:
    try:
        plain = parse_strict_json(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadResult(f"{file}: not UTF-8 text (byte {error.start}); not a result document") from None
    except NotStrictJson as error:
        where = file if error.line is None else f"{file}:{error.line}"
        raise BadResult(f"{where}: {error}") from None
    if not isinstance(plain, dict):
        raise BadResult(f"{file}: a result is a JSON object, this is {_kind(plain)}")
    return plain


def document_id(data: bytes, file: str) -> str:
    """The id of a result document as it is written: keys that a later version added are not in it, and do not count."""
    return _plain_id(_parse_plain(data, file), file)


def _plain_id(plain: dict[str, JsonValue], file: str) -> str:
    try:
        return content_id({key: value for key, value in plain.items() if key != "result_id"})
    except (CanonicalizationError, UnicodeEncodeError) as error:
        raise BadResult(f"{file}: has no canonical form ({error})") from None


def check_samples(result: Result, folder: Path) -> Path:
    """The samples file beside a result, proven to be the one it was made from."""
    path = folder / Path(result.samples.file).name
    if not path.is_file():
        raise BadResult(f"{path}: the samples of this result are missing")
    found = hash_file(path)
    if found != result.samples.sha256:
        raise BadResult(f"{path}: SHA-256 {found[:12]}… is not the {result.samples.sha256[:12]}… that the result names")
    return path


def read_bytes(path: Path) -> bytes:
    """The bytes of a result document; BadResult where there is none."""
    try:
        if path.stat().st_size > MAX_RESULT_BYTES:
            raise BadResult(f"{path}: larger than {MAX_RESULT_BYTES >> 20} MiB; not a result document")
        return path.read_bytes()
    except OSError as error:
        raise BadResult(f"{path}: {error.strerror or error}; give a result document or its folder") from error


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", type(None): "null"}.get(type(value), "a number")
