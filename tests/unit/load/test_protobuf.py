"""Messages as bytes."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.load import protobuf
from lynxbench.load.http import Malformed


def test_bytes_known_from_the_format():
    assert protobuf.number(1, 150) == bytes.fromhex("089601")
    assert protobuf.text(2, "testing") == bytes.fromhex("120774657374696e67")
    assert protobuf.numbers(6, (3, 270, 86942)) == bytes.fromhex("3206038e029ea705")
    assert protobuf.number(1, -2) == bytes.fromhex("08feffffffffffffffff01")
    assert protobuf.number(1, 0) == b""


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8), st.binary(max_size=20))
def test_what_is_written_is_read(values, raw):
    data = protobuf.numbers(3, values) + protobuf.text(300, raw) + b"".join(protobuf.number(7, v) for v in values)
    fields = list(protobuf.read_fields(data))
    assert protobuf.unpack_numbers(fields[0][1]) == tuple(values)
    assert fields[1] == (300, raw)
    assert [protobuf.unpack_numbers(value) for _, value in fields[2:]] == [(v,) for v in values if v]


def test_fixed_fields_are_passed_over():
    fields = list(protobuf.read_fields(b"\x0d\x01\x02\x03\x04\x11" + bytes(8) + b"\x18\x05"))
    assert fields == [(1, b"\x01\x02\x03\x04"), (2, bytes(8)), (3, 5)]


@pytest.mark.parametrize("data", [b"\x08", b"\x12\x05ab", b"\x0b", b"\xff" * 12, b"\x0d\x01"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(Malformed):
        list(protobuf.read_fields(data))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    with suppress(Malformed):
        assert all(field >= 0 for field, _ in protobuf.read_fields(data))


def test_a_field_of_another_kind_is_refused():
    for read, value in ((protobuf.as_text, 5), (protobuf.as_bytes, 5), (protobuf.as_number, b"x")):
        with pytest.raises(Malformed, match="where a"):
            read(value)
