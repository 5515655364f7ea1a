"""Teams with keys, trust and a ledger of their own, who speak through the real command line."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from command_line import CommandRun, lynxbench_here
from lynxbench.evidence.keyring import Keyring
from lynxbench.ledger.location import OpenLedger, locate, open_ledger
from lynxbench.model.entries import Role
from lynxbench.record.recording import record_folder


@dataclass(frozen=True)
class Team:
    """A person of a team, with keys, trust and ledger of their own."""

    name: str
    home: Path

    def run(self, *arguments: str, cwd: Path | None = None, **more: str) -> CommandRun:
        return lynxbench_here(*arguments, cwd=cwd or self.home, LYNXBENCH_HOME=str(self.home), **more)

    def ask(self, *arguments: str) -> dict:  # type: ignore[type-arg]
        done = self.run(*arguments, "--json")
        assert done.code == 0, done.err
        found: dict = json.loads(done.out)  # type: ignore[type-arg]
        return found

    @property
    def environment(self) -> dict[str, str]:
        return {"LYNXBENCH_HOME": str(self.home)}

    @property
    def keyring(self) -> Keyring:
        return Keyring(environment=self.environment)

    def open(self) -> OpenLedger:
        location = locate(None, self.environment)
        assert location is not None
        return open_ledger(location, self.environment, create=True)


def make_team(name: str, home: Path) -> Team:
    team = Team(name, home)
    team.keyring.create(name, name, (Role.RUNNER, Role.WITNESS), datetime.now(UTC))
    return team


def trusts(one: Team, other: Team) -> None:
    card = other.keyring.keys.card(other.name)
    one.keyring.change_trust(lambda trust: trust.adding(card, datetime.fromisoformat(card.made_at)))


def copied_run(run: Path, where: Path) -> Path:
    """A run as a stranger would hand it over: without what its team signed."""
    folder = where / run.name
    shutil.copytree(run, folder)
    for signed in ("entry.dsse.json", "registration.dsse.json"):
        (folder / signed).unlink(missing_ok=True)
    return folder


def recorded_run(name: str, home: Path, run: Path, where: Path) -> Team:
    """A team that recorded a finished run from its folder."""
    team = make_team(name, home)
    with team.open() as ledger:
        record_folder(ledger, copied_run(run, where), team.keyring.keys.open(name))
    return team


def kept_bundle(where: Path) -> tuple[Path, Path]:
    """A bundle that an earlier lynxbench exported, and the card of the key that signed it."""
    packed = Path(__file__).parents[1] / "data" / "bundles" / "spin-0.1.0.lynx.gz"
    bundle, card = where / "kept.lynx", where / "kept-card.json"
    bundle.write_bytes(gzip.decompress(packed.read_bytes()))
    with tarfile.open(bundle) as archive:
        keys = archive.extractfile("keys.json")
        assert keys is not None
        (one,) = json.loads(keys.read())["cards"]
    card.write_text(json.dumps(one, separators=(",", ":"), sort_keys=True))
    return bundle, card
