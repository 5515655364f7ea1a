"""What the watch makes of the published history, with each session a night after the one before.

    python benchmarks/version_history_replay.py [results/version-history] [--json]

Bundles are taken into a fresh ledger one by one, in the order of their sessions, and the server's watch judges each as
it comes: the same functions and the same tables. The sessions were measured within hours, and results of six hours are
one session to the watch; so they are laid out a night apart. What differs between days is therefore not in them.
Nobody can be asked to measure again here, so a suspicion is confirmed by the next session. Exit code 1 unless there is
one notice, of the layer that changed, and it is closed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from lynxbench.evidence.keyring import Keyring
from lynxbench.evidence.keys import KeyCard
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.bundle import import_bundle
from lynxbench.ledger.location import opened
from lynxbench.ledger.queries import find_results
from lynxbench.model.result import Result
from lynxbench.record.recalling import sealed_document
from lynxbench.watch.recomputations import Recomputations
from lynxbench.watch.regressions import Notice, Watch
from lynxbench.watch.session_book import counted_results
from lynxbench.watch.store import Store

PUBLISHED = Path(__file__).resolve().parents[1] / "results" / "version-history"
BUNDLES = "nights.tar.xz"
FIRST_NIGHT = datetime(2026, 1, 1, 3, tzinfo=UTC)
"""The calendar of the replay: any would do."""
PLACE = "replay"


@dataclass(frozen=True, slots=True)
class WatchedNight:
    """A session, and what the watch did when it came."""

    number: int
    result_id: str
    estimate: float
    counted: bool
    """Whether its evidence may carry a verdict: otherwise it is no session."""
    suspected: bool
    opened: bool
    closed: bool


@dataclass(frozen=True, slots=True)
class Replay:
    """All of it."""

    nights: tuple[WatchedNight, ...]
    notices: tuple[Notice, ...]

    def night_of(self, result_id: str | None) -> int | None:
        """The number of the session that a result is of."""
        return next((night.number for night in self.nights if night.result_id == result_id), None)


def night_text(number: int) -> str:
    """When a session begins in the calendar of the replay."""
    return (FIRST_NIGHT + timedelta(days=number - 1)).isoformat(timespec="seconds")


def bundles_in(published: Path, at: Path) -> Iterator[tuple[int, Path]]:
    """The sessions by number, laid out in a folder."""
    with tarfile.open(published / BUNDLES) as packed:
        packed.extractall(at, filter="data")
    for path in sorted(at.rglob("*.bundle")):
        yield int(path.stem), path


def replay(published: Path, at: Path) -> Replay:
    """Night after night through the watch of a server whose tables and ledger are kept in a folder."""
    environment = {"LYNXBENCH_HOME": str(at / "home")}
    ring = Keyring(environment=environment)
    for card in sorted((published / "keys").iterdir()):
        ring.change_trust(partial(_trusting, card=KeyCard.model_validate_json(card.read_text(encoding="utf-8"))))
    store = Store(f"sqlite:///{at / 'server.sqlite'}")
    numbers: dict[str, int] = {}
    asked: list[str] = []
    nights: list[WatchedNight] = []

    def ask_again(result_id: str) -> bool:
        asked.append(result_id)
        return False

    def moment_of(result: Result) -> str:
        return night_text(numbers[result.result_id])

    with opened(None, environment, create=True) as ledger:
        recomputations = Recomputations(store, ledger.log)
        watch = Watch(store, ledger, recomputations, ask_again, moment_of)
        watch.pending()
        for number, path in bundles_in(published, at / "bundles"):
            (result_id,) = import_bundle(ledger, path, ring.trust).results
            numbers[result_id] = number
            suspected, before = len(asked), watch.notices(still=True)
            for seq in watch.pending():
                watch.judge(seq, PLACE, ring.trust)
            result = sealed_document(ledger, find_results(ledger.log, [result_id])[result_id])
            throughput = result.per_precision[0].throughput
            nights.append(
                WatchedNight(
                    number=number,
                    result_id=result_id,
                    estimate=(throughput.estimate if throughput else None) or 0.0,
                    counted=bool(counted_results(result)),
                    suspected=len(asked) > suspected,
                    opened=len(watch.notices(still=True)) > len(before),
                    closed=len(watch.notices(still=True)) < len(before),
                )
            )
        found = tuple(watch.notices())
    store.close()
    return Replay(tuple(nights), found)


def _trusting(known: TrustList, card: KeyCard) -> TrustList:
    return known.adding(card, datetime.fromisoformat(card.made_at))


def main() -> int:
    """Print the nights and the notices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("published", type=Path, nargs="?", default=PUBLISHED)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lynxbench-replay-") as name:
        told = replay(options.published, Path(name))
    print(json.dumps(asdict(told), indent=1) if options.json else text_of(told))
    return exit_code(told)


def exit_code(told: Replay) -> int:
    """0 where one loss was told, of a layer, and is over."""
    return 0 if len(told.notices) == 1 and told.notices[0].layer and told.notices[0].closed_at else 1


def text_of(told: Replay) -> str:
    """For people."""
    lines = []
    for night in told.nights:
        words = [] if night.counted else ["no session: its evidence carries no verdict"]
        words += ["suspected"] if night.suspected else []
        words += ["a notice is opened"] if night.opened else []
        words += ["the notice is closed"] if night.closed else []
        line = f"{night.number:3d}  {night.result_id[:8]}  {night.estimate:8.1f} requests/s  {'; '.join(words)}"
        lines.append(line.rstrip())
    for notice in told.notices:
        loss = f"{notice.estimate:.3f} [{notice.low:.3f}, {notice.high:.3f}]"
        layer = f"layer {notice.layer}" if notice.layer else "no one layer"
        lines.append(f"notice: {loss} of the level, {layer}, for {notice.owner}: {notice.sentence}")
        closed = told.night_of(notice.closed_by)
        lines.append(f"  told at night {told.night_of(notice.result_id)}; closed by night {closed}")
    return "\n".join(lines or ["nothing was replayed"])


if __name__ == "__main__":
    sys.exit(main())
