"""Keys under which anybody can sign, and second spellings of keys, are refused one by one."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.ed25519_points import PRIME, public_key_problem
from lynxbench.evidence.keys import PublicKey

SMALL_ORDER = {
    "order 1": "0100000000000000000000000000000000000000000000000000000000000000",
    "order 2": "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "order 4, even": "0000000000000000000000000000000000000000000000000000000000000000",
    "order 4, odd": "0000000000000000000000000000000000000000000000000000000000000080",
    "order 8, a": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "order 8, b": "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "order 8, c": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "order 8, d": "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
}
SECOND_SPELLINGS = {
    "1 with a sign": "0100000000000000000000000000000000000000000000000000000000000080",
    "-1 with a sign": "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "p for 0": "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "p for 0, odd": "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "p + 1 for 1": "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "p + 1 for 1, with a sign": "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}


@pytest.mark.parametrize("name", SMALL_ORDER)
def test_every_point_of_small_order_is_refused(name: str) -> None:
    raw = bytes.fromhex(SMALL_ORDER[name])
    assert "small order" in (public_key_problem(raw) or "")
    with pytest.raises(EvidenceInvalid, match="small order"):
        PublicKey(raw)


@pytest.mark.parametrize("name", SECOND_SPELLINGS)
def test_every_second_spelling_of_them_is_refused(name: str) -> None:
    assert "second spelling" in (public_key_problem(bytes.fromhex(SECOND_SPELLINGS[name])) or "")


@pytest.mark.parametrize("above", range(19))
@pytest.mark.parametrize("sign", [0, 1])
def test_no_coordinate_beyond_the_prime_is_accepted(above: int, sign: int) -> None:
    raw = (PRIME + above + (sign << 255)).to_bytes(32, "little")
    assert "second spelling" in (public_key_problem(raw) or "")


def test_the_library_takes_a_signature_that_nobody_made_and_we_do_not() -> None:
    identity = bytes.fromhex(SMALL_ORDER["order 1"])
    forged = identity + bytes(32)
    Ed25519PublicKey.from_public_bytes(identity).verify(forged, b"any message at all")  # no exception: the attack
    with pytest.raises(EvidenceInvalid):
        PublicKey(identity)


def test_honest_keys_are_accepted() -> None:
    for seed in range(50):
        private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(bytes([seed])).digest())
        assert public_key_problem(private.public_key().public_bytes_raw()) is None


def test_half_of_all_strings_are_no_point_and_the_rest_no_honest_key() -> None:
    problems = [public_key_problem(hashlib.sha256(b"%d" % n).digest()) for n in range(64)]
    assert any(problem and "not a point" in problem for problem in problems)
    assert any(problem and "prime-order" in problem for problem in problems), "seven in eight points carry torsion"


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_has_32_bytes(length: int) -> None:
    assert "32" in (public_key_problem(bytes(length)) or "")
