"""Nothing but the fleet needs Ray: the single-machine path never imports it, and its absence is one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from brief_runs import write_brief

BLOCKED = """
import sys

class NoRay:
    def find_spec(self, name, path=None, target=None):
        if name == "ray" or name.startswith("ray."):
            raise ModuleNotFoundError(f"No module named {name!r}", name="ray")

sys.meta_path.insert(0, NoRay())
sys.argv = ["lynxbench", *sys.argv[1:]]
from lynxbench.cli.main import main
main()
"""


def without_ray(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *arguments], cwd=cwd, capture_output=True, text=True, timeout=1800, check=False
    )


def test_a_run_and_its_report_work_where_ray_is_not_installed(tmp_path: Path) -> None:
    write_brief(tmp_path, restarts=1)
    done = without_ray("run", "spin.yaml", "--out", "out", "--ledger", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "out").iterdir()
    shown = without_ray("fleet", "show", str(run), "--ledger", "none", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "Measured 1 of 1 unit" in shown.stdout


def test_a_fleet_without_ray_says_how_to_get_it(spin_folder: Path) -> None:
    done = without_ray("fleet", "run", "spin.yaml", cwd=spin_folder)
    assert done.returncode == 2
    assert done.stderr.strip() == "lynxbench: a fleet needs Ray: pip install 'lynxbench[ray]'"


def test_no_module_outside_the_room_imports_ray() -> None:
    code = (
        "import pkgutil, importlib, sys, lynxbench\n"
        "names = [m.name for m in pkgutil.walk_packages(lynxbench.__path__, 'lynxbench.')]\n"
        "skip = ('__main__', 'migrations')\n"
        "for name in names:\n"
        "    if not any(part in name for part in skip):\n"
        "        try:\n            importlib.import_module(name)\n"
        "        except ModuleNotFoundError as error:\n            assert error.name != 'ray', name\n"
        "assert 'ray' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
