"""`verify` on hardware reports: holds under the reader's roots, does not hold for another run, or is only recorded."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attested import LEAF, MIDDLE, ROOT, VouchingNvml, install_programs, pem, tpm_key
from lynxbench.contract.loader import read_contract
from lynxbench.errors import BadInput
from lynxbench.evidence.hardware_reports import ATTESTATION_FILE, ATTESTATION_FOLDER
from lynxbench.evidence.run_folder import REGISTRATION_FILE, RunFolder
from lynxbench.executor.hardware_roots import TPM_KEY_VARIABLE, ask_roots
from lynxbench.executor.host import Host
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.verification import CheckOutcome
from lynxbench.record.attestation_check import ROOTS_FILE, AttestationRoots, check_attestation, read_roots
from lynxbench.run.attesting import attest

NOW = datetime(2026, 11, 15, 9, 0, tzinfo=UTC)


def attested_run(where: Path, nvml: VouchingNvml | None = None) -> Path:
    """The folder of a run on a machine with one GPU and a TPM that vouch for it."""
    executor = Executor(layers={layer: {} for layer in Layer})
    run = RunFolder.create(where, read_contract("quickstart"), executor, 1, (), NOW)
    machine = where / "machine"
    (machine / "dev").mkdir(parents=True, exist_ok=True)
    (machine / "dev" / "tpmrm0").touch()
    install_programs(machine)
    host = Host(root=machine, environ={"PATH": str(machine), TPM_KEY_VARIABLE: "0x81010002"})
    attest(run, lambda nonce: ask_roots(nonce, host=host, load=lambda: nvml or VouchingNvml(devices=1)))
    return run.path


def outcomes(folder: Path, roots: AttestationRoots) -> dict[str, tuple[CheckOutcome, str]]:
    return {check.name: (check.outcome, check.why) for check in check_attestation(folder, roots)}


def roots_of(home: Path, *blocks: bytes) -> AttestationRoots:
    home.mkdir(exist_ok=True)
    (home / ROOTS_FILE).write_bytes(b"# whom we believe\n" + b"\n".join(blocks))
    return read_roots({"LYNXBENCH_HOME": str(home)})


def test_reports_hold_under_the_readers_roots(tmp_path: Path) -> None:
    folder = attested_run(tmp_path)
    found = outcomes(folder, roots_of(tmp_path / "home", pem(ROOT), tpm_key()))
    assert {name: outcome for name, (outcome, _) in found.items()} == {
        "attestation of gpu-0": CheckOutcome.HOLDS,
        "attestation of tpm": CheckOutcome.HOLDS,
    }
    assert check_attestation(folder / "result.json", AttestationRoots()), "by its document as well"


def test_without_roots_they_are_recorded_and_not_checked(tmp_path: Path) -> None:
    folder = attested_run(tmp_path)
    for roots in (read_roots({"LYNXBENCH_HOME": str(tmp_path / "none")}), roots_of(tmp_path / "home", tpm_key("else"))):
        for outcome, why in outcomes(folder, roots).values():
            assert outcome is CheckOutcome.CANNOT
            assert why.startswith("recorded, not checked: ")


def test_reports_of_another_run_do_not_hold(tmp_path: Path) -> None:
    """Reports are moved into another run's folder, and a run's registration is exchanged under its reports."""
    roots = roots_of(tmp_path / "home", pem(ROOT), tpm_key())
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = attested_run(tmp_path / "one"), attested_run(tmp_path / "two")
    for name in ("gpu-0.report", "tpm.message", "tpm.signature"):
        (one / ATTESTATION_FOLDER / name).write_bytes((two / ATTESTATION_FOLDER / name).read_bytes())
    assert {why for _, why in outcomes(one, roots).values()} == {
        "its nonce is not this run's: it was made for something else"
    }
    document = json.loads((two / REGISTRATION_FILE).read_text())
    (two / REGISTRATION_FILE).write_text(json.dumps({**document, "nonce": "00" * 16}))
    assert {outcome for outcome, _ in outcomes(two, roots).values()} == {CheckOutcome.DOES_NOT_HOLD}


def test_a_device_that_answers_with_an_old_report_does_not_hold(tmp_path: Path) -> None:
    folder = attested_run(tmp_path, VouchingNvml(devices=1, made_for=bytes(32)))
    roots = roots_of(tmp_path / "home", pem(ROOT), tpm_key())
    assert outcomes(folder, roots)["attestation of gpu-0"][0] is CheckOutcome.DOES_NOT_HOLD


@pytest.mark.parametrize("name", ["gpu-0.report", "gpu-0.pem", "tpm.message", "tpm.signature", "tpm.key"])
def test_a_part_that_is_missing_damaged_or_a_link_does_not_hold(tmp_path: Path, name: str) -> None:
    folder = attested_run(tmp_path)
    file, roots = folder / ATTESTATION_FOLDER / name, roots_of(tmp_path / "home", pem(ROOT), tpm_key())
    whole = file.read_bytes()
    which = f"attestation of {'tpm' if name.startswith('tpm') else 'gpu-0'}"
    for data in (b"", whole[: len(whole) // 8], bytes(len(whole))):
        file.write_bytes(data)
        assert outcomes(folder, roots)[which][0] is CheckOutcome.DOES_NOT_HOLD
    file.unlink()
    assert outcomes(folder, roots)[which] == (CheckOutcome.DOES_NOT_HOLD, f"{name} is not here")
    (tmp_path / "elsewhere").write_bytes(whole)
    file.symlink_to(tmp_path / "elsewhere")
    assert outcomes(folder, roots)[which][0] is CheckOutcome.DOES_NOT_HOLD


def test_a_record_that_leads_elsewhere_does_not_hold(tmp_path: Path) -> None:
    folder = attested_run(tmp_path)
    file = folder / ATTESTATION_FOLDER / ATTESTATION_FILE
    file.write_text(file.read_text().replace("gpu-0.report", "../../secret"))
    ((name, (outcome, _)),) = outcomes(folder, AttestationRoots()).items()
    assert (name, outcome) == ("attestation", CheckOutcome.DOES_NOT_HOLD)


def test_a_run_without_reports_has_no_line(tmp_path: Path) -> None:
    assert check_attestation(tmp_path, AttestationRoots()) == ()


def test_roots_that_are_none_are_said_in_one_line(tmp_path: Path) -> None:
    for text in (b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        with pytest.raises(BadInput, match=ROOTS_FILE):
            roots_of(tmp_path / "home", text)
    roots = roots_of(tmp_path / "home", pem(LEAF, MIDDLE, ROOT), tpm_key())
    assert (len(roots.certificates), len(roots.keys)) == (3, 1)
