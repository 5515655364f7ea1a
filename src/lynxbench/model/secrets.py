"""What looks like a secret, and texts without it. Pure: the environment is passed in."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from lynxbench.model.canonical import JsonValue

WITHHELD: Final = "<withheld>"
SHORTEST_SECRET: Final = 8
"""Shorter values of secret-looking variables (`true`, `1`, `none`) are settings, and occur in any text."""

HARMLESS_NAMES: frozenset[str] = frozenset({"TOKENIZERS_PARALLELISM", "PWD", "OLDPWD", "SSL_CERT_DIR", "SSL_CERT_FILE"})
"""Names that hold a secret-looking word and are known not to be one. Their values are still looked at."""
WITHHELD_NAMES: frozenset[str] = frozenset({"LYNXBENCH_SALT"})

_SECRET_WORD = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|APIKEY|ACCESSKEY|PRIVATE|BEARER|COOKIE|SIGNATURE", re.IGNORECASE
)
_SECRET_PART = re.compile(
    r"(?:^|[^A-Z])(?:API|ACCESS|AUTH|SSH|ENCRYPTION|LICEN[CS]E)?(?:KEYS?|PASS|PWD|PW|PIN|AUTH|CERT|JWT|SAS|OAUTH|LOGIN)"
    r"(?:[^A-Z]|$)",
    re.IGNORECASE,
)
_URL_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@]*@", re.IGNORECASE)
_SECRET_ASSIGNED = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|credential|authorization|signature|\bsig)s?"
    r"[\"']?\s*[=:]",
    re.IGNORECASE,
)
_KNOWN_SHAPES = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:hf_[A-Za-z0-9]{8}|sk-[A-Za-z0-9_-]{8}|gh[pousr]_[A-Za-z0-9]{8}|github_pat_|glpat-|nvapi-|xox[abprs]-|"
    r"A[KS]IA[A-Z0-9]{12}|AIza[A-Za-z0-9_-]{10}|ya29\.|npm_[A-Za-z0-9]{8}|pypi-[A-Za-z0-9_-]{8}|"
    r"eyJ[A-Za-z0-9_-]{8,}\.)|-----BEGIN|\bBearer\s+\S|\bBasic\s+[A-Za-z0-9+/=]{8}",
)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PIECES = re.compile(r"[^A-Za-z0-9+_-]+")

LONG_PIECE = 20
"""Shorter random strings are rare as credentials and common as settings."""
RANDOM_BITS_PER_CHARACTER = 3.0
"""English-like option names lie lower once they carry digits; random hex of 20 digits lies near 3.3, base64 near 4."""


def name_looks_secret(name: str) -> bool:
    """Whether a name reads like that of a token, key, password or credential."""
    if name in WITHHELD_NAMES:
        return True
    return name not in HARMLESS_NAMES and bool(_SECRET_WORD.search(name) or _SECRET_PART.search(name))


def value_looks_secret(value: str) -> bool:
    """Whether a value holds credentials in a URL, an assigned secret, a known token shape or a long random string."""
    if value_is_credential(value):
        return True
    return any(_looks_random(piece) for piece in _PIECES.split(_UUID.sub("", value)))


def value_is_credential(value: str) -> bool:
    """The certain half of the rule, for values that may rightly hold hashes."""
    return bool(_URL_CREDENTIALS.search(value) or _SECRET_ASSIGNED.search(value) or _KNOWN_SHAPES.search(value))


def _looks_random(piece: str) -> bool:
    if len(piece) < LONG_PIECE:
        return False
    digits = sum(c.isdigit() for c in piece)
    letters = sum(c.isalpha() for c in piece)
    mixed_case = any(c.islower() for c in piece) and any(c.isupper() for c in piece)
    words = max((len(word) for word in re.split(r"[_+-]", piece)), default=0)
    if words < LONG_PIECE and not (mixed_case and digits):
        return False  # words joined by underscores are an option's name
    if digits < 2 and not mixed_case:
        return False
    return bool(digits + letters) and _bits_per_character(piece) >= RANDOM_BITS_PER_CHARACTER


def _bits_per_character(piece: str) -> float:
    return -sum(n / len(piece) * math.log2(n / len(piece)) for n in Counter(piece).values())


_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)(=.*)?$", re.DOTALL)
_MODEL_TOKENS = re.compile(
    r"TOKENI[SZ](?:ERS?|ATION)|TOKENS|TOKEN_(?:IDS?|LEN|LENGTH|COUNT|LIMIT|BUDGET)|TOKEN(?=_PER_)"
)
_URL_PASSWORD = re.compile(r"([a-z][a-z0-9+.-]*://)([^/\s@:]*):([^/\s@]+)@", re.IGNORECASE)
_HEADER = re.compile(r"(\b(?:Bearer|Basic)\s+)[^\s\"',;]+")
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_|sk-|gh[pousr]_|github_pat_|glpat-|nvapi-|xox[abprs]-|A[KS]IA|AIza|ya29\.|npm_|pypi-|eyJ)"
    r"[A-Za-z0-9_.-]{8,}"
)
_ASSIGNED = re.compile(
    r"((?:token|secret|passw(?:or)?d|passphrase|api[_-]?key|access[_-]?key|authorization)[\"']?\s*[=:]\s*[\"']?)"
    r"(?!(?:Bearer|Basic)\s)[^\s\"',;&]{6,}",
    re.IGNORECASE,
)


def option_looks_secret(name: str) -> bool:
    """Whether a command line's option is named like a secret; tokens that a model reads are none."""
    plain = name.replace("-", "_").upper()
    return name_looks_secret(_MODEL_TOKENS.sub("", plain))


