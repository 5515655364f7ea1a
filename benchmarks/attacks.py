"""Attacks on evidence, counted: flipped bits in every kind of file, forged bundles, hostile files, hostile words.

    python benchmarks/attacks.py [--flips 1000] [--only KIND ...] [--json]

Each attack is tried on a real run that was measured, signed and recorded just now. `got through`: it was not noticed,
or it reached a ledger or the terminal. `crashed`: it ended in a traceback instead of one line. `waited`: nothing came
back within a minute. A flip that changes nothing that is read (free space of a database page) is `without effect`. Exit
code 1 where one got through, crashed or waited.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from command_line import QUICK_CONTRACT, SPINNING, CommandRun, lynxbench
from hosted import leave_run
from lynxbench.cli.main import main as command_line
from lynxbench.decide.demonstrating import make_demo
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.documents import read_result, write_result
from lynxbench.evidence.keys import SigningKey, new_signing_key
from lynxbench.evidence.manifest import write_manifest
from lynxbench.ledger.archive import read_archive
from lynxbench.ledger.bundle import export_bundle
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.ledger.result_summary import summary_of
from lynxbench.model.entries import ResultContested, Role
from lynxbench.model.result import Result
from lynxbench.record.recording import keep_files, record_folder, seal
from lynxbench.visible import UNSAFE
from teams import Team, copied_run, make_team, trusts

SEED = 20261116
PATIENCE_S = 60
WORDS = "\x1b[2J\x1b[H\x9b31m\r\x08\x07\x7f\u202eevil\u2066\u200b\u2060\ufeff\u2028\u2029\x1b]0;t\x1b\\ \x85 holds"
REFUSALS = (1, 2, 3, 5, 7)
KINDS = ("folder", "bundle", "ledger", "written", "forged", "hostile", "terminal")


@dataclass
class Tally:
    """What became of the attacks of one kind."""

    kind: str
    tried: int = 0
    got_through: int = 0
    crashed: int = 0
    waited: int = 0
    without_effect: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)

    @property
    def failed(self) -> int:
        return self.got_through + self.crashed + self.waited

    def count(self, name: str, attack: Callable[[], bool]) -> None:
        """Try one: the attack says whether it got through; a deliberate error is what should come of it."""
        self.tried += 1
        try:
            with _patience():
                through = attack()
        except LynxbenchError:
            return
        except TimeoutError:
            self.waited += 1
            self.examples.append(f"{name}: still nothing after {PATIENCE_S} s")
        except Exception as error:
            self.crashed += 1
            self.examples.append(f"{name}: {type(error).__name__}: {error}"[:200])
        else:
            if through:
                self.got_through += 1
                self.examples.append(f"{name}: not noticed")


@contextlib.contextmanager
def _patience() -> Iterator[None]:
    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Scene:
    """A real run, recorded by its team and exported for a reader who trusts that team."""

    def __init__(self, run: Path, where: Path) -> None:
        self.where = where
        self.chance = random.Random(SEED)
        self.team, self.reader = make_team("alpha", where / "alpha"), make_team("bravo", where / "bravo")
        trusts(self.reader, self.team)
        self.folder = copied_run(run, where / "runs")
        with self.team.open() as ledger:
            self.result_id = record_folder(ledger, self.folder, self.key).result_id
            ledger.log.append(seal(ResultContested(result_id=self.result_id, reason="the fan was loud"), self.key))
            self.bundle = where / "whole.lynx"
            export_bundle(ledger, [self.result_id], self.bundle, self.key, self.team.keyring.trust, datetime.now(UTC))

    @property
    def key(self) -> SigningKey:
        return self.team.keyring.keys.open("alpha")

    def call(self, *words: str, who: Team | None = None) -> CommandRun:
        """The real command line in this process; a traceback comes out as the exception that it is of."""
        home, out, err, code = str((who or self.reader).home), io.StringIO(), io.StringIO(), 0
        argv, kept = sys.argv, os.environ.get("LYNXBENCH_HOME")
        os.environ["LYNXBENCH_HOME"], sys.argv = home, ["lynxbench", *words]
        try:
            with contextlib.chdir(self.where), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                command_line()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            sys.argv = argv
            if kept is None:
                del os.environ["LYNXBENCH_HOME"]
            else:
                os.environ["LYNXBENCH_HOME"] = kept
        return CommandRun(code, out.getvalue(), err.getvalue())

    def taken_in(self, path: Path) -> bool:
        """Whether a reader's ledger has more entries after importing this."""
        before = self._size()
        done = self.call("results", "import", str(path))
        if done.err.count("\n") > 1:
            raise AssertionError(f"more than one line: {done.err[:200]!r}")
        return self._size() != before or done.code == 0

    def _size(self) -> int:
        with self.reader.open() as ledger:
            return ledger.log.head().size


