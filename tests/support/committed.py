"""Small git repositories whose commits have a known speed, and a measuring that reads it instead of a clock."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from compared import make_executor, make_result
from lynxbench.errors import HalfCannotRun, OwnCodeFailed
from lynxbench.experiment.code_places import CodePlace
from lynxbench.experiment.pairing import PairedRun, draw_order
from lynxbench.experiment.visiting import Setting, Visits
from lynxbench.model.evidence_gate import FOREIGN_LOAD
from lynxbench.model.result import Result, Validity, ValidityVerdict
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.run.run_outcome import Finished, LineProgress
from lynxbench.watch.commit_pairs import CommitPairs

SPEED = "speed.txt"
"""Calls a second of a commit; or `broken`, or a speed with a word after it: `doubtful`, `loaded`, `unsteady` (not
steady), `short` (not shown to be), or with a noise of its own."""
CONTRACT = """\
lynxbench: 1
name: score
question: How many calls a second?
regime: throughput
workload:
  task: callable
  model: {source: callable, target: "jobs:score"}
  precisions: [fp32]
engine: {name: callable, threads: 1}
protocol:
  restarts: 5
  steady: {drift: 20 %, window: 20 ms}
  min_duration: 400 ms
  limit: 600 ms
  foreign_load: 100 %
policy: {regression: 3 %}
"""
JOBS = "def score():\n    return 1\n"
NOISE = 0.005
UNSTEADY = {"unsteady": SteadyVerdict.NOT_STEADY, "short": SteadyVerdict.INCONCLUSIVE}
_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2026-01-01T00:00:00+00:00"))
}


@dataclass
class CommittedProject:
    """A repository of a test's own."""

    top: Path

    @classmethod
    def begin(cls, top: Path) -> CommittedProject:
        top.mkdir(parents=True)
        project = cls(top)
        project.git("init", "--quiet", "--initial-branch=main")
        return project

    def git(self, *words: str) -> str:
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **_IDENTITY}
        done = subprocess.run(
            ["git", *words], cwd=self.top, env={**os.environ, **own}, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, subject: str, files: Mapping[str, str]) -> str:
        for name, text in files.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.git("add", "--all", "--", *files)
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")


@dataclass
class PlantedMeasuring:
    """Stands in for `run_paired`: what each tree's own file says, under noise between processes."""

    rng: np.random.Generator
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    """Commits of both halves and the pairs of each sitting."""
    raises: dict[int, BaseException] = field(default_factory=dict)
    """By the number of the sitting."""
    sittings: dict[int, str] = field(default_factory=dict)
    """What the head's file says instead in that sitting."""
    speed_of: Callable[[CodePlace], str] = lambda place: (place.folder / SPEED).read_text()

    def pairs(self, out: Path, told: list[str]) -> CommitPairs:
        visits = Visits(out, out, out, None, lambda: None)
        return CommitPairs(visits, LineProgress(), self.rng, told.append)

    def __call__(self, a: Setting, b: Setting, *_: object) -> PairedRun:
        assert a.place is not None
        assert b.place is not None
        pairs, number = a.contract.protocol.restarts, len(self.asked)
        self.asked.append((a.place.commit, b.place.commit, pairs))
        if number in self.raises:
            raise self.raises[number]
        finished = []
        for half, setting, override in (("A", a, None), ("B", b, self.sittings.get(number))):
            assert setting.place is not None
            words = (override or self.speed_of(setting.place)).split()
            if words[0] == "broken":
                raise HalfCannotRun(half, "its function raised")
            noise = next((float(word[6:]) for word in words if word.startswith("noise=")), NOISE)
            means = float(words[0]) * np.exp(noise * self.rng.standard_normal(pairs))
            doubtful = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=("the clock was set back",))
            loaded = Validity(verdict=ValidityVerdict.DOUBTFUL, reasons=(f"{FOREIGN_LOAD} 40 %",))
            validity = doubtful if "doubtful" in words else loaded if "loaded" in words else None
            executor = make_executor({"application.commit": setting.place.commit})
            result = make_result(
                contract=setting.contract, executor=executor, run_means=tuple(map(float, means)), validity=validity
            )
            for word, verdict in UNSTEADY.items():
                if word in words:
                    result = _not_steady(result, verdict, validity)
            finished.append(Finished(result, Path("nowhere"), (), None))
        return PairedRun(finished[0], finished[1], draw_order(pairs, self.rng))


def _not_steady(result: Result, verdict: SteadyVerdict, also: Validity | None) -> Result:
    (figures,) = result.per_precision
    assert figures.steady is not None
    steady = figures.steady.model_copy(update={"verdict": verdict, "reason": "excursion"})
    validity = Validity(
        verdict=ValidityVerdict.DOUBTFUL, reasons=(f"{verdict} (excursion)", *(also.reasons if also else ()))
    )
    moved = figures.model_copy(update={"steady": steady, "validity": validity})
    return result.model_copy(update={"per_precision": (moved,)}).sealed()


def imported_here(target: str) -> dict[str, Path]:
    """Stands in for a fresh process that imports: the module's file in the folder it would stand in."""
    module = target.partition(":")[0]
    file = Path.cwd() / f"{module}.py"
    if not file.exists():
        raise OwnCodeFailed(f"{target}: no module {module!r}")
    return {module: file.resolve()}