def secret_values(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets that an environment holds, longest first: they must appear nowhere."""
    secrets: set[str] = set()
    for name, value in environment.items():
        if name_looks_secret(name):
            secrets.add(value)
        secrets.update(match[3] for match in _URL_PASSWORD.finditer(value))
    long = (secret for secret in secrets if len(secret) >= SHORTEST_SECRET)
    return tuple(sorted(long, key=lambda secret: (-len(secret), secret)))


def withhold(text: str, secrets: Sequence[str]) -> str:
    """A text without the given secrets, and without what has the shape of one."""
    for secret in secrets:
        text = text.replace(secret, WITHHELD)
    text = _URL_PASSWORD.sub(rf"\1\2:{WITHHELD}@", text)
    text = _HEADER.sub(rf"\1{WITHHELD}", text)
    text = _ASSIGNED.sub(rf"\1{WITHHELD}", text)
    return _TOKEN.sub(WITHHELD, text)


def find_secret(document: JsonValue) -> str | None:
    """Where a document holds a credential's shape or the value of an option named like a secret; None where nowhere."""
    values = list(_walk(document))
    shaped = (at for at, value in values if isinstance(value, str) and value_is_credential(value))
    lists = ((at, value) for at, value in values if isinstance(value, (list, tuple)))
    named = (f"{at}[{place}]" for at, words in lists for place in _secret_arguments(words))
    return next(chain(shaped, named), None)


def find_literal(document: JsonValue, secrets: Sequence[str]) -> str | None:
    """Where a document holds one of the given secrets; None where nowhere."""
    texts = ((at, value) for at, value in _walk(document) if isinstance(value, str))
    return next((at for at, text in texts if any(secret in text for secret in secrets)), None)


def _walk(document: JsonValue, path: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Every value of a document with its place, from the outside in."""
    yield path, document
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield from _walk(value, f"{path}.{key}" if path else str(key))
    elif isinstance(document, (list, tuple)):
        for index, value in enumerate(document):
            yield from _walk(value, f"{path}[{index}]")


def _secret_arguments(words: Sequence[JsonValue]) -> Iterator[int]:
    """Places in a command line that hold the value of an option named like a secret."""
    for index, word in enumerate(words):
        option = _OPTION.match(word) if isinstance(word, str) else None
        if option is None or not option_looks_secret(option[1]):
            continue
        if option[2] is not None:
            yield index
        elif index + 1 < len(words) and isinstance(after := words[index + 1], str) and not after.startswith("-"):
            yield index + 1
