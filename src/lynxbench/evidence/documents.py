"""Documents on disk: written whole or not at all, read strictly; results held against their own ids."""

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from rfc8785 import CanonicalizationError

from lynxbench.errors import BadInput, BadResult
from lynxbench.evidence.sample_file import hash_file
from lynxbench.evidence.whole_files import write_text
from lynxbench.model.canonical import JsonValue, NotQuick, content_id
from lynxbench.model.document import Document, first_problem
from lynxbench.model.entries import RESULT_BLOB
from lynxbench.model.result import Result
from lynxbench.model.spelled_json import parse_spelled
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json
from lynxbench.plain_files import read_plain

MAX_RESULT_BYTES = 256 << 20
RESULT_FILE = RESULT_BLOB

AnyDocument = TypeVar("AnyDocument", bound=Document)


def read_document(file: Path, form: type[AnyDocument], hint: str) -> AnyDocument:
    """A document from its file; BadInput with the hint where there is none, BadResult where it is damaged."""
    try:
        return form.model_validate_json(read_plain(file, MAX_RESULT_BYTES))
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}; {hint}") from None
    except ValidationError as error:
        raise BadResult(f"{file}: damaged: {first_problem(error)}") from None


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
    inside = {"contract": result.contract.contract_id, "executor": result.executor.executor_id}
    for name, identifier in inside.items():
        if getattr(result, f"{name}_id") != identifier:
            raise BadResult(f"{path}: {name}_id does not match the {name} inside; it was put together wrongly")
    return result


def parse_result(data: bytes, file: str) -> Result:
    """The document's value; does not hold its id against it."""
    return parse_identified(data, file)[0]


def parse_identified(data: bytes, file: str) -> tuple[Result, str]:
    """The document's value, and the id of what is written; does not hold one against the other.

    Keys that a later version added are not in what is written, and do not count.
    """
    try:
        written = parse_spelled(data).canonical_without("result_id")
    except NotQuick:
        return _identified_slowly(data, file)
    return parse_sealed(data, file), hashlib.sha256(written).hexdigest()


def _identified_slowly(data: bytes, file: str) -> tuple[Result, str]:
    """The same step by step, so that each thing that can be wrong is said."""
    plain = _parse_plain(data, file)
    result = parse_sealed(data, file)
    try:
        return result, content_id({key: value for key, value in plain.items() if key != "result_id"})
    except (CanonicalizationError, UnicodeEncodeError) as error:
        raise BadResult(f"{file}: has no canonical form ({error})") from None


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
        kind = {list: "a list", str: "a string", type(None): "null"}.get(type(plain), "a number")
        raise BadResult(f"{file}: a result is a JSON object, this is {kind}")
    return plain


def check_samples(result: Result, folder: Path) -> Path:
    """The samples file beside a result, proven to be the one it was made from."""
    path = folder / Path(result.samples.file).name
    if not path.is_file():
        raise BadResult(f"{path}: the samples of this result are missing")
    digest, stated = hash_file(path), result.samples.sha256
    if digest != stated:
        raise BadResult(f"{path}: SHA-256 {digest[:12]}… is not the {stated[:12]}… that the result names")
    return path


def read_bytes(path: Path) -> bytes:
    """The bytes of a result document; BadResult where there is none."""
    try:
        return read_plain(path, MAX_RESULT_BYTES)
    except OSError as error:
        raise BadResult(f"{path}: {error.strerror or error}; give a result document or its folder") from error
