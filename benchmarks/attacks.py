"""Attacks on evidence, counted: flipped bits in every kind of file, forged bundles, hostile files, hostile words.

    python benchmarks/attacks.py [--flips 1000] [--only KIND ...] [--json]

Each attack is tried on a real run that was measured, signed and recorded just now. `got through`: it was not noticed,
or it reached a ledger or the terminal. `crashed`: it ended in a traceback instead of one line. `waited`: nothing came
back within a minute. A flip that changes nothing that is read (free space of a database page) is `without effect`. Exit
code 1 where one got through, crashed or waited.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from attack_flips import flip_bundle, flip_folder, flip_ledger, flip_written
from attack_forgeries import forge
from attack_hostility import offer_hostile_files, say_hostile_words
from attack_scene import Scene, Tally
from command_line import QUICK_CONTRACT, SPINNING, lynxbench

KINDS = ("folder", "bundle", "ledger", "written", "forged", "hostile", "terminal")


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
