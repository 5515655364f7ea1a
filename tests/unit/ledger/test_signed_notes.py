"""Checkpoints as C2SP has them, read by a second reader that was written from the specification alone."""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledgers import NOW, decision, key_of, sealed, trusting
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.keys import PublicKey
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.ledger.log_witnesses import current_note
from lynxbench.ledger.signed_notes import (
    LOG_KEY,
    WITNESS_KEY,
    cosign_note,
    cosignature_of,
    cosignatures,
    find_log_signer,
    key_hash,
    log_signer,
    parse_note,
    sign_note,
    verifier_key,
    witness_name,
)

OURS, THEIRS = key_of("alpha"), key_of("bravo")
ORIGIN = "lynxbench-ledger-00"
HEAD = TreeHead(3, bytes(range(32)))
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
"""The example of golang.org/x/mod/sumdb/note: whoever else reads notes can read this one."""
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def opened_by_specification(note: str, *verifier_keys: str) -> tuple[str, list[tuple[str, int | None]]]:
    """c2sp.org/signed-note and tlog-cosignature, read strictly: the text, and who signed it when."""
    text, lines = note[: note.rindex("\n\n") + 1], note[note.rindex("\n\n") + 2 :]
    assert note.isprintable() or all(letter == "\n" or letter >= " " for letter in note)
    known = {}
    for verifier in verifier_keys:
        name, hash_, encoded = verifier.split("+", 2)
        data = base64.b64decode(encoded, validate=True)
        assert hashlib.sha256(name.encode() + b"\n" + data).digest()[:4].hex() == hash_
        known[name, bytes.fromhex(hash_)] = (data[0], Ed25519PublicKey.from_public_bytes(data[1:]))
    signed = []
    for line in lines.removesuffix("\n").split("\n"):
        dash, name, encoded = line.split(" ")
        assert dash == "—"
        data = base64.b64decode(encoded, validate=True)
        if (name, data[:4]) not in known:
            continue  # unknown keys are passed over
        kind, key = known[name, data[:4]]
        if kind == 0x01:
            key.verify(data[4:], text.encode())
            signed.append((name, None))
        else:
            assert kind == 0x04
            (stamp,) = struct.unpack(">Q", data[4:12])
            key.verify(data[12:], f"cosignature/v1\ntime {stamp}\n{text}".encode())
            signed.append((name, stamp))
    return text, signed


def checkpoint_by_specification(text: str) -> tuple[str, int, bytes]:
    """c2sp.org/tlog-checkpoint: origin, size, root."""
    assert text.endswith("\n")
    origin, size, root, *extensions = text[:-1].split("\n")
    assert extensions == []
    assert str(int(size)) == size
    return origin, int(size), base64.b64decode(root, validate=True)


def test_the_second_reader_reads_what_others_write() -> None:
    text, signed = opened_by_specification(GO_NOTE, GO_KEY)
    assert text.startswith("If you think")
    assert signed == [("PeterNeumann", None)]
    with pytest.raises(InvalidSignature):
        opened_by_specification(GO_NOTE.replace("problem is", "problem was"), GO_KEY)


def test_keys_are_named_as_others_name_them() -> None:
    public = PublicKey(base64.b64decode(GO_KEY.split("+", 2)[2])[1:])
    assert verifier_key("PeterNeumann", LOG_KEY, public) == GO_KEY
    assert key_hash("PeterNeumann", LOG_KEY, public).hex() == "c74f20a3"
    assert key_hash("PeterNeumann", WITNESS_KEY, public) != key_hash("PeterNeumann", LOG_KEY, public)


