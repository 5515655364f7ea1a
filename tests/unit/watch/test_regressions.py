"""The watch over nights, on a real ledger and real tables: suspicion, confirmation, one notice, and how it ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compared import make_contract, make_executor, make_precision, make_result
from lynxbench.errors import BadInput, NotFound
from lynxbench.ledger.location import OpenLedger
from lynxbench.model.entries import ResultVerified
from lynxbench.model.precision import Native
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.record.recording import seal
from lynxbench.watch import session_book
from lynxbench.watch.notifying import Contacts, Courier
from lynxbench.watch.recomputations import FIGURES, DueResult, Recomputations, RecomputationState
from lynxbench.watch.regressions import Notice, Watch
from lynxbench.watch.sealed_secrets import SecretSealer
from lynxbench.watch.session_book import counted_results
from lynxbench.watch.store import Store
from lynxbench.watch.store_tables import baselines, levels, notices
from recording_teams import Team, make_team, record

FIRST = datetime(2026, 3, 2, 3, tzinfo=UTC)
OWNER = "platform SRE"
OTHER = "infrastructure, night shift"
NEWER = {"framework.torch": "2.6.0"}
TEAM = "ml-platform"
USUAL = 22


class Nights:
    """A place, its nights, and who was asked to measure again."""

    def __init__(self, folder: Path, *, can_ask: bool = True) -> None:
        home = folder / TEAM
        known = Team(TEAM, home, {"LYNXBENCH_HOME": str(home)}) if home.exists() else None
        self.team: Team = known or make_team(TEAM, folder)
        self.signer = self.team
        self.ledger: OpenLedger = self.team.open()
        self.store = Store(f"sqlite:///{folder / 'server.sqlite'}")
        self.folder, self.can_ask = folder, can_ask
        self.asked: list[str] = []
        self.watch = self.start()
        self._rng = np.random.default_rng(3 if known is None else 4)

    def close(self) -> None:
        self.store.close()
        self.ledger.log.close()

    def start(self) -> Watch:
        """A server that starts, with what is in its tables."""
        watch = Watch(self.store, self.ledger, Recomputations(self.store, self.ledger.log), self._ask)
        watch.pending()
        return watch

    def _ask(self, result_id: str) -> bool:
        self.asked.append(result_id)
        return self.can_ask

    def measure(
        self,
        night: float,
        level: float = 100.0,
        *,
        doubtful: bool = False,
        newer: bool = False,
        changed: dict[str, object] | None = None,
    ) -> Result:
        """A night's result, recorded and not judged yet."""
        means = level * np.exp(0.001 * self._rng.normal() + 0.001 * self._rng.normal(size=5))
        reasons = ("foreign load",) if doubtful else ()
        verdict = ValidityVerdict.DOUBTFUL if doubtful else ValidityVerdict.VALID
        result = make_result(
            contract=make_contract(owners={"framework": OWNER, "system": OTHER}),
            executor=make_executor(changed or (NEWER if newer else {})),
            run_means=tuple(float(mean) for mean in means),
            started_at=(FIRST + timedelta(days=night)).isoformat(timespec="seconds"),
            validity=Validity(verdict=verdict, reasons=reasons),
        )
        result = result.model_copy(update={"run_id": f"run-{night}"}).sealed()
        return record(self.ledger, result, self.signer.key)

    def judge(self) -> Notice | None:
        """Everything that waits; the last notice of it."""
        opened = None
        for seq in self.watch.pending():
            opened = self.watch.judge(seq, "rack-1", self.team.keyring.trust) or opened
        return opened

    def night(self, night: float, level: float = 100.0, **more: Any) -> Notice | None:
        """Measured, judged, and measured again where that is asked for."""
        opened = None
        for again in range(3):
            before = len(self.asked)
            self.measure(night + 0.05 * again, level, **more)
            opened = self.judge() or opened
            if len(self.asked) == before or not self.can_ask:
                break
        return opened

    def usual(self, nights: int = USUAL, start: int = 0) -> None:
        """Nights on which nothing is wrong."""
        for night in range(start, start + nights):
            assert self.night(night) is None

    def until_told(self, start: int, level: float, most: int = 6, **more: Any) -> Notice:
        """Slow nights until the owner is told."""
        for night in range(start, start + most):
            opened = self.night(night, level, **more)
            if opened is not None:
                return opened
        raise AssertionError(f"not told within {most} nights")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Usual nights, measured once for all tests."""
    folder = tmp_path_factory.mktemp("past")
    made = Nights(folder)
    made.usual()
    assert made.watch.notices() == []
    made.close()
    return folder


@pytest.fixture
def nights(past: Path, tmp_path: Path) -> Iterator[Nights]:
    shutil.copytree(past, tmp_path, dirs_exist_ok=True)
    made = Nights(tmp_path)
    yield made
    made.close()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Nights]:
    made = Nights(tmp_path)
    yield made
    made.close()


def test_a_slow_night_is_measured_again_and_told_to_nobody(nights: Nights) -> None:
    slow = nights.measure(USUAL, 97.0)
    assert nights.judge() is None
    assert nights.asked == [slow.result_id]
    nights.measure(USUAL + 0.05)
    assert nights.judge() is None, "what was measured again is as ever"
    assert len(nights.asked) == 2, "and the session as a whole is still low"
    nights.measure(USUAL + 0.1)
    assert nights.judge() is None
    assert len(nights.asked) == 2, "enough"
    nights.usual(4, USUAL + 1)
    assert nights.watch.notices() == []


def test_a_loss_that_lasts_is_told_once_with_since_when_and_whose(nights: Nights, tmp_path: Path) -> None:
    Contacts(nights.store, SecretSealer(tmp_path)).put(OWNER, "mail", "sre@example.org")
    notice = nights.until_told(USUAL, 97.0, newer=True)
    assert notice.place == "agent rack-1"
    assert (notice.layer, notice.owner) == ("framework", OWNER)
    assert notice.since == (FIRST + timedelta(days=USUAL)).isoformat(timespec="seconds")
    assert notice.estimate == pytest.approx(0.97, abs=0.005)
    assert notice.low is not None
    assert notice.estimate is not None
    assert notice.high is not None
    assert notice.low < notice.estimate < notice.high < 1
    assert notice.confirmed_by == notice.result_id
    assert "since 2026-03-24 03:00 UTC" in notice.sentence
    assert "measured again at once" in notice.sentence
    assert notice.baseline_id != notice.result_id
    assert nights.watch.moved() == {notice.contract_id}
    assert len(nights.watch.told([notice.notice])[notice.notice]) == 1
    for night in range(USUAL + 6, USUAL + 10):
        assert nights.night(night, 97.0, newer=True) is None, "told once"
    assert len(nights.watch.notices(still=True)) == 1


def test_layers_that_cannot_be_separated_name_none_and_tell_the_owners_of_all(nights: Nights, tmp_path: Path) -> None:
    """Found: the sentence said that two layers cannot be separated, and `layer` and `owner` were those of one."""
    contacts = Contacts(nights.store, SecretSealer(tmp_path))
    contacts.put(OWNER, "mail", "sre@example.org")
    contacts.put(OTHER, "webhook", "https://hooks.example.org/night", "a shared secret")
    contacts.put("*", "mail", "bench@example.org")
    notice = nights.until_told(USUAL, 97.0, changed={"framework.torch": "2.6.0", "system.nvidia_driver": "570.00"})
    assert "2 layers changed together and cannot be separated" in notice.sentence
    assert notice.layer is None
    assert notice.owner == f"{OTHER}, {OWNER}"
    told = nights.watch.told([notice.notice])[notice.notice]
    assert sorted(delivery.channel for delivery in told) == ["mail", "webhook"]
    assert contacts.secret(notice.owner, "https://hooks.example.org/night") == "a shared secret"
    letter = Courier(nights.store, contacts, "https://bench.example").letter(notice, "")
    assert f"No one layer is suspected. Owner: {OTHER}, {OWNER}." in letter


def test_state_that_moves_by_itself_blames_nobody(nights: Nights, tmp_path: Path) -> None:
    """Found: nothing that counts had changed, and the owner of the layer with the load average was told."""
    Contacts(nights.store, SecretSealer(tmp_path)).put(OTHER, "mail", "night@example.org")
    notice = nights.until_told(USUAL, 97.0, changed={"system.load_1min": 0.7})
    assert "nothing that is recorded changed" in notice.sentence
    assert (notice.layer, notice.owner) == (None, "nobody is named: nothing changed in the record")
    assert nights.watch.told([notice.notice])[notice.notice] == []


def test_where_nobody_can_be_asked_the_next_session_confirms(nights: Nights) -> None:
    nights.can_ask = False
    notice = nights.until_told(USUAL, 95.0)
    assert "the next session shows it too" in notice.sentence


def test_a_notice_closes_by_sessions_that_are_back(nights: Nights) -> None:
    notice = nights.until_told(USUAL, 97.0)
    night = USUAL + 6
    nights.usual(2, night)
    assert nights.watch.notice(notice.notice).closed_at is None, "two sessions are no evidence"
    nights.usual(6, night + 2)
    closed = nights.watch.notice(notice.notice)
    assert closed.closed_at is not None
    assert len(closed.closed_by or "") == 64, "by a result"
    with pytest.raises(BadInput, match="was closed at"):
        nights.watch.accept(notice.notice, "ada")


def test_an_accepted_level_is_the_level(nights: Nights) -> None:
    notice = nights.until_told(USUAL, 97.0)
    accepted = nights.watch.accept(notice.notice, "ada")
    assert accepted.closed_by == "accepted by ada"
    for night in range(USUAL + 6, USUAL + 26):
        assert nights.night(night, 97.0) is None
    assert nights.watch.notices(still=True) == []
    again = nights.until_told(USUAL + 26, 94.0)
    assert again.estimate == pytest.approx(94 / 97, abs=0.006), "held against the new level"


def test_an_acknowledged_loss_is_told_again_only_after_it_was_gone(nights: Nights) -> None:
    notice = nights.until_told(USUAL, 97.0)
    closed = nights.watch.acknowledge(notice.notice, "ada")
    assert closed.closed_by == "acknowledged by ada"
    with pytest.raises(BadInput, match="acknowledged by ada"):
        nights.watch.acknowledge(notice.notice, "bob")
    for night in range(USUAL + 6, USUAL + 10):
        assert nights.night(night, 97.0) is None
    nights.usual(10, USUAL + 10)
    assert nights.watch.notice(notice.notice).closed_by == "acknowledged by ada"
    assert nights.until_told(USUAL + 20, 97.0).notice != notice.notice


def test_a_doubtful_night_opens_nothing_and_closes_nothing(nights: Nights) -> None:
    for night in range(USUAL, USUAL + 5):
        assert nights.night(night, 90.0, doubtful=True) is None
    assert nights.asked == []
    notice = nights.until_told(USUAL + 5, 97.0)
    for night in range(USUAL + 12, USUAL + 22):
        assert nights.night(night, doubtful=True) is None
    assert nights.watch.notice(notice.notice).closed_at is None


def test_a_loss_that_no_trusted_team_signed_convicts_nobody(nights: Nights, tmp_path: Path) -> None:
    nights.signer = make_team("strangers", tmp_path)
    for night in range(USUAL, USUAL + 6):
        assert nights.night(night, 95.0) is None
    assert nights.asked == []
    nights.signer = nights.team
    nights.until_told(USUAL + 6, 95.0)


def test_a_night_that_does_not_verify_is_no_session(nights: Nights) -> None:
    for night in range(USUAL, USUAL + 6):
        slow = nights.measure(night, 95.0)
        nights.ledger.log.append(
            seal(ResultVerified(result_id=slow.result_id, holds=False, checks=()), nights.team.key)
        )
        assert nights.judge() is None
    assert nights.asked == []


def test_a_night_that_was_refuted_here_after_it_was_judged_confirms_nothing(nights: Nights) -> None:
    nights.can_ask = False
    outcomes = Recomputations(nights.store, nights.ledger.log)
    for night in range(USUAL, USUAL + 6):
        (slow, (seq,)) = nights.measure(night, 95.0), nights.watch.pending()
        assert nights.judge() is None, "every other slow session was refuted by then"
        due = DueResult(seq, slow.result_id, slow.contract_id, FIGURES)
        outcomes.keep(due, RecomputationState.REFUTED, ["stated 95, recomputed 100"])


def test_figures_count_where_the_evidence_gate_lets_them() -> None:
    emulated = make_precision(native=Native.EMULATED)
    assert counted_results(make_result(per_precision=(emulated,))), "it is so every night"
    drifting = make_precision()
    assert drifting.steady is not None
    unsteady = drifting.steady.model_copy(update={"verdict": SteadyVerdict.INCONCLUSIVE, "reason": "too short"})
    for part in (make_precision(steady=unsteady), make_precision(steady=None)):
        assert counted_results(make_result(per_precision=(part,))) == {}


def test_the_ledgers_past_is_read_where_the_place_is_new(empty: Nights) -> None:
    for night in range(USUAL):
        empty.measure(night)
    empty.watch = empty.start()
    for seq in empty.watch.pending():
        empty.watch.judge(seq, None, empty.team.keyring.trust)
    opened = None
    for night in range(USUAL, USUAL + 5):
        for part in (0.0, 0.05):
            empty.measure(night + part, 97.0)
            for seq in empty.watch.pending():
                opened = empty.watch.judge(seq, None, empty.team.keyring.trust) or opened
    assert opened is not None
    assert opened.place.startswith("machine ")


def test_a_place_of_which_nothing_counts_does_not_read_its_past_with_every_result(
    empty: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did: the hundredth doubtful result of a machine cost the server the reading of the ninety-nine before it."""
    read: list[str] = []
    monkeypatch.setattr(session_book, "sealed_document", lambda _, recorded: read.append(recorded.seq))
    for night in range(4):
        empty.measure(night, doubtful=True)
        empty.judge()
    assert empty.watch.pending() == []
    assert read == []


