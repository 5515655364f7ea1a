"""The hardware reports in a run's folder: made for this run, and by hardware that the reader has a root for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lynxbench.errors import BadInput, EvidenceInvalid, LynxbenchError
from lynxbench.evidence.documents import read_document
from lynxbench.evidence.hardware_reports import (
    ATTESTATION_FILE,
    ATTESTATION_FOLDER,
    AttestationRecord,
    HardwareReport,
    ReportFinding,
    ReportKind,
    attestation_nonce,
    check_gpu_report,
    check_tpm_quote,
)
from lynxbench.evidence.keys import home
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.evidence.statement import parse_time
from lynxbench.model.verification import Check, cannot, fails, holds

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ROOTS_FILE = "attestation-roots.pem"
"""In the reader's home: certificates of makers of hardware, and public keys of TPMs, that the reader trusts."""
MAX_REPORT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class AttestationRoots:
    """What a reader trusts of hardware."""

    certificates: tuple["Certificate", ...] = ()
    keys: tuple[bytes, ...] = ()
    """SubjectPublicKeyInfo of TPMs' attestation keys."""


def read_roots(environment: Mapping[str, str]) -> AttestationRoots:
    """The reader's roots; none where there is no such file."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.x509 import load_pem_x509_certificate

    file = home(environment) / ROOTS_FILE
    try:
        data = file.read_bytes()[: 4 * MAX_REPORT_BYTES]
    except OSError:
        return AttestationRoots()
    blocks = [b"-----BEGIN " + block for block in data.split(b"-----BEGIN ")[1:]]
    try:
        keys = [form.load_pem_public_key(block) for block in blocks if b"BEGIN PUBLIC KEY" in block]
        certificates = [load_pem_x509_certificate(block) for block in blocks if b"BEGIN CERTIFICATE" in block]
    except ValueError:
        raise BadInput(f"{file}: holds a certificate or a public key that cannot be read") from None
    if not keys and not certificates:
        raise BadInput(f"{file}: holds neither a certificate nor a public key; PEM is expected")
    spelled = (form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    return AttestationRoots(tuple(certificates), tuple(key.public_bytes(*spelled) for key in keys))


def check_attestation(result: Path, roots: AttestationRoots) -> tuple[Check, ...]:
    """A line on each report of a run's hardware; none where the run has none."""
    folder = result if result.is_dir() else result.parent
    file = folder / ATTESTATION_FOLDER / ATTESTATION_FILE
    if file.parent.is_symlink() or file.is_symlink() or not file.is_file():
        return ()
    try:
        record = read_document(file, AttestationRecord, "not an attestation")
        run = RunFolder.open(folder)
    except LynxbenchError as error:
        return (fails("attestation", str(error)),)
    return tuple(_check(report, run, roots) for report in record.reports)


def _check(report: HardwareReport, run: RunFolder, roots: AttestationRoots) -> Check:
    name = f"attestation of {report.name}"
    try:
        parts = {part: _read(run.path / ATTESTATION_FOLDER / file) for part, file in report.files.items()}
        finding = _finding(report, parts, run, roots)
    except EvidenceInvalid as error:
        return fails(name, str(error))
    except Exception as error:  # certificates of strangers can be wrong in any way
        return fails(name, f"cannot be read ({type(error).__name__})")
    return holds(name, finding.words) if finding.checked else cannot(name, finding.words)


def _finding(report: HardwareReport, parts: dict[str, bytes], run: RunFolder, roots: AttestationRoots) -> ReportFinding:
    registration = run.registration
    nonce = attestation_nonce(registration.run_id, registration.nonce)
    if report.kind is ReportKind.TPM_QUOTE:
        return check_tpm_quote(parts["message"], parts["signature"], parts["key"], nonce, roots.keys)
    at = parse_time(registration.registered_at)
    return check_gpu_report(parts["report"], parts["certificates"], nonce, roots.certificates, at)


def _read(file: Path) -> bytes:
    if file.is_symlink() or not file.is_file():
        raise EvidenceInvalid(f"{file.name} is not here")
    with file.open("rb") as stream:
        return stream.read(MAX_REPORT_BYTES)
