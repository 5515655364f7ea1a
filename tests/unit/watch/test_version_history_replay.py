"""The replay of a published history, on planted ones: what is told, of which layer, since when, and that it ends."""

from __future__ import annotations

import sys
import tarfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compared import make_contract, make_executor, make_result
from lynxbench.ledger.bundle import export_bundle
from lynxbench.model.result import Validity, ValidityVerdict
from recording_teams import make_team, record

FOLDER = str(Path(__file__).parents[3] / "benchmarks")
sys.path.insert(0, FOLDER)
try:
    version_history, version_history_replay = (
        import_module(name) for name in ("version_history", "version_history_replay")
    )
finally:
    sys.path.remove(FOLDER)

BEGAN = datetime(2026, 11, 17, 3, 40, tzinfo=UTC)
OWNER = "infrastructure SRE"
USUAL, SLOW = 100.0, 40.0
UPGRADES = ({"framework.numpy": "2.4.6"}, {"framework.torch": "2.13.0"})
SETTING = {"system.process_environment": {"OMP_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Prescott"}}
Planted = tuple[float, dict[str, object], bool]
"""A level, what of the executor has changed, and whether the result is doubtful."""


def planted(slow: float, *, doubtful: bool = False) -> list[Planted]:
    upgraded: dict[str, object] = {}
    sessions: list[Planted] = [(USUAL, {}, False)] * 15
    for upgrade in UPGRADES:
        upgraded = {**upgraded, **upgrade}
        sessions.append((USUAL, upgraded, False))
    sessions += [(slow, {**upgraded, **SETTING}, doubtful)] * 5
    return sessions + [(USUAL, upgraded, False)] * 4


def publish(folder: Path, sessions: Sequence[Planted]) -> Path:
    """As `version_history.py publish` leaves it, sessions minutes apart."""
    team, to, rng = make_team("ml-platform", folder), folder / "published", np.random.default_rng(7)
    (to / "keys").mkdir(parents=True)
    key, trust = team.key, team.keyring.trust
    (to / "keys" / "card.json").write_text(key.card.model_dump_json())
    with team.open() as ledger, tarfile.open(to / "nights.tar.xz", "w:xz", preset=0) as packed:
        for number, (level, changes, doubtful) in enumerate(sessions, start=1):
            verdict = ValidityVerdict.DOUBTFUL if doubtful else ValidityVerdict.VALID
            result = make_result(
                contract=make_contract(owners={"system": OWNER}, policy={"regression": "10 %"}),
                executor=make_executor(changes),
                run_means=tuple(level * np.exp(0.02 * rng.normal() + 0.01 * rng.normal(size=2))),
                started_at=(BEGAN + timedelta(minutes=number)).isoformat(timespec="seconds"),
                validity=Validity(verdict=verdict, reasons=("other programs",) if doubtful else ()),
            )
            kept = record(ledger, result.model_copy(update={"run_id": f"run-{number}"}).sealed(), key)
            bundle = folder / f"{number:02d}.bundle"
            export_bundle(ledger, [kept.result_id], bundle, key, trust, datetime.now(UTC))
            packed.add(bundle, f"nights/{bundle.name}")
    return to


def test_a_setting_that_made_it_slower_is_told_of_its_layer_and_closed(tmp_path: Path) -> None:
    published = publish(tmp_path, planted(SLOW))
    told: Any = version_history_replay.replay(published, tmp_path / "replay")
    (notice,) = told.notices
    assert (notice.layer, notice.owner) == ("system", OWNER)
    assert notice.estimate == pytest.approx(SLOW / USUAL, rel=0.1)
    assert notice.since == version_history_replay.night_text(18), "the first slow one"
    assert [night.number for night in told.nights if night.opened] == [21], "three, and the one that confirms them"
    (closed,) = (night.number for night in told.nights if night.closed)
    assert closed >= 24, "not by one session that is back; two outweigh a slow one before them"
    assert told.night_of(notice.closed_by) == closed
    assert all(night.counted for night in told.nights)
    assert version_history_replay.exit_code(told) == 0
    shown = version_history_replay.text_of(told)
    assert f"told at night 21; closed by night {closed}" in shown
    assert "layer system, for infrastructure SRE: since 2026-01-18 03:00 UTC" in shown


