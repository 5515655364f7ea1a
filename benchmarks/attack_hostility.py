"""Hostile files and hostile words: pipes, bombs and lying heads; names that would drive a terminal."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import sqlite3
import zipfile
from pathlib import Path

from attack_scene import Scene, Tally
from lynxbench.model.entries import ResultContested
from lynxbench.record.recording import seal
from lynxbench.visible import UNSAFE
from teams import copied_run

WORDS = "\x1b[2J\x1b[H\x9b31m\r\x08\x07\x7f\u202eevil\u2066\u200b\u2060\ufeff\u2028\u2029\x1b]0;t\x1b\\ \x85 holds"
REFUSALS = (1, 2, 3, 5, 7)


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
