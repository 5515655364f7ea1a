"""A performance claim in whatever form to the lint: a peer's result file, an MLPerf row, YAML, or free text."""

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from lynxbench.decide.claim_lint import comparable_results, lint_peer, lint_text, lint_values
from lynxbench.decide.claim_values import looks_like_row, rows_of
from lynxbench.errors import BadInput
from lynxbench.model.claims import ClaimReport
from lynxbench.model.result import Result
from lynxbench.model.strict_file import parse_keys
from lynxbench.reading import read_text
from lynxbench.record.formats.foreign_results import parse_foreign

CLAIM = "a claim"
LARGEST_CLAIM_BYTES = 64 << 20


def lint_claim(text: str, source: str, results: Sequence[Result] = ()) -> ClaimReport:
    """A claim in whatever form: a peer's result file, an MLPerf row, YAML, or free text."""
    return comparable_results(_lint(text, source), results)


def read_claim(path: Path) -> str:
    """The text of a claim file."""
    missing = "no such file; name one with a claim, or give the claim with --text"
    return read_text(path, CLAIM, missing=missing, largest_bytes=LARGEST_CLAIM_BYTES)


def _lint(text: str, source: str) -> ClaimReport:
    stripped = text.lstrip()
    if stripped.startswith(("{", "[", ":::MLLOG")) or "MLPerf Results Summary" in stripped[:4096]:
        try:
            foreign = parse_foreign(text, source)
            return lint_peer(foreign, source, _json_values(text, source) if stripped.startswith("{") else None)
        except BadInput:
            if not stripped.startswith("{"):
                raise
            return lint_values(_json_values(text, source), source, "JSON")
    if looks_like_row(text):
        return lint_values(rows_of(text)[0], source, "row of a results table")
    if _looks_like_yaml(text):
        return lint_values(parse_keys(text, source, CLAIM), source, "YAML")
    return lint_text(text, source)


def _json_values(text: str, source: str) -> dict[str, JsonValue]:
    try:
        value = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadInput(f"{source}: neither a peer's result nor a claim with keys")
    return value


def _looks_like_yaml(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    keyed = sum(
        ":" in line and line.split(":", 1)[0].strip().replace("_", "").replace("-", "").isalnum() for line in lines
    )
    return len(lines) >= 2 and keyed >= len(lines) / 2
