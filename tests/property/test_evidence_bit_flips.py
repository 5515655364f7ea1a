"""10,000 random single-bit flips over a signed envelope and a result folder: all detected, none crashes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import parse_envelope
from lynxbench.evidence.manifest import parse_manifest, write_manifest
from lynxbench.evidence.statement import seal_entry, verify_entry
from lynxbench.record.verifying import verify_folder
from sealed import agreed, key_of, trusting

SEED = 20261115
ENVELOPE_FLIPS = 8_300
MANIFEST_FLIPS = 1_400
FOLDER_FLIPS = 300
UNPROTECTED_FLIPS = 30
DECISIVE = ("result.json", "samples.npz", "attempts/000-01/iterations.bin")
"""Files in which a flip is found without a manifest: hashed by the result, or recomputed from."""


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def bits(data: bytes, count: int) -> Iterator[int]:
    chance = random.Random(SEED)
    return (chance.randrange(len(data) * 8) for _ in range(count))


def test_every_flip_in_an_envelope_is_detected() -> None:
    key = key_of()
    trust = trusting(key)
    data = seal_entry(agreed(), [key]).to_bytes()
    verify_entry(parse_envelope(data), trust)
    for bit in bits(data, ENVELOPE_FLIPS):
        try:
            verify_entry(parse_envelope(flipped(data, bit)), trust)
        except EvidenceInvalid:
            continue
        pytest.fail(f"bit {bit} of the envelope was flipped, and it still verifies")


@pytest.fixture
def run_copy(spin_run: Path, tmp_path: Path) -> Path:
    folder = tmp_path / spin_run.name
    shutil.copytree(spin_run, folder)
    return folder


def test_every_flip_in_a_manifest_is_detected(run_copy: Path) -> None:
    manifest = write_manifest(run_copy)
    data = manifest.to_bytes()
    for bit in bits(data, MANIFEST_FLIPS):
        try:
            changed = parse_manifest(flipped(data, bit))
        except EvidenceInvalid:
            continue
        assert changed.files != manifest.files, f"bit {bit} of the manifest was flipped, and it says the same"


def test_every_flip_in_a_folder_is_detected(run_copy: Path) -> None:
    files = [run_copy / file.path for file in write_manifest(run_copy).files if file.size_bytes]
    files.append(run_copy / "manifest.json")
    assert len(files) > 10
    chance = random.Random(SEED)
    for _ in range(FOLDER_FLIPS):
        file = chance.choice(files)
        data = file.read_bytes()
        bit = chance.randrange(len(data) * 8)
        file.write_bytes(flipped(data, bit))
        assert not verify_folder(run_copy).holds, f"bit {bit} of {file.name} was flipped, and the folder still holds"
        file.write_bytes(data)
    assert verify_folder(run_copy).holds


def test_without_a_manifest_flips_never_crash_and_decisive_ones_are_detected(run_copy: Path) -> None:
    (run_copy / "manifest.json").unlink()
    files = sorted(file for file in run_copy.rglob("*") if file.is_file() and file.stat().st_size)
    chance = random.Random(SEED)
    for _ in range(UNPROTECTED_FLIPS):
        file = chance.choice(files)
        data = file.read_bytes()
        file.write_bytes(flipped(data, chance.randrange(len(data) * 8)))
        report = verify_folder(run_copy)
        name = file.relative_to(run_copy).as_posix()
        assert not report.holds or name not in DECISIVE, name
        file.write_bytes(data)
