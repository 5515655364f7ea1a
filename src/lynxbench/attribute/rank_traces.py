"""Many ranks of one run: analysed side by side in processes of their own, then held against each other.

In a synchronous step every rank waits for the slowest in the next collective. What tells the slowest is therefore not
its step, which is as long as everybody's, but its own work: the step without the communication that nothing hides.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lynxbench.attribute.attributing import TraceAnalysis, TraceSettings, analyse_trace
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Category

STRAGGLES = 0.05
"""A rank whose own work takes this much longer than the median rank's keeps the others waiting."""
SUFFIXES = (".json", ".json.gz", ".sqlite")
_RANK = re.compile(r"rank[_-]?(\d+)|(?:^|[_.-])(\d+)\.(?:pt\.trace\.json|json)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank's figures; `own_ms` is its step without exposed communication."""

    number: int
    source: str
    analysis: TraceAnalysis | None
    problem: str | None = None

    @property
    def step_ms(self) -> float:
        return self.analysis.attribution.wall_ms_per_step if self.analysis else 0.0

    @property
    def exposed_ms(self) -> float:
        """Communication that nothing hides, a step."""
        if self.analysis is None:
            return 0.0
        return self.analysis.attribution.shares.get(Category.COMMUNICATION, 0.0) * self.step_ms

    @property
    def own_ms(self) -> float:
        return self.step_ms - self.exposed_ms


@dataclass(frozen=True, slots=True)
class RankReport:
    """All ranks, the one that sets the pace, and what is said about them."""

    ranks: tuple[Rank, ...]
    pacing: int
    straggler: int | None
    lines: tuple[str, ...]

    @property
    def main(self) -> Rank:
        """The rank whose attribution speaks for the run."""
        return next(rank for rank in self.ranks if rank.number == self.pacing)


def find_traces(paths: Sequence[Path]) -> list[Path]:
    """Trace files: those given, and those in folders given."""
    traces: list[Path] = []
    for path in paths:
        if not path.is_dir():
            traces.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.is_file() and p.name.lower().endswith(SUFFIXES))
        if not inside:
            raise BadInput(f"{path}: holds no traces ({', '.join(SUFFIXES)}); give the folder they were exported to")
        traces += inside
    return traces


def analyse_ranks(paths: Sequence[Path], settings: TraceSettings, *, perfetto: Path | None = None) -> RankReport:
    """Analyse every file, side by side where there are several; a rank that cannot be read is named, not fatal."""
    if len(paths) == 1:
        analysis = analyse_trace(paths[0], settings, perfetto=perfetto)
        rank = Rank(_number(paths[0], analysis, 0), str(paths[0]), analysis)
        return RankReport((rank,), rank.number, None, ())
    if perfetto is not None:
        raise BadInput("--perfetto writes one trace; give one file")
    # A fifth of the time that one small trace takes would go into these imports.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    workers = min(len(paths), _cpus())
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        results = list(pool.map(try_rank, paths, [settings] * len(paths)))
    return gather_ranks(paths, results)


def gather_ranks(paths: Sequence[Path], results: Sequence[TraceAnalysis | str]) -> RankReport:
    """What was analysed, wherever that happened, in the order of the ranks."""
    analyses = [None if isinstance(result, str) else result for result in results]
    numbers = [_number(path, analysis, i) for i, (path, analysis) in enumerate(zip(paths, analyses, strict=True))]
    if len(set(numbers)) < len(numbers):  # names that say nothing: count them
        numbers = list(range(len(paths)))
    problems = [result if isinstance(result, str) else None for result in results]
    ranks = map(Rank, numbers, map(str, paths), analyses, problems)
    return compare_ranks(sorted(ranks, key=lambda rank: rank.number))


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def try_rank(path: Path, settings: TraceSettings) -> TraceAnalysis | str:
    """One rank's analysis, or the line that says why it cannot be read."""
    try:
        return analyse_trace(path, settings)
    except BadInput as error:
        return str(error)


def _number(path: Path, analysis: TraceAnalysis | None, otherwise: int) -> int:
    if analysis is not None and analysis.detail.rank is not None:
        return analysis.detail.rank
    match = _RANK.search(path.name)
    return int(match.group(1) or match.group(2)) if match else otherwise


def compare_ranks(ranks: Sequence[Rank]) -> RankReport:
    """Who sets the pace, who straggles, and how much communication is exposed."""
    read = [rank for rank in ranks if rank.analysis is not None]
    if not read:
        raise BadInput(f"none of {len(ranks)} traces could be read; the first: {ranks[0].problem}")
    pacing = max(read, key=lambda rank: (rank.own_ms, -rank.number))
    usual = float(np.median([rank.own_ms for rank in read]))
    waits = sorted(rank.exposed_ms for rank in read)
    lines = [
        f"{len(read)} ranks: steps of {min(r.step_ms for r in read):.3g} to {max(r.step_ms for r in read):.3g} ms; "
        f"communication that nothing hides {waits[0]:.3g} to {waits[-1]:.3g} ms a step"
    ]
    lines += [f"rank {rank.number} could not be read: {rank.problem}" for rank in ranks if rank.analysis is None]
    beyond = pacing.own_ms / usual - 1.0 if usual > 0 else 0.0
    straggler = pacing.number if len(read) > 1 and beyond > STRAGGLES else None
    if straggler is not None:
        lines.append(
            f"rank {straggler} straggles: its own work takes {pacing.own_ms:.3g} ms a step, the median rank's "
            f"{usual:.3g} ms (+{beyond:.0%}); the others wait for it in their collectives, up to "
            f"{waits[-1] - waits[0]:.3g} ms a step"
        )
    elif len(read) > 1:
        lines.append(f"no rank straggles: own work differs by up to {beyond:.0%} from the median rank's")
    return RankReport(tuple(ranks), pacing.number, straggler, tuple(lines))
