"""Signed states of a log, and what a reader who remembers one notices: rollback, truncation, a split view."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgers import NOW, decision, key_of, sealed, trusting
from lynxbench.errors import BadLedger, EvidenceInvalid
from lynxbench.evidence.envelope import Envelope, parse_envelope, sign
from lynxbench.ledger.checkpoints import (
    cosign,
    open_checkpoint,
    prove_against,
    prove_stored,
    sign_checkpoint,
    stored_checkpoints,
    verify_checkpoint,
)
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.seen import SEEN_FILE, Seen

OURS, THEIRS = key_of("alpha"), key_of("bravo")


def _entries(*texts: str) -> list[Envelope]:
    return [sealed(decision(text), OURS) for text in texts]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as opened:
        opened.append_all(_entries("one", "two", "three"))
        yield opened


def test_a_checkpoint_is_signed_cosigned_and_proven_later(ledger: Ledger) -> None:
    first = sign_checkpoint(ledger, OURS, NOW)
    ledger.append_all(_entries("four", "five"))
    both = cosign(ledger, parse_envelope(first.envelope.to_bytes()), THEIRS, NOW)
    assert [signer.team for signer in verify_checkpoint(both.envelope, trusting(OURS, THEIRS)).signers] == [
        "alpha",
        "bravo",
    ]
    assert prove_against(ledger, both.checkpoint).size == 5
    assert prove_stored(ledger) == 2
    assert [len(one.envelope.signatures) for one in stored_checkpoints(ledger)] == [2, 1]


def test_nobody_trusted_signed(ledger: Ledger) -> None:
    with pytest.raises(EvidenceInvalid, match="no trusted signature"):
        verify_checkpoint(sign_checkpoint(ledger, OURS, NOW).envelope, trusting(THEIRS))


def test_a_checkpoint_of_another_ledger_or_history_is_not_cosigned(ledger: Ledger, tmp_path: Path) -> None:
    with Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}") as other:
        other.append_all(_entries("x", "y"))
        foreign = sign_checkpoint(other, OURS, NOW)
        with pytest.raises(EvidenceInvalid, match="the checkpoint is of ledger"):
            cosign(ledger, foreign.envelope, THEIRS, NOW)
        forged = foreign.checkpoint.model_copy(update={"origin": ledger.origin})
    with pytest.raises(EvidenceInvalid, match="its history was rewritten"):
        prove_against(ledger, forged)
    longer = forged.model_copy(update={"tree_size": 9})
    with pytest.raises(EvidenceInvalid, match="entries were taken away"):
        prove_against(ledger, longer)


@pytest.mark.parametrize("payload", [b"{}", b'{"origin":"x"}', b"not json", b'{"a":1,"a":1}'])
def test_what_is_no_checkpoint_is_refused(payload: bytes) -> None:
    with pytest.raises(EvidenceInvalid):
        open_checkpoint(sign("application/vnd.lynxbench.checkpoint+json", payload, [OURS]))


def test_an_entry_is_no_checkpoint() -> None:
    with pytest.raises(EvidenceInvalid, match="is not a checkpoint"):
        open_checkpoint(_entries("one")[0])


# --- what a reader remembers ------------------------------------------------------------------------------------------


def test_growth_is_accepted_and_remembered(ledger: Ledger, tmp_path: Path) -> None:
    seen = Seen(tmp_path / "home")
    assert seen.check(ledger).size == 3
    ledger.append_all(_entries("four"))
    assert seen.check(ledger).size == 4
    assert '"tree_size": 4' in (tmp_path / "home" / SEEN_FILE).read_text()


def test_rollback_fork_and_replacement_are_noticed(tmp_path: Path) -> None:
    file, seen = tmp_path / "ledger.sqlite", Seen(tmp_path / "home")
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.append_all(_entries("one", "two"))
    shutil.copy(file, tmp_path / "early.sqlite")
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.append_all(_entries("three", "four"))
        seen.check(ledger)
    _replace(tmp_path / "early.sqlite", file)
    with Ledger(f"sqlite:///{file}") as ledger:
        with pytest.raises(EvidenceInvalid, match="entries were taken away"):
            seen.check(ledger)
        ledger.append_all(_entries("another three", "another four", "five"))
        with pytest.raises(EvidenceInvalid, match="its history was rewritten"):
            seen.check(ledger)
    file.unlink()
    with Ledger(f"sqlite:///{file}") as ledger:
        with pytest.raises(EvidenceInvalid, match="another ledger than the one last seen"):
            seen.check(ledger)
        assert seen.accept(ledger).size == 0
        assert seen.check(ledger).size == 0


def test_an_old_copy_under_another_path_is_an_old_copy(tmp_path: Path) -> None:
    file, seen = tmp_path / "ledger.sqlite", Seen(tmp_path / "home")
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.append_all(_entries("one", "two"))
    copies = [tmp_path / name for name in ("old.sqlite", "forked.sqlite", "longer.sqlite")]
    for copy in copies:
        shutil.copy(file, copy)
    with Ledger(f"sqlite:///{file}") as ledger:
        ledger.append_all(_entries("three", "four"))
        seen.check(ledger)
    with Ledger(f"sqlite:///{copies[0]}") as old, pytest.raises(EvidenceInvalid, match="entries were taken away"):
        seen.check(old)
    for copy, more in zip(copies[1:], (2, 5), strict=True):
        with Ledger(f"sqlite:///{copy}") as forked:
            forked.append_all(_entries(*(f"other {number}" for number in range(more))))
            with pytest.raises(EvidenceInvalid, match="its history was rewritten"):
                seen.check(forked)
    with Ledger(f"sqlite:///{copies[0]}") as old:
        assert seen.accept(old).size == 2, "knowingly"
    moved = tmp_path / "moved.sqlite"
    shutil.copy(file, moved)
    with Ledger(f"sqlite:///{moved}") as ledger:
        ledger.append_all(_entries("five"))
        assert seen.check(ledger).size == 5, "a copy that goes on is welcome"


def test_two_histories_of_one_length_in_bundles_are_noticed(ledger: Ledger, tmp_path: Path) -> None:
    seen = Seen(tmp_path / "home")
    checkpoint = sign_checkpoint(ledger, OURS, NOW).checkpoint
    seen.check_bundle(checkpoint)
    seen.check_bundle(checkpoint)
    with pytest.raises(EvidenceInvalid, match="two histories of 3 entries"):
        seen.check_bundle(checkpoint.model_copy(update={"root_hash": "0" * 64}))


def test_another_team_in_a_ledgers_name_leaves_no_memory(ledger: Ledger, tmp_path: Path) -> None:
    seen = Seen(tmp_path / "home")
    first = sign_checkpoint(ledger, OURS, NOW).checkpoint
    seen.check_bundle(first, ["alpha"])
    ledger.append_all(_entries("four"))
    second = sign_checkpoint(ledger, OURS, NOW).checkpoint
    forged = second.model_copy(update={"root_hash": "0" * 64})
    seen.check_bundle(forged, ["bravo"])
    seen.check_bundle(second, ["alpha"])
    with pytest.raises(EvidenceInvalid, match=r"in its name, by bravo\) shows two histories of 4 entries"):
        seen.check_bundle(forged, ["bravo"])
    seen.check_bundle(second, ["bravo"])


def test_a_damaged_memory_is_said(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / SEEN_FILE).write_text("{")
    with pytest.raises(BadLedger, match="damaged"):
        Seen(tmp_path).check(ledger)


def _replace(source: Path, target: Path) -> None:
    for left in (target.with_name(target.name + "-wal"), target.with_name(target.name + "-shm")):
        left.unlink(missing_ok=True)
    shutil.copy(source, target)
