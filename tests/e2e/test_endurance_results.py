"""The published hour: whoever trusts its key can import and verify it, and it is what the pages say."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.model.result import Result

PUBLISHED = Path(__file__).parents[2] / "results" / "endurance"
PACKED = PUBLISHED / "paced-lookups.bundle.xz"
MOST_HARNESS_BYTES, MOST_DISK_BYTES = 200e6, 100e6
LEAST_RATE = 200.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    bundle = folder / PACKED.stem
    bundle.write_bytes(lzma.decompress(PACKED.read_bytes()))
    (card,) = (PUBLISHED / "keys").iterdir()
    for arguments in (("key", "trust", str(card)), ("results", "import", str(bundle))):
        done = lynxbench_here(*arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
        assert done.code == 0, done.err
    return folder


@pytest.fixture(scope="module")
def result(home: Path) -> Result:
    done = lynxbench_here("results", "show", "last", "--json", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    return Result.model_validate_json(json.dumps(json.loads(done.out)["result"]))


def test_the_published_hour_verifies(home: Path) -> None:
    done = lynxbench_here("verify", "last", cwd=home, LYNXBENCH_HOME=str(home / "home"))
    assert done.code == 0, done.out
    assert ", 0 do not, " in done.out


def test_it_is_an_hour_in_three_stretches_within_its_bounds(result: Result) -> None:
    (figures,) = result.per_precision
    endurance = figures.endurance
    assert endurance is not None
    assert endurance.asked_s == 3600
    assert endurance.measured_s == pytest.approx(3600, rel=0.01)
    assert len(endurance.stretches) == 3, "killed twice with -9, and resumed"
    assert len(endurance.gaps) == 2
    assert endurance.iterations / endurance.measured_s >= LEAST_RATE
    harness = endurance.harness_memory
    assert harness is not None
    assert harness.highest_bytes < MOST_HARNESS_BYTES
    assert harness.growth_bytes.high < 0.01 * harness.first_bytes, "flat"


def test_it_is_small(home: Path) -> None:
    assert (home / PACKED.stem).stat().st_size < MOST_DISK_BYTES
    assert PACKED.stat().st_size < 3e6


def test_the_pages_say_what_it_gave(result: Result) -> None:
    page = (PUBLISHED / "README.md").read_text(encoding="utf-8")
    (figures,) = result.per_precision
    assert figures.endurance is not None
    told = (result.result_id[:8], f"{figures.endurance.iterations:,}", result.validity.verdict.value)
    assert all(word in page for word in told), told
