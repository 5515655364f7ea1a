"""What the house promises: one name, one place; short files, few rooms; a glossary and a tour that fit the code."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import lynxbench

SOURCE = Path(lynxbench.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_ROOMS = 21
MOST_LINES_A_FILE = 400
MOST_WORDS = 60
REPEATED_LINES, EXPLAINED_ABOVE = 6, 12
DOCS = Path(__file__).parents[2] / "docs"
REPEATED_BY_CONVENTION = {"__init__.py", "__main__.py", "env.py"}
"""Python's and Alembic's own names."""


@cache
def parsed(path: Path) -> ast.Module:
    """A file of the house."""
    return ast.parse(path.read_text())


def test_there_are_at_most_21_rooms() -> None:
    rooms = [path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()]
    assert len(rooms) <= MOST_ROOMS, rooms


def test_a_file_can_be_read_in_one_sitting() -> None:
    long = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in FILES}
    assert {name: lines for name, lines in long.items() if lines > MOST_LINES_A_FILE} == {}


def test_everything_that_is_read_at_work_travels_in_the_wheel() -> None:
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    globs = project["tool"]["setuptools"]["package-data"]["lynxbench"]
    travelling = {path for pattern in globs for path in SOURCE.glob(pattern)}
    there = {path for path in SOURCE.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert there - travelling == set()


def test_every_module_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if path.name not in REPEATED_BY_CONVENTION:
            places[path.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_every_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_the_glossary_stays_short_and_says_each_word_once() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert 40 <= len(rows) <= MOST_WORDS
    assert len(set(rows)) == len(rows)


def test_every_place_that_the_tour_names_is_there() -> None:
    text = (DOCS / "tour.md").read_text()
    named = set(re.findall(r"`([a-z_0-9]+(?:/[a-z_0-9]+)*/(?:[a-z_0-9]+\.(?:py|toml))?)`", text))
    assert len(named) > 30
    assert {place for place in named if not (SOURCE / place).exists() and not (DOCS.parent / place).exists()} == set()


def test_the_site_shows_every_page_once() -> None:
    listed = re.findall(r"^ +- ([\w./-]+\.md)$", (DOCS.parent / "mkdocs.yml").read_text(), re.M)
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def test_every_link_between_pages_leads_somewhere() -> None:
    dead = []
    for page in [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)
        for target in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.name}: {target}")
    assert dead == []


def test_no_six_lines_stand_twice_without_a_word_on_why() -> None:
    """Of the same lines of code; signatures are read off by the parser, and what is imported is a list of names."""
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    for path in FILES:
        numbered = _working_lines(path)
        for begin in range(len(numbered) - REPEATED_LINES + 1):
            run = numbered[begin : begin + REPEATED_LINES]
            places[tuple(line for _, line in run)].append((path.relative_to(SOURCE), run[0][0]))
    unexplained = {
        " = ".join(f"{path}:{number}" for path, number in found)
        for found in places.values()
        if len(found) > 1 and not any(_is_explained(*place) for place in found)
    }
    assert unexplained == set()


def _working_lines(path: Path) -> list[tuple[int, str]]:
    """Numbered lines of code that say something: no signatures, imports, docstrings, comments and closing brackets."""
    left_out: set[int] = set()
    for node in ast.walk(parsed(path)):
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                left_out.update(range(node.lineno, node.body[0].lineno))
    lines = (
        (number, line.strip()) for number, line in enumerate(path.read_text().splitlines(), 1) if number not in left_out
    )
    return [(number, line) for number, line in lines if re.search(r"\w", line) and not line.startswith("#")]


def _is_explained(path: Path, number: int) -> bool:
    """Whether a comment shortly above says that it stands elsewhere, too."""
    above = (SOURCE / path).read_text().splitlines()[max(0, number - EXPLAINED_ABOVE) : number - 1]
    return any("# Written out as in " in line for line in above)
