"""What `import lynxbench` offers: instant, whole, the same however it is reached, and changed only by its version."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lynxbench
from lynxbench.cli.python_reference import public_signatures
from lynxbench.public_surface import ROOMS

GOLDEN = Path(__file__).parents[1] / "golden" / "public_api.json"
SOURCE = Path(lynxbench.__file__).parent
HEAVY = {"numpy", "pydantic", "scipy", "sqlalchemy", "torch", "pandas", "pyarrow"}


def _fits(before: dict[str, str], after: dict[str, str], was: str, is_now: str) -> bool:
    """Whether a version is raised as far as a change of names and signatures asks: until 1.0 the second place stands
    for what breaks and the third for what is added, from then on the first and the second.
    """
    old, new = ([int(part) for part in text.split(".")] for text in (was, is_now))
    breaking = 1 if old[0] == 0 else 0
    if any(after.get(name) != signature for name, signature in before.items()):
        return new[: breaking + 1] > old[: breaking + 1]
    return after.keys() == before.keys() or new[: breaking + 2] > old[: breaking + 2]


def test_names_and_signatures_are_those_that_were_agreed_on() -> None:
    golden = json.loads(GOLDEN.read_text())
    now = public_signatures()
    if os.environ.get("LYNXBENCH_UPDATE_GOLDEN"):
        fits = _fits(golden["signatures"], now, golden["version"], lynxbench.__version__)
        assert fits, f"raise __version__ above {golden['version']} first: what is public changed"
        document = {"version": lynxbench.__version__, "signatures": now}
        GOLDEN.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    assert now == json.loads(GOLDEN.read_text())["signatures"], "on purpose? Raise the version, then update the golden"


@pytest.mark.parametrize(
    ("after", "version", "fits"),
    [
        ({"run": "(contract)", "load": "()"}, "0.1.0", True),
        ({"run": "(contract, out)", "load": "()"}, "0.1.9", False),
        ({"run": "(contract, out)", "load": "()"}, "0.2.0", True),
        ({"run": "(contract)"}, "0.1.1", False),
        ({"run": "(contract)", "load": "()", "more": "()"}, "0.1.0", False),
        ({"run": "(contract)", "load": "()", "more": "()"}, "0.1.1", True),
    ],
)
def test_what_breaks_asks_for_a_minor_version_and_what_is_new_for_a_patch(
    after: dict[str, str], version: str, fits: bool
) -> None:
    assert _fits({"run": "(contract)", "load": "()"}, after, "0.1.0", version) is fits


def test_from_one_on_what_breaks_asks_for_a_major_version() -> None:
    before = {"run": "(contract)"}
    assert not _fits(before, {}, "1.2.0", "1.3.0")
    assert _fits(before, {}, "1.2.0", "2.0.0")
    assert not _fits(before, before | {"more": "()"}, "1.2.0", "1.2.1")
    assert _fits(before, before | {"more": "()"}, "1.2.0", "1.3.0")


def test_importing_it_loads_nothing_heavy_and_no_room() -> None:
    code = f"import sys, lynxbench; print(sorted({HEAVY} & set(sys.modules)), 'lynxbench.api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[] False"


def test_every_public_name_is_there_and_listed() -> None:
    api = importlib.import_module("lynxbench.api")
    for name in set(lynxbench.__all__) - ROOMS - {"__version__"}:
        assert getattr(lynxbench, name) is getattr(api, name)
    assert set(lynxbench.__all__) <= set(dir(lynxbench))
    with pytest.raises(AttributeError, match="no attribute 'measure_everything'"):
        _ = lynxbench.measure_everything  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(ROOMS))
def test_a_room_that_is_a_verb_is_both(name: str) -> None:
    room, verb = getattr(lynxbench, name), getattr(importlib.import_module("lynxbench.api"), name)
    assert isinstance(room, ModuleType)
    assert room is importlib.import_module(f"lynxbench.{name}"), "imports from the room go on as before"
    assert inspect.signature(room) == inspect.signature(verb)
    with pytest.raises(TypeError, match=r"missing|unexpected"):
        room(no_such_keyword=1)


def test_the_stub_for_type_checkers_has_the_same_names() -> None:
    tree = ast.parse((SOURCE / "__init__.pyi").read_text())
    imported = {alias.asname for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported | {"__version__"} == set(lynxbench.__all__)


def test_no_room_reaches_up_through_the_public_names() -> None:
    """The linter does not see what is loaded when asked for: below the surface only the version is taken from it."""
    reached = []
    for file in sorted(SOURCE.rglob("*.py")):
        text = file.read_text()
        if not re.search(r"\blynxbench\s+import\b", text):  # most say nothing of it, and need not be taken apart
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module == "lynxbench":
                public = {alias.name for alias in node.names} & set(lynxbench.__all__) - {"__version__"}
                reached += [f"{file.relative_to(SOURCE)}: {name}" for name in sorted(public)]
    assert reached == []
