"""Private keys are files that only their owner can read; what is refused is said in one line."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

from lynxbench.errors import BadInput, EvidenceInvalid
from lynxbench.evidence import keys
from lynxbench.evidence.keys import (
    KeyFolder,
    SigningKey,
    home,
    new_signing_key,
    parse_card,
    parse_public_key,
    read_card,
)
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Role
from sealed import LONG_AGO, key_of

RUNNER = (Role.RUNNER,)


def stored(folder: KeyFolder, name: str, team: str) -> SigningKey:
    key = new_signing_key(team, RUNNER, LONG_AGO)
    folder.store(name, key)
    return key


@pytest.fixture
def folder(tmp_path: Path) -> KeyFolder:
    return KeyFolder(tmp_path / "keys")


def test_a_key_signs_after_it_was_opened_again(folder: KeyFolder) -> None:
    made = stored(folder, "mine", "ml-platform")
    opened = folder.open("mine")
    assert opened.card == made.card
    assert made.card.public.verify(b"message", opened.sign(b"message"))
    assert not made.card.public.verify(b"massage", opened.sign(b"message"))
    assert folder.names() == ("mine",)


def test_only_the_owner_can_read_it_whatever_the_umask(folder: KeyFolder) -> None:
    before = os.umask(0)
    try:
        stored(folder, "mine", "ml-platform")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder.path / "mine.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o700, 0o660, 0o601])
def test_a_key_that_others_could_read_is_refused(mode: int, folder: KeyFolder) -> None:
    stored(folder, "mine", "ml-platform")
    (folder.path / "mine.pem").chmod(mode)
    with pytest.raises(BadInput, match="chmod 600"):
        folder.open("mine")


def test_a_link_is_no_private_key(folder: KeyFolder, tmp_path: Path) -> None:
    stored(folder, "mine", "ml-platform")
    moved = tmp_path / "elsewhere.pem"
    (folder.path / "mine.pem").rename(moved)
    (folder.path / "mine.pem").symlink_to(moved)
    with pytest.raises(BadInput, match="plain file"):
        folder.open("mine")


def test_a_name_is_used_once(folder: KeyFolder) -> None:
    stored(folder, "mine", "ml-platform")
    before = (folder.path / "mine.pem").read_bytes()
    with pytest.raises(BadInput, match="exists"):
        stored(folder, "mine", "ml-platform")
    assert (folder.path / "mine.pem").read_bytes() == before


@pytest.mark.parametrize("name", ["../mine", "/etc/mine", "", ".mine", "Mine", "a/b", "mine\n", "мине"])
def test_a_key_s_name_leads_nowhere_else(name: str, folder: KeyFolder) -> None:
    with pytest.raises(BadInput, match="no name for a key"):
        stored(folder, name, "ml-platform")


def test_a_passphrase_keeps_the_key(tmp_path: Path) -> None:
    made = stored(KeyFolder(tmp_path, "correct horse"), "mine", "ml-platform")
    assert b"ENCRYPTED" in (tmp_path / "mine.pem").read_bytes()
    assert KeyFolder(tmp_path, "correct horse").open("mine").card == made.card
    with pytest.raises(BadInput, match="LYNXBENCH_KEY_PASSPHRASE"):
        KeyFolder(tmp_path).open("mine")
    with pytest.raises(BadInput, match="not its passphrase"):
        KeyFolder(tmp_path, "battery staple").open("mine")


def test_a_passphrase_does_not_lock_out_a_key_without_one(tmp_path: Path) -> None:
    stored(KeyFolder(tmp_path), "mine", "ml-platform")
    assert KeyFolder(tmp_path, "anything").open("mine").team == "ml-platform"


def test_the_card_must_be_the_key_s_own(folder: KeyFolder) -> None:
    stored(folder, "mine", "ml-platform")
    stored(folder, "other", "infra")
    (folder.path / "mine.json").write_bytes((folder.path / "other.json").read_bytes())
    with pytest.raises(EvidenceInvalid, match="not the key on its card"):
        folder.open("mine")


def test_another_kind_of_key_is_refused(folder: KeyFolder) -> None:
    stored(folder, "mine", "ml-platform")
    other = generate_private_key(SECP256R1())
    pem = other.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (folder.path / "mine.pem").write_bytes(pem)
    with pytest.raises(BadInput, match="Ed25519"):
        folder.open("mine")
    (folder.path / "mine.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(BadInput, match="not a private key"):
        folder.open("mine")


def test_a_private_key_is_never_printed() -> None:
    key = key_of()
    assert "rivate" not in repr(key)
    assert str(key) == f"SigningKey({key.keyid[:12]}, ml-platform)"


@pytest.mark.parametrize(
    "change",
    [{"keyid": "00" * 32}, {"public_key": "AAAA"}, {"team": "ML Platform"}, {"roles": []}, {"roles": ["boss"]}],
)
def test_a_card_that_does_not_fit_together_is_refused(change: dict) -> None:
    card = {**key_of().card.model_dump(mode="json"), **change}
    with pytest.raises(EvidenceInvalid):
        parse_card(canonical_bytes(card), "card")


def test_a_card_in_another_spelling_is_refused() -> None:
    card = json.dumps(key_of().card.model_dump(mode="json"), indent=1).encode()
    with pytest.raises(EvidenceInvalid, match="canonical"):
        parse_card(card, "card")


def test_a_missing_card_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="key export"):
        read_card(tmp_path / "none.json")


def test_a_public_key_has_one_spelling() -> None:
    text = key_of().card.public_key
    for other in (text.rstrip("="), text + "\n", base64.urlsafe_b64encode(base64.b64decode(text)).decode() + "A"):
        with pytest.raises(EvidenceInvalid):
            parse_public_key(other)


def test_the_home_folder_follows_the_environment() -> None:
    assert home({"LYNXBENCH_HOME": "/a"}) == Path("/a")
    assert home({"XDG_CONFIG_HOME": "/b"}) == Path("/b/lynxbench")
    assert home({}) == Path.home() / ".config" / "lynxbench"


def test_a_signature_that_held_is_known_again_and_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = key_of(), key_of("beta")
    public, message = key.card.public, b"a message"
    signature = key.sign(message)
    assert [public.verify(message, signature) for _ in range(2)] == [True, True]
    for held, said, signed in (
        (public, b"a messagf", signature),
        (public, message + b"x", signature[:-1]),
        (public, message, signature[:-1] + bytes([signature[-1] ^ 1])),
        (public, signature + message, b""),
        (other.card.public, message, signature),
    ):
        assert [held.verify(said, signed) for _ in range(2)] == [False, False]
    monkeypatch.setattr(keys, "MOST_REMEMBERED", len(keys._known_to_hold))
    oldest = next(iter(keys._known_to_hold))
    assert public.verify(b"another", key.sign(b"another"))
    assert len(keys._known_to_hold) == keys.MOST_REMEMBERED
    assert oldest not in keys._known_to_hold
    assert public.verify(message, signature), "what was forgotten is checked again"
