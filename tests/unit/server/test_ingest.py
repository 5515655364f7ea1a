"""Bundles that are taken in together come to what each would have come to alone, and none takes another with it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest

from lynxbench.errors import BadLedger, EvidenceInvalid, LynxbenchError, Refused
from lynxbench.evidence.envelope import Envelope
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.bundle import read_bundle
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Ledger
from lynxbench.ledger.queries import find_result
from lynxbench.model.entries import KeyRevoked
from lynxbench.record.recording import seal
from lynxbench.server.ingest import OfferedBundle, Outcome, _apart, take_in, take_in_all
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.uploads import Taken
from recording_teams import OTHER, TEAM, Team, made_result, make_team

SCOPES = frozenset({AccessScope.SUBMIT})


class Scene:
    """A host's ledger, and two teams that it knows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.team, self.other, self.host = (make_team(name, folder) for name in (TEAM, OTHER, "bench"))
        for friend in (self.team, self.other):
            card = friend.keyring.keys.card(friend.name)
            at = datetime.fromisoformat(card.made_at)
            self.host.keyring.change_trust(lambda trust, card=card, at=at: trust.adding(card, at))
        self.ledger: OpenLedger = self.host.open()

    @property
    def trust(self) -> TrustList:
        return self.host.keyring.trust

    def offer(self, team: Team, number: int, by: Team | None = None) -> OfferedBundle:
        path = self.folder / f"{team.name}-{number}.lynx"
        path.write_bytes(team.bundle(made_result(number)))
        return OfferedBundle(path, Principal("agent", (by or team).name, SCOPES, "token"))

    def take(self, offers: Sequence[OfferedBundle]) -> list[Outcome]:
        return take_in_all(self.ledger, offers, self.trust, time.time())

    def has(self, number: int) -> bool:
        return find_result(self.ledger.log, made_result(number).result_id) is not None


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.ledger.log.close()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each change of the ledger was offered."""
    told: list[int] = []
    append_all = Ledger.append_all

    def append(self: Ledger, envelopes: Sequence[Envelope], trust: TrustList | None = None) -> list[int]:
        told.append(len(envelopes))
        return append_all(self, envelopes, trust)

    monkeypatch.setattr(Ledger, "append_all", append)
    return told


def test_together_they_come_to_what_each_comes_to_alone(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offers = [scene.offer(scene.team, number) for number in (1, 2, 3)]
    offers += [offers[0], scene.offer(scene.other, 4)]
    beside = make_team("beside", tmp_path).open()
    alone = [take_in(beside, offer.path, scene.trust, offer.who, time.time()) for offer in offers]
    appended = counted(monkeypatch)
    together = scene.take(offers)
    assert len(appended) == 1, "one change of the ledger for all"
    assert [asdict(one) for one in together if isinstance(one, Taken)] == [asdict(one) for one in alone]
    assert scene.ledger.log.head() == beside.log.head()
    assert together[3] == Taken(alone[3].results, alone[3].entries, 0, []), "the same one a second time brings nothing"
    beside.log.close()


def test_one_that_is_refused_takes_no_other_with_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, cut = scene.offer(scene.team, 2), scene.offer(scene.team, 4)
    data = bytearray(damaged.path.read_bytes())
    data[-1500] ^= 1
    damaged.path.write_bytes(data)
    cut.path.write_bytes(cut.path.read_bytes()[:-600])
    stolen = scene.offer(scene.team, 6, by=scene.other)
    gone = OfferedBundle(scene.folder / "gone.lynx", stolen.who)
    good = [scene.offer(scene.team, number) for number in (1, 3, 5)]
    appended = counted(monkeypatch)
    outcomes = scene.take([good[0], damaged, good[1], cut, stolen, gone, good[2]])
    assert [type(outcomes[number]) for number in (1, 3)] == [EvidenceInvalid] * 2
    assert isinstance(outcomes[4], Refused)
    assert isinstance(outcomes[5], LynxbenchError)
    assert [isinstance(outcomes[number], Taken) for number in (0, 2, 6)] == [True] * 3
    assert len(appended) == 1, "those that hold are still taken in together"
    assert [scene.has(number) for number in range(1, 7)] == [True, False] * 3


def test_one_that_the_log_itself_refuses_takes_no_other_with_it(scene: Scene) -> None:
    """Both teams say that the run is theirs: the first one has it, as one after the other."""
    first, squatting, last = scene.offer(scene.team, 1), scene.offer(scene.other, 1), scene.offer(scene.team, 2)
    outcomes = scene.take([first, squatting, last])
    assert isinstance(outcomes[0], Taken)
    assert isinstance(outcomes[1], LynxbenchError)
    assert isinstance(outcomes[2], Taken)
    assert "run-compared-1" in str(outcomes[1])
    assert [outcomes[0].new_results, outcomes[2].new_results] == [[made_result(number).result_id] for number in (1, 2)]
    with pytest.raises(LynxbenchError) as alone:
        take_in(scene.ledger, squatting.path, scene.trust, squatting.who, time.time())
    assert (type(alone.value), str(alone.value)) == (type(outcomes[1]), str(outcomes[1]))


def test_two_histories_of_one_ledger_are_not_taken_in_together(scene: Scene) -> None:
    """Whoever shows another history of the same length is refused, and who came with it is not."""
    scene.offer(scene.team, 0)
    twin = Team(TEAM, scene.folder / "twin", {"LYNXBENCH_HOME": str(scene.folder / "twin")})
    shutil.copytree(scene.team.home, twin.home)
    first, beside = scene.offer(scene.team, 1), scene.offer(scene.other, 3)
    second = OfferedBundle(scene.folder / "second.lynx", first.who)
    second.path.write_bytes(twin.bundle(made_result(2)))
    outcomes = scene.take([first, second, beside])
    assert [isinstance(outcome, Taken) for outcome in outcomes] == [True, False, True]
    assert "shows two histories" in str(outcomes[1])


def test_a_crash_before_the_log_grew_loses_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [scene.offer(scene.team, number) for number in (1, 2)]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append_all", killed)
        with pytest.raises(KeyboardInterrupt):
            scene.take(offers)
    assert scene.ledger.log.head().size == 0
    assert all(isinstance(outcome, Taken) and outcome.new_results for outcome in scene.take(offers))


def test_a_ledger_that_cannot_be_written_is_said_to_each(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise BadLedger("the disk is full")

    offers = [scene.offer(scene.team, number) for number in (1, 2)]
    monkeypatch.setattr(Ledger, "append_all", full)
    outcomes = scene.take(offers)
    assert [str(outcome) for outcome in outcomes] == ["the disk is full"] * 2


def test_what_speaks_of_keys_is_taken_in_by_itself(scene: Scene) -> None:
    bundles = [read_bundle(scene.offer(scene.team, number).path, scene.trust) for number in range(4)]
    revoked = seal(KeyRevoked(keyid=scene.other.key.keyid, since="2026-11-01T00:00:00Z", reason="lost"), scene.team.key)
    about_keys = type(bundles[2])(
        **{name: getattr(bundles[2], name) for name in bundles[2].__slots__}
        | {"envelopes": (*bundles[2].envelopes, revoked)}
    )
    numbered = dict(enumerate([*bundles[:2], about_keys, bundles[3]]))
    assert [list(together) for together in _apart(numbered)] == [[0, 1], [2], [3]]
