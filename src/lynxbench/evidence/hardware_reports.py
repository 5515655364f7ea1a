"""Reports of hardware roots of trust, checked without a network: NVIDIA's GPU attestation and quotes of a TPM 2.0.

Each was asked for with a nonce that follows from the run's registration, so that no report of another run can stand
for it. Who made it is known where the reader has the roots: certificates, or keys of machines, of their own choice.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field as Bound_
from pydantic import model_validator

from lynxbench.errors import EvidenceInvalid
from lynxbench.model.document import Document
from lynxbench.model.executor import Field, Tier
from lynxbench.model.layers import Layer

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ATTESTATION_FOLDER: Final = "attestation"
ATTESTATION_FILE: Final = "attestation.json"
NONCE_BYTES: Final = 32
"""What SPDM takes; a TPM takes up to 64."""

# SPDM 1.1 (DSP0274): GET_MEASUREMENTS as it was sent, then MEASUREMENTS as it came, signed with ECDSA P-384.
SPDM_REQUEST_BYTES, SPDM_NONCE_AT = 37, 4
GET_MEASUREMENTS, MEASUREMENTS = 0xE0, 0x60
SPDM_SIGNATURE_BYTES: Final = 96
# TPM 2.0 Structures (part 2): TPMS_ATTEST and TPMT_SIGNATURE.
TPM_MAGIC, TPM_QUOTE = 0xFF544347, 0x8018
TPM_RSASSA, TPM_ECDSA, TPM_SHA256 = 0x0014, 0x0018, 0x000B
CLOCK_AND_FIRMWARE_BYTES: Final = 17 + 8
MOST_CERTIFICATES: Final = 16

_Name = Annotated[str, Bound_(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]


class ReportKind(StrEnum):
    """What made a report."""

    NVIDIA_GPU = "nvidia-gpu"
    TPM_QUOTE = "tpm2-quote"


PARTS: Final = {
    ReportKind.NVIDIA_GPU: ("report", "certificates"),
    ReportKind.TPM_QUOTE: ("message", "signature", "key"),
}
"""Files of a report, by what they are."""


class HardwareReport(Document):
    """One report and the files that hold it, beside this document."""

    name: _Name
    kind: ReportKind
    files: dict[str, _Name]

    @model_validator(mode="after")
    def _whole(self) -> "HardwareReport":
        if set(self.files) != set(PARTS[self.kind]):
            raise ValueError(f"report {self.name}: its files are {', '.join(PARTS[self.kind])}")
        return self


class AttestationRecord(Document):
    """What a run's hardware was asked and answered."""

    schema_version: Literal[1] = 1
    reports: tuple[HardwareReport, ...]
    fields: dict[Layer, dict[str, Field]]
    """What joins the executor: in no id, for every report is another one."""

    @model_validator(mode="after")
    def _in_no_id(self) -> "AttestationRecord":
        if any(field.tier is not Tier.STATE for fields in self.fields.values() for field in fields.values()):
            raise ValueError("an attestation is state, and never part of an id")
        return self


def attestation_nonce(run_id: str, nonce: str) -> bytes:
    """The nonce that a run's hardware is asked with."""
    return hashlib.sha256(b"lynxbench attestation\0" + run_id.encode() + b"\0" + nonce.encode()).digest()


@dataclass(frozen=True, slots=True)
class ReportFinding:
    """How far a report could be checked; EvidenceInvalid is raised where it is wrong."""

    checked: bool
    words: str


def check_gpu_report(
    report: bytes, certificates: bytes, nonce: bytes, roots: Sequence["Certificate"], at: datetime
) -> ReportFinding:
    """A GPU's report: made for this nonce, signed under a certificate of its own that leads to a root of the reader."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA384

    if len(report) < SPDM_REQUEST_BYTES + 8 + SPDM_SIGNATURE_BYTES:
        raise EvidenceInvalid(f"{len(report)} bytes are no attestation report")
    if (report[1], report[SPDM_REQUEST_BYTES + 1]) != (GET_MEASUREMENTS, MEASUREMENTS):
        raise EvidenceInvalid("holds no measurements of SPDM 1.1")
    if report[SPDM_NONCE_AT : SPDM_NONCE_AT + NONCE_BYTES] != nonce:
        raise EvidenceInvalid("its nonce is not this run's: it was made for something else")
    chain = read_certificates(certificates)
    message, signature = report[:-SPDM_SIGNATURE_BYTES], report[-SPDM_SIGNATURE_BYTES:]
    half = SPDM_SIGNATURE_BYTES // 2
    leaf = next(
        (
            certificate
            for certificate in chain
            if isinstance(key := certificate.public_key(), ec.EllipticCurvePublicKey)
            and isinstance(key.curve, ec.SECP384R1)
            and _ecdsa_holds(key, signature[:half], signature[half:], message, SHA384())
        ),
        None,
    )
    if leaf is None:
        raise EvidenceInvalid("none of its certificates signed it")
    root = _root_of(leaf, chain, roots, at)
    if root is None:
        why = "none of your roots issued its certificates" if roots else "you have no root certificates"
        return ReportFinding(False, f"recorded, not checked: {why}; the nonce is this run's")
    return ReportFinding(True, f"made for this run; signed under {root.subject.rfc4514_string()[:120]}")


def check_tpm_quote(
    message: bytes, signature: bytes, key_pem: bytes, nonce: bytes, known_keys: Sequence[bytes]
) -> ReportFinding:
    """A TPM's quote: made for this nonce, signed by its key, which the reader knows (SubjectPublicKeyInfo) or not."""
    from cryptography.hazmat.primitives import serialization as form

    quoted = parse_quote(message)
    if quoted.nonce != nonce:
        raise EvidenceInvalid("its nonce is not this run's: it was made for something else")
    try:
        key = form.load_pem_public_key(key_pem)
        der = key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    except Exception as error:  # whatever a stranger's file makes the library raise
        raise EvidenceInvalid(f"its key cannot be read ({type(error).__name__})") from None
    if not _quote_holds(key, signature, message):
        raise EvidenceInvalid("its key did not sign it")
    if der not in known_keys:
        why = "the key that signed it is none that you know as a TPM's"
        return ReportFinding(False, f"recorded, not checked: {why}; the nonce is this run's")
    return ReportFinding(True, f"made for this run; PCR digest {quoted.pcr_digest.hex()[:16]}…")


