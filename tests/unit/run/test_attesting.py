"""A run's hardware is asked before the first sample; whatever becomes of that, the run goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attested import VouchingNvml
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadResult
from lynxbench.evidence.hardware_reports import ATTESTATION_FILE, ATTESTATION_FOLDER, attestation_nonce
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.executor.hardware_roots import RootAnswers, ask_roots
from lynxbench.executor.host import Host
from lynxbench.model.executor import Executor, Tier, unreadable
from lynxbench.model.layers import Layer
from lynxbench.run import pipeline
from lynxbench.run.attesting import attest, with_attestation

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    layers = {layer: {} for layer in Layer} | {Layer.ACCELERATOR: {"gpu_attestation": unreadable("later", Tier.STATE)}}
    return RunFolder.create(tmp_path, read_contract("quickstart"), Executor(layers=layers), 1, (), NOW)


def vouching(tmp_path: Path, nvml: VouchingNvml | None = None) -> Callable[[bytes], RootAnswers]:
    host = Host(root=tmp_path / "nowhere", environ={})
    return lambda nonce: ask_roots(nonce, host=host, load=lambda: nvml or VouchingNvml())


def test_the_answers_lie_in_the_folder_and_join_the_executor(run: RunFolder, tmp_path: Path) -> None:
    nvml = VouchingNvml(devices=1)
    attest(run, vouching(tmp_path, nvml))
    registration = run.registration
    assert nvml.asked == [attestation_nonce(registration.run_id, registration.nonce)]
    folder = run.path / ATTESTATION_FOLDER
    assert sorted(file.name for file in folder.iterdir()) == [ATTESTATION_FILE, "gpu-0.pem", "gpu-0.report"]
    executor = with_attestation(registration.executor, run.path)
    assert isinstance(executor.get(Layer.ACCELERATOR, "gpu_attestation"), list)
    assert executor.executor_id == registration.executor.executor_id
    assert executor.instance_id == registration.executor.instance_id


def test_a_machine_without_roots_leaves_no_trace(run: RunFolder, tmp_path: Path) -> None:
    attest(run, vouching(tmp_path, VouchingNvml(feature=0)))
    assert not (run.path / ATTESTATION_FOLDER).exists()
    assert with_attestation(run.registration.executor, run.path) is run.registration.executor


def test_nothing_about_it_ends_a_run(run: RunFolder, tmp_path: Path) -> None:
    def broken(nonce: bytes) -> RootAnswers:
        raise MemoryError

    attest(run, broken)
    (run.path / ATTESTATION_FOLDER).write_text("a file in its place")
    attest(run, vouching(tmp_path))
    assert with_attestation(run.registration.executor, run.path) is run.registration.executor


def test_a_damaged_record_is_said(run: RunFolder) -> None:
    (run.path / ATTESTATION_FOLDER).mkdir()
    file = run.path / ATTESTATION_FOLDER / ATTESTATION_FILE
    for text in ("{", '{"reports": [], "fields": {}, "more": 1}', '{"schema_version": 2, "reports": [], "fields": {}}'):
        file.write_text(text)
        with pytest.raises(BadResult, match="damaged"):
            with_attestation(run.registration.executor, run.path)


def test_it_is_asked_when_a_run_is_registered_and_not_again(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RunFolder] = []
    monkeypatch.setattr(pipeline, "attest", asked.append)
    monkeypatch.setattr(pipeline, "_carry_out", lambda run, strategy, progress, recorder: run)
    monkeypatch.setattr(pipeline.InProcessStrategy, "register", lambda self, contract, out: run)
    contract = run.registration.contract
    pipeline.begin_contract(contract, tmp_path, None)
    pipeline.run_contract(contract, tmp_path, None, None)  # type: ignore[arg-type]
    assert asked == [run, run]
    pipeline.run_contract(contract, tmp_path, None, None, resume=True)  # type: ignore[arg-type]
    assert asked == [run, run], "a resumed run keeps the answers of its beginning"
