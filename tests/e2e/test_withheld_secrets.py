"""Planted secrets reach no file of a run, no entry of a ledger and no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import QUICK_CONTRACT, SPINNING, lynxbench, lynxbench_here
from lynxbench.load.ground_truth import Behaviour
from lynxbench.load.truth_process import running_server
from served import served_contract

LEAKING = (
    """\
import os, sys, time
print("key is", os.environ["SERVICE_API_KEY"], flush=True)
print("Authorization: Bearer planted-bearer-value", file=sys.stderr, flush=True)
print("see", os.environ["DATABASE_URL"], file=sys.stderr, flush=True)
"""
    + SPINNING
)

PLANTED = {
    "SERVICE_API_KEY": "planted-api-key-value",
    "OMP_SECRET_TOKEN": "planted-omp-token",
    "DATABASE_URL": "postgresql://bench:planted-url-password@db.example/x",
    "VLLM_API_KEY": "planted-vllm-key",
    "NCCL_DEBUG_FILE": "https://user:planted-nccl-password@host.example/x",
    "HF_TOKEN": "hf_plantedplantedplanted",
}


def _held_by(folder: Path) -> set[str]:
    secrets = [b"planted-", b"hf_planted"]
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 10
    return {str(file.relative_to(folder)) for file in files if any(one in file.read_bytes() for one in secrets)}


def test_no_file_of_a_run_holds_a_planted_secret(tmp_path: Path) -> None:
    (tmp_path / "spin.yaml").write_text(QUICK_CONTRACT)
    (tmp_path / "spinning.py").write_text(LEAKING)
    home = {"LYNXBENCH_HOME": str(tmp_path / "home"), "LYNXBENCH_LEDGER": str(tmp_path / "ledger")}
    done = lynxbench("run", "spin.yaml", cwd=tmp_path, **home, **PLANTED)
    assert done.code == 0, done.err
    (folder,) = (tmp_path / "results").iterdir()
    log = (folder / "attempts" / "000-01" / "stdout.txt").read_text()
    assert "key is <withheld>" in log, "the log is kept, without the key"
    assert _held_by(folder) == set()
    assert (folder / "entry.dsse.json").exists()
    assert _held_by(tmp_path / "ledger") == set()
    assert "planted-" not in done.out + done.err


def test_a_failure_that_tells_a_secret_is_kept_without_it(tmp_path: Path) -> None:
    (tmp_path / "spin.yaml").write_text(QUICK_CONTRACT)
    (tmp_path / "spinning.py").write_text(
        'import os\ndef spin():\n    raise ValueError(os.environ["SERVICE_API_KEY"])\n'
    )
    home = {"LYNXBENCH_HOME": str(tmp_path / "home"), "LYNXBENCH_LEDGER": str(tmp_path / "ledger")}
    done = lynxbench("run", "spin.yaml", cwd=tmp_path, **home, **PLANTED)
    assert done.code == 2
    assert "ValueError" in done.err
    assert "planted-" not in done.out + done.err
    (folder,) = (tmp_path / "results").iterdir()
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert not [file for file in files if b"planted-" in file.read_bytes()]


@pytest.mark.parametrize("words", ["[serve, --api-key, letmein]", "[serve, --api-key=letmein]"])
def test_a_contract_with_a_secret_is_refused_before_anything_is_written(words: str, tmp_path: Path) -> None:
    with running_server(Behaviour()) as server:
        text = served_contract(server.url, engine=f"launch: {words}")
        (tmp_path / "served.yaml").write_text(text, encoding="utf-8")
        done = lynxbench_here("run", "served.yaml", cwd=tmp_path, LYNXBENCH_HOME=str(tmp_path / "home"))
    assert done.code == 2, done.err
    assert "engine.launch[" in done.err
    assert "letmein" not in done.err
    assert not (tmp_path / "results").exists()
