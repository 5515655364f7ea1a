"""One envelope, one byte form; every other spelling and every unworthy signature is refused."""

from __future__ import annotations

import base64
import copy
import json
import pickle
import random
from dataclasses import replace

import pytest

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.canonical_reader import parse_canonical
from lynxbench.evidence.envelope import (
    CHECKPOINT_TYPE,
    MAX_ENVELOPE_BYTES,
    STATEMENT_TYPE,
    Envelope,
    Signature,
    _envelope,
    _parse_quickly,
    add_signature,
    check_signatures,
    parse_envelope,
    pre_authentication_encoding,
    sign,
    verify_signatures,
)
from lynxbench.evidence.trust import TrustList
from lynxbench.model.canonical import canonical_bytes
from sealed import NOON, key_of, trusting

PAYLOAD = b'{"a":1}'


@pytest.fixture
def key():
    return key_of()


@pytest.fixture
def envelope(key) -> Envelope:
    return sign(STATEMENT_TYPE, PAYLOAD, [key])


def respelled(envelope: Envelope, **changes: object) -> bytes:
    return canonical_bytes({**json.loads(envelope.to_bytes()), **changes})


def test_pre_authentication_encoding_is_the_specification_s() -> None:
    assert pre_authentication_encoding("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_there_and_back(envelope: Envelope, key) -> None:
    again = parse_envelope(envelope.to_bytes())
    assert again == envelope
    (signer,) = verify_signatures(again, trusting(key), at=NOON)
    assert (signer.keyid, signer.team) == (key.keyid, "ml-platform")


@pytest.mark.parametrize("keys", [1, 3])
def test_the_quick_reader_takes_nothing_that_the_careful_one_refuses(keys: int) -> None:
    envelope = sign(STATEMENT_TYPE, PAYLOAD, [key_of(f"team-{number}") for number in range(keys)])
    data = envelope.to_bytes()
    assert _parse_quickly(data) == envelope
    chance = random.Random(20261115)
    spellings = [data + b" ", b" " + data, data.replace(b":", b": ", 1), data.replace(b'"payload"', b'"\\u0070ayload"')]
    spellings += [b'{"payload":"",' + data[1:], data[:-1] + b',"payloadType":"x"}', data.decode().encode("utf-16"), b""]
    for _ in range(2000):
        at, other = chance.randrange(len(data)), bytes([chance.choice(b'{}[]",:\\ =+/aA0\x00\xc3')])
        spellings += [data[:at] + other + data[at + 1 :], data[:at] + other + data[at:], data[:at] + data[at + 1 :]]
    for spelling in spellings:
        found = _parse_quickly(spelling)
        if found is not None:
            assert found == _envelope(parse_canonical(spelling, "envelope", MAX_ENVELOPE_BYTES))
            assert found.to_bytes() == spelling


def test_a_key_that_nobody_trusts_counts_for_nothing(envelope: Envelope) -> None:
    with pytest.raises(EvidenceInvalid, match="no trusted signature"):
        verify_signatures(envelope, TrustList(), at=NOON)
    assert check_signatures(envelope, TrustList(), at=NOON).signers == ()


def test_a_signature_replayed_onto_another_payload_is_refused(envelope: Envelope, key) -> None:
    other = Envelope(STATEMENT_TYPE, b'{"a":2}', envelope.signatures)
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        verify_signatures(other, trusting(key), at=NOON)


def test_a_signature_replayed_onto_another_type_is_refused(envelope: Envelope, key) -> None:
    other = Envelope(CHECKPOINT_TYPE, PAYLOAD, envelope.signatures)
    with pytest.raises(EvidenceInvalid, match="is expected here"):
        verify_signatures(other, trusting(key), at=NOON)
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        verify_signatures(other, trusting(key), at=NOON, payload_type=CHECKPOINT_TYPE)


def test_unknown_payload_types_are_neither_signed_nor_verified(envelope: Envelope, key) -> None:
    with pytest.raises(EvidenceInvalid, match="not known"):
        sign("text/plain", PAYLOAD, [key])
    with pytest.raises(EvidenceInvalid, match="not known"):
        verify_signatures(Envelope("text/plain", PAYLOAD, envelope.signatures), trusting(key), at=NOON)


def test_one_key_cannot_sign_twice(envelope: Envelope, key) -> None:
    with pytest.raises(EvidenceInvalid, match="already signed"):
        add_signature(envelope, key)
    twice = Envelope(STATEMENT_TYPE, PAYLOAD, (*envelope.signatures, *envelope.signatures))
    with pytest.raises(EvidenceInvalid, match="signs twice"):
        parse_envelope(twice.to_bytes())


def test_an_envelope_built_with_one_signature_twice_counts_one_signer(envelope: Envelope, key) -> None:
    twice = Envelope(STATEMENT_TYPE, PAYLOAD, (*envelope.signatures, *envelope.signatures))
    assert len(verify_signatures(twice, trusting(key), at=NOON)) == 1


def test_two_teams_sign_and_both_count(envelope: Envelope, key) -> None:
    other = key_of("infra-sre")
    both = parse_envelope(add_signature(envelope, other).to_bytes())
    assert {one.team for one in verify_signatures(both, trusting(key, other), at=NOON)} == {"ml-platform", "infra-sre"}


def test_another_key_s_name_on_a_signature_is_refused(envelope: Envelope, key) -> None:
    other = key_of("infra-sre")
    renamed = Envelope(STATEMENT_TYPE, PAYLOAD, (Signature(other.keyid, envelope.signatures[0].sig),))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        verify_signatures(renamed, trusting(key, other), at=NOON)


ATTACKS = {
    "duplicate keys": b'{"payload":"e30=","payload":"e30=","payloadType":"x","signatures":[]}',
    "NaN": b'{"payload":NaN,"payloadType":"x","signatures":[]}',
    "Infinity": b'{"payload":-Infinity,"payloadType":"x","signatures":[]}',
    "1e999": b'{"payload":1e999,"payloadType":"x","signatures":[]}',
    "a depth bomb": b"[" * 100_000 + b"]" * 100_000,
    "a shallow depth bomb": b"[" * 400 + b"]" * 400,
    "a depth bomb of objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "a huge integer": b'{"payload":' + b"9" * 100_000 + b',"payloadType":"x","signatures":[]}',
    "a large integer": b'{"payload":9007199254740993,"payloadType":"x","signatures":[]}',
    "not UTF-8": b'{"payload":"\xff"}',
    "a byte order mark": b'\xef\xbb\xbf{"payload":"e30="}',
    "a lone surrogate": b'{"payload":"\\ud800"}',
    "nothing": b"",
    "null": b"null",
    "a list": b"[]",
    "two documents": b'{"payload":"e30="}{"payload":"e30="}',
}


@pytest.mark.parametrize("name", ATTACKS)
def test_json_that_readers_disagree_on_is_refused(name: str) -> None:
    with pytest.raises(EvidenceInvalid):
        parse_envelope(ATTACKS[name])


def test_an_envelope_larger_than_any_entry_is_refused_unread() -> None:
    with pytest.raises(EvidenceInvalid, match="bytes, more than"):
        parse_envelope(b" " * (9 << 20))


@pytest.mark.parametrize("spelling", ["indented", "reordered", "trailing newline", "escaped"])
def test_another_spelling_of_the_same_envelope_is_refused(spelling: str, envelope: Envelope) -> None:
    data = envelope.to_bytes()
    value = json.loads(data)
    other = {
        "indented": json.dumps(value, indent=1).encode(),
        "reordered": json.dumps(dict(reversed(value.items())), separators=(",", ":")).encode(),
        "trailing newline": data + b"\n",
        "escaped": data.replace(b"payloadType", b"payload\\u0054ype"),
    }[spelling]
    assert json.loads(other) == value
    with pytest.raises(EvidenceInvalid, match="canonical form"):
        parse_envelope(other)


def _padding_bits(text: str) -> str:
    """Another text that lax decoders read as the same bytes: unused bits of the last letter set."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    stem = text.rstrip("=")
    return stem[:-1] + letters[letters.index(stem[-1]) + 1] + "=" * (len(text) - len(stem))


MALLEABLE = {
    "unused bits set": _padding_bits,
    "no padding": lambda text: text.rstrip("="),
    "more padding": lambda text: text + "=",
    "whitespace": lambda text: text[:4] + "\n" + text[4:],
    "url-safe letters": lambda text: base64.urlsafe_b64encode(base64.b64decode(text)).decode(),
    "letters outside": lambda text: text[:4] + "!" + text[4:],
}


@pytest.mark.parametrize("name", MALLEABLE)
def test_base64_has_one_spelling(name: str, key) -> None:
    envelope = sign(STATEMENT_TYPE, b'{"a":"\xfb\xff\xbe"}  ', [key])
    text = json.loads(envelope.to_bytes())["payload"]
    other = MALLEABLE[name](text)
    assert other != text
    with pytest.raises(EvidenceInvalid, match="base64"):
        parse_envelope(respelled(envelope, payload=other))
    signature = json.loads(envelope.to_bytes())["signatures"][0]
    changed = MALLEABLE[name](signature["sig"])
    if changed != signature["sig"]:
        with pytest.raises(EvidenceInvalid, match="base64"):
            parse_envelope(respelled(envelope, signatures=[{**signature, "sig": changed}]))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"more": 1}, "'more' is not known"),
        ({"payload": 3}, "not a base64 text"),
        ({"payloadType": None}, "payloadType"),
        ({"signatures": []}, "signatures must be"),
        ({"signatures": [{"keyid": "00", "sig": "AA=="}]}, "keyid"),
        ({"signatures": [{"keyid": "A" * 64, "sig": "AA=="}]}, "keyid"),
        ({"signatures": [{"keyid": "a" * 64, "sig": "AA=="}]}, "64"),
        ({"signatures": [{"keyid": "a" * 64}]}, "'sig' is missing"),
        ({"signatures": [{"keyid": "a" * 64, "sig": "AA==", "alg": "none"}]}, "'alg' is not known"),
        ({"signatures": {}}, "signatures must be"),
    ],
)
def test_an_envelope_of_another_form_is_refused(changes: dict, told: str, envelope: Envelope) -> None:
    with pytest.raises(EvidenceInvalid, match=told):
        parse_envelope(respelled(envelope, **changes))


def test_nothing_is_signed_by_nobody() -> None:
    with pytest.raises(EvidenceInvalid, match="at least one key"):
        sign(STATEMENT_TYPE, PAYLOAD, [])


@pytest.mark.parametrize("digits", [309, 5000])
def test_an_integer_beyond_every_float_is_refused_in_a_line(digits: int) -> None:
    with pytest.raises(EvidenceInvalid):
        parse_canonical(b'{"a":' + b"9" * digits + b"}", "entry", 10_000)


def test_what_was_read_is_written_as_it_was_and_a_changed_copy_anew(envelope: Envelope, key) -> None:
    data = envelope.to_bytes()
    read = parse_envelope(bytearray(data))
    assert read.to_bytes() == data
    assert (read, hash(read), repr(read)) == (envelope, hash(envelope), repr(envelope))
    for changed in (
        replace(read, payload=b'{"a":2}'),
        replace(read, signatures=()),
        add_signature(read, key_of("beta")),
        copy.replace(read, payload_type=CHECKPOINT_TYPE) if hasattr(copy, "replace") else replace(read, payload=b"{}"),
    ):
        assert changed.to_bytes() == canonical_bytes(changed.to_document()) != data
    assert copy.deepcopy(read).to_bytes() == pickle.loads(pickle.dumps(read)).to_bytes() == data
