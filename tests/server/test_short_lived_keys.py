"""Results under short-lived keys on their way: tokens travel along, and count where the identity is trusted."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from issued import ISSUER, SUBJECT, FakeIssuer
from lynxbench.errors import EvidenceInvalid, Refused
from lynxbench.evidence.keys import SigningKey
from lynxbench.evidence.trust import TrustedIdentity, TrustList
from lynxbench.ledger.bundle import export_bundle, import_bundle
from lynxbench.ledger.result_standings import standings
from lynxbench.model.entries import KeyRevoked, Role
from lynxbench.record.key_publishing import bind_key
from lynxbench.record.recalling import ledger_checks
from lynxbench.record.recording import seal
from lynxbench.server.ingest import take_in
from lynxbench.server.rights import AccessScope, Principal
from recording_teams import Team, made_result, make_team, record

ISSUED = FakeIssuer()
IDENTITY = TrustedIdentity(issuer=ISSUER, subject=SUBJECT, team="build", roles=(Role.RUNNER,), keys=ISSUED.keys)
SUBMITTER = Principal("build-bot", "build", frozenset({AccessScope.READ, AccessScope.SUBMIT}), "token")


@pytest.fixture
def host(tmp_path: Path) -> Team:
    return make_team("host", tmp_path)


def trusting_identity(team: Team) -> TrustList:
    return team.keyring.change_trust(lambda trust: trust.identifying(IDENTITY))


def bundle_of_job(tmp_path: Path, **claims: object) -> tuple[Path, str, SigningKey]:
    """A result that a job recorded under a key of its own, exported; its id, and the key."""
    build = make_team("build", tmp_path)
    job = build.keyring.create("job", "build", (Role.RUNNER,), datetime.now(UTC))
    start = int(datetime.now(UTC).timestamp())
    token = ISSUED.token(job.keyid, iat=start, exp=start + 300, **claims)
    with build.open() as ledger:
        bind_key(ledger, build.keyring, "job", token, ISSUED.keys, datetime.now(UTC))
        result = record(ledger, made_result(1), job)
        path = tmp_path / "job.lynx"
        export_bundle(ledger, [result.result_id], path, job, build.keyring.trust, datetime.now(UTC))
    return path, result.result_id, job


def test_a_bundle_brings_its_tokens_to_whoever_trusts_the_identity(tmp_path: Path, host: Team) -> None:
    path, result_id, _ = bundle_of_job(tmp_path)
    with host.open() as ledger:
        with pytest.raises(EvidenceInvalid, match="no trusted signature"):
            import_bundle(ledger, path, host.keyring.trust)
        assert ledger.log.head().size == 0
        trust = trusting_identity(host)
        import_bundle(ledger, path, trust)
        assert standings(ledger.log, [result_id], trust)[result_id].signed_by == ("build",)
        lines = [check.line for check in ledger_checks(ledger, result_id, trust)]
        assert "signatures: holds: by build" in lines


@pytest.mark.parametrize("claims", [{"sub": "repo:acme/bench:pull_request"}, {"iss": "https://token.example.com"}])
def test_a_bundle_of_another_identity_stays_outside(tmp_path: Path, host: Team, claims: dict[str, object]) -> None:
    path, _, _ = bundle_of_job(tmp_path, **claims)
    with host.open() as ledger, pytest.raises(EvidenceInvalid, match="no trusted signature"):
        import_bundle(ledger, path, trusting_identity(host))


def test_a_server_takes_in_what_a_job_pushes_while_its_token_lives(tmp_path: Path, host: Team) -> None:
    path, result_id, _ = bundle_of_job(tmp_path)
    other = Principal("other-bot", "other", SUBMITTER.scopes, "token")
    with host.open() as ledger:
        with pytest.raises(EvidenceInvalid, match="no trusted signature"):
            take_in(ledger, path, host.keyring.trust, SUBMITTER, time.time())
        trust = trusting_identity(host)
        with pytest.raises(Refused, match="made by build"):
            take_in(ledger, path, trust, other, time.time())
        assert take_in(ledger, path, trust, SUBMITTER, time.time()).results == [result_id]


def test_a_server_takes_in_nothing_by_a_key_that_its_log_revoked(tmp_path: Path, host: Team) -> None:
    path, _, job = bundle_of_job(tmp_path)
    trust = trusting_identity(host).administered(host.key.keyid)
    with host.open() as ledger:
        since = datetime.now(UTC).isoformat()
        ledger.log.append(seal(KeyRevoked(keyid=job.keyid, since=since, reason="taken over"), host.key))
        with pytest.raises(EvidenceInvalid, match="no key that is registered and still valid"):
            take_in(ledger, path, trust, SUBMITTER, time.time())
        assert ledger.log.head().size == 1


def test_a_server_takes_in_no_result_of_a_team_that_is_no_runner(tmp_path: Path, host: Team) -> None:
    path, _, _ = bundle_of_job(tmp_path)
    trust = trusting_identity(host).granting("build", (Role.WITNESS,))
    with host.open() as ledger, pytest.raises(EvidenceInvalid, match="acts as runner"):
        take_in(ledger, path, trust, SUBMITTER, time.time())
