"""Tags and notes: whose they are, what takes them off, and what they never do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledgers import key_of, recorded, registered, sealed, trusting
from lynxbench.ledger.ledger_tables import LEDGER_SCHEMA
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.remarks import known_tags, remarks_of, tagged_results
from lynxbench.ledger.result_standings import standings
from lynxbench.model.entries import ResultNoted, ResultTagged

ONE, TWO = recorded("one").result_id, recorded("two").result_id
OURS, THEIRS, STRANGER = key_of("ours"), key_of("theirs"), key_of("stranger")
TRUST = trusting(OURS, THEIRS)


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger(url, blobs="somewhere") as made:
        yield made


def names(ledger: Ledger, result: str = ONE) -> list[tuple[str, str]]:
    return [(tag.tag, tag.team) for tag in remarks_of(ledger, [result], TRUST)[result].tags]


def test_a_teams_last_word_on_its_own_tag_counts(ledger: Ledger) -> None:
    for key, put, taken in [
        (OURS, ("release", "golden"), ()),
        (THEIRS, ("release",), ()),
        (OURS, (), ("release",)),
        (OURS, ("golden",), ()),  # again changes nothing
        (THEIRS, (), ("golden",)),  # another team's is not theirs to take
    ]:
        ledger.append(sealed(ResultTagged(result_id=ONE, put=put, taken=taken), key))
    assert names(ledger) == [("golden", "ours"), ("release", "theirs")]
    assert tagged_results(ledger, "release", TRUST) == (ONE,)
    ledger.append(sealed(ResultTagged(result_id=ONE, taken=("release",)), THEIRS))
    assert tagged_results(ledger, "release", TRUST) == ()
    assert names(ledger, TWO) == []


def test_what_nobody_trusted_signed_neither_puts_nor_takes(ledger: Ledger) -> None:
    ledger.append(sealed(ResultTagged(result_id=ONE, put=("golden",)), OURS))
    ledger.append(sealed(ResultTagged(result_id=ONE, put=("fake",), taken=("golden",)), STRANGER))
    ledger.append(sealed(ResultNoted(result_id=ONE, text="believe me"), STRANGER))
    ledger.append(sealed(ResultNoted(result_id=ONE, text="the new driver"), THEIRS))
    assert names(ledger) == [("golden", "ours")]
    assert tagged_results(ledger, "fake", TRUST) == ()
    assert [note.text for note in remarks_of(ledger, [ONE], TRUST)[ONE].notes] == ["the new driver"]
    assert remarks_of(ledger, [ONE], trusting(OURS))[ONE].notes == ()


def test_a_tag_is_found_whole_and_is_no_name_of_anything_else(ledger: Ledger) -> None:
    ledger.append(sealed(ResultTagged(result_id=ONE, put=("gold", "a")), OURS))
    ledger.append(sealed(ResultTagged(result_id=TWO, put=("golden",)), OURS))
    assert tagged_results(ledger, "gold", TRUST) == (ONE,)
    assert tagged_results(ledger, "gol", TRUST) == tagged_results(ledger, "%", TRUST) == ()
    assert known_tags(ledger, 10) == ["a", "gold", "golden"]
    assert known_tags(ledger, 1) == ["golden"], "the newest"


@pytest.mark.parametrize("tag", ["", "Gold", "two words", "<b>", "a" * 64, "-a", "ä", "a\n"])
def test_a_tag_is_a_plain_word(tag: str) -> None:
    with pytest.raises(ValueError, match="put"):
        ResultTagged(result_id=ONE, put=(tag,))


def test_no_standing_rests_on_them(ledger: Ledger) -> None:
    ledger.append_all([sealed(registered("one"), OURS), sealed(recorded("one"), OURS)])
    before = standings(ledger, [ONE], TRUST)
    ledger.append(sealed(ResultTagged(result_id=ONE, put=("retracted", "contested")), THEIRS))
    ledger.append(sealed(ResultNoted(result_id=ONE, text="does not verify"), THEIRS))
    assert standings(ledger, [ONE], TRUST) == before


@pytest.mark.parametrize("version", ["0002", "0004", "0006"])
def test_a_ledger_of_an_older_version_takes_tags_and_holds(url: str, version: str) -> None:
    with Ledger(url, blobs="somewhere") as old:
        old.append_all([sealed(registered("one"), OURS), sealed(recorded("one"), OURS)])
        old.database.migrate(version)
    with Ledger(url, blobs="somewhere") as ledger:
        assert ledger.database.schema() == LEDGER_SCHEMA.newest
        assert remarks_of(ledger, [ONE], TRUST)[ONE].tags == ()
        ledger.append(sealed(ResultTagged(result_id=ONE, put=("golden",)), OURS))
        assert tagged_results(ledger, "golden", TRUST) == (ONE,)
        ledger.database.migrate(version)
    with Ledger(url, blobs="somewhere") as ledger:
        assert tagged_results(ledger, "golden", TRUST) == (ONE,), "the index is made again from the entries"
        assert recompute(ledger).size == 3
