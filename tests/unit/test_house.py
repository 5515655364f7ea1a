"""What the house promises: one name, one place; files that can be read in one sitting; at most 21 rooms."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import lynxbench

SOURCE = Path(lynxbench.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_ROOMS = 21
MOST_LINES_A_FILE = 400
REPEATED_BY_CONVENTION = {"__init__.py", "__main__.py", "env.py"}
"""Python's and Alembic's own names."""


def test_there_are_at_most_21_rooms() -> None:
    rooms = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()]
    assert len(rooms) <= MOST_ROOMS, rooms


def test_a_file_can_be_read_in_one_sitting() -> None:
    long = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in FILES}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES_A_FILE} == {}


def test_every_module_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if path.name not in REPEATED_BY_CONVENTION:
            places[path.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
