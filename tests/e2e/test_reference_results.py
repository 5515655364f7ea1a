"""The published bundles of the reference runs: whoever trusts their keys can import and verify them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import lynxbench_here

PUBLISHED = Path(__file__).parents[2] / "results" / "h200"


RESULTS = ("2483c231", "d1a0ee75", "eaa3179c", "06d09a56", "11569cec", "42ca8ef3")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    cards, bundles = sorted((PUBLISHED / "keys").iterdir()), sorted((PUBLISHED / "bundles").iterdir())
    asked = [("key", "trust", str(card)) for card in cards] + [("results", "import", str(one)) for one in bundles]
    for arguments in asked:
        done = lynxbench_here(*arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
        assert done.code == 0, done.err
    return folder


def test_every_published_bundle_holds_the_results_that_are_told_of(home: Path) -> None:
    done = lynxbench_here("results", "list", "--json", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert {one["result_id"][:8] for one in json.loads(done.out)["results"]} == set(RESULTS)
    told = (PUBLISHED.parents[1] / "docs" / "reference-results.md").read_text(encoding="utf-8")
    assert all(f"lynxbench verify {result} " in told for result in RESULTS)


def test_the_published_experiment_shows_what_the_docs_say(home: Path) -> None:
    document = str(PUBLISHED / "documents" / "gpu-precision-graph-batch.json")
    page = str(home / "page.html")
    done = lynxbench_here("experiment", "show", document, "--html", page, cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert done.code == 0, done.err
    assert "NOT DECOMPOSABLE" in done.out
    assert "graph × batch interact: together -75.4 % [-83.9, -62.6]" in done.out


@pytest.mark.parametrize("result", RESULTS)
def test_a_published_result_verifies(home: Path, result: str) -> None:
    done = lynxbench_here("verify", result, cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert done.code == 0, done.out
    assert ", 0 do not, " in done.out


def test_the_rerun_was_a_reproduction(home: Path) -> None:
    done = lynxbench_here("results", "list", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    line = next(line for line in done.out.splitlines() if line.startswith("d1a0ee75"))
    assert line.rstrip().endswith("reproduced")


def test_a_bundle_is_refused_without_its_key(tmp_path: Path) -> None:
    bundle = str(PUBLISHED / "bundles" / "llm-decode-8.bundle")
    done = lynxbench_here("results", "import", bundle, cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code == 5
    assert "not in the trust list" in done.err
