"""Header blocks: the standard's own examples, and texts in every code."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.load.hpack import STATIC, HeaderDecoder, codes, encode_headers
from lynxbench.load.http import Malformed

# RFC 7541, appendix C.4 (requests) and C.6 (answers, with a table of 256 bytes), in the standard's own bytes.
REQUESTS = (
    ("828684418cf1e3c2e5f23a6ba0ab90f4ff", {":authority": "www.example.com"}),
    ("828684be5886a8eb10649cbf", {":authority": "www.example.com", "cache-control": "no-cache"}),
    (
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        {":scheme": "https", ":path": "/index.html", "custom-key": "custom-value"},
    ),
)
ANSWERS = (
    (
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
        {":status": "302", "date": "Mon, 21 Oct 2013 20:13:21 GMT", "location": "https://www.example.com"},
    ),
    ("4883640effc1c0bf", {":status": "307", "location": "https://www.example.com"}),
)


def packed(text):
    """A text in the standard's code, padded with the beginning of its end."""
    known = {symbol: code for code, symbol in codes().items()}
    bits = "".join(format(known[byte][1], f"0{known[byte][0]}b") for byte in text)
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


@pytest.mark.parametrize(("largest", "blocks"), [(4096, REQUESTS), (256, ANSWERS)])
def test_the_standards_own_examples(largest, blocks):
    decoder = HeaderDecoder(largest)
    for block, said in blocks:
        headers = dict(decoder.decode(bytes.fromhex(block)))
        assert said.items() <= headers.items()


def test_the_code_is_whole_and_the_standards():
    assert sum(2.0**-length for length, _ in codes()) == 1, "every sequence of bits is read in one way"
    known = {symbol: code for code, symbol in codes().items()}
    assert len(known) == 257
    assert known[ord("0")] == (5, 0)
    assert known[ord("a")] == (5, 3)
    assert known[ord("\\")] == (19, 0x7FFF0)
    assert known[256] == (30, 0x3FFFFFFF)
    assert len(STATIC) == 61
    assert STATIC[60] == ("www-authenticate", "")


@given(st.binary(max_size=40))
def test_every_text_comes_back_plain_and_packed(text):
    assert HeaderDecoder().decode(encode_headers([("x", text.decode("latin-1"))])) == (("x", text.decode("latin-1")),)
    code = packed(text)
    block = encode_headers([("x", code.decode("latin-1"))])
    marked = block[:3] + bytes((block[3] | 0x80,)) + block[4:]
    assert HeaderDecoder().decode(marked) == (("x", text.decode("latin-1")),)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_block_are_refused_or_read_and_never_crash(block):
    with suppress(Malformed):
        assert all(isinstance(name, str) for name, _ in HeaderDecoder().decode(block))


@pytest.mark.parametrize("block", ["be", "ff", "80", "40", "0001", "000178ff", "0001788118", "3fffffffff7f"])
def test_what_breaks_off_or_names_nothing_is_refused(block):
    with pytest.raises(Malformed):
        HeaderDecoder().decode(bytes.fromhex(block))


def test_a_table_of_no_size_remembers_nothing():
    decoder = HeaderDecoder()
    decoder.decode(b"\x20\x40\x01a\x01b")
    assert decoder.is_empty
    with pytest.raises(Malformed, match="header 62"):
        decoder.decode(b"\xbe")


def test_what_does_not_fit_pushes_the_oldest_out():
    decoder = HeaderDecoder(80)
    decoder.decode(b"\x40\x01a\x01b\x40\x01c\x01d")
    assert decoder.decode(b"\xbe\xbf") == (("c", "d"), ("a", "b"))
    decoder.decode(b"\x40\x01e\x01f")
    assert decoder.decode(b"\xbe\xbf") == (("e", "f"), ("c", "d"))
    with pytest.raises(Malformed, match="header 64"):
        decoder.decode(b"\xc0")
