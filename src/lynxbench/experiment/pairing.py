"""Two settings measured in one sitting: their restarts in pairs, the order within a pair by lot.

What disturbs a shared machine for longer than a pair disturbs both halves of it alike, so the differences within pairs
tell what the levels do not (duet benchmarking: Bulej et al. 2020). Both leave ordinary results behind, registered
before the first sample of either.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lynxbench.contract.diff import compare_contracts
from lynxbench.errors import BadInput, HalfCannotRun, Interrupted, Refused
from lynxbench.evidence.run_folder import RunFolder
from lynxbench.experiment.visiting import Setting, Visits, take
from lynxbench.model.serving import ServedEngine
from lynxbench.run.run_outcome import Finished, Progress

FIRST, SECOND = "AB", "BA"
"""Which half of a pair was measured first."""


@dataclass(frozen=True, slots=True)
class PairedRun:
    """Both results, and the order of each pair."""

    a: Finished
    b: Finished
    order: tuple[str, ...]


def draw_order(pairs: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Each order as often as the other, by lot; the odd one by lot too."""
    orders = [FIRST, SECOND] * (pairs // 2) + [str(rng.choice([FIRST, SECOND]))] * (pairs % 2)
    return tuple(orders[place] for place in rng.permutation(pairs))


def refuse_unpaired(a: Setting, b: Setting) -> None:
    """What cannot be measured in pairs is said before anything is measured."""
    for name, setting in (("A", a), ("B", b)):
        if isinstance(setting.contract.engine, ServedEngine):
            raise BadInput(
                f"{name}: {setting.contract.name} asks a server, whose process outlives a restart; pairs need a "
                "workload of this machine. Compare two servers by an experiment with `server`"
            )
    restarts = [setting.contract.protocol.restarts for setting in (a, b)]
    if restarts[0] != restarts[1]:
        raise BadInput(f"protocol.restarts is {restarts[0]} in A and {restarts[1]} in B; pairs need as many of both")
    broken = [difference for difference in compare_contracts(a.contract, b.contract).differences if difference.breaks]
    if broken:
        keys = ", ".join(difference.key for difference in broken)
        raise Refused(f"A and B are incomparable whatever is measured: {keys}: {broken[0].reason}")


def run_paired(
    a: Setting,
    b: Setting,
    visits: Visits,
    progress: Progress,
    rng: np.random.Generator,
    told: Callable[[int, str], None],
) -> PairedRun:
    """Measure both, pair after pair; `told` hears which pair is next, and its order."""
    refuse_unpaired(a, b)
    order = draw_order(a.contract.protocol.restarts, rng)
    settings = {"A": a, "B": b}
    begun: dict[str, RunFolder] = {}
    open_: dict[str, RunFolder] = {}
    try:
        for half, setting in settings.items():
            with setting.standing():
                begun[half] = open_[half] = visits.begin(setting)
        for pair, halves in enumerate(order):
            told(pair, halves)
            for half in halves:
                with settings[half].standing():
                    _measure(begun[half], half, pair, progress)
        finished: dict[str, Finished] = {}
        for half, setting in settings.items():
            run = open_.pop(half)  # from here on its own record says what becomes of it
            with setting.standing():
                finished[half] = visits.end(run, progress, setting)
    except BaseException as error:
        for run in open_.values():
            visits.abandon(run, f"{type(error).__name__}: {error}")
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted("interrupted; a pair is worth nothing without its other half: start it anew") from None
        raise
    return PairedRun(finished["A"], finished["B"], order)


def _measure(run: RunFolder, half: str, pair: int, progress: Progress) -> None:
    why = take(run, pair, progress)
    if why and pair == 0:
        raise HalfCannotRun(half, why)
