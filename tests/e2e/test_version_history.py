"""The published version histories: whoever trusts their keys can verify them, and they are what is told of them."""

from __future__ import annotations

import json
import sys
import tarfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from command_line import lynxbench_here

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    version_history_replay = import_module("version_history_replay")
finally:
    sys.path.remove(BENCHMARKS)

PUBLISHED = Path(__file__).parents[2] / "results" / "version-history"
EARLIER = PUBLISHED / "earlier"
PAIRS = pytest.mark.parametrize("pairs", [PUBLISHED, EARLIER], ids=["present", "earlier"], indirect=True)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A reader's folder, and whose pairs were imported there."""

    published: Path
    reader: Path


@pytest.fixture(scope="module")
def pairs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    published: Path = request.param
    folder = tmp_path_factory.mktemp("reader")
    asked = [("key", "trust", str(card)) for card in (published / "keys").iterdir()]
    with tarfile.open(published / "pairs.tar.xz") as packed:
        packed.extractall(folder / "pairs", filter="data")
    asked += [("results", "import", str(bundle)) for bundle in sorted((folder / "pairs").iterdir())]
    for arguments in asked:
        done = lynxbench_here(*arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
        assert done.code == 0, done.err
    return Pairs(published, folder)


@PAIRS
def test_both_sides_of_the_pairs_verify(pairs: Pairs) -> None:
    for result in ("last", "last~1"):
        done = lynxbench_here("verify", result, cwd=pairs.reader, LYNXBENCH_HOME=str(pairs.reader / "home"))
        assert done.code == 0, done.out
        assert ", 0 do not, " in done.out


@PAIRS
def test_the_comparison_is_of_them_and_told_as_it_came_out(pairs: Pairs) -> None:
    comparison = json.loads((pairs.published / "comparison.json").read_text(encoding="utf-8"))
    done = lynxbench_here("results", "list", "--json", cwd=pairs.reader, LYNXBENCH_HOME=str(pairs.reader / "home"))
    known = {result["result_id"] for result in json.loads(done.out)["results"]}
    assert {comparison["a"]["result_id"], comparison["b"]["result_id"]} == known
    assert (comparison["verdict"], comparison["cause"]["layer"]) == ("regressed", "system")
    assert "OPENBLAS_CORETYPE" in comparison["cause"]["sentence"]
    page = (pairs.published / "README.md").read_text(encoding="utf-8")
    effect = comparison["effect"]
    assert f"{effect['estimate']:.3f} [{effect['low']:.3f}, {effect['high']:.3f}]" in page
    assert comparison["cause"]["sentence"] in page


@pytest.mark.parametrize(
    ("published", "file", "bundle"),
    [
        (PUBLISHED, "nights", "01"),
        (PUBLISHED, "nights", "22"),
        (PUBLISHED, "nights", "31"),
        (EARLIER, "nights", "01"),
        (EARLIER, "nights", "22"),
        (EARLIER, "nights", "27"),
        (EARLIER, "aside", "21-later"),
    ],
)
def test_a_session_verifies(tmp_path: Path, published: Path, file: str, bundle: str) -> None:
    with tarfile.open(published / f"{file}.tar.xz") as packed:
        packed.extract(f"{bundle}.bundle", tmp_path, filter="data")
    path = str(tmp_path / f"{bundle}.bundle")
    done = lynxbench_here("verify", path, cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code == 0, done.out
    assert ", 0 do not, " in done.out


def test_the_watch_tells_the_loss_and_nothing_else_names_its_layer_and_closes_it(tmp_path: Path) -> None:
    told: Any = version_history_replay.replay(PUBLISHED, tmp_path)
    assert [night.number for night in told.nights] == list(range(1, 32))
    assert [night.number for night in told.nights if not night.counted] == [6], "disturbed in all of three sittings"
    (notice,) = told.notices
    assert 22 < told.night_of(notice.result_id) <= 26, "while it was slow"
    assert notice.since == version_history_replay.night_text(22)
    assert (notice.layer, notice.owner) == ("system", "infrastructure SRE")
    assert "OPENBLAS_CORETYPE (none) → Prescott" in notice.sentence
    closed = told.night_of(notice.closed_by)
    assert 27 <= closed <= 31, "after it was taken back"
    assert version_history_replay.exit_code(told) == 0
    page = (PUBLISHED / "README.md").read_text(encoding="utf-8")
    assert f"{notice.estimate:.3f} [{notice.low:.3f}, {notice.high:.3f}] of the level, since session 22" in page
    assert f"closed by session {closed}" in page


def test_an_earlier_history_is_told_says_what_it_cannot_separate_and_stays_open(tmp_path: Path) -> None:
    told: Any = version_history_replay.replay(EARLIER, tmp_path)
    assert [night.number for night in told.nights] == list(range(1, 31))
    assert [night.number for night in told.nights if not night.counted] == [21, 27, 28, 29, 30]
    (notice,) = told.notices
    assert told.night_of(notice.result_id) == 25
    assert notice.since == version_history_replay.night_text(22)
    assert "cannot be separated: system (environment OPENBLAS_CORETYPE (none) → Prescott), framework" in notice.sentence
    assert notice.closed_at is None, "none of the sessions after it was steady"
    page = (EARLIER / "README.md").read_text(encoding="utf-8")
    assert f"{notice.estimate:.3f} [{notice.low:.3f}, {notice.high:.3f}] of the level, since session 22" in page
