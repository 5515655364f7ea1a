"""`results list` answers from the index: it loads neither results nor contracts, and says what the ledger says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import lynxbench_here
from ledgers import key_of, recorded, registered, sealed
from lynxbench.ledger.log import Ledger
from lynxbench.model.precision import Precision

NOT_NEEDED = ("lynxbench.model.result", "lynxbench.model.contract", "numpy", "scipy", "rich", "alembic")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A ledger with two results, one of them of two precisions, and a run without an end."""
    with Ledger(f"sqlite:///{tmp_path / 'ledger' / 'ledger.sqlite'}") as ledger:
        both = (Precision.FP32, Precision.INT8)
        ledger.append(sealed(recorded("one", started_at="2026-01-01T00:00:00+00:00"), key_of("alpha")))
        ledger.append(sealed(recorded("two", precisions=both, started_at="2026-02-01T00:00:00+00:00"), key_of("alpha")))
        ledger.append(sealed(registered("killed"), key_of("alpha")))
    return tmp_path


def test_nothing_is_loaded_that_a_list_does_not_show(home: Path) -> None:
    program = (
        "import sys; sys.argv = ['lynxbench', 'results', 'list']\n"
        "from lynxbench.cli.main import main\nmain()\n"
        f"print(*[name for name in {NOT_NEEDED!r} if name in sys.modules], file=sys.stderr)\n"
    )
    environment = {"LYNXBENCH_HOME": str(home), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    assert "1 registered without an end" in done.stdout


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        ([], [["fp32", "int8"], ["fp32"]]),
        (["--precision", "int8"], [["fp32", "int8"]]),
        (["--since", "2026-01-15"], [["fp32", "int8"]]),
        (["--since", "2026-01-01T01:00:00+01:00", "--limit", "1"], [["fp32", "int8"]]),
        (["--valid", "void"], []),
    ],
)
def test_the_options_choose(home: Path, words: list[str], listed: list[list[str]]) -> None:
    done = lynxbench_here("results", "list", "--json", *words, cwd=home, LYNXBENCH_HOME=str(home))
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert [[figure["precision"] for figure in result["per_precision"]] for result in document["results"]] == listed
    assert len(document["unfinished"]) == 1
