"""The one form of a bundle: the header of a member is the one that tarfile writes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.ledger import archive

NAMES = st.from_regex(archive._NAME, fullmatch=True)


@given(NAMES, st.integers(0, archive.LARGEST_SIZE))
def test_a_header_is_that_of_tarfile(name: str, size: int) -> None:
    facts = tarfile.TarInfo(name)
    facts.size, facts.mode = size, 0o644
    assert archive._header(name, size) == facts.tobuf(tarfile.USTAR_FORMAT)
    assert archive._parse_header(archive._header(name, size), "b.lynx") == (name, size)


@given(NAMES, st.integers(0, 1 << 30), st.integers(0, archive.BLOCK - 1), st.integers(1, 255))
def test_no_byte_of_a_header_is_another(name: str, size: int, place: int, flip: int) -> None:
    block = bytearray(archive._header(name, size))
    block[place] ^= flip
    try:
        found = archive._parse_header(bytes(block), "b.lynx")
    except EvidenceInvalid:
        return
    raise AssertionError(f"byte {place} of {name} is {block[place]} and was read as {found}")


@pytest.mark.parametrize(
    ("name", "size"), [("../x", 1), ("", 0), ("a/b", 1), ("manifest.json", archive.LARGEST_SIZE + 1)]
)
def test_what_has_no_place_in_a_bundle_has_no_header(name: str, size: int) -> None:
    with pytest.raises(EvidenceInvalid):
        archive._header(name, size)


def read(file: Path) -> list[tuple[str, bytes]]:
    with file.open("rb") as stream:
        return list(archive.read_archive(stream, str(file)))


@pytest.mark.parametrize(
    ("pack", "name", "told"),
    [
        (
            lzma.compress,
            "a.bundle.xz",
            "not a bundle yet, packed with xz; unpack it (xz -dk {}) and give what comes out",
        ),
        (
            lzma.compress,
            "a b.tar.xz",
            "not a bundle yet, packed with xz; unpack it (tar xf '{}') and give the bundles in it",
        ),
        (
            gzip.compress,
            "a.lynx",
            "not a bundle yet, packed with gzip; unpack it (gunzip -k {}) and give what comes out",
        ),
        (
            gzip.compress,
            "a.tgz",
            "not a bundle yet, packed with gzip; unpack it (tar xf {}) and give the bundles in it",
        ),
        (
            bz2.compress,
            "a.lynx.bz2",
            "not a bundle yet, packed with bzip2; unpack it (bunzip2 -k {}) and give what comes out",
        ),
    ],
)
def test_a_packed_bundle_is_not_called_damaged(
    pack: Callable[[bytes], bytes], name: str, told: str, tmp_path: Path
) -> None:
    """Found: a published `.bundle.xz` was `not a bundle of lynxbench, or truncated or damaged`."""
    file = tmp_path / name
    archive.write_archive(tmp_path / "plain", [("manifest.json", b"{}")])
    file.write_bytes(pack((tmp_path / "plain").read_bytes()))
    assert archive.looks_like_archive(file)
    with pytest.raises(BadInput) as refused:
        read(file)
    assert str(refused.value) == f"{file}: {told.format(file)}"


@pytest.mark.parametrize("inner", ["nights/one.bundle", "one.bundle", "nights/"])
def test_a_tar_of_bundles_is_told_from_a_bundle(inner: str, tmp_path: Path) -> None:
    file = tmp_path / "nights.tar"
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as tar:
        facts = tarfile.TarInfo(inner)
        facts.type = tarfile.DIRTYPE if inner.endswith("/") else tarfile.REGTYPE
        tar.addfile(facts, io.BytesIO())
    with pytest.raises(BadInput, match=r"a tar of other files .*, not one bundle; unpack it \(tar xf .*nights\.tar\)"):
        read(file)


def test_a_damaged_bundle_is_still_called_damaged(tmp_path: Path) -> None:
    file = tmp_path / "a.bundle"
    archive.write_archive(file, [("manifest.json", b"{}")])
    whole = file.read_bytes()
    for damaged in (whole[:300], b"", whole[:5] + b"x" + whole[6:], b"\0\1" * 600):
        file.write_bytes(damaged)
        with pytest.raises(EvidenceInvalid):
            read(file)
