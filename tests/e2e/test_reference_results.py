"""The published bundles of the reference runs: whoever trusts their key can import and verify them."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import lynxbench_here

PUBLISHED = Path(__file__).parents[2] / "results" / "h200"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reader")
    for arguments in (
        ("key", "trust", str(PUBLISHED / "key.json")),
        ("results", "import", str(PUBLISHED / "bundles" / "llm-decode.bundle")),
        ("results", "import", str(PUBLISHED / "bundles" / "llm-decode-8.bundle")),
    ):
        done = lynxbench_here(*arguments, cwd=folder, LYNXBENCH_HOME=str(folder / "home"))
        assert done.code == 0, done.err
    return folder


@pytest.mark.parametrize("result", ["bc593ef6", "d1a0ee75", "eaa3179c"])
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
