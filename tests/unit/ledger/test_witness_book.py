"""A witness is lied to: rolled back, forked, another's name, an old co-signature, a key that nobody trusts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from ledgers import NOW, decision, key_of, sealed, trusting
from lynxbench.errors import BadInput, BadLedger, EvidenceInvalid, NotFound, Refused
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.checkpoints import prove_stored, sign_checkpoint, stored_checkpoints
from lynxbench.ledger.log import Ledger, TreeHead
from lynxbench.ledger.log_witnesses import (
    AHEAD,
    cosign_from,
    current_note,
    keep_cosignatures,
    sightings,
    witness_request,
)
from lynxbench.ledger.signed_notes import CheckpointNote, cosign_note, cosignatures, parse_note, sign_note
from lynxbench.ledger.witness_book import BOOK_FILE, WitnessBook, WitnessRequest, parse_request
from lynxbench.model.team_names import LOCAL_TEAM

OURS, THEIRS, THIRD = key_of("alpha"), key_of("bravo"), key_of("charlie")
TRUST = trusting(OURS, THEIRS, THIRD)


def _entries(*texts: str) -> list[Envelope]:
    return [sealed(decision(text), OURS) for text in texts]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}") as opened:
        opened.append_all(_entries("one", "two", "three"))
        yield opened


@pytest.fixture
def book(tmp_path: Path) -> WitnessBook:
    return WitnessBook(tmp_path / "witness")


def forked(ledger: Ledger, tmp_path: Path, *texts: str, keep: int = 2) -> Ledger:
    """Another log of the same name whose history differs from some entry on."""
    other = Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}")
    other.append_all([ledger.read(seq).envelope for seq in range(keep)])
    other.append_all(_entries(*texts))
    other.origin = ledger.origin
    return other


def sees(book: WitnessBook, ledger: Ledger, key: SigningKey = OURS, trust: TrustList = TRUST) -> CheckpointNote:
    """The witness sees the log as it is now, with the proof since what it saw."""
    old = min(book.seen_of(ledger.origin).size, ledger.head().size)
    return book.witness(witness_request(ledger, key, old, NOW), trust, THEIRS, NOW)


# --- growing ----------------------------------------------------------------------------------------------------------


def test_growth_is_witnessed_kept_and_told(ledger: Ledger, book: WitnessBook) -> None:
    assert sightings(ledger, TRUST) == ()
    first = sees(book, ledger)
    assert [one.witness.team for one in cosignatures(first, TRUST)] == ["bravo"]
    assert keep_cosignatures(ledger, first, TRUST, NOW)[0].words == "bravo saw 3 entries at 2026-11-15T09:00:00+00:00"
    ledger.append_all(_entries("four", "five"))
    sent = parse_request(witness_request(ledger, OURS, 3, NOW).to_text().encode())
    assert (sent.old, len(sent.path)) == (3, 4)
    second = book.witness(sent, TRUST, THEIRS, NOW + timedelta(hours=1))
    keep_cosignatures(ledger, second, TRUST, NOW + timedelta(hours=1))
    assert [(one.team, one.tree_size, one.seen_at[11:16]) for one in sightings(ledger, TRUST)] == [
        ("bravo", 5, "10:00")
    ]
    third = second.adding([cosign_note(second, THIRD, NOW)])
    assert [one.team for one in keep_cosignatures(ledger, third, TRUST, NOW + timedelta(hours=1))] == ["charlie"]
    assert [one.team for one in sightings(ledger, TRUST)] == ["bravo", "charlie"]
    assert prove_stored(ledger) == 5
    assert book.seen_of(ledger.origin) == ledger.head()


def test_a_checkpoint_without_growth_is_stored_once(ledger: Ledger, book: WitnessBook) -> None:
    note = current_note(ledger, OURS, NOW)
    assert current_note(ledger, OURS, NOW) == note
    assert prove_stored(ledger) == 1
    cosigned = book.witness(WitnessRequest(0, (), note), TRUST, THEIRS, NOW)
    for _ in range(3):
        keep_cosignatures(ledger, cosigned, TRUST, NOW)
    assert prove_stored(ledger) == 2
    assert cosignatures(current_note(ledger, OURS, NOW), TRUST) == cosignatures(cosigned, TRUST)
    again = book.witness(WitnessRequest(0, (), note), TRUST, THEIRS, NOW + timedelta(hours=2))
    assert len(keep_cosignatures(ledger, again, TRUST, NOW + timedelta(hours=2))) == 1


def test_envelopes_and_notes_stand_side_by_side(ledger: Ledger) -> None:
    """Ledgers of before hold envelopes alone; both are listed, read and proven."""
    sign_checkpoint(ledger, OURS, NOW)
    current_note(ledger, OURS, NOW)
    sign_checkpoint(ledger, OURS, NOW)
    assert len(stored_checkpoints(ledger)) == 2
    assert prove_stored(ledger) == 3


def test_a_witness_that_reads_the_ledger_itself_brings_its_own_proof(ledger: Ledger, book: WitnessBook) -> None:
    note = current_note(ledger, OURS, NOW)
    ledger.append_all(_entries("four"))
    cosign_from(ledger, note, book, TRUST, THEIRS, NOW)
    cosign_from(ledger, current_note(ledger, OURS, NOW), book, TRUST, THEIRS, NOW)
    assert [one.tree_size for one in sightings(ledger, TRUST)] == [4]
    with pytest.raises(EvidenceInvalid, match="rolled back"):
        cosign_from(ledger, note, book, TRUST, THEIRS, NOW)


def test_notes_are_kept_on_both_databases(url: str, tmp_path: Path) -> None:
    book = WitnessBook(tmp_path / "witness")
    with Ledger(url, blobs=str(tmp_path)) as log:
        for texts in (("one", "two"), ("three",)):
            log.append_all(_entries(*texts))
            sign_checkpoint(log, OURS, NOW)
            keep_cosignatures(log, sees(book, log), TRUST, NOW)
        assert [one.tree_size for one in sightings(log, TRUST)] == [3]
        assert [one.checkpoint.tree_size for one in stored_checkpoints(log)] == [3, 2]
        assert prove_stored(log, TRUST) == 6
        assert len(current_note(log, OURS, NOW).signatures) == 2


def test_of_many_histories_at_once_one_is_cosigned(ledger: Ledger, tmp_path: Path) -> None:
    """Each comes with a book of its own over the same file, as two processes would."""
    notes = [sign_note(ledger.origin, TreeHead(3, bytes([number]) * 32), OURS) for number in range(16)]

    def ask(note: CheckpointNote) -> bool:
        try:
            WitnessBook(tmp_path / "witness").witness(WitnessRequest(0, (), note), TRUST, THEIRS, NOW)
        except EvidenceInvalid:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, notes)) == 1


# --- lies of a log ----------------------------------------------------------------------------------------------------


def test_a_rollback_is_refused(ledger: Ledger, book: WitnessBook) -> None:
    early = current_note(ledger, OURS, NOW)
    ledger.append_all(_entries("four"))
    sees(book, ledger)
    for request in (WitnessRequest(0, (), early), WitnessRequest(3, (), early), WitnessRequest(4, (), early)):
        with pytest.raises(EvidenceInvalid, match="holds 3 entries, and 4 were seen of it: it was rolled back"):
            book.witness(request, TRUST, THEIRS, NOW)
    assert book.seen_of(ledger.origin).size == 4
    assert book.splits() == (), "an old checkpoint is no proof of two histories"


def test_a_fork_of_equal_size_is_refused_and_kept_as_proof(ledger: Ledger, book: WitnessBook, tmp_path: Path) -> None:
    sees(book, ledger)
    with forked(ledger, tmp_path, "another three") as other:
        for _ in range(2):
            with pytest.raises(EvidenceInvalid, match="shows two histories of 3 entries"):
                sees(book, other)
    (split,) = book.splits()
    notes = [parse_note(text.encode()) for text in split.notes]
    assert {note.head.size for note in notes} == {3}
    assert len({note.head.root for note in notes}) == 2, "both are signed by the log: anybody can see the lie"
    assert "signed two histories of 3 entries" in split.words


def test_a_fork_that_grew_is_refused_whatever_it_proves(ledger: Ledger, book: WitnessBook, tmp_path: Path) -> None:
    sees(book, ledger)
    with forked(ledger, tmp_path, "another three", "four") as other:
        note = current_note(other, OURS, NOW)
        paths = [other.prove_extends(old)[1] for old in range(5)]
        ledger.append_all(_entries("four"))
        paths += [ledger.prove_extends(3)[1], (), (bytes(32),) * 3]
        for path in paths:
            with pytest.raises(EvidenceInvalid, match="not proven to begin with the 3 that were seen"):
                book.witness(WitnessRequest(3, path, note), TRUST, THEIRS, NOW)
        with pytest.raises(Refused, match=r"3 entries were seen .* --since 3"):
            book.witness(WitnessRequest(2, other.prove_extends(2)[1], note), TRUST, THEIRS, NOW)
    assert book.seen_of(ledger.origin).size == 3
    assert sees(book, ledger).head.size == 4, "the honest log goes on"


def test_another_logs_name_is_refused(ledger: Ledger, book: WitnessBook) -> None:
    sees(book, ledger)
    ledger.append_all(_entries("four"))
    head, path = ledger.prove_extends(3)
    in_its_name = sign_note(ledger.origin, head, THIRD)
    with pytest.raises(EvidenceInvalid, match=r"bound to key .* \(alpha\), and .* \(charlie\) signed in its name"):
        book.witness(WitnessRequest(3, path, in_its_name), TRUST, THEIRS, NOW)
    text = current_note(ledger, OURS, NOW).to_text().replace(ledger.origin, "lynxbench-ledger-other")
    renamed = parse_note(text.encode())
    with pytest.raises(EvidenceInvalid, match="no trusted signature"):
        book.witness(WitnessRequest(0, (), renamed), TRUST, THEIRS, NOW)
    assert list(book.logs()) == [ledger.origin]


def test_a_key_of_the_same_team_may_take_over_where_it_continues_the_log(
    ledger: Ledger, book: WitnessBook, tmp_path: Path
) -> None:
    sees(book, ledger)
    newer = key_of("alpha")
    trust = trusting(OURS, newer, THEIRS)
    ledger.append_all(_entries("four"))
    assert sees(book, ledger, newer, trust).head.size == 4
    with forked(ledger, tmp_path, "x", "y") as other, pytest.raises(EvidenceInvalid, match="two histories"):
        sees(book, other, newer, trust)


def test_whoever_named_no_team_shares_no_name(ledger: Ledger, book: WitnessBook) -> None:
    mine, yours = key_of(LOCAL_TEAM), key_of(LOCAL_TEAM)
    trust = trusting(mine, yours, THEIRS)
    sees(book, ledger, mine, trust)
    ledger.append_all(_entries("four"))
    with pytest.raises(EvidenceInvalid, match="signed in its name"):
        sees(book, ledger, yours, trust)


def test_a_server_that_shows_another_log_is_noticed(ledger: Ledger, book: WitnessBook, tmp_path: Path) -> None:
    place = "https://bench.example"
    book.witness(WitnessRequest(0, (), current_note(ledger, OURS, NOW)), TRUST, None, NOW, place=place)
    with Ledger(f"sqlite:///{tmp_path / 'new.sqlite'}") as other:
        fresh = WitnessRequest(0, (), current_note(other, OURS, NOW))
        with pytest.raises(EvidenceInvalid, match=f"{ledger.origin} was seen there before"):
            book.witness(fresh, TRUST, None, NOW, place=place)
        book.forget(ledger.origin)
        book.witness(fresh, TRUST, None, NOW, place=place)
        assert book.log_at(place) == other.origin
    with pytest.raises(NotFound, match="no log that was witnessed here"):
        book.forget(ledger.origin)


def test_views_of_two_witnesses_are_held_against_each_other(ledger: Ledger, book: WitnessBook, tmp_path: Path) -> None:
    sees(book, ledger)
    with forked(ledger, tmp_path, "another three") as other:
        lie = current_note(other, OURS, NOW)
    assert book.compare(current_note(ledger, OURS, NOW), TRUST, NOW) is None
    framed = sign_note(ledger.origin, TreeHead(3, bytes(32)), THIRD)
    assert book.compare(framed, TRUST, NOW) is None, "another team cannot make a log look like a liar"
    split = book.compare(lie, TRUST, NOW)
    assert split is not None
    assert book.splits() == (split,)


def test_a_log_learns_that_it_signed_what_it_does_not_contain(
    ledger: Ledger, book: WitnessBook, tmp_path: Path
) -> None:
    assert book.report(ledger, current_note(ledger, OURS, NOW), TRUST, "alpha", NOW) is None
    with forked(ledger, tmp_path, "another three", "four", "five") as other:
        for size in (3, 5):
            head, _ = other.prove_extends(0, size)
            split = book.report(ledger, sign_note(ledger.origin, head, OURS), TRUST, "alpha", NOW)
            assert split is not None
            assert f"signed {size} entries that it does not contain" in split.words
    with pytest.raises(EvidenceInvalid, match="of charlie signed in the name of ledger"):
        book.report(ledger, sign_note(ledger.origin, ledger.head(), THIRD), TRUST, "alpha", NOW)
    assert len(book.splits()) == 2


# --- lies about witnesses ---------------------------------------------------------------------------------------------


def test_a_witness_whose_key_is_not_trusted_does_not_count(ledger: Ledger, book: WitnessBook) -> None:
    cosigned = sees(book, ledger)
    assert keep_cosignatures(ledger, cosigned, trusting(OURS, THIRD), NOW) == ()
    keep_cosignatures(ledger, cosigned, TRUST, NOW)
    assert sightings(ledger, trusting(OURS, THIRD)) == ()
    assert len(sightings(ledger, TRUST)) == 1
    assert sightings(ledger, trusting(THEIRS)) == (), "who stands outside is not known where the keeper is not"


def test_the_keepers_own_team_is_no_outside_witness(ledger: Ledger) -> None:
    note, second = current_note(ledger, OURS, NOW), key_of("alpha")
    both = note.adding([cosign_note(note, OURS, NOW), cosign_note(note, second, NOW)])
    assert keep_cosignatures(ledger, both, trusting(OURS, second), NOW) == ()


def test_a_replayed_older_cosignature_says_nothing(ledger: Ledger, book: WitnessBook) -> None:
    older = sees(book, ledger)
    ledger.append_all(_entries("four"))
    newer = sees(book, ledger)
    keep_cosignatures(ledger, newer, TRUST, NOW)
    stored = prove_stored(ledger)
    assert keep_cosignatures(ledger, older, TRUST, NOW) == ()
    assert prove_stored(ledger) == stored
    assert [one.tree_size for one in sightings(ledger, TRUST)] == [4]
    moved = newer.adding(line for line in older.signatures if line.name.startswith("lynxbench-witness"))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        keep_cosignatures(ledger, moved, TRUST, NOW)


def test_a_cosignature_from_the_future_or_by_a_revoked_key_is_refused(ledger: Ledger, book: WitnessBook) -> None:
    note = current_note(ledger, OURS, NOW)
    ahead = note.adding([cosign_note(note, THEIRS, NOW + AHEAD + timedelta(seconds=1))])
    with pytest.raises(EvidenceInvalid, match="still to come"):
        keep_cosignatures(ledger, ahead, TRUST, NOW)
    revoked = TRUST.revoking(THEIRS.keyid, "stolen", NOW + timedelta(hours=1))
    backdated = note.adding([cosign_note(note, THEIRS, NOW)])
    late = NOW + timedelta(hours=2)
    assert keep_cosignatures(ledger, backdated, revoked, late) == (), "an early date is easily written"
    keep_cosignatures(ledger, backdated, TRUST, NOW)
    assert len(sightings(ledger, revoked)) == 1, "what was kept before the key was stolen stays"
    gone = TRUST.revoking(OURS.keyid, "stolen", NOW)
    with pytest.raises(EvidenceInvalid, match="was revoked"):
        book.witness(WitnessRequest(0, (), note), gone, THEIRS, NOW)


def test_cosignatures_of_another_log_or_history_are_not_kept(ledger: Ledger, tmp_path: Path) -> None:
    with forked(ledger, tmp_path, "another three") as other:
        note = current_note(other, OURS, NOW)
    with pytest.raises(EvidenceInvalid, match="its history was rewritten"):
        keep_cosignatures(ledger, note.adding([cosign_note(note, THEIRS, NOW)]), TRUST, NOW)
    with pytest.raises(EvidenceInvalid, match="the checkpoint is of ledger"):
        keep_cosignatures(ledger, sign_note("another", ledger.head(), OURS), TRUST, NOW)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger_checkpoints SET tree_size = 2",
        "UPDATE ledger_checkpoints SET tree_size = 'x'",
        "UPDATE ledger_checkpoints SET root = zeroblob(32)",
        "UPDATE ledger_checkpoints SET root = 'text'",
        "UPDATE ledger_checkpoints SET envelope = CAST(envelope AS TEXT)",
        "UPDATE ledger_checkpoints SET envelope = zeroblob(10)",
    ],
)
@pytest.mark.parametrize("form", ["note", "envelope"])
def test_a_stored_checkpoint_that_was_edited_is_found(ledger: Ledger, change: str, form: str) -> None:
    (current_note if form == "note" else sign_checkpoint)(ledger, OURS, NOW)
    _edit(ledger, change)
    with pytest.raises(EvidenceInvalid):
        prove_stored(ledger)


def test_a_note_put_into_another_ledger_is_found(ledger: Ledger) -> None:
    current_note(ledger, OURS, NOW)
    _edit(ledger, "UPDATE ledger_checkpoints SET envelope = CAST(replace(envelope, 'lynx', 'link') AS BLOB)")
    with pytest.raises(EvidenceInvalid, match="the checkpoint is of ledger link"):
        prove_stored(ledger)


def test_a_wrong_signature_in_a_stored_note_is_found(ledger: Ledger, book: WitnessBook) -> None:
    keep_cosignatures(ledger, sees(book, ledger), TRUST, NOW)
    # within the signature at the note's end: one that names another key would be nobody's, and is not looked at
    head, tail = "substr(envelope, 1, length(envelope) - 20)", "substr(envelope, length(envelope) - 9)"
    changed = f"CAST({head} || 'AAAAAAAAAA' || {tail} AS BLOB)"
    _edit(ledger, f"UPDATE ledger_checkpoints SET envelope = {changed} WHERE number = 2")
    with pytest.raises(EvidenceInvalid):
        prove_stored(ledger, TRUST)
    with pytest.raises(EvidenceInvalid):
        sightings(ledger, TRUST)


def _edit(ledger: Ledger, change: str) -> None:
    """Behind the database's back."""
    with ledger.database.writing() as connection:
        for verb in ("update", "delete"):
            connection.exec_driver_sql(f"DROP TRIGGER ledger_checkpoints_no_{verb}")
        connection.exec_driver_sql(change)


def test_a_damaged_book_is_said(book: WitnessBook, tmp_path: Path, ledger: Ledger) -> None:
    sees(book, ledger)
    (tmp_path / "witness" / BOOK_FILE).write_text("{")
    with pytest.raises(BadLedger, match="damaged"):
        book.logs()


@pytest.mark.parametrize(
    "text",
    [
        b"old 1\n",
        b"old 1\n\n",
        b"old 01\n\n",
        b"old 1\nAAAA\n\n",
        b"old 1\n" + b"A" * 43 + b"=\n" + b"old",
        b"old 1\n" + (b"A" * 43 + b"=\n") * 64 + b"\n",
        b"old 1\nnot base64\n\n",
    ],
)
def test_what_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(EvidenceInvalid):
        parse_request(text)


def test_a_proof_since_more_than_there_is(ledger: Ledger) -> None:
    with pytest.raises(BadInput, match="holds 3 entries; there is no proof since 4"):
        witness_request(ledger, OURS, 4, NOW)
    assert parse_request(current_note(ledger, OURS, NOW).to_text().encode()).old == 0
