"""Hardware reports: for this run alone, signed, under a root of the reader; everything else is said as it is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from pydantic import ValidationError

from attested import LEAF, MIDDLE, ROOT, certificate, gpu_report, pem, private_key, quote, tpm_key
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.hardware_reports import (
    AttestationRecord,
    HardwareReport,
    ReportKind,
    attestation_nonce,
    check_gpu_report,
    check_tpm_quote,
    parse_quote,
)
from lynxbench.model.executor import measured
from lynxbench.model.layers import Layer

NONCE = attestation_nonce("spin-1", "ab" * 16)
AT = datetime(2026, 11, 15, tzinfo=UTC)
CHAIN = pem(LEAF, MIDDLE, ROOT)


def test_the_nonce_is_of_one_run() -> None:
    assert len(NONCE) == 32
    assert len({attestation_nonce(*run) for run in (("a", "bc"), ("ab", "c"), ("a", "bd"), ("", "abc"))}) == 4


# --- GPU ---------------------------------------------------------


def test_a_report_under_a_root_of_the_reader_holds() -> None:
    for chain in (CHAIN, pem(ROOT, MIDDLE, LEAF), pem(LEAF, MIDDLE), CHAIN + b"\0\0"):
        finding = check_gpu_report(gpu_report(NONCE), chain, NONCE, [ROOT], AT)
        assert finding.checked, finding
        assert "CN=root" in finding.words


def test_without_a_root_it_is_recorded_and_not_checked() -> None:
    stranger = certificate("stranger", "stranger")
    for roots, why in (([], "no root certificates"), ([stranger], "none of your roots")):
        finding = check_gpu_report(gpu_report(NONCE), CHAIN, NONCE, roots, AT)
        assert not finding.checked
        assert "recorded, not checked" in finding.words
        assert why in finding.words


def test_a_report_of_another_run_is_refused() -> None:
    other = attestation_nonce("spin-2", "ab" * 16)
    with pytest.raises(EvidenceInvalid, match="not this run's"):
        check_gpu_report(gpu_report(other), CHAIN, NONCE, [ROOT], AT)
    moved = gpu_report(other)
    moved = moved[:4] + NONCE + moved[36:]
    with pytest.raises(EvidenceInvalid, match="none of its certificates signed"):
        check_gpu_report(moved, CHAIN, NONCE, [ROOT], AT)


def test_every_changed_byte_is_seen() -> None:
    report = gpu_report(NONCE)
    for at in range(0, len(report), 7):
        changed = report[:at] + bytes([report[at] ^ 1]) + report[at + 1 :]
        with pytest.raises(EvidenceInvalid):
            check_gpu_report(changed, CHAIN, NONCE, [ROOT], AT)


def test_what_is_no_report_is_refused() -> None:
    for data in (b"", bytes(100), bytes(500), gpu_report(NONCE)[:-100]):
        with pytest.raises(EvidenceInvalid):
            check_gpu_report(data, CHAIN, NONCE, [ROOT], AT)
    for chain in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", CHAIN * 7):
        with pytest.raises(EvidenceInvalid, match="certificates"):
            check_gpu_report(gpu_report(NONCE), chain, NONCE, [ROOT], AT)


FALSE_CHAINS = {
    "a leaf that is no authority issues another": (
        pem(certificate("evil", "leaf", issued_by=private_key("leaf")), LEAF, MIDDLE),
        "evil",
    ),
    "the name of an issuer, the key of somebody else": (
        pem(certificate("evil", "middle", issued_by=private_key("other")), MIDDLE),
        "evil",
    ),
    "a chain that ended": (pem(certificate("leaf", "middle", ended=True), MIDDLE), "leaf"),
    "a root of their own": (pem(certificate("evil", "evil")), "evil"),
    "a gap": (pem(LEAF), "leaf"),
}


@pytest.mark.parametrize(("chain", "signer"), FALSE_CHAINS.values(), ids=FALSE_CHAINS.keys())
def test_a_chain_that_does_not_lead_to_the_root_proves_nothing(chain: bytes, signer: str) -> None:
    finding = check_gpu_report(gpu_report(NONCE, private_key(signer)), chain, NONCE, [ROOT], AT)
    assert not finding.checked


# --- TPM ---------------------------------------------------------


def known(name: str = "tpm") -> bytes:
    public = private_key(name, "p256").public_key()
    return public.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)


def test_a_quote_by_a_key_that_the_reader_knows_holds() -> None:
    message, signature = quote(NONCE, digest=b"\x5a" * 32)
    assert parse_quote(message).pcr_digest == b"\x5a" * 32
    assert "5a5a" in check_tpm_quote(message, signature, tpm_key(), NONCE, [known()]).words
    finding = check_tpm_quote(message, signature, tpm_key(), NONCE, [known("other")])
    assert not finding.checked
    assert "recorded, not checked" in finding.words


def test_a_quote_by_an_rsa_key_holds() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    message, _ = quote(NONCE)
    signed = key.sign(message, padding.PKCS1v15(), SHA256())
    signature = b"\0\x14\0\x0b" + len(signed).to_bytes(2, "big") + signed
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    assert not check_tpm_quote(message, signature, public, NONCE, []).checked
    with pytest.raises(EvidenceInvalid, match="did not sign"):
        check_tpm_quote(message, signature[:-1] + b"\0", public, NONCE, [])
    with pytest.raises(EvidenceInvalid, match="did not sign"):
        check_tpm_quote(message, signature, tpm_key(), NONCE, [])


def test_a_quote_for_something_else_is_refused() -> None:
    message, signature = quote(NONCE)
    with pytest.raises(EvidenceInvalid, match="not this run's"):
        check_tpm_quote(*quote(bytes(32)), tpm_key(), NONCE, [known()])
    with pytest.raises(EvidenceInvalid, match="did not sign"):
        check_tpm_quote(message, quote(bytes(32))[1], tpm_key(), NONCE, [known()])
    with pytest.raises(EvidenceInvalid, match="cannot be read"):
        check_tpm_quote(message, signature, b"no key", NONCE, [known()])
    for at in range(len(message)):
        changed = message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]
        with pytest.raises(EvidenceInvalid):
            check_tpm_quote(changed, signature, tpm_key(), NONCE, [known()])
    for end in range(len(message)):
        with pytest.raises(EvidenceInvalid):
            parse_quote(message[:end])
    with pytest.raises(EvidenceInvalid, match="behind it"):
        parse_quote(message + b"\0")
    for end in range(len(signature)):
        with pytest.raises(EvidenceInvalid):
            check_tpm_quote(message, signature[:end], tpm_key(), NONCE, [known()])


# --- the record ---------------------------------------------------------


def test_a_record_adds_state_and_names_files_of_its_own() -> None:
    configured = {Layer.ACCELERATOR: {"gpu_name": measured("H100", "me")}}
    with pytest.raises(ValidationError, match="never part of an id"):
        AttestationRecord(reports=(), fields=configured)
    for files in ({"report": "a"}, {"report": "../a", "certificates": "b"}, {"report": "a/b", "certificates": "b"}):
        with pytest.raises(ValidationError):
            HardwareReport(name="gpu-0", kind=ReportKind.NVIDIA_GPU, files=files)
