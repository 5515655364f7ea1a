"""`results list` answers from the index: it loads neither results nor contracts, and says what the ledger says."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import lynxbench_here
from ledgers import MADE_AT, key_of, recorded, registered, sealed
from lynxbench.evidence.statement import seal_entry
from lynxbench.ledger.blobs import FolderBlobs
from lynxbench.ledger.log import Ledger
from lynxbench.model.entries import Blob, Entry
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


def test_machines_are_called_by_device_and_driver_beside_a_run_without_an_end(tmp_path: Path) -> None:
    document = {
        "executor": {
            "layers": {
                "accelerator": {"gpu_name": {"value": ["NVIDIA H200"]}},
                "system": {"nvidia_driver": {"value": "580.159.04"}},
            }
        }
    }
    data = json.dumps(document).encode()
    with Ledger(f"sqlite:///{tmp_path / 'ledger' / 'ledger.sqlite'}") as ledger:
        blob = Blob(name="result.json", sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
        entry = Entry(made_at=MADE_AT, body=recorded("one"), blobs=(blob,))
        ledger.append(seal_entry(entry, [key_of("alpha")]))
        ledger.append(sealed(registered("killed"), key_of("alpha")))
    FolderBlobs(tmp_path / "ledger" / "blobs").put(data)
    done = lynxbench_here("results", "list", cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path))
    assert done.code == 0, done.err
    assert "H200 · driver 580 @a" in done.out
    assert "1 registered without an end" in done.out
