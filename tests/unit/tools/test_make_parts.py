"""The parts of `make test`: what is marked to run alone is in the list of those that do, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
MARK = "pytest.mark." + "alone"  # in two pieces: this file is not marked


def listed(name: str) -> set[str]:
    """The test files of a variable in the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(rf"^{name} := \$\(addprefix tests/,(.*)\)$", text, re.MULTILINE)
    assert found is not None
    return {f"tests/{one}" for one in found[1].split()}


def test_marked_files_and_listed_files_are_the_same() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    marked = {str(file.relative_to(ROOT)) for file in files if MARK in file.read_text()}
    assert marked == listed("ALONE")


def test_every_part_names_what_exists() -> None:
    assert [one for one in sorted(listed("ALONE") | listed("SIDE")) if not (ROOT / one).exists()] == []