def test_a_ledgers_checkpoint_is_read_by_specification(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        ledger.append_all([sealed(decision(text), OURS) for text in ("one", "two", "three")])
        note = current_note(ledger, OURS, NOW)
        head, origin = ledger.head(), ledger.origin
    cosigned = note.adding([cosign_note(note, THEIRS, NOW)]).to_text()
    log = verifier_key(origin, LOG_KEY, OURS.card.public)
    witness = verifier_key(witness_name("bravo"), WITNESS_KEY, THEIRS.card.public)
    text, signed = opened_by_specification(cosigned, log, witness)
    assert checkpoint_by_specification(text) == (origin, 3, head.root)
    assert signed == [(origin, None), ("lynxbench-witness/bravo", int(NOW.timestamp()))]
    assert opened_by_specification(cosigned, log)[1] == [(origin, None)], "an unknown witness is passed over"
    assert parse_note(cosigned.encode()).to_text() == cosigned
    for wrong in (cosigned.replace("\n3\n", "\n4\n"), cosigned.replace(origin[-6:] + "\n3", "000000\n3")):
        with pytest.raises(InvalidSignature):
            opened_by_specification(wrong, log, witness)


def test_an_empty_ledger_has_a_checkpoint(tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as ledger:
        text = current_note(ledger, OURS, NOW).text
    assert checkpoint_by_specification(text)[1:] == (0, hashlib.sha256(b"").digest())


def test_every_flipped_bit_is_found() -> None:
    note = sign_note(ORIGIN, HEAD, OURS)
    note = note.adding([cosign_note(note, THEIRS, NOW)])
    data, trust = note.to_text().encode(), trusting(OURS, THEIRS)
    missed = []
    for bit in range(len(data) * 8):
        bent = bytearray(data)
        bent[bit // 8] ^= 1 << bit % 8
        try:
            read = parse_note(bytes(bent))
            whole = log_signer(read, trust).team, [one.witness.team for one in cosignatures(read, trust)]
            if whole == ("alpha", ["bravo"]):
                missed.append(bit)
        except EvidenceInvalid:
            pass
    assert missed == []


def test_a_wrong_signature_in_a_trusted_name_is_an_error_and_an_unknown_one_is_not() -> None:
    note, trust = sign_note(ORIGIN, HEAD, OURS), trusting(OURS)
    assert find_log_signer(note, trusting(THEIRS)) is None
    with pytest.raises(EvidenceInvalid, match="nobody in the trust list signed as ledger"):
        log_signer(note, trusting(THEIRS))
    wrong = replace(note.signatures[0], signature=bytes(64))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        log_signer(replace(note, signatures=(wrong,)), trust)
    second = replace(note, signatures=(*note.signatures, replace(wrong, signature=bytes(12))))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        log_signer(second, trust)


def test_a_signature_is_for_one_purpose() -> None:
    """A log's line is no co-signature, a co-signature signs for no log, and a stamp cannot be moved."""
    note, trust = sign_note(ORIGIN, HEAD, OURS), trusting(OURS, THEIRS)
    line = cosign_note(note, THEIRS, NOW)
    as_log = replace(line, name=ORIGIN, key_hash=key_hash(ORIGIN, LOG_KEY, THEIRS.card.public))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        log_signer(replace(note, signatures=(as_log,)), trust)
    name = witness_name("alpha")
    as_witness = replace(note.signatures[0], name=name, key_hash=key_hash(name, WITNESS_KEY, OURS.card.public))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        cosignatures(note.adding([as_witness]), trust)
    later = int((NOW + timedelta(days=1)).timestamp()).to_bytes(8, "big") + line.signature[8:]
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        cosignatures(note.adding([replace(line, signature=later)]), trust)
    endless = b"\xff" * 8 + line.signature[8:]
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        cosignatures(note.adding([replace(line, signature=endless)]), trust)


def test_a_newer_cosignature_takes_the_place_of_the_older() -> None:
    note = sign_note(ORIGIN, HEAD, OURS)
    both = note.adding([cosign_note(note, THEIRS, NOW)]).adding([cosign_note(note, THEIRS, NOW + timedelta(hours=2))])
    (found,) = cosignatures(both, trusting(THEIRS))
    assert found.at == datetime(2026, 11, 15, 11, 0, tzinfo=UTC)
    assert cosignature_of(both, THEIRS) == found.line


@pytest.mark.parametrize("origin", ["", "two words", "a+b", "new\nline", "DSSEv1 28 x", "é", "-dash", "x" * 201])
def test_a_log_that_cannot_be_named_signs_nothing(origin: str) -> None:
    with pytest.raises(EvidenceInvalid, match="no origin of a log"):
        sign_note(origin, HEAD, OURS)


ROOT, LINE = base64.b64encode(HEAD.root).decode(), sign_note(ORIGIN, HEAD, OURS).signatures[0].to_line()


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n\n",
        f"{ORIGIN}\n3\n{ROOT}\n",
        f"{ORIGIN}\n3\n{ROOT}\n\n",
        f"{ORIGIN}\n3\n{ROOT}\n\n{LINE}"[:-1],
        f"{ORIGIN}\n3\n\n{LINE}",
        f"{ORIGIN}\n03\n{ROOT}\n\n{LINE}",
        f"{ORIGIN}\n-3\n{ROOT}\n\n{LINE}",
        f"{ORIGIN}\n3.0\n{ROOT}\n\n{LINE}",
        f"{ORIGIN}\n٣\n{ROOT}\n\n{LINE}",
        f"{ORIGIN}\n3\n{ROOT[:-4]}\n\n{LINE}",
        f"{ORIGIN}\n3\n{ROOT[:-1]}\n\n{LINE}",
        f"{ORIGIN}\n3\n{ROOT}\n\nextra\n\n{LINE}",
        f"{ORIGIN}\r\n3\n{ROOT}\n\n{LINE}",
        f"{ORIGIN}\x1b[2J\n3\n{ROOT}\n\n{LINE}",
        f"{'x' * 201}\n3\n{ROOT}\n\n{LINE}",
        f"{ORIGIN}\n3\n{ROOT}\n\n{LINE.replace('—', '-')}",
        f"{ORIGIN}\n3\n{ROOT}\n\n{LINE}{LINE}",
        f"{ORIGIN}\n3\n{ROOT}\n\n— a+b AAAAAAAA\n",
        f"{ORIGIN}\n3\n{ROOT}\n\n— a AAAA\n",
        f"{ORIGIN}\n3\n{ROOT}\n\n— a\n",
        f"{ORIGIN}\n3\n{ROOT}\n\n" + "".join(f"— a{number} AAAAAAAA\n" for number in range(65)),
        "x" * 70_000,
    ],
)
def test_what_is_no_checkpoint_is_refused_in_one_line(note: str) -> None:
    with pytest.raises(EvidenceInvalid) as error:
        parse_note(note.encode())
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(EvidenceInvalid, match="not UTF-8"):
        parse_note(b"\xff\xfe\n\n")


def test_extension_lines_are_kept_and_signed() -> None:
    """Others may write them; a witness signs the whole text."""
    text = f"{ORIGIN}\n3\n{ROOT}\nextension\n"
    note = parse_note(f"{text}\n{LINE}".encode())
    assert note.text == text
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        log_signer(note, trusting(OURS))
