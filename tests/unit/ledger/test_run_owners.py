"""A registered run is its own team's: nobody else registers it, brings its result or ends it, on either database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from ledgers import MADE_AT, NOW, key_of, recorded, registered, sealed, sha, trusting
from lynxbench.errors import EvidenceInvalid
from lynxbench.evidence.envelope import Envelope, Signature, add_signature
from lynxbench.evidence.statement import seal_entry
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.queries import open_runs
from lynxbench.ledger.result_standings import owner_of_result, standings
from lynxbench.model.entries import Blob, Entry, EntryBody, ResultRecorded, ResultRetracted, RunAbandoned
from lynxbench.model.team_names import LOCAL_TEAM

ALPHA, BRAVO, CHARLIE = key_of("alpha"), key_of("bravo"), key_of("charlie")
NEXT = key_of("alpha")
"""The key with which alpha goes on."""
TRUST = trusting(ALPHA, BRAVO, CHARLIE, NEXT)
RESULT = sha("result one")


def _abandoned(name: str = "one", nonce: str | None = None) -> RunAbandoned:
    return RunAbandoned(
        run_id=f"run-{name}", nonce=nonce or "n" + name, contract_id=sha("contract"), attempts=1, reason="stopped"
    )


def _other_result() -> ResultRecorded:
    return recorded("one", estimate=1000.0).model_copy(update={"result_id": sha("a better figure")})


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """Alpha announced a run."""
    with Ledger(url, blobs="somewhere") as opened:
        opened.append(sealed(registered("one"), ALPHA))
        yield opened


FOREIGN: dict[str, EntryBody] = {
    "registered again": registered("one"),
    "registered for another contract": registered("one", contract="another"),
    "ended": _abandoned(),
    "its result": recorded("one"),
    "another result": _other_result(),
    "another nonce": recorded("one").model_copy(update={"nonce": "mine"}),
}


@pytest.mark.parametrize("body", FOREIGN.values(), ids=FOREIGN.keys())
@pytest.mark.parametrize("trust", [TRUST, TrustList(), None], ids=["teams known", "keys alone", "own ledger"])
def test_another_team_says_nothing_about_an_announced_run(
    ledger: Ledger, body: EntryBody, trust: TrustList | None
) -> None:
    with pytest.raises(EvidenceInvalid, match="run run-one was registered by"):
        ledger.append_all([sealed(body, BRAVO)], trust)
    assert [run.run_id for run in open_runs(ledger)] == ["run-one"], "it is still open"
    ledger.append_all([sealed(recorded("one"), ALPHA)], trust)
    assert standings(ledger, [RESULT], TRUST)[RESULT].registered
    with pytest.raises(EvidenceInvalid, match="run run-one was registered by"):
        ledger.append_all([sealed(body, BRAVO)], trust)
    assert recompute(ledger).size == 2


def test_neither_does_it_in_one_batch_with_the_registration(url: str) -> None:
    with Ledger(url, blobs="somewhere") as ledger:
        for body in FOREIGN.values():
            with pytest.raises(EvidenceInvalid, match="registered by"):
                ledger.append_all([sealed(registered("one"), ALPHA), sealed(body, BRAVO)], TRUST)
        assert ledger.head().size == 0, "all of a batch or none of it"


@pytest.mark.parametrize(
    ("change", "said"),
    [({"nonce": "another"}, "with nonce"), ({"contract_id": sha("another")}, "with contract")],
)
def test_its_own_team_keeps_to_what_it_registered(ledger: Ledger, change: dict[str, str], said: str) -> None:
    for body in (recorded("one"), _abandoned(), registered("one")):
        with pytest.raises(EvidenceInvalid, match=said):
            ledger.append(sealed(body.model_copy(update=change), ALPHA))


def test_a_team_goes_on_with_another_key_where_the_reader_knows_it_as_theirs(ledger: Ledger) -> None:
    with pytest.raises(EvidenceInvalid, match="registered by"):
        ledger.append_all([sealed(recorded("one"), NEXT)])
    ledger.append_all([sealed(recorded("one"), NEXT)], TRUST)
    assert standings(ledger, [RESULT], TRUST)[RESULT].registered
    with pytest.raises(EvidenceInvalid, match="a run has one result"):
        ledger.append_all([sealed(_other_result(), ALPHA)], TRUST)


def _with_their_name(envelope: Envelope) -> Envelope:
    """The owner's key id, with a signature that it never made."""
    return Envelope(envelope.payload_type, envelope.payload, (*envelope.signatures, Signature(ALPHA.keyid, bytes(64))))


def test_the_owners_name_without_its_signature_helps_nobody(ledger: Ledger) -> None:
    forged = _with_their_name(sealed(recorded("one"), BRAVO))
    with pytest.raises(EvidenceInvalid, match="does not hold"):
        ledger.append_all([forged], TRUST)
    with pytest.raises(EvidenceInvalid, match="registered by"):
        ledger.append_all([forged], trusting(BRAVO))
    assert ledger.head().size == 1


