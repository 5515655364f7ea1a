"""Distributions and build stamps, on the real environment and on made-up ones."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from lynxbench.executor.host import Host
from lynxbench.executor.python_packages import (
    find_distributions,
    parse_constants,
    parse_headers,
    read_distributions,
    read_python,
)
from lynxbench.model.canonical import content_id


def test_every_installed_distribution_is_listed() -> None:
    fields = read_distributions(Host())
    listed = fields["distributions"].value
    assert isinstance(listed, dict)
    assert listed["pydantic"] == metadata.version("pydantic")
    assert listed["nvidia-ml-py"] == metadata.version("nvidia-ml-py")
    assert fields["distributions_sha256"].value == content_id(listed)
    assert fields["torch"].value == metadata.version("torch")


def test_what_a_process_imported_is_no_change_of_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that carries copies of others inside of itself, as setuptools does, and puts them on the path."""
    carried = tmp_path / "carrier" / "_vendor"
    for folder, name in ((tmp_path, "carrier"), (carried, "wheel-of-its-own")):
        (folder / f"{name}-1.dist-info").mkdir(parents=True)
        (folder / f"{name}-1.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (tmp_path / "carrier" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    before = read_distributions(Host())
    listed = before["distributions"].value
    assert isinstance(listed, dict)
    assert "carrier" in listed
    monkeypatch.syspath_prepend(str(carried))
    assert read_distributions(Host()) == before
    # A folder beside somebody's own package is a place like any other.
    monkeypatch.setattr("sys.path", [str(carried)])
    only = read_distributions(Host())["distributions"].value
    assert only == {"wheel-of-its-own": "1"}


def test_first_on_the_path_wins_and_names_are_normalised() -> None:
    class Fake(metadata.Distribution):
        def __init__(self, name: str, version: str) -> None:
            self.text = f"Name: {name}\nVersion: {version}\n"

        def read_text(self, filename: str) -> str | None:
            return self.text if filename == "METADATA" else None

        def locate_file(self, path: object) -> None:  # type: ignore[override]
            raise AssertionError

    found = find_distributions([Fake("Ruamel.YAML", "1"), Fake("ruamel_yaml", "2")])
    assert {name: item.version for name, item in found.items()} == {"ruamel-yaml": "1"}


def test_headers_say_what_the_standard_library_reads() -> None:
    for one in metadata.distributions():
        if one.metadata["Name"]:
            stated = parse_headers(one.read_text("METADATA") or one.read_text("PKG-INFO") or "")
            assert (stated["name"], stated["version"]) == (one.metadata["Name"], one.version)


def test_a_description_states_no_headers() -> None:
    text = "Metadata-Version: 2.1\nName: a\nLicense: x\n  Name: folded\nversion: 1\n\nName: b\nVersion: 2\n"
    assert parse_headers(text) == {"metadata-version": "2.1", "name": "a", "license": "x", "version": "1"}
    assert parse_headers("") == {}


def test_constants_are_read_without_running_the_file() -> None:
    source = "import os\ncuda: str = '12.8'\nhip = None\nx = os.getcwd()\na = b = 3\nraise SystemExit\n"
    assert parse_constants(source) == {"cuda": "12.8", "hip": None, "a": 3, "b": 3}


def test_python_is_described_without_its_path() -> None:
    assert sys.prefix not in str(read_python(Host()))
