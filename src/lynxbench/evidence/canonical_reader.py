"""Signed JSON read with suspicion: one value has one form (RFC 8785), and any other form is refused.

What cannot be written in two ways cannot be changed without its hash and signature changing with it.
"""

import base64
import binascii
from typing import TypeVar, cast

import rfc8785
from pydantic import ValidationError

from lynxbench.errors import EvidenceInvalid
from lynxbench.model.canonical import EXACT_INTEGER, JsonValue, NotQuick, strict_canonical_bytes
from lynxbench.model.document import Document, first_problem
from lynxbench.model.spelled_json import SpelledJson, parse_spelled
from lynxbench.model.strict_json import NotStrictJson, parse_strict_json

SignedDocument = TypeVar("SignedDocument", bound=Document)


def parse_canonical(data: bytes, what: str, most_bytes: int) -> JsonValue:
    """The value of canonical JSON bytes; EvidenceInvalid in one line for anything else."""
    if len(data) > most_bytes:
        raise EvidenceInvalid(f"{what}: {len(data)} bytes, more than the {most_bytes} allowed")
    quick = _spelled_canonically(data)
    if quick is not None and not quick.spelled:
        return cast("JsonValue", quick.value)
    try:
        value = as_written(parse_strict_json(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        raise EvidenceInvalid(f"{what}: not UTF-8 (byte {error.start})") from None
    except NotStrictJson as error:
        raise EvidenceInvalid(f"{what}: {error}") from None
    if _canonical(value) != data:
        raise EvidenceInvalid(f"{what}: not in canonical form (RFC 8785); the same content has another spelling")
    return value


def parse_document(
    data: bytes, what: str, most_bytes: int, form: type[SignedDocument], whole: str = "document"
) -> SignedDocument:
    """A document of that form from canonical bytes; EvidenceInvalid in one line for anything else."""
    if len(data) > most_bytes or _spelled_canonically(data) is None:
        parse_canonical(data, what, most_bytes)
    try:
        return form.model_validate_json(data)
    except ValidationError as error:
        raise EvidenceInvalid(f"{what}: {first_problem(error, whole)}") from None


def parse_base64(value: JsonValue, what: str) -> bytes:
    """Standard base64 with padding, in its only spelling: decoders that skip characters or bits let texts differ."""
    if not isinstance(value, str):
        raise EvidenceInvalid(f"{what}: not a base64 text")
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise EvidenceInvalid(f"{what}: not standard base64") from None
    if base64.b64encode(data).decode("ascii") != value:
        raise EvidenceInvalid(f"{what}: base64 in another spelling than the standard one")
    return data


def as_written(value: JsonValue) -> JsonValue:
    """Integers beyond 2^53 are floating point there: the canonical form of 1e17 has no exponent."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_written(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_INTEGER:
        try:
            return float(value)
        except OverflowError:
            raise EvidenceInvalid("an integer is beyond every number that has a canonical form") from None
    return value


def _spelled_canonically(data: bytes) -> SpelledJson | None:
    """What was read, where it gives these very bytes again in the one form there is; None: look closely."""
    try:
        quick = parse_spelled(data)
        return quick if quick.canonical_bytes() == data else None
    except NotQuick:
        return None


def _canonical(value: JsonValue) -> bytes | None:
    try:
        return strict_canonical_bytes(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):  # a lone surrogate has no UTF-8 form
        return None