def test_a_registration_bears_one_signature(ledger: Ledger) -> None:
    entry = Entry(made_at=MADE_AT, body=registered("two"))
    with pytest.raises(EvidenceInvalid, match="bears 2 signatures"):
        ledger.append_all([seal_entry(entry, [ALPHA, BRAVO])], TRUST)
    with pytest.raises(EvidenceInvalid, match="bears 2 signatures"):
        ledger.append_all([add_signature(sealed(registered("two"), ALPHA), BRAVO)], TRUST)


def test_a_copy_that_was_recorded_first_does_not_keep_the_owner_out(url: str) -> None:
    """Nobody announced the run here; somebody pushes its result, or one of their own, before its team does."""
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append_all([sealed(_other_result(), BRAVO), sealed(recorded("one"), CHARLIE)], TRUST)
        theirs = [sealed(registered("one"), ALPHA, MADE_AT), sealed(recorded("one"), ALPHA)]
        assert ledger.append_all(theirs, TRUST) == [2, 3]
        assert owner_of_result(ledger, RESULT, TRUST).teams == ("alpha",)
        squatter = standings(ledger, [sha("a better figure")], TRUST)[sha("a better figure")]
        assert "not registered in advance" in squatter.words


def test_re_signing_an_entry_retracts_nothing(ledger: Ledger) -> None:
    """As it was done: the victim's entry is signed again, logged where that is possible, and taken back."""
    envelope = sealed(recorded("one"), ALPHA)
    ledger.append_all([envelope], TRUST)
    ledger.append_all([add_signature(envelope, BRAVO)], TRUST)  # alpha's own signature is on it
    with pytest.raises(EvidenceInvalid, match="registered by"):
        ledger.append_all([sealed(recorded("one"), BRAVO)], TRUST)
    ledger.append_all([sealed(ResultRetracted(result_id=RESULT, reason="not theirs"), BRAVO)], TRUST)
    assert standings(ledger, [RESULT], TRUST)[RESULT].retracted == ()
    ledger.append_all([sealed(ResultRetracted(result_id=RESULT, reason="ours"), NEXT)], TRUST)
    assert standings(ledger, [RESULT], TRUST)[RESULT].words[0] == "retracted by alpha: ours"


def test_two_keys_of_the_team_that_nobody_named_are_two_owners(url: str) -> None:
    """Everybody's first key is of team `local`: a reader who trusts two strangers has not made them one."""
    one, another = key_of(LOCAL_TEAM), key_of(LOCAL_TEAM)
    trust = trusting(one, another)
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append_all([sealed(registered("one"), one, MADE_AT)], trust)
        with pytest.raises(EvidenceInvalid, match="registered by"):
            ledger.append_all([sealed(recorded("one"), another)], trust)
        ledger.append_all([sealed(recorded("one"), one)], trust)
        ledger.append_all([sealed(ResultRetracted(result_id=RESULT, reason="not theirs"), another)], trust)
        assert standings(ledger, [RESULT], trust)[RESULT].retracted == ()
        ledger.append_all([sealed(ResultRetracted(result_id=RESULT, reason="ours"), one)], trust)
        assert standings(ledger, [RESULT], trust)[RESULT].words[0] == "retracted by local: ours"


def test_a_revoked_key_takes_nothing_back(ledger: Ledger) -> None:
    ledger.append(sealed(recorded("one"), ALPHA))
    ledger.append(sealed(ResultRetracted(result_id=RESULT, reason="stolen"), NEXT))
    stolen = TRUST.revoking(NEXT.keyid, "stolen", NOW + timedelta(minutes=1))
    assert standings(ledger, [RESULT], stolen)[RESULT].retracted == ()


def test_an_empty_run_id_is_a_run_as_well(url: str) -> None:
    unnamed = registered("one").model_copy(update={"run_id": ""})
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append(sealed(unnamed, ALPHA))
        with pytest.raises(EvidenceInvalid, match="registered by"):
            ledger.append(sealed(recorded("one").model_copy(update={"run_id": ""}), BRAVO))


def _with_plan(body: EntryBody, plan: str | None) -> Envelope:
    """An entry of alpha's that brings this registration document."""
    blobs = () if plan is None else (Blob(name="registration.json", sha256=sha(plan), size_bytes=7),)
    return seal_entry(Entry(made_at=MADE_AT, body=body, blobs=blobs), [ALPHA])


@pytest.mark.parametrize("brought", ["plan of four", None], ids=["another", "none"])
def test_a_result_comes_with_the_plan_that_its_run_was_announced_with(url: str, brought: str | None) -> None:
    with Ledger(url, blobs="somewhere") as ledger:
        ledger.append(_with_plan(registered("one"), "plan of five"))
        with pytest.raises(EvidenceInvalid, match=r"announced with registration\.json .*, and its result comes with"):
            ledger.append_all([_with_plan(recorded("one"), brought)], TRUST)
        assert ledger.head().size == 1
        assert ledger.append_all([_with_plan(recorded("one"), "plan of five")], TRUST) == [1]


def test_an_announcement_without_its_document_binds_what_it_says_itself(ledger: Ledger) -> None:
    assert ledger.append_all([_with_plan(recorded("one"), "plan of five")], TRUST) == [1]