def test_a_slow_session_before_the_change_does_not_take_the_blame_for_it(tmp_path: Path) -> None:
    """An upgrade meets a slow night, and the setting comes the night after: the upgrade alone is not the cause."""
    sessions = planted(SLOW)
    (upgraded,) = {number for number, (level, _, _) in enumerate(sessions) if level == SLOW and number < 18}
    level, changes, doubtful = sessions[upgraded - 1]
    sessions[upgraded - 1] = (0.58 * level, changes, doubtful)
    told: Any = version_history_replay.replay(publish(tmp_path, sessions), tmp_path / "replay")
    (notice,) = told.notices
    assert notice.since == version_history_replay.night_text(upgraded), "the first that was slow"
    assert "cannot be separated" in notice.sentence
    assert "OPENBLAS_CORETYPE" in notice.sentence
    assert "torch" in notice.sentence
    assert "the likely cause" not in notice.sentence


def test_what_cannot_be_believed_is_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["replay", str(publish(tmp_path, planted(SLOW, doubtful=True)))])
    assert version_history_replay.main() == 1
    shown = capsys.readouterr().out
    assert "notice:" not in shown
    assert shown.count("carries no verdict") == 5


def test_the_planned_sessions_are_enough_for_the_watch_and_change_one_thing_at_a_time() -> None:
    nights = list(version_history.planned_nights())
    assert [night.number for night in nights] == list(range(1, len(nights) + 1))
    assert len(nights) >= 20
    stretches = [night for night in nights if night.first]
    usual = stretches[1].number - 1
    assert usual >= 14, "a window"
    locks = {path.stem: _lock(path) for path in version_history.LOCKS.glob("*.txt")}
    assert {night.environment for night in nights} == set(locks)
    changed = 0
    for before, after in pairwise(stretches):
        moved = {
            name
            for name in locks[after.environment]
            if locks[before.environment][name] != locks[after.environment][name]
        }
        assert moved <= {"tokenizers", "transformers"} or len(moved) <= 1
        assert bool(moved) != (before.variables != after.variables), "packages or variables, never both"
        changed += 1
    assert changed >= 6
    slow = [night for night in nights if "OPENBLAS_CORETYPE" in night.variables]
    assert len(slow) >= 4, "three, and the one that confirms them"


def _lock(path: Path) -> dict[str, str]:
    return dict(line.split("==") for line in path.read_text(encoding="utf-8").split())


def test_a_disturbed_sitting_is_set_aside_and_measured_again_three_times_at_the_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = [version_history.Night(number, "1-start", "as it was", first=False) for number in (1, 2, 3)]
    ends = {1: ["valid"], 2: ["doubtful", "valid"], 3: ["doubtful"] * 3}
    taken: list[tuple[int, str]] = []

    def sit(at: Path, night: Any, folder: Path) -> str:
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "result.json").touch()
        taken.append((night.number, ends[night.number].pop(0)))
        return taken[-1][1]

    monkeypatch.setattr(version_history, "planned_nights", lambda: iter(nights))
    monkeypatch.setattr(version_history, "sit", sit)
    monkeypatch.setattr(version_history, "lynxbench", lambda *_, **__: "")
    monkeypatch.setattr(version_history, "wait_until_calm", lambda *_: 0.0)
    for _ in range(2):  # what is finished is not measured again
        version_history.measure(tmp_path, float("inf"))
    assert taken == [(1, "valid"), (2, "doubtful"), (2, "valid"), (3, "doubtful"), (3, "doubtful"), (3, "doubtful")]
    assert sorted(place.name for place in (tmp_path / "aside").iterdir()) == ["02-1", "03-1", "03-2"]
    assert sorted(place.name for place in (tmp_path / "nights").iterdir()) == ["01", "02", "03"]
