"""The published bundles of the reference runs: whoever trusts their keys can import and verify them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.evidence.documents import read_result
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict

PUBLISHED = Path(__file__).parents[2] / "results" / "h200"


SUPERSEDED = PUBLISHED / "superseded"
"""What the engine before this one gave: it stays, and says that it is not the last word."""
RESULTS = (
    "0610f207",
    "f96a9f6a",
    "393d0b3d",
    "f081b162",
    "2decb068",
    "6d2c9fbc",
    "0a18ec6c",
    "c02f4c36",
    "a42dcb12",
    "9e8b7d9c",
)
OLD_RESULTS = ("2483c231", "d1a0ee75", "eaa3179c", "06d09a56", "11569cec", "42ca8ef3")
REPEATED = ("llm-decode", "llm-prefill", "llm-decode-64", "embedding-gpu")
"""Contracts that were measured in two separate calls."""
FIRST_CALLS = ("b469c0db", "c4580cd7", "7a33ce57", "393d0b3d")
"""… and the results of the first; all but the last are of protocols that turned out too short for an energy figure."""
REPRODUCED = 0.01
"""How far two calls may lie apart."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    cards = sorted((PUBLISHED / "keys").iterdir())
    bundles = [one for place in (PUBLISHED, SUPERSEDED) for one in sorted((place / "bundles").iterdir())]
    asked = [("key", "trust", str(card)) for card in cards] + [("results", "import", str(one)) for one in bundles]
    for arguments in asked:
        done = lynxbench_here(*arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
        assert done.code == 0, done.err
    return folder


def test_every_published_bundle_holds_the_results_that_are_told_of(home: Path) -> None:
    done = lynxbench_here("results", "list", "--json", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert {one["result_id"][:8] for one in json.loads(done.out)["results"]} == {*RESULTS, *OLD_RESULTS}
    page, old_page = PUBLISHED.parents[1] / "docs" / "reference-results.md", SUPERSEDED / "README.md"
    for told, results in ((page, RESULTS), (old_page, OLD_RESULTS)):
        text = told.read_text(encoding="utf-8")
        assert all(f"lynxbench verify {result} " in text for result in results)
    assert "Superseded on" in old_page.read_text(encoding="utf-8").splitlines()[2]


def test_the_published_experiment_shows_what_the_docs_say(home: Path) -> None:
    document = str(SUPERSEDED / "documents" / "gpu-precision-graph-batch.json")
    page = str(home / "page.html")
    done = lynxbench_here("experiment", "show", document, "--html", page, cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert done.code == 0, done.err
    assert "NOT DECOMPOSABLE" in done.out
    assert "graph × batch interact: together -75.4 % [-83.9, -62.6]" in done.out


@pytest.mark.parametrize("result", [*RESULTS, *OLD_RESULTS])
def test_a_published_result_verifies(home: Path, result: str) -> None:
    done = lynxbench_here("verify", result, cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert done.code == 0, done.out
    assert ", 0 do not, " in done.out


def _documents(home: Path) -> list[Result]:
    """The documents that stand by themselves, and those that the bundles hold."""
    alone = [read_result(file) for file in sorted((PUBLISHED / "documents").iterdir())]
    shown = [
        lynxbench_here("results", "show", one, "--json", cwd=home, LYNXBENCH_HOME=str(home / "home")) for one in RESULTS
    ]
    return [*alone, *(Result.model_validate_json(json.dumps(json.loads(one.out)["result"])) for one in shown)]


def test_what_was_measured_twice_came_out_the_same(home: Path) -> None:
    rates: dict[tuple[str, Precision], list[float]] = {}
    for result in _documents(home):
        for figures in result.per_precision:
            assert figures.throughput is not None
            assert figures.throughput.estimate is not None
            rates.setdefault((result.contract.name, figures.precision), []).append(figures.throughput.estimate)
    assert {name for (name, _), found in rates.items() if len(found) > 1} == set(REPEATED)
    assert all(max(found) <= (1 + REPRODUCED) * min(found) for found in rates.values()), rates


def test_every_figure_is_told_with_its_energy_and_has_a_verdict(home: Path) -> None:
    page = (PUBLISHED.parents[1] / "docs" / "reference-results.md").read_text(encoding="utf-8")
    final = [result for result in _documents(home) if not result.result_id.startswith(FIRST_CALLS)]
    for result in final:
        for figures in result.per_precision:
            assert figures.throughput is not None
            words = [f"{figures.throughput.estimate:,.{digits}f}".replace(",", " ") for digits in (0, 1)]
            assert any(word in page for word in words), words
            assert figures.energy_j_per_unit is not None, result.contract.name
            assert figures.attribution is not None, result.contract.name
            assert figures.validity.verdict is ValidityVerdict.VALID, result.contract.name


def test_the_rerun_was_a_reproduction(home: Path) -> None:
    done = lynxbench_here("results", "list", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    line = next(line for line in done.out.splitlines() if line.startswith("d1a0ee75"))
    assert line.rstrip().endswith("reproduced")


def test_a_bundle_is_refused_without_its_key(tmp_path: Path) -> None:
    bundle = str(PUBLISHED / "bundles" / "llm-decode-8.bundle")
    done = lynxbench_here("results", "import", bundle, cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code == 5
    assert "not in the trust list" in done.err


def test_a_vocabulary_of_128k_at_three_precisions_is_small_evidence() -> None:
    """The whole record of Llama 3.1 8B's shape (128,256 tokens) at bf16, fp8 and int4 weights, traces included."""
    assert (PUBLISHED / "bundles" / "llm-decode.bundle").stat().st_size < 20e6
