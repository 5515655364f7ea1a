"""Results to render, and golden texts to hold the renderings against."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
UPDATE = "LYNXBENCH_UPDATE_GOLDEN"


def load_builder() -> ModuleType:
    """The result builder, shared with the browser test; loaded by path because tests are no package."""
    name = "lynxbench_report_builder"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, GOLDEN / "report_builder.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def build() -> ModuleType:
    return load_builder()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "shape" in metafunc.fixturenames:
        metafunc.parametrize("shape", list(load_builder().SHAPES))


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
