"""Signing a contract into ledgers and files, and taking files in: by whom it was signed is what the key says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compared import make_contract, make_result
from ledgers import decision, sealed
from lynxbench.errors import BadInput, EvidenceInvalid, LynxbenchError, NotFound, Refused
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.bundle import export_bundle, import_bundle
from lynxbench.ledger.log_audit import recompute
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.contract import Contract
from lynxbench.model.entries import Blob, ContractAgreed, ContractSigned, ResultRecorded
from lynxbench.model.result import Result
from lynxbench.record.agreeing import (
    agreement_now,
    collect,
    collect_known,
    named_contract,
    render_signed,
    seal_agreement,
    sign_into,
)
from lynxbench.record.recording import seal
from recording_teams import record
from teams import Team, make_team, trusts

CONTRACT = make_contract(teams=["alpha", "bravo"])


@pytest.fixture
def alpha(tmp_path: Path) -> Team:
    return make_team("alpha", tmp_path / "alpha")


@pytest.fixture
def bravo(tmp_path: Path) -> Team:
    return make_team("bravo", tmp_path / "bravo")


def key(team: Team) -> SigningKey:
    return team.keyring.keys.open(team.name)


def signed_file(team: Team, contract: Contract = CONTRACT) -> bytes:
    return render_signed(seal_agreement(contract, key(team)))


# --- signing ----------------------------------------------------------------------------------------------------------


def test_two_teams_agree_in_one_ledger(alpha: Team, bravo: Team) -> None:
    trusts(alpha, bravo)
    trust = alpha.keyring.trust
    with alpha.open() as ledger:
        assert agreement_now(ledger, CONTRACT, trust).words == "not agreed (0 of 2; missing: alpha, bravo)"
        assert sign_into(ledger, CONTRACT, key(alpha), trust) == (1, True)
        assert sign_into(ledger, CONTRACT, key(alpha), trust) == (1, False), "a team signs once"
        report = agreement_now(ledger, CONTRACT, trust)
        assert report.words == "not agreed (1 of 2; missing: bravo)"
        assert "next: bravo: lynxbench contract sign" in report.render()
        assert sign_into(ledger, CONTRACT, key(bravo), trust) == (2, True)
        report = agreement_now(ledger, CONTRACT, trust)
        assert report.words == "agreed (2 of 2)"
        assert report.document()["agreed"] is True
        assert named_contract(CONTRACT.contract_id[:9], ledger) == CONTRACT
        assert recompute(ledger.log).size == 3


def test_a_team_that_is_not_asked_does_not_sign(alpha: Team, tmp_path: Path) -> None:
    stranger = make_team("stranger", tmp_path / "stranger")
    twin = make_team("a1pha", tmp_path / "twin")
    for team, says in ((stranger, "asks alpha, bravo to sign it, not stranger"), (twin, "alpha is another")):
        with team.open() as ledger, pytest.raises(Refused, match=says):
            sign_into(ledger, CONTRACT, key(team), team.keyring.trust)
        with team.open() as ledger:
            assert ledger.log.head().size == 0
    with alpha.open() as ledger, pytest.raises(BadInput, match="names no teams"):
        sign_into(ledger, make_contract(), key(alpha), alpha.keyring.trust)


def test_a_contract_that_is_edited_after_signing_is_not_signed(alpha: Team) -> None:
    trust = alpha.keyring.trust
    with alpha.open() as ledger:
        sign_into(ledger, CONTRACT, key(alpha), trust)
        for edited in (
            make_contract(teams=["alpha", "bravo"], question="Does it hold, more or less?"),
            make_contract(teams=["alpha"]),
            make_contract(teams=["alpha", "bravo"], amends=CONTRACT.contract_id),
        ):
            assert "alpha" in agreement_now(ledger, edited, trust).agreement.missing


def test_an_amendment_shows_what_it_replaces_and_whom_it_drops(alpha: Team) -> None:
    amending = make_contract(teams=["alpha"], amends=CONTRACT.contract_id)
    trust = alpha.keyring.trust
    with alpha.open() as ledger:
        assert "not known here" in agreement_now(ledger, amending, trust).render()
        sign_into(ledger, CONTRACT, key(alpha), trust)
        sign_into(ledger, amending, key(alpha), trust)
        report = agreement_now(ledger, amending, trust)
        assert report.agreement.full
        assert "no longer asks bravo" in report.render()
        assert report.document()["amends"][0]["no_longer_asked"] == ("bravo",)


# --- files of other teams ---------------------------------------------------------------------------------------------


def test_a_signature_travels_as_a_file(alpha: Team, bravo: Team) -> None:
    trusts(alpha, bravo)
    data = signed_file(bravo)
    with alpha.open() as ledger:
        taken = collect(ledger, data, alpha.keyring.trust)
        assert (taken.teams, taken.new) == (("bravo",), 2)
        assert collect(ledger, data.replace(b"\n", b"\r\n\r\n"), alpha.keyring.trust).new == 0
        assert agreement_now(ledger, CONTRACT, alpha.keyring.trust).agreement.missing == ("alpha",)
        both = agreement_now(ledger, CONTRACT, alpha.keyring.trust).agreement
        assert [signature.team for signature in both.signatures] == ["bravo"]


def refuses(alpha: Team, data: bytes, error: type[LynxbenchError], says: str, of: str | None = None) -> None:
    with alpha.open() as ledger:
        with pytest.raises(error, match=says):
            collect(ledger, data, alpha.keyring.trust, of=of)
        assert ledger.log.head().size == 0, "all of it or nothing"


def test_a_file_of_an_untrusted_or_revoked_key_is_refused(alpha: Team, bravo: Team) -> None:
    refuses(alpha, signed_file(bravo), EvidenceInvalid, "no trusted signature")
    trusts(alpha, bravo)
    data, soon = signed_file(bravo), datetime.now(UTC) + timedelta(seconds=5)
    alpha.keyring.change_trust(lambda trust: trust.revoking(key(bravo).keyid, "lost", soon))
    later = datetime.now(UTC) + timedelta(hours=1)
    with alpha.open() as ledger, pytest.raises(EvidenceInvalid, match="still valid"):
        collect(ledger, data, alpha.keyring.trust, now=later)


def test_a_team_that_is_trusted_and_not_asked_hands_in_nothing(alpha: Team, tmp_path: Path) -> None:
    charlie = make_team("charlie", tmp_path / "charlie")
    trusts(alpha, charlie)
    text = seal(ContractAgreed(contract_id=CONTRACT.contract_id, contract=CONTRACT), key(charlie))
    forged = seal(ContractSigned(contract_id=CONTRACT.contract_id), key(charlie))
    refuses(alpha, render_signed([text, forged]), Refused, "to sign it, not charlie")


def test_a_signature_is_not_moved_to_another_contract(alpha: Team, bravo: Team) -> None:
    trusts(alpha, bravo)
    other = make_contract(teams=["alpha", "bravo"], question="Another one?")
    text, signature = seal_agreement(CONTRACT, key(bravo))
    fresh = seal(ContractSigned(contract_id=other.contract_id), key(alpha))
    moved = Envelope(fresh.payload_type, fresh.payload, signature.signatures)
    refuses(alpha, render_signed([moved]), EvidenceInvalid, "signature")
    other_text, _ = seal_agreement(other, key(bravo))
    refuses(alpha, render_signed([other_text, signature]), EvidenceInvalid, "one contract")
    refuses(alpha, render_signed([text]), EvidenceInvalid, "one contract")
    refuses(alpha, render_signed([signature]), NotFound, "neither in the file nor in this ledger")


def test_nothing_else_comes_in_by_that_door(alpha: Team, bravo: Team) -> None:
    trusts(alpha, bravo)
    text, signature = seal_agreement(CONTRACT, key(bravo))
    with_blob = seal(
        ContractSigned(contract_id=CONTRACT.contract_id), key(bravo), (Blob(name="x", sha256="ab" * 32, size_bytes=1),)
    )
    refuses(alpha, render_signed([text, with_blob]), EvidenceInvalid, "no place")
    refuses(alpha, render_signed([text, signature, seal(decision("buy"), key(bravo))]), EvidenceInvalid, "no place")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="milliseconds")
    ahead = sealed(ContractSigned(contract_id=CONTRACT.contract_id), key(bravo), tomorrow)
    refuses(alpha, render_signed([text, ahead]), EvidenceInvalid, "still to come")
    for data, error in (
        (b"", BadInput),
        (b"\n \n", BadInput),
        (b"{}\n", EvidenceInvalid),
        (b"\xff\xfe\n", EvidenceInvalid),
        (render_signed([text, signature])[:-40], EvidenceInvalid),
        (json.dumps({"entries": []}).encode(), EvidenceInvalid),
    ):
        refuses(alpha, data, error, "signed entry|envelope|entry")


def test_whoever_hands_in_hands_in_their_own(alpha: Team, bravo: Team) -> None:
    trusts(alpha, bravo)
    refuses(alpha, signed_file(bravo), Refused, "alpha hands in its own signature", of="alpha")


def test_of_many_lines_those_of_known_keys_are_taken(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    asked = make_contract(teams=["alpha", "bravo", "unknown"])
    unknown = make_team("unknown", tmp_path / "unknown")
    trusts(alpha, bravo)
    lines = (signed_file(unknown, asked) + signed_file(bravo, asked)).decode().splitlines()
    with alpha.open() as ledger:
        taken, problems = collect_known(ledger, [*lines, "nonsense"], alpha.keyring.trust)
        assert [part.teams for part in taken] == [("bravo",)]
        assert len(problems) == 3
        assert agreement_now(ledger, asked, alpha.keyring.trust).agreement.missing == ("alpha", "unknown")


# --- with a result ----------------------------------------------------------------------------------------------------


def measured(team: Team) -> Result:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with team.open() as ledger:
        return record(ledger, make_result(contract=CONTRACT, started_at=started), key(team))


def words_of(team: Team, result_id: str) -> str:
    with team.open() as ledger:
        agreement = standings(ledger.log, [result_id], team.keyring.trust)[result_id].agreement
    assert agreement is not None
    return agreement.words


def test_bundles_carry_the_signatures(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    trusts(alpha, bravo)
    trusts(bravo, alpha)
    with alpha.open() as ledger:
        sign_into(ledger, CONTRACT, key(alpha), alpha.keyring.trust)
        sign_into(ledger, CONTRACT, key(bravo), alpha.keyring.trust)
    result = measured(alpha)
    assert words_of(alpha, result.result_id) == "agreed (2 of 2)"
    bundle, now = tmp_path / "b.lynx", datetime.now(UTC)
    with alpha.open() as ledger:
        export_bundle(ledger, [result.result_id], bundle, key(alpha), alpha.keyring.trust, now)
    with bravo.open() as ledger:
        import_bundle(ledger, bundle, bravo.keyring.trust)
    assert words_of(bravo, result.result_id) == "agreed (2 of 2)"


def test_a_signature_that_came_after_stays_late_wherever_it_travels(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    trusts(alpha, bravo)
    trusts(bravo, alpha)
    with alpha.open() as ledger:
        sign_into(ledger, CONTRACT, key(alpha), alpha.keyring.trust)
    result = measured(alpha)
    with alpha.open() as ledger:
        sign_into(ledger, CONTRACT, key(bravo), alpha.keyring.trust)
        export_bundle(
            ledger, [result.result_id], tmp_path / "b.lynx", key(alpha), alpha.keyring.trust, datetime.now(UTC)
        )
    late = "agreed after the run (1 of 2 before it; late: bravo)"
    assert words_of(alpha, result.result_id) == late
    with bravo.open() as ledger:
        import_bundle(ledger, tmp_path / "b.lynx", bravo.keyring.trust)
    assert words_of(bravo, result.result_id) == late


def test_a_strangers_signature_keeps_no_bundle_from_being_taken_in(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    trusts(bravo, alpha)
    stranger = make_team("stranger", tmp_path / "stranger")
    with alpha.open() as ledger:
        ledger.log.append(seal(ContractSigned(contract_id=CONTRACT.contract_id), key(stranger)))
    result = measured(alpha)
    with alpha.open() as ledger:
        export_bundle(
            ledger, [result.result_id], tmp_path / "b.lynx", key(alpha), alpha.keyring.trust, datetime.now(UTC)
        )
    with bravo.open() as ledger:
        import_bundle(ledger, tmp_path / "b.lynx", bravo.keyring.trust)
    assert words_of(bravo, result.result_id) == "not agreed (0 of 2; missing: alpha, bravo)"


def test_an_entry_that_leaves_the_teams_out_is_refused(alpha: Team, bravo: Team, tmp_path: Path) -> None:
    """Whoever would rather not be asked cannot list the result as one that asks nobody."""
    trusts(bravo, alpha)
    result = measured(alpha)
    with alpha.open() as ledger:
        logs = [ledger.log.read(seq) for seq in range(3)]
        logged = next(entry for entry in logs if isinstance(entry.entry.body, ResultRecorded))
        body = summary_of(result, nonce=result.result_id[:32], attempts=5).model_copy(update={"teams": ()})
        forging = make_team("forging", tmp_path / "forging")
        trusts(bravo, forging)
        with forging.open() as other:
            for name in {blob.sha256 for blob in logged.entry.blobs}:
                other.blobs.put(ledger.blobs.get(name))
            other.log.append(seal(body, key(forging), logged.entry.blobs))
            export_bundle(
                other, [result.result_id], tmp_path / "f.lynx", key(forging), forging.keyring.trust, datetime.now(UTC)
            )
    with bravo.open() as ledger, pytest.raises(EvidenceInvalid, match="says what the document does not"):
        import_bundle(ledger, tmp_path / "f.lynx", bravo.keyring.trust)
