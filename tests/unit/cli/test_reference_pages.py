"""The reference is made from the code: a command without a page, or a stale page, fails here."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.cli.reference_pages import pages

DOCS = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", ["commands.md", "exit-codes.md", "contract.md", "comparability-rules.md", "python.md"])
def test_the_committed_page_is_the_generated_one(name: str, made: dict[str, str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == made[name], "stale: run `make docs` and commit the result"


def test_every_command_and_option_is_explained(made: dict[str, str]) -> None:
    for line in made["commands.md"].splitlines():
        if line.startswith("| `"):
            assert line.split("|")[2].strip(), f"no explanation: {line}"
