"""Samples under two run ids: a copy is told whatever its clock and numbers say, chance and one's own run are not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from command_line import lynxbench_here
from forged_runs import bundle_of, change_document, conclude_again, forged_run, seal_again, stretch
from hosted import seal
from lynxbench.evidence.documents import read_result
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.bundle import export_bundle, import_bundle
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.result_standings import standings
from lynxbench.ledger.sample_durations import shared_processes
from lynxbench.model.entries import RerunVerdict, ResultRerun
from lynxbench.model.standing import Standing
from lynxbench.model.verification import Check, CheckOutcome
from lynxbench.record.bundled_results import _standing, read_stranger_bundle, verify_bundled
from lynxbench.record.recording import record_folder
from lynxbench.record.sample_copies import OWN_SAMPLES, check_own_samples, copied_lines
from lynxbench.server.recompute_worker import recompute
from lynxbench.watch.recomputations import RecomputationState
from recording_teams import Team, make_team

Columns = dict[int, bytes]


def columns(*processes: list[int] | np.ndarray) -> Columns:  # type: ignore[type-arg]
    return {number: np.asarray(each, dtype="<i8").tobytes() for number, each in enumerate(processes)}


def took(seed: int, rows: int = 200, step_ns: int = 1) -> np.ndarray:  # type: ignore[type-arg]
    """Durations of about ten milliseconds on a clock of such steps."""
    return np.random.default_rng(seed).normal(1e7, 1e5, rows).astype(np.int64) // step_ns * step_ns


# --- what chance does ------------------------------------------------------------------------------------------------


def test_one_process_of_another_run_is_found_wherever_it_stands() -> None:
    assert shared_processes(columns(took(1), took(2)), columns(took(3), took(2), took(4))) == 1
    assert shared_processes(columns(took(1), took(2)), columns(took(2), took(1))) == 2
    assert shared_processes(columns(took(1), took(2)), columns(took(3), took(4))) == 0


@pytest.mark.parametrize(("step_ns", "told"), [(1, 1), (42, 1), (100, 1), (1_000, 0), (1_000_000, 0)])
def test_a_coarse_clock_repeats_itself(step_ns: int, told: int) -> None:
    """A paced workload lasts as long again to the millisecond, never to a hundred nanoseconds."""
    assert shared_processes(columns(took(1, step_ns=step_ns)), columns(took(1, step_ns=step_ns))) == told


def test_few_durations_or_none_prove_nothing() -> None:
    beating = np.resize([41, 42, 42], 10_000)
    assert shared_processes(columns(beating), columns(beating)) == 0
    assert shared_processes(columns(took(1, 15)), columns(took(1, 15))) == 0
    assert shared_processes(columns(took(1, 16)), columns(took(1, 16))) == 1
    assert shared_processes(columns([]), columns([])) == 0
    assert shared_processes({}, columns(took(1))) == 0


# --- what a ledger holds ---------------------------------------------------------------------------------------------


@pytest.fixture
def one(tmp_path: Path) -> Team:
    return make_team("one", tmp_path / "one")


@pytest.fixture
def other(tmp_path: Path) -> Team:
    return make_team("other", tmp_path / "other")


def line(ledger: OpenLedger, result_id: str, team: Team) -> Check:
    (check,) = check_own_samples(ledger, result_id, team.keyring.trust)
    return check


def shifted(folder: Path) -> None:
    """The clock of the samples showed more."""
    stretch(folder, shift_ns=1_234_567)


def renumbered(folder: Path) -> None:
    """The first process's samples stand in the place of the second's, and the other way round."""
    first, second = (folder / "attempts" / name / "iterations.bin" for name in ("000-01", "001-01"))
    samples = first.read_bytes(), second.read_bytes()
    first.write_bytes(samples[1])
    second.write_bytes(samples[0])
    conclude_again(folder)


def one_taken(folder: Path) -> None:
    """One good process of another run, beside one of its own."""
    stretch(folder, by_ns=500, attempts="001-01")


def untouched(folder: Path) -> None:
    """As it was."""


FORGERIES = [(untouched, 2), (shifted, 2), (renumbered, 2), (one_taken, 1)]


@pytest.mark.parametrize(("change", "processes"), FORGERIES)
def test_a_team_that_shows_one_measurement_as_two_is_refused(
    one: Team, spin_run: Path, tmp_path: Path, change: Callable[[Path], None], processes: int
) -> None:
    honest = forged_run(spin_run, tmp_path, 1, copied=True)
    copy = forged_run(spin_run, tmp_path, 2, copied=True)
    change(copy)
    with one.open() as ledger:
        first, second = (record_folder(ledger, folder, one.key).result_id for folder in (honest, copy))
        told = line(ledger, second, one)
        assert told.outcome is CheckOutcome.DOES_NOT_HOLD, told
        assert told.why.startswith(f"{processes} of its 2 processes have the samples of run "), told
        assert "of the same team (entry" in told.why
        assert line(ledger, first, one).outcome is CheckOutcome.HOLDS, "what came first is not blamed"
        assert copied_lines(ledger, [first], one.keyring.trust) == []
        assert len(copied_lines(ledger, [second], one.keyring.trust)) == 1


def test_runs_that_were_measured_have_their_own(one: Team, spin_run: Path, tmp_path: Path) -> None:
    """A nanosecond in one sample of each process is another measurement; nobody could tell it from an honest one."""
    with one.open() as ledger:
        folders = [forged_run(spin_run, tmp_path, number) for number in (1, 2, 3)]
        names = [record_folder(ledger, folder, one.key).result_id for folder in folders]
        assert {line(ledger, name, one).outcome for name in names} == {CheckOutcome.HOLDS}
        assert copied_lines(ledger, names, one.keyring.trust) == []


def brought(ledger: OpenLedger, team: Team, folder: Path, reader: Team, where: Path) -> str:
    """A run as its team bundles it, taken in by a reader who knows that team."""
    trusts(reader, team)
    result_id, data = bundle_of(team, folder)
    where.write_bytes(data)
    import_bundle(ledger, where, reader.keyring.trust)
    return result_id


def trusts(reader: Team, team: Team) -> None:
    card = team.key.card
    if reader.keyring.trust.find(card.keyid) is None:
        reader.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))


def test_the_same_result_twice_and_from_two_bundles_is_one(
    one: Team, other: Team, spin_run: Path, tmp_path: Path
) -> None:
    folder = forged_run(spin_run, tmp_path, 1, copied=True)
    with other.open() as ledger:
        first = brought(ledger, one, folder, other, tmp_path / "a.lynx")
        assert brought(ledger, one, folder, other, tmp_path / "b.lynx") == first
        assert line(ledger, first, other).outcome is CheckOutcome.HOLDS


def test_of_two_teams_nobody_is_blamed_where_nothing_shows_whose_they_are(
    one: Team, other: Team, spin_run: Path, tmp_path: Path
) -> None:
    """Whoever copies may be taken in before the one who measured: the order in which a reader imports is no proof."""
    reader = make_team("reader", tmp_path / "reader")
    with reader.open() as ledger:
        copy = brought(ledger, other, forged_run(spin_run, tmp_path, 2, copied=True), reader, tmp_path / "b.lynx")
        honest = brought(ledger, one, forged_run(spin_run, tmp_path, 1, copied=True), reader, tmp_path / "a.lynx")
        for name, beside in ((honest, "other"), (copy, "one")):
            told = line(ledger, name, reader)
            assert told.outcome is CheckOutcome.CANNOT, told
            assert f" by {beside} (entry " in told.why
            assert "one of the two was copied, and nothing here shows which" in told.why
        assert len(copied_lines(ledger, [copy, honest], reader.keyring.trust)) == 2, "both are told"


def test_a_run_that_began_when_its_samples_were_here_already_is_convicted_by_its_own_word(
    one: Team, other: Team, spin_run: Path, tmp_path: Path
) -> None:
    reader = make_team("reader", tmp_path / "reader")
    copied = forged_run(spin_run, tmp_path, 2, copied=True)
    with reader.open() as ledger:
        honest = brought(ledger, one, forged_run(spin_run, tmp_path, 1, copied=True), reader, tmp_path / "a.lynx")
        began = datetime.now(UTC) + timedelta(minutes=5)
        change_document(copied / "registration.json", lambda said: said.update(registered_at=began.isoformat()))
        later = {"started_at": began.isoformat(), "finished_at": (began + timedelta(minutes=1)).isoformat()}
        seal_again(copied, read_result(copied).model_copy(update=later))
        copy = brought(ledger, other, copied, reader, tmp_path / "b.lynx")
        told = line(ledger, copy, reader)
        assert told.outcome is CheckOutcome.DOES_NOT_HOLD, told
        assert "before this run began by its own word" in told.why
        assert line(ledger, honest, reader).outcome is CheckOutcome.HOLDS
        # without a trust list, as a server asks: the keys differ, and the runs' own words are the same
        (again,) = check_own_samples(ledger, copy, None)
        assert again.outcome is CheckOutcome.DOES_NOT_HOLD


def test_samples_that_cannot_be_read_blame_nobody_else(one: Team, spin_run: Path, tmp_path: Path) -> None:
    broken = forged_run(spin_run, tmp_path, 1, copied=True)
    (broken / "samples.npz").write_bytes(b"no samples")
    seal_again(broken, read_result(broken))
    copy = forged_run(spin_run, tmp_path, 2, copied=True)
    with one.open() as ledger:
        names = [record_folder(ledger, folder, one.key).result_id for folder in (broken, copy)]
        assert {line(ledger, name, one).outcome for name in names} == {CheckOutcome.HOLDS}


def test_verify_import_and_a_server_say_it(one: Team, spin_run: Path, tmp_path: Path) -> None:
    first, second = (forged_run(spin_run, tmp_path, number, copied=True) for number in (1, 2))
    for number, folder in enumerate((first, second)):
        done = lynxbench_here("results", "import", str(folder), "--own", cwd=tmp_path, **one.environment)
        assert done.code == 0, done.err
        assert ("one measurement, shown as two" in done.err) == bool(number), done.err
    honest, copy = (read_result(folder).result_id for folder in (first, second))
    done = lynxbench_here("verify", copy, cwd=tmp_path, **one.environment)
    assert done.code == 5
    assert f"✗ {OWN_SAMPLES}: does not hold: 2 of its 2 processes have the samples of run" in done.out
    done = lynxbench_here("verify", honest, "--all", cwd=tmp_path, **one.environment)
    assert done.code == 0, done.out
    assert f"✓ {OWN_SAMPLES}: holds: run " in done.out
    with one.open() as ledger:
        state, lines = recompute(ledger, copy, tmp_path / "again", whole=True)
        assert state is RecomputationState.REFUTED
        assert [each for each in lines if each.startswith(f"{OWN_SAMPLES}: does not hold")] == lines
        assert recompute(ledger, honest, tmp_path / "again", whole=True)[0] is RecomputationState.HOLDS


def test_a_bundle_that_holds_both_says_it_and_one_that_holds_its_own_does_not(
    one: Team, spin_run: Path, tmp_path: Path
) -> None:
    runs = {1: True, 2: True, 3: False}
    with one.open() as ledger:
        folders = [forged_run(spin_run, tmp_path, number, copied=copied) for number, copied in runs.items()]
        first, copy, own = (record_folder(ledger, folder, one.key).result_id for folder in folders)
        trust = one.keyring.trust
        bundle = tmp_path / "all.lynx"
        export_bundle(ledger, [copy, own, first], bundle, one.key, trust, datetime.now(UTC))
    read = read_stranger_bundle(bundle, TrustList())
    reports = {report.result_id: report for report in verify_bundled(read, [copy, own, first])}
    said = {name: [check for check in report.checks if check.name == OWN_SAMPLES] for name, report in reports.items()}
    assert said[own] == []
    assert [check.outcome for check in said[first]] == [CheckOutcome.HOLDS]
    assert [check.outcome for check in said[copy]] == [CheckOutcome.DOES_NOT_HOLD]
    verdicts = [reports[name].verdict.value for name in (first, own, copy)]
    assert verdicts == ["holds", "holds", "does not hold"]


# --- what is called reproduced ---------------------------------------------------------------------------------------


def reproduced(ledger: OpenLedger, reader: Team, by: Team, original: str, rerun: str) -> Standing:
    """How a result stands after a team wrote down that its rerun reproduced it."""
    body = ResultRerun(result_id=original, rerun_id=rerun, verdict=RerunVerdict.REPRODUCED, effects={})
    ledger.log.append(seal(body, by.key))
    return standings(ledger.log, [original], reader.keyring.trust)[original]


@pytest.mark.parametrize("change", [change for change, _ in FORGERIES])
def test_a_copy_reproduces_nothing(
    one: Team, other: Team, spin_run: Path, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    """Found: a hand-written `reproduced` that cites a copy of the same samples made a result `reproduced`."""
    copy = forged_run(spin_run, tmp_path, 2, copied=True)
    change(copy)
    reader = make_team("reader", tmp_path / "reader")
    with reader.open() as ledger:
        honest = brought(ledger, one, forged_run(spin_run, tmp_path, 1, copied=True), reader, tmp_path / "a.lynx")
        copied = brought(ledger, other, copy, reader, tmp_path / "b.lynx")
        standing = reproduced(ledger, reader, other, honest, copied)
        assert (standing.short, standing.reruns) == ("recorded", ())
        told = "not reproduced by other: the rerun has its samples: one measurement, shown as two"
        assert told in standing.words
        back = reproduced(ledger, reader, one, copied, honest)
        assert back.reruns == (), "nor the other way round"
        assert Standing.model_validate_json(standing.model_dump_json()) == standing
        bundle = tmp_path / "both.lynx"
        export_bundle(ledger, [honest, copied], bundle, reader.key, reader.keyring.trust, datetime.now(UTC))
    read = read_stranger_bundle(bundle, reader.keyring.trust)
    assert _standing(read.bundle, reader.keyring.trust, honest).copied == standing.copied, "and out of a bundle"


def test_a_rerun_that_was_measured_counts(one: Team, other: Team, spin_run: Path, tmp_path: Path) -> None:
    reader = make_team("reader", tmp_path / "reader")
    with reader.open() as ledger:
        first = brought(ledger, one, forged_run(spin_run, tmp_path, 1), reader, tmp_path / "a.lynx")
        second = brought(ledger, other, forged_run(spin_run, tmp_path, 2), reader, tmp_path / "b.lynx")
        standing = reproduced(ledger, reader, other, first, second)
        assert (standing.short, standing.copied) == ("reproduced", ())
        assert "copied" not in standing.model_dump()


def test_a_rerun_that_shows_its_means_and_no_samples_does_not_count(
    one: Team, other: Team, spin_run: Path, tmp_path: Path
) -> None:
    broken = forged_run(spin_run, tmp_path, 2, copied=True)
    (broken / "samples.npz").write_bytes(b"no samples")
    seal_again(broken, read_result(broken))
    reader = make_team("reader", tmp_path / "reader")
    with reader.open() as ledger:
        trusts(reader, one)
        trusts(reader, other)
        honest = record_folder(ledger, forged_run(spin_run, tmp_path, 1, copied=True), one.key).result_id
        copied = record_folder(ledger, broken, other.key).result_id
        standing = reproduced(ledger, reader, other, honest, copied)
        assert standing.short == "recorded"
        assert "states its run means, and no samples here tell the two apart" in standing.words[-1]
