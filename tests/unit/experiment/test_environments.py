from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lynxbench.errors import BadInput, CannotRun
from lynxbench.experiment.environments import make_environment, named_packages
from wheels import tiny_lock


def test_names_in_a_lock_file() -> None:
    text = "# a comment\nTorch_Vision==1.0 --hash=sha256:00\n  numpy>=1 ; python_version > '3'\n--index-url x\ntiny @ file:///t\n"
    assert named_packages(text) == {"torch-vision", "numpy", "tiny"}


@pytest.mark.slow
def test_two_versions_of_a_layer_live_side_by_side_and_are_told_apart(tmp_path: Path) -> None:
    made = [
        make_environment(tiny_lock(tmp_path, version), tmp_path / "made", inherits=True) for version in ("1.0", "2.0")
    ]
    for one, version in zip(made, ("1.0", "2.0"), strict=True):
        assert one.packages.packages["tinylayer"] == version
        said = subprocess.run(
            [
                str(one.interpreter),
                "-P",
                "-c",
                "import lynxbench.run.worker, numpy, tinylayer; print(tinylayer.SPEED)",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stdout.strip() == version[0]
        assert one.interpreter != Path(sys.executable)
    assert made[0].packages.packages_sha256 != made[1].packages.packages_sha256
    assert made[0].packages.packages["numpy"] == made[1].packages.packages["numpy"]
    before = (made[0].interpreter.parent.parent / "lynxbench-packages.json").stat().st_mtime_ns
    again = make_environment(tmp_path / "tiny-1.0.txt", tmp_path / "made", inherits=True)
    assert again == made[0]
    assert (again.interpreter.parent.parent / "lynxbench-packages.json").stat().st_mtime_ns == before


def test_a_lock_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="name a lock file"):
        make_environment(tmp_path / "none.txt", tmp_path / "made", inherits=True)
    path = tmp_path / "broken.txt"
    path.write_text(f"tinylayer @ {(tmp_path / 'nothing-1.0-py3-none-any.whl').as_uri()}\n")
    with pytest.raises(CannotRun, match="its environment could not be made"):
        make_environment(path, tmp_path / "made", inherits=True)
