"""Flipped bits in every kind of file: runs, bundles, ledgers, and files that people write."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from attack_scene import Scene, Tally
from command_line import QUICK_CONTRACT
from teams import copied_run


def flip_files(scene: Scene, kind: str, files: Mapping[str, Path], flips: int, noticed: Callable[[], bool]) -> Tally:
    """Single bits, by turns in each file; every one must be noticed."""
    tally = Tally(kind)
    names = sorted(name for name, path in files.items() if path.stat().st_size)
    for number in range(flips):
        name = names[number % len(names)]
        with _flipped(scene, files[name]) as bit:
            tally.count(f"{name} bit {bit}", lambda: not noticed())
    return tally


@contextlib.contextmanager
def _flipped(scene: Scene, path: Path) -> Iterator[int]:
    """A file with one bit changed, and afterwards as it was."""
    data = path.read_bytes()
    bit = scene.chance.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    try:
        yield bit
    finally:
        path.write_bytes(data)


def flip_folder(scene: Scene, flips: int) -> Tally:
    """Every file of a run: documents, samples, journals, telemetry, manifest, signed entry."""
    folder = copied_run(scene.folder, scene.where / "flipped")
    shutil.copy(scene.folder / "entry.dsse.json", folder)
    drawn = {"report.html", "report.md"}
    files = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_file() and path.name not in drawn
    }

    def noticed() -> bool:
        done = scene.call("verify", str(folder), "--ledger", "none")
        return done.code != 0

    if noticed():
        raise AssertionError("the run does not hold as it is; nothing could be said of flips")
    return flip_files(scene, "flips: files of a run", files, flips, noticed)


def flip_bundle(scene: Scene, flips: int) -> Tally:
    """A bundle, anywhere."""
    bent = scene.where / "bent.lynx"
    shutil.copy(scene.bundle, bent)
    return flip_files(scene, "flips: bundle", {"bundle": bent}, flips, lambda: not scene.taken_in(bent))


def flip_ledger(scene: Scene, flips: int) -> Tally:
    """The database of a ledger: verified, listed and shown; what is read must be what was recorded."""
    tally = Tally("flips: ledger")
    file = scene.team.home / "ledger" / "ledger.sqlite"
    truth = _rows(file)
    words = (("results", "log", "--verify"), ("results", "list"), ("results", "show", scene.result_id[:12]))

    def through() -> bool:
        ends = [scene.call(*asked, who=scene.team) for asked in words]
        if any(done.err.count("\n") > 1 for done in ends):
            raise AssertionError(f"more than one line: {[done.err[:100] for done in ends]}")
        return ends[0].code == 0

    for number in range(flips):
        _alone(file)
        with _flipped(scene, file) as bit:
            harmless = _rows(file) == truth
            if harmless:
                tally.without_effect += 1
            tally.count(f"ledger.sqlite bit {bit} ({number})", lambda: through() and not harmless)  # noqa: B023
            _alone(file)
    return tally


def _alone(file: Path) -> None:
    for suffix in ("-wal", "-shm", "-journal"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def _rows(file: Path) -> list[str] | None:
    """All that a database says, read from a copy; None where it cannot be read."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "copy.sqlite"
        shutil.copy(file, copy)
        try:
            with contextlib.closing(sqlite3.connect(copy)) as database:
                database.text_factory = bytes
                tables = [row[0].decode() for row in database.execute("SELECT name FROM sqlite_master WHERE sql > ''")]
                rows = [repr(row) for row in database.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 2")]
                for table in sorted(name for name in tables if name.startswith("ledger_") and "_no_" not in name):
                    with contextlib.suppress(sqlite3.OperationalError):  # an index has no rows of its own
                        rows += [repr(row) for row in database.execute(f'SELECT * FROM "{table}" ORDER BY 1, 2')]
        except (sqlite3.Error, UnicodeDecodeError):
            return None
    return rows


def flip_written(scene: Scene, flips: int) -> Tally:
    """Files that people write and nobody signed: a flip may mean something else, and must not end in a traceback."""
    data = Path(__file__).resolve().parents[1] / "tests" / "data"
    (scene.where / "series.csv").write_text("rate,time_s\n" + "".join(f"{100 + i % 5},{i}\n" for i in range(60)))
    (scene.where / "contract.yaml").write_text(QUICK_CONTRACT)
    shutil.copy(data / "foreign" / "vllm.json", scene.where / "foreign.json")
    shutil.copy(data / "traces" / "sync_every_layer.json.gz", scene.where / "trace.json.gz")
    shutil.copy(scene.team.home / "keys" / "alpha.json", scene.where / "card.json")
    asked = {
        "contract.yaml": ("contract", "show"),
        "series.csv": ("steady",),
        "foreign.json": ("foreign",),
        "trace.json.gz": ("trace",),
        "card.json": ("key", "trust"),
    }
    tally = Tally("flips: written files")
    for number in range(flips):
        name = sorted(asked)[number % len(asked)]
        with _flipped(scene, scene.where / name) as bit:

            def attack(name: str = name) -> bool:
                done = scene.call(*asked[name], name)
                return done.code not in (0, 1, 2, 3, 5) or (done.code != 0 and done.err.count("\n") > 1)

            tally.count(f"{name} bit {bit}", attack)
    return tally
