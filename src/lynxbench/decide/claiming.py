"""A performance claim in whatever form to the lint: a peer's result file, an MLPerf row, YAML, or free text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from lynxbench.decide.claim_lint import comparable_results, lint_peer, lint_text, lint_values
from lynxbench.decide.claim_table import looks_like_row, rows_of
from lynxbench.errors import BadInput
from lynxbench.executor.site_file import parse_lined_yaml
from lynxbench.model.claims import ClaimReport
from lynxbench.model.result import Result
from lynxbench.record.formats.foreign_results import parse_foreign

LARGEST_CLAIM_BYTES = 64 << 20


def lint_claim(text: str, source: str, results: Sequence[Result] = ()) -> ClaimReport:
    """A claim in whatever form: a peer's result file, an MLPerf row, YAML, or free text."""
    report = _lint(text, source)
    return comparable_results(report, results)


def read_claim(path: Path) -> str:
    """The text of a claim file."""
    try:
        if path.is_dir():
            raise BadInput(f"{path}: is a folder; name a file with a claim, or give the claim with --text")
        if path.stat().st_size > LARGEST_CLAIM_BYTES:
            raise BadInput(f"{path}: larger than {LARGEST_CLAIM_BYTES >> 20} MiB; not a claim")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text; give a claim as text, YAML, JSON or CSV") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name a file with a claim, or give it with --text") from None


def _lint(text: str, source: str) -> ClaimReport:
    stripped = text.lstrip()
    if stripped.startswith(("{", "[", ":::MLLOG")) or "MLPerf Results Summary" in stripped[:4096]:
        try:
            foreign = parse_foreign(text, source)
            return lint_peer(foreign, source, _json_values(text, source) if stripped.startswith("{") else None)
        except BadInput:
            if not stripped.startswith("{"):
                raise
            values = _json_values(text, source)
            return lint_values(values, source, "JSON")
    if looks_like_row(text):
        return lint_values(rows_of(text)[0], source, "row of a results table")
    if _looks_like_yaml(text):
        value = parse_lined_yaml(text, source).value
        if isinstance(value, dict):
            return lint_values(value, source, "YAML")
    return lint_text(text, source)


def _json_values(text: str, source: str) -> dict[str, JsonValue]:
    value = json.loads(text, parse_constant=lambda _: None)
    if not isinstance(value, dict):
        raise BadInput(f"{source}: neither a peer's result nor a claim with keys")
    return value


def _looks_like_yaml(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    keyed = sum(
        ":" in line and line.split(":", 1)[0].strip().replace("_", "").replace("-", "").isalnum() for line in lines
    )
    return len(lines) >= 2 and keyed >= len(lines) / 2
