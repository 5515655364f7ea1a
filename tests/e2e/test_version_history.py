"""The published pairs of the version history: whoever trusts their key can verify them, and they are what is told."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from command_line import lynxbench_here

PUBLISHED = Path(__file__).parents[2] / "results" / "version-history"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    (card,) = (PUBLISHED / "keys").iterdir()
    asked = [("key", "trust", str(card))]
    with tarfile.open(PUBLISHED / "pairs.tar.xz") as packed:
        packed.extractall(folder / "pairs", filter="data")
    asked += [("results", "import", str(bundle)) for bundle in sorted((folder / "pairs").iterdir())]
    for arguments in asked:
        done = lynxbench_here(*arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
        assert done.code == 0, done.err
    return folder


def test_both_sides_of_the_pairs_verify(home: Path) -> None:
    for result in ("last", "last~1"):
        done = lynxbench_here("verify", result, cwd=home, LYNXBENCH_HOME=str(home / "home"))
        assert done.code == 0, done.out
        assert ", 0 do not, " in done.out


def test_the_comparison_is_of_them_and_told_as_it_came_out(home: Path) -> None:
    comparison = json.loads((PUBLISHED / "comparison.json").read_text(encoding="utf-8"))
    done = lynxbench_here("results", "list", "--json", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    known = {result["result_id"] for result in json.loads(done.out)["results"]}
    assert {comparison["a"]["result_id"], comparison["b"]["result_id"]} == known
    assert (comparison["verdict"], comparison["cause"]["layer"]) == ("regressed", "system")
    assert "OPENBLAS_CORETYPE" in comparison["cause"]["sentence"]
    page = (PUBLISHED / "README.md").read_text(encoding="utf-8")
    effect = comparison["effect"]
    assert f"{effect['estimate']:.3f} [{effect['low']:.3f}, {effect['high']:.3f}]" in page
    assert comparison["cause"]["sentence"] in page
