"""The scene of the counted attacks: a real run, its team, a reader who trusts that team, and what became of attacks."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from command_line import CommandRun
from lynxbench.cli.main import main as command_line
from lynxbench.errors import LynxbenchError
from lynxbench.evidence.keys import SigningKey
from lynxbench.ledger.bundle import export_bundle
from lynxbench.model.entries import ResultContested
from lynxbench.record.recording import record_folder, seal
from teams import Team, copied_run, make_team, trusts

SEED = 20261116
PATIENCE_S = 60


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