# --- flipped bits -----------------------------------------------------------------------------------------------------


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


# --- forged bundles ---------------------------------------------------------------------------------------------------


def forge(scene: Scene) -> Tally:
    """Bundles that say what was not measured, or leave out what would show it; a reader trusts the forger's team."""
    tally = Tally("forged bundles")
    for name, write in FORGERIES.items():
        path = scene.where / f"forged-{name.replace(' ', '-')}.lynx"
        write(scene, path)
        tally.count(name, partial(scene.taken_in, path))
    if not scene.taken_in(scene.bundle):
        raise AssertionError("the honest bundle is refused as well; nothing could be said of forged ones")
    return tally


def _figures_times_ten(result: Result) -> Result:
    figures = [
        precision.model_copy(
            update={
                "throughput": precision.throughput.model_copy(
                    update={name: getattr(precision.throughput, name) * 10 for name in ("low", "estimate", "high")}
                )
            }
        )
        for precision in result.per_precision
        if precision.throughput is not None
    ]
    return result.model_copy(update={"per_precision": tuple(figures)}).sealed()


def _forged(
    scene: Scene,
    path: Path,
    change: Callable[[Path], None] = lambda folder: None,
    *,
    result: Callable[[Result], Result] = lambda result: result,
    key: SigningKey | None = None,
    leaving: str = "",
) -> None:
    """The run as a folder that was changed, signed and exported anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = copied_run(scene.folder, Path(name))
        made = result(read_result(folder))
        write_result(folder / "result.json", made)
        (folder / "manifest.json").unlink()
        change(folder)
        write_manifest(folder)
        signer = key or scene.key
        with _own_ledger(Path(name) / "home") as ledger:
            blobs = tuple(blob for blob in keep_files(ledger.blobs, folder) if blob.name != leaving)
            nonce = json.loads((scene.folder / "registration.json").read_text())["nonce"]
            ledger.log.append(seal(summary_of(made, nonce=nonce, attempts=2), signer, blobs))
            trust = scene.team.keyring.trust
            export_bundle(ledger, [made.result_id], path, signer, trust, datetime.now(UTC))


@contextlib.contextmanager
def _own_ledger(home: Path) -> Iterator[OpenLedger]:
    environment = {"LYNXBENCH_HOME": str(home)}
    location = locate(None, environment)
    assert location is not None
    with open_ledger(location, environment, create=True) as ledger:
        yield ledger


def _without(name: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()

    return remove


def _repacked(scene: Scene, path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """The whole bundle with members changed and nothing signed anew."""
    with scene.bundle.open("rb") as stream:
        members = dict(read_archive(stream, "whole"))
    change(members)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(data)
            archive.addfile(facts, io.BytesIO(data))


def _of_another_run(scene: Scene, path: Path) -> None:
    def exchange(folder: Path) -> None:
        shutil.rmtree(folder / "attempts")
        leave_run(folder, read_result(folder), "0" * 32)

    _forged(scene, path, exchange)


def _drop_contest(members: dict[str, bytes]) -> None:
    del members[max(name for name in members if name.startswith("entries/"))]


FORGERIES: dict[str, Callable[[Scene, Path], object]] = {
    "result alone": lambda scene, path: _forged(scene, path, leaving="manifest.json"),
    "without samples": lambda scene, path: _forged(scene, path, _without("samples.npz")),
    "without registration": lambda scene, path: _forged(scene, path, _without("registration.json")),
    "without attempts": lambda scene, path: _forged(scene, path, _without("attempts")),
    "samples left out of the entry": lambda scene, path: _forged(scene, path, leaving="samples.npz"),
    "registration of another run": _of_another_run,
    "by a key that nobody knows": lambda scene, path: _forged(
        scene, path, key=new_signing_key("alpha", (Role.RUNNER,), datetime.now(UTC))
    ),
    "figures times ten by a key that nobody knows": lambda scene, path: _forged(
        scene, path, result=_figures_times_ten, key=new_signing_key("alpha", (Role.RUNNER,), datetime.now(UTC))
    ),
    "an entry left out": lambda scene, path: _repacked(scene, path, _drop_contest),
    "no manifest": lambda scene, path: _repacked(scene, path, lambda members: members.pop("manifest.json")),
    "no proofs": lambda scene, path: _repacked(scene, path, lambda members: members.pop("proofs.json")),
    "no checkpoint": lambda scene, path: _repacked(scene, path, lambda members: members.pop("checkpoint.json")),
    "a worked example": lambda scene, path: shutil.copy(make_demo(scene.where / "demo", pdf=False)[0].bundle, path),
}


# --- hostile files ----------------------------------------------------------------------------------------------------


def offer_hostile_files(scene: Scene) -> Tally:
    """Pipes, devices, sparse files, bombs and lying heads in place of every kind of file that a command takes."""
    tally = Tally("hostile files")
    commands = (
        *(("verify", ""), ("results", "import", ""), ("contract", "show", ""), ("steady", ""), ("trace", "")),
        *(("report", ""), ("key", "trust", ""), ("executor", "diff", ""), ("claim", ""), ("foreign", "")),
        *(("compare", str(scene.folder), ""), ("results", "list", "--ledger", "")),
        ("results", "list", "--ledger", "sqlite:///"),
    )
    for name, path in _hostile_files(scene.where / "hostile").items():
        for words in commands:

            def attack(words: tuple[str, ...] = words, path: Path = path) -> bool:
                done = scene.call(*words[:-1], f"{words[-1]}{path}")
                return done.code not in REFUSALS or done.err.count("\n") > 1

            tally.count(f"{' '.join(words[:2])} {name}", attack)
    for inside in ("result.json", "registration.json", "samples.npz", "manifest.json", "entry.dsse.json"):
        folder = copied_run(scene.folder, scene.where / f"piped-{inside}")
        (folder / inside).unlink(missing_ok=True)
        os.mkfifo(folder / inside)
        for words in (("verify",), ("results", "import"), ("report",)):

            def look(words: tuple[str, ...] = words, folder: Path = folder, inside: str = inside) -> bool:
                done = scene.call(*words, str(folder))
                harmless = inside == "entry.dsse.json" or (words == ("report",) and inside != "result.json")
                return done.code == 0 and not harmless

            tally.count(f"{' '.join(words)} a folder whose {inside} is a pipe", look)
    return tally


def _hostile_files(where: Path) -> dict[str, Path]:
    where.mkdir(exist_ok=True)
    files = {"endless device": Path("/dev/zero"), "pipe": where / "pipe", "sparse terabyte": where / "sparse"}
    os.mkfifo(files["pipe"])
    with files["sparse terabyte"].open("wb") as stream:
        stream.truncate(1 << 40)
    texts = {
        "deep JSON": b'{"a":' * 200_000,
        "deep list": b"[" * 500_000,
        "aliases": b"a: &a [x,x]\n" + b"".join(b"b%d: &b%d [*a,*a]\n" % (i, i) for i in range(40)),
        "empty": b"",
        "nothing but zeros": bytes(1 << 16),
        "not UTF-8": b"\xff\xfe\x00" * 99,
        "gzip bomb": _gzip_bomb(),
    }
    for name, data in texts.items():
        files[name] = where / f"{name.replace(' ', '-')}.json"
        files[name].write_bytes(data)
    files["zip bomb"] = where / "bomb.npz"
    with zipfile.ZipFile(files["zip bomb"], "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("process.npy", bytes(1 << 26))
    files["database that never ends"] = where / "endless.sqlite"
    with contextlib.closing(sqlite3.connect(files["database that never ends"])) as database:
        endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
        for table in ("ledger_schema", "StringIds", "CUPTI_ACTIVITY_KIND_KERNEL"):
            database.execute(f"CREATE VIEW {table} AS {endless} SELECT x AS id, 'n' AS value, x AS start FROM n")
        database.commit()
    files["folder with such a ledger"] = where / "ledger"
    files["folder with such a ledger"].mkdir()
    shutil.copy(files["database that never ends"], where / "ledger" / "ledger.sqlite")
    return files


def _gzip_bomb() -> bytes:
    return gzip.compress(bytes(1 << 26))


# --- hostile words ----------------------------------------------------------------------------------------------------


def say_hostile_words(scene: Scene) -> Tally:
    """Words that would drive a terminal, in names, documents, reasons and options of many commands."""
    tally = Tally("hostile words")
    named = scene.where / f"{WORDS[:8]}.yaml"
    named.write_text(f"lynxbench: 1\nname: {json.dumps(WORDS)}\n{json.dumps(WORDS)}: 2\n", encoding="utf-8")
    rows = [{"rate": 100.0 + i % 7, WORDS: f"{WORDS}\n{i % 2}"} for i in range(80)]
    (scene.where / "words.json").write_text(json.dumps(rows))
    shutil.copy(scene.folder / "result.json", scene.where / "result.json")
    changed = json.loads((scene.folder / "result.json").read_text())
    changed["run_id"] = changed["assumptions"] = WORDS
    (scene.where / "changed.json").write_text(json.dumps(changed))
    identifier = scene.result_id[:12]
    with scene.team.open() as ledger:
        ledger.log.append(seal(ResultContested(result_id=scene.result_id, reason=WORDS), scene.key))
    commands = (
        ("contract", "show", named.name), ("contract", "check", named.name), ("steady", "words.json"),
        ("changepoints", "words.json"), ("verify", "changed.json"), ("report", "changed.json"), ("verify", WORDS),
        ("results", "show", WORDS), ("results", "show", identifier), ("results", "list"), ("results", "log"),
        ("history", identifier), ("compare", identifier, WORDS), ("claim", "--text", WORDS), ("trace", "words.json"),
        ("contest", identifier, "--reason", WORDS), ("key", "trust", "words.json"), ("foreign", "words.json"),
        ("results", "import", "changed.json"), (WORDS,), ("decide", "precision", WORDS), ("executor", "diff", WORDS),
    )  # fmt: skip
    for words in commands:
        for form in ((), ("--json",)):

            def attack(words: tuple[str, ...] = words, form: tuple[str, ...] = form) -> bool:
                done = scene.call(*words, *form, who=scene.team)
                return UNSAFE.search(done.out + done.err) is not None

            tally.count(f"{words[0]!a} {form}", attack)
    return tally


def attack_all(run: Path, where: Path, flips: int, kinds: tuple[str, ...] = KINDS) -> list[Tally]:
    """Every kind of attack on one run; flips are shared out among the kinds of file."""
    scene = Scene(run, where)
    (where / "demo").mkdir()
    share = max(1, flips // 4)
    attacks: dict[str, Callable[[], Tally]] = {
        "folder": lambda: flip_folder(scene, share),
        "bundle": lambda: flip_bundle(scene, share),
        "ledger": lambda: flip_ledger(scene, share),
        "written": lambda: flip_written(scene, share),
        "forged": lambda: forge(scene),
        "hostile": lambda: offer_hostile_files(scene),
        "terminal": lambda: say_hostile_words(scene),
    }
    return [attacks[kind]() for kind in kinds]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1000, help="over all kinds of file; 10000 for the whole statement")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lynxbench-attacks-") as name:
        where = Path(name)
        (where / "spin.yaml").write_text(QUICK_CONTRACT)
        (where / "spinning.py").write_text(SPINNING)
        done = lynxbench("run", "spin.yaml", cwd=where, LYNXBENCH_HOME=str(where / "home"))
        if done.code != 0:
            print(done.err, file=sys.stderr)
            return 2
        (run,) = (where / "results").iterdir()
        tallies = attack_all(run, where, options.flips, tuple(options.only))
    if options.json:
        print(json.dumps([dataclasses.asdict(tally) for tally in tallies], indent=1))
    else:
        print(f"{'kind':<26}{'tried':>8}{'got through':>13}{'crashed':>9}{'waited':>8}{'without effect':>16}")
        for tally in tallies:
            figures = (tally.tried, tally.got_through, tally.crashed, tally.waited, tally.without_effect)
            print(f"{tally.kind:<26}{figures[0]:>8}{figures[1]:>13}{figures[2]:>9}{figures[3]:>8}{figures[4]:>16}")
            for example in tally.examples[:10]:
                print(f"    {example!a}")
    return int(any(tally.failed for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
