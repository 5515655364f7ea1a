"""Nothing recomputed is nothing verified: results stripped of what would refute them, in one spelling after another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import lynxbench_here
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.manifest import write_manifest
from lynxbench.evidence.sample_file import write_samples
from lynxbench.evidence.trust import Thresholds
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import EntryKind, ResultVerified
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.model.verification import EvidenceVerdict
from lynxbench.record.recalling import ledger_checks
from lynxbench.record.recording import blob_of, seal
from lynxbench.record.verifying import verify_folder
from teams import Team, copied_run, make_team, recorded_run, trusts

CANNOT, WRONG = EvidenceVerdict.CANNOT, EvidenceVerdict.DOES_NOT_HOLD


def tenfold(result: Result) -> Result:
    """Every headline figure ten times as large; sealed again."""
    parts = []
    for part in result.per_precision:
        means = tuple(10 * mean for mean in part.run_means)
        figures = {
            name: figure.model_copy(
                update={
                    end: None if (value := getattr(figure, end)) is None else 10 * value
                    for end in ("low", "estimate", "high")
                }
            )
            for name in ("throughput", "peak", "sustained")
            if (figure := getattr(part, name)) is not None
        }
        parts.append(part.model_copy(update={"run_means": means, **figures}))
    return result.model_copy(update={"per_precision": tuple(parts)})


def forge(folder: Path, change: Callable[[Result], Result] = tenfold) -> None:
    """Change the result, and put everything in order that a forger can: its id and the manifest."""
    write_result(folder / "result.json", change(read_result(folder)).sealed())
    write_manifest(folder)


def keep(folder: Path, *names: str) -> None:
    """Throw away everything else."""
    for path in folder.iterdir():
        if path.name not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _alone(folder: Path) -> None:
    keep(folder, "result.json")
    forge(folder)
    (folder / "manifest.json").unlink()


def _alone_with_a_manifest(folder: Path) -> None:
    keep(folder, "result.json")
    forge(folder)


def _registered_alone(folder: Path) -> None:
    keep(folder, "result.json", "registration.json", "telemetry.csv")
    forge(folder)


def _no_samples_named(folder: Path) -> None:
    """The result names a samples file that nobody has."""
    keep(folder, "result.json", "registration.json", "telemetry.csv")
    forge(folder, lambda result: tenfold(result).model_copy(
        update={"samples": result.samples.model_copy(update={"sha256": "0" * 64, "rows": 0, "marks": 0})}
    ))  # fmt: skip


def _empty_samples(folder: Path) -> None:
    keep(folder, "result.json", "registration.json", "telemetry.csv")
    named = write_samples(folder / "samples.npz", ())
    forge(folder, lambda result: tenfold(result).model_copy(update={"samples": named}))


def _samples_without_attempts(folder: Path) -> None:
    """Honest figures, and yet: nobody can see what else was measured and left out."""
    shutil.rmtree(folder / "attempts")
    write_manifest(folder)


def _attempts_without_registration(folder: Path) -> None:
    (folder / "registration.json").unlink()
    write_manifest(folder)


def _attempts_without_samples(folder: Path) -> None:
    (folder / "samples.npz").unlink()
    write_manifest(folder)


def _attempts_emptied(folder: Path) -> None:
    shutil.rmtree(folder / "attempts")
    (folder / "attempts").mkdir()
    forge(folder)


def _plan_emptied(folder: Path) -> None:
    _attempts_emptied(folder)
    file = folder / "registration.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "plan": []}))
    write_manifest(folder)


def _doubt_removed_with_the_telemetry(folder: Path) -> None:
    """What made it doubtful is in the telemetry; without it nobody could say otherwise."""
    (folder / "telemetry.csv").unlink()
    fine = Validity(verdict=ValidityVerdict.VALID, reasons=("everything is fine",))

    def excuse(result: Result) -> Result:
        parts = tuple(part.model_copy(update={"validity": fine}) for part in result.per_precision)
        return result.model_copy(update={"per_precision": parts, "validity": fine})

    forge(folder, excuse)


ATTACKS: dict[str, tuple[Callable[[Path], None], EvidenceVerdict]] = {
    "result.json alone, ×10": (_alone, CANNOT),
    "… with a manifest of itself": (_alone_with_a_manifest, CANNOT),
    "… with its registration": (_registered_alone, CANNOT),
    "… and samples that nobody has": (_no_samples_named, CANNOT),
    "… and samples without a sample": (_empty_samples, WRONG),
    "samples without attempts": (_samples_without_attempts, CANNOT),
    "attempts without registration": (_attempts_without_registration, CANNOT),
    "attempts without samples": (_attempts_without_samples, CANNOT),
    "a folder for attempts without one": (_attempts_emptied, WRONG),
    "a plan of no process": (_plan_emptied, WRONG),
    "telemetry gone, and with it the doubt": (_doubt_removed_with_the_telemetry, CANNOT),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_stripped_result_never_holds(attack: str, spin_run: Path, tmp_path: Path) -> None:
    folder = copied_run(spin_run, tmp_path / "copy")
    strip, expected = ATTACKS[attack]
    strip(folder)
    report = verify_folder(folder)
    assert report.verdict is expected, [check.line for check in report.checks]
    done = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=tmp_path)
    assert done.code == (7 if expected is CANNOT else 5)
    words = "CANNOT BE VERIFIED" if expected is CANNOT else "DOES NOT HOLD"
    assert words in done.out.splitlines()[0]
    assert " holds: " not in done.out.splitlines()[0]
    document = json.loads(lynxbench_here("verify", str(folder), "--json", "--ledger", "none", cwd=tmp_path).out)
    assert (document["holds"], document["verdict"]) == (False, expected.value)


def test_the_line_says_what_is_missing(spin_run: Path, tmp_path: Path) -> None:
    folder = copied_run(spin_run, tmp_path / "copy")
    (folder / "telemetry.csv").unlink()
    (folder / "samples.npz").unlink()
    write_manifest(folder)
    done = lynxbench_here("verify", str(folder), "--ledger", "none", cwd=tmp_path)
    first = done.out.splitlines()[1]
    assert "figures: cannot be recomputed: samples.npz and telemetry.csv is not here" in first


# --- in a ledger -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """Two teams in one ledger; the first recorded a run in full, and a result document without anything behind it."""

    alpha: Team
    bravo: Team
    full: str
    bare: str

    def ask(self, team: Team, *arguments: str) -> tuple[int, str, str]:
        done = team.run(*arguments, "--ledger", str(self.alpha.home / "ledger"))
        return done.code, done.out, done.err


@pytest.fixture
def bench(spin_run: Path, tmp_path: Path) -> Bench:
    alpha = recorded_run("alpha", tmp_path / "alpha", spin_run, tmp_path / "copied")
    bravo = make_team("bravo", tmp_path / "bravo")
    trusts(alpha, bravo)
    trusts(bravo, alpha)
    honest = read_result(spin_run)
    lie = tenfold(honest).model_copy(update={"run_id": "spin-20261116T000000-abcdef"}).sealed()
    write_result(tmp_path / "lie.json", lie)
    data = (tmp_path / "lie.json").read_bytes()
    with alpha.open() as ledger:
        ledger.blobs.put(data)
        body = summary_of(lie, nonce="abcdef" + "0" * 26, attempts=2)
        ledger.log.append(seal(body, alpha.keyring.keys.open("alpha"), (blob_of("result.json", data),)))
    return Bench(alpha, bravo, honest.result_id, lie.result_id)


def _verifications(bench: Bench, result_id: str) -> list[ResultVerified]:
    from lynxbench.ledger.queries import entries_about

    with bench.alpha.open() as ledger:
        logged = entries_about(ledger.log, [result_id], [EntryKind.VERIFICATION])
    return [entry.entry.body for entry in logged if isinstance(entry.entry.body, ResultVerified)]


def test_a_bare_document_in_a_ledger_cannot_be_verified_and_nothing_is_recorded(bench: Bench) -> None:
    code, out, err = bench.ask(bench.bravo, "verify", bench.bare, "--record")
    assert code == 7, out + err
    assert "CANNOT BE VERIFIED" in out
    assert "not recorded: its figures were not computed again" in err
    assert _verifications(bench, bench.bare) == []
    code, out, err = bench.ask(bench.bravo, "verify", bench.full, "--record")
    assert code == 0, out + err
    assert [entry.verifies for entry in _verifications(bench, bench.full)] == [True]
    _, listed, _ = bench.ask(bench.bravo, "results", "list", "--json")
    standing = {one["result_id"]: one["standing"]["summary"] for one in json.loads(listed)["results"]}
    assert (standing[bench.full], standing[bench.bare]) == ("verified", "recorded")


def test_a_verification_of_an_earlier_version_that_recomputed_nothing_counts_for_nothing(bench: Bench) -> None:
    old = ResultVerified(
        result_id=bench.bare,
        holds=True,
        checks=("folder: holds: 1 plain files", "result id: holds", "samples file: cannot be recomputed: not here"),
    )
    with bench.alpha.open() as ledger:
        ledger.log.append(seal(old, bench.bravo.keyring.keys.open("bravo")))
        needy = bench.alpha.keyring.trust.needing(Thresholds(witness=1))
        (signed,) = (check for check in ledger_checks(ledger, bench.bare, needy) if check.name == "signatures")
    assert "0 of 1 witness teams" in signed.why, "nobody witnessed anything"
    code, out, _ = bench.ask(bench.alpha, "results", "show", bench.bare)
    assert code == 0
    assert "not verified: bravo found nothing wrong and recomputed no figure" in " ".join(out.split())
    assert "verified by bravo" not in out
    _, listed, _ = bench.ask(bench.alpha, "results", "list")
    assert not any("verified" in line for line in listed.splitlines() if line.startswith(bench.bare[:8]))


def test_a_copy_with_other_files_cannot_speak_for_or_against_the_ledgers_result(
    bench: Bench, spin_run: Path, tmp_path: Path
) -> None:
    """Raw files changed to refute an honest result: its own document, another's samples."""
    copy = copied_run(spin_run, tmp_path / "doctored")
    telemetry = copy / "telemetry.csv"
    telemetry.write_text("".join(telemetry.read_text().splitlines(keepends=True)[:2]))
    write_manifest(copy)
    code, out, err = bench.ask(bench.bravo, "verify", str(copy), "--record")
    assert code == 3, out + err
    assert f"verify {bench.full[:8]}" in err
    (copy / "manifest.json").unlink()
    code, out, err = bench.ask(bench.bravo, "verify", str(copy / "result.json"), "--record")
    assert code == 3, out + err
    assert _verifications(bench, bench.full) == []


def test_a_damaged_copy_is_not_recorded_as_a_refutation(bench: Bench, spin_run: Path, tmp_path: Path) -> None:
    copy = copied_run(spin_run, tmp_path / "damaged")
    with (copy / "samples.npz").open("ab") as file:
        file.write(b"x")
    code, out, err = bench.ask(bench.bravo, "verify", str(copy), "--record")
    assert code == 5, out + err
    assert "not recorded" in err
    assert _verifications(bench, bench.full) == []
