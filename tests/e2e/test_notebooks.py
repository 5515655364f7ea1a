"""The notebooks of examples/, executed by a real kernel in a fresh home: no cell fails, and what they show is so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))}


def executed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The outputs of its code cells, one list a cell."""
    for variable, place in {
        "LYNXBENCH_HOME": "home",
        "IPYTHONDIR": "ipython",
        "JUPYTER_RUNTIME_DIR": "jupyter",
    }.items():
        monkeypatch.setenv(variable, str(tmp_path / place))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(NOTEBOOKS[name], as_version=4)
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def text_of(outputs: list[Any]) -> str:
    return "".join(part.get("text", "") + part.get("data", {}).get("text/plain", "") for part in outputs)


def has_page(outputs: list[Any]) -> bool:
    return any("<iframe sandbox" in part.get("data", {}).get("text/html", "") for part in outputs)


def test_every_notebook_is_tried_and_none_carries_old_outputs() -> None:
    assert set(NOTEBOOKS) == {"measure-your-code", "two-results-and-a-refusal", "where-the-time-goes"}
    for path in NOTEBOOKS.values():
        cells = nbformat.read(path, as_version=4).cells
        assert all(not cell.outputs for cell in cells if cell.cell_type == "code"), path.name


def test_own_code_is_measured_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    _, report, values, watch = executed("measure-your-code", tmp_path, monkeypatch, tmp_path)
    assert has_page(report)
    assert "estimate=" in text_of(values)
    assert "level" in text_of(watch) or "Interval" in text_of(watch)


def test_published_results_are_compared_and_an_unsound_pair_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    imported, table, again, apart = executed("two-results-and-a-refusal", ROOT, monkeypatch, tmp_path)
    assert "failed" not in text_of(imported).lower()
    assert "llm-prefill" in text_of(table)
    assert "(False, 'inconclusive')" in text_of(again)
    assert "(True, None, 3)" in text_of(apart)


def test_a_trace_is_attributed_and_a_poor_one_names_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page, words, weak = executed("where-the-time-goes", ROOT, monkeypatch, tmp_path)
    assert has_page(page)
    assert text_of(words).startswith("software transfer")
    assert text_of(weak) == "'undetermined'"
