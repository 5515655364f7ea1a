"""What a fresh process imports for a function, and how a failing import is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from lynxbench.errors import OwnCodeFailed
from lynxbench.run.loaded_code import loaded_files


def test_the_files_behind_a_function_are_those_of_a_process_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "core.py").write_text("print('said on import')\nVALUE = 1\n")
    (tmp_path / "jobs.py").write_text("from parts.core import VALUE\n\ndef score():\n    return VALUE\n")
    monkeypatch.chdir(tmp_path)
    files = loaded_files("jobs:score")
    assert files["jobs"] == (tmp_path / "jobs.py").resolve()
    assert files["parts.core"] == (tmp_path / "parts" / "core.py").resolve()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def other(): pass\n", "jobs has no 'score'"),
        ("raise RuntimeError('broken here')\n", "RuntimeError: broken here"),
        ("import os; os._exit(3)\n", "its import ended with code 3"),
    ],
)
def test_a_failing_import_is_one_line(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OwnCodeFailed) as failed:
        loaded_files("jobs:score")
    assert words in str(failed.value)
    assert len(str(failed.value).splitlines()) == 1
