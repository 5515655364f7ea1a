"""Where a commit's code is looked for: in its own tree first, and never in the checkout that the command stands in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lynxbench.executor.declaration import parse_declaration
from lynxbench.experiment.code_places import CodePlace
from lynxbench.model.layers import Layer


@pytest.fixture
def place(tmp_path: Path) -> CodePlace:
    for top in ("tree", "checkout"):
        for folder in ("part", "src", "lib"):
            (tmp_path / top / folder).mkdir(parents=True)
            (tmp_path / top / folder / f"in_{folder}.py").write_text(f"WHERE = '{top}'\n")
    return CodePlace("ab" * 20, tmp_path / "tree", "part/", tmp_path / "checkout")


def test_modules_are_imported_from_the_tree(place: CodePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "in_src.py").write_text("WHERE = 'other'\n")
    named = [str(other), str(place.checkout / "lib"), str(place.checkout / "src")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(named))
    code = "import os, in_part, in_src, in_lib; print(in_part.WHERE, in_src.WHERE, in_lib.WHERE, os.getcwd())"
    with place.standing():
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["tree", "tree", "tree", str(place.folder.resolve())]
    assert os.environ["PYTHONPATH"] == os.pathsep.join(named)


def test_what_was_set_is_as_it_was_also_after_an_error(place: CodePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    here = Path.cwd()
    with pytest.raises(ValueError, match="inside"), place.standing():
        raise ValueError("inside")
    assert Path.cwd() == here
    assert "PYTHONPATH" not in os.environ


def test_the_commit_is_declared_beside_what_the_site_says(place: CodePlace) -> None:
    alone = place.declared(None).fields()
    assert alone[Layer.APPLICATION]["commit"].value == place.commit
    site = parse_declaration("lynxbench: 1\ndeclared:\n  application: {team: search}\n  system: {room: b}\n")
    both = place.declared(site).fields()
    assert {name: field.value for name, field in both[Layer.APPLICATION].items()} == {
        "team": "search",
        "commit": place.commit,
    }
    assert both[Layer.SYSTEM]["room"].value == "b"