@dataclass(frozen=True, slots=True)
class TpmQuote:
    """What a quote says."""

    nonce: bytes
    pcr_digest: bytes


def parse_quote(message: bytes) -> TpmQuote:
    """The nonce and the digest of the registers in a TPMS_ATTEST; EvidenceInvalid where it is none of a quote."""
    try:
        magic, kind = struct.unpack_from(">IH", message)
        if (magic, kind) != (TPM_MAGIC, TPM_QUOTE):
            raise EvidenceInvalid("not a quote of a TPM")
        _, at = _sized(message, 6)
        nonce, at = _sized(message, at)
        at += CLOCK_AND_FIRMWARE_BYTES
        (banks,) = struct.unpack_from(">I", message, at)
        at += 4
        for _ in range(min(banks, 16)):
            at += 3 + message[at + 2]
        digest, at = _sized(message, at)
    except (struct.error, IndexError):
        raise EvidenceInvalid("a quote that ends too soon") from None
    if at != len(message):
        raise EvidenceInvalid("a quote with something behind it")
    return TpmQuote(nonce, digest)


def read_certificates(pem: bytes) -> tuple["Certificate", ...]:
    """The certificates of a PEM text; EvidenceInvalid where it holds none."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        certificates = load_pem_x509_certificates(pem.strip(b"\0\r\n "))
    except ValueError:
        raise EvidenceInvalid("its certificates cannot be read") from None
    if len(certificates) > MOST_CERTIFICATES:
        raise EvidenceInvalid(f"more than {MOST_CERTIFICATES} certificates")
    return tuple(certificates)


def _root_of(
    leaf: "Certificate", chain: Sequence["Certificate"], roots: Sequence["Certificate"], at: datetime
) -> "Certificate | None":
    """The reader's root that a certificate leads to over authorities of its chain, all of them valid at the time."""
    current, left = leaf, list(chain)
    for _ in range(MOST_CERTIFICATES):
        if not current.not_valid_before_utc <= at.astimezone(UTC) <= current.not_valid_after_utc:
            return None
        root = next((root for root in roots if root == current or _issued(root, current)), None)
        if root is not None:
            return root
        above = next((other for other in left if other != current and _issued(other, current)), None)
        if above is None:
            return None
        left.remove(above)
        current = above
    return None


def _issued(issuer: "Certificate", certificate: "Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.x509 import BasicConstraints, ExtensionNotFound

    try:
        if not issuer.extensions.get_extension_for_class(BasicConstraints).value.ca:
            return False
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ExtensionNotFound, ValueError, TypeError):
        return False
    return True


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    """A TPM2B: two bytes of length, then as many bytes."""
    (size,) = struct.unpack_from(">H", data, at)
    end = at + 2 + size
    if end > len(data):
        raise EvidenceInvalid("a quote that ends too soon")
    return data[at + 2 : end], end


def _quote_holds(key: object, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        algorithm, hashed = struct.unpack_from(">HH", signature)
        first, at = _sized(signature, 4)
        if hashed != TPM_SHA256:
            return False
        if algorithm == TPM_RSASSA and isinstance(key, rsa.RSAPublicKey):
            key.verify(first, message, padding.PKCS1v15(), SHA256())
            return at == len(signature)
        if algorithm == TPM_ECDSA and isinstance(key, ec.EllipticCurvePublicKey):
            second, at = _sized(signature, at)
            return at == len(signature) and _ecdsa_holds(key, first, second, message, SHA256())
    except (InvalidSignature, struct.error, EvidenceInvalid):
        return False
    return False


def _ecdsa_holds(key: object, r: bytes, s: bytes, message: bytes, hashed: object) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(hashed, HashAlgorithm)
    encoded = encode_dss_signature(int.from_bytes(r, "big"), int.from_bytes(s, "big"))
    try:
        key.verify(encoded, message, ec.ECDSA(hashed))
    except InvalidSignature:
        return False
    return True
