"""Hardware of a test that vouches for a run: a GPU with its certificates, and a TPM with its programs."""

from __future__ import annotations

import struct
import sys
from ctypes import c_uint8
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384

PrivateKey = ec.EllipticCurvePrivateKey


@cache
def private_key(name: str, curve: str = "p384") -> PrivateKey:
    """One key for each name."""
    del name
    return ec.generate_private_key(ec.SECP384R1() if curve == "p384" else ec.SECP256R1())


def certificate(
    name: str, issuer: str, *, authority: bool = True, ended: bool = False, issued_by: PrivateKey | None = None
) -> x509.Certificate:
    """A certificate for the key of a name, signed by that of its issuer."""
    start = datetime(2020, 1, 1, tzinfo=UTC)
    named = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (name, issuer)]
    return (
        x509.CertificateBuilder()
        .subject_name(named[0])
        .issuer_name(named[1])
        .public_key(private_key(name).public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=1 if ended else 40_000))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(issued_by or private_key(issuer), SHA384())
    )


ROOT = certificate("root", "root")
MIDDLE = certificate("middle", "root")
LEAF = certificate("leaf", "middle", authority=False)


def pem(*certificates: x509.Certificate) -> bytes:
    """Certificates as a device gives them."""
    return b"".join(one.public_bytes(form.Encoding.PEM) for one in certificates)


def gpu_report(nonce: bytes, key: PrivateKey | None = None) -> bytes:
    """GET_MEASUREMENTS and MEASUREMENTS of SPDM 1.1, signed."""
    request = bytes([0x11, 0xE0, 1, 0xFF]) + nonce + b"\0"
    record = b"measured"
    response = bytes([0x11, 0x60, 0, 0, 1]) + len(record).to_bytes(3, "little") + record + bytes(32) + bytes(2)
    r, s = decode_dss_signature((key or private_key("leaf")).sign(request + response, ec.ECDSA(SHA384())))
    return request + response + r.to_bytes(48, "big") + s.to_bytes(48, "big")


@dataclass
class VouchingNvml:
    """As much of NVML as a device in confidential mode answers."""

    feature: int = 1
    devices: int = 2
    asked: list[bytes] = field(default_factory=list)
    made_for: bytes | None = None
    """Answers with another nonce than it was asked with."""

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names
        pass

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.devices

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlSystemGetConfComputeState(self) -> Any:  # noqa: N802
        return SimpleNamespace(environment=2, ccFeature=self.feature, devToolsMode=0)

    def nvmlDeviceGetConfComputeGpuAttestationReport(self, gpu: int, nonce: bytes) -> Any:  # noqa: N802
        del gpu
        self.asked.append(nonce)
        report = gpu_report(self.made_for or nonce)
        return SimpleNamespace(attestationReport=_array(report, 0x2000), attestationReportSize=len(report))

    def nvmlDeviceGetConfComputeGpuCertificate(self, gpu: int) -> Any:  # noqa: N802
        del gpu
        chain = pem(LEAF, MIDDLE, ROOT)
        return SimpleNamespace(attestationCertChain=_array(chain, 0x1400), attestationCertChainSize=len(chain))


def _array(data: bytes, size: int) -> Any:
    return (c_uint8 * size)(*data)


def quote(nonce: bytes, key: PrivateKey | None = None, digest: bytes = bytes(32)) -> tuple[bytes, bytes]:
    """TPMS_ATTEST and TPMT_SIGNATURE of a TPM with an ECC key."""
    message = struct.pack(">IH", 0xFF544347, 0x8018) + _sized(b"\0\x0b" + bytes(32)) + _sized(nonce) + bytes(25)
    message += struct.pack(">IHB", 1, 0x000B, 3) + b"\xff\0\0" + _sized(digest)
    r, s = decode_dss_signature((key or private_key("tpm", "p256")).sign(message, ec.ECDSA(SHA256())))
    return message, struct.pack(">HH", 0x0018, 0x000B) + _sized(r.to_bytes(32, "big")) + _sized(s.to_bytes(32, "big"))


def _sized(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def tpm_key(name: str = "tpm") -> bytes:
    """The public part of an attestation key, as tpm2_readpublic writes it."""
    public = private_key(name, "p256").public_key()
    return public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)


PROGRAM = """#!{python}
import sys
sys.path[:0] = {path!r}
from attested import fake_program
fake_program({secret!r}, sys.argv)
"""


def install_programs(folder: Path, *names: str) -> None:
    """tpm2_quote and tpm2_readpublic that answer for a TPM that is not there."""
    secret = private_key("tpm", "p256").private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    path = [entry for entry in sys.path if entry]
    for name in names or ("tpm2_quote", "tpm2_readpublic"):
        file = folder / name
        file.write_text(PROGRAM.format(python=sys.executable, path=path, secret=secret.decode()))
        file.chmod(0o755)


def fake_program(secret: str, words: list[str]) -> None:
    """What the installed programs do."""
    given = dict(zip(words[1::2], words[2::2], strict=True))
    key = form.load_pem_private_key(secret.encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    if given.get("-c") == "0x81ffffff":
        sys.exit("ERROR: Esys_Quote(0x18B) - tpm:handle(1):the handle is not correct for the use")
    if words[0].endswith("tpm2_quote"):
        message, signature = quote(bytes.fromhex(given["-q"]), key)
        Path(given["-m"]).write_bytes(message)
        Path(given["-s"]).write_bytes(signature)
    else:
        public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        Path(given["-o"]).write_bytes(public)
