"""Prometheus' text format, line by line: a line that is not in it spoils no other. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(.*)\})?\s*(\S+)(?:\s+([-+0-9.eE]+))?$")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|[Ii]nf|[Nn]a[Nn])$")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class ExposedSample:
    """One line: its name, its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Exposition:
    """The lines of a text, and how many are not in the format."""

    samples: tuple[ExposedSample, ...]
    malformed: int


def parse_exposition(text: str, beginnings: tuple[str, ...] = ("",)) -> Exposition:
    """Every sample whose name begins so. A text that breaks off in its last line has one malformed line more."""
    samples, malformed = [], 0
    whole, _, torn = text.rpartition("\n")
    malformed += bool(torn.strip())  # what follows the last newline was never finished
    for line in whole.split("\n"):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        sample = _parse(stripped)
        if sample is None:
            malformed += 1
        elif sample.name.startswith(beginnings):
            samples.append(sample)
    return Exposition(tuple(samples), malformed)


def _parse(line: str) -> ExposedSample | None:
    found = _LINE.match(line)
    if found is None or not _NUMBER.match(found[3]):
        return None
    labels = _labels(found[2] or "")
    return None if labels is None else ExposedSample(found[1], labels, float(found[3]))


def _labels(text: str) -> dict[str, str] | None:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text) and text[at:].strip():
        found = _LABEL.match(text, at)
        if found is None or found[1] in labels:
            return None
        labels[found[1]] = re.sub(r"\\(.)", lambda escaped: _ESCAPED.get(escaped[1], escaped[0]), found[2])
        at = found.end()
    return labels