def test_a_slow_slide_adds_up(nights: Nights) -> None:
    level, told = 100.0, None
    for night in range(USUAL, USUAL + 60):
        level *= 0.9993
        told = told or nights.night(night, level)
    assert told is not None


def test_a_level_of_an_older_version_is_carried_over(empty: Nights) -> None:
    from sqlalchemy import insert, select

    kept = [empty.measure(night, 120.0 if night < 4 else 100.0) for night in range(12)]
    empty.store.migrate("0003")
    row = {"contract_id": kept[0].contract_id, "place": "machine x", "result_id": kept[4].result_id}
    with empty.store.writing() as connection:
        connection.execute(insert(baselines), [{**row, "judged_id": kept[-1].result_id, "at": "2026-03-13"}])
    empty.store.migrate()
    carried = empty.store.rows(select(levels))
    assert [(each.place, each.kind, each.result_id) for each in carried] == [
        ("machine x", "carried", kept[4].result_id)
    ]
    assert empty.store.rows(select(notices)) == []


def test_an_unknown_notice_is_named(empty: Nights) -> None:
    with pytest.raises(NotFound, match="no notice"):
        empty.watch.acknowledge("nothing", "ada")


@pytest.mark.parametrize("laid_out", [False, True])
def test_a_replay_lays_results_of_one_day_out_as_nights(tmp_path: Path, laid_out: bool) -> None:
    """As they began, a minute apart, they are one session of which nothing can be told."""
    nights, minute = Nights(tmp_path, can_ask=False), 1 / 1440

    def moment_of(result: Result) -> str:
        return (FIRST + timedelta(days=round(float(result.run_id.removeprefix("run-")) / minute))).isoformat()

    if laid_out:
        recomputations = Recomputations(nights.store, nights.ledger.log)
        nights.watch = Watch(nights.store, nights.ledger, recomputations, moment_of=moment_of)
    levels_of = [100.0] * 17 + [95.0] * 5 + [100.0] * 5
    opened = [nights.night(minute * number, level) for number, level in enumerate(levels_of)]
    told = [number for number, notice in enumerate(opened) if notice is not None]
    notices_ = nights.watch.notices()
    nights.close()
    assert told == ([20] if laid_out else []), "three slow nights and the one that confirms them"
    assert [notice.since for notice in notices_] == ([moment_of_night(17)] if laid_out else [])
    assert [notice.closed_at is not None for notice in notices_] == ([True] if laid_out else [])


def moment_of_night(night: int) -> str:
    return (FIRST + timedelta(days=night)).isoformat()
