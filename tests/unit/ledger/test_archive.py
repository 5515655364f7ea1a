"""The one form of a bundle: the header of a member is the one that tarfile writes."""

from __future__ import annotations

import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.errors import EvidenceInvalid
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
