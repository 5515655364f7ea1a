"""Results to render, and golden texts to hold the renderings against."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import report_cases

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
UPDATE = "LYNXBENCH_UPDATE_GOLDEN"


@pytest.fixture(scope="session")
def build() -> ModuleType:
    return report_cases


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shape" in metafunc.fixturenames:
        metafunc.parametrize("shape", list(report_cases.SHAPES))


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Hold a text against its golden file; LYNXBENCH_UPDATE_GOLDEN=1 writes it anew, to be read in the diff."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / "report" / name
        if os.environ.get(UPDATE):
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"{file.name} is missing: run pytest with {UPDATE}=1 and read what it wrote"
        assert text == file.read_text(encoding="utf-8")

    return check
