"""Simulated years of the nightly watch, through the functions that decide on a server.

    python benchmarks/watch_year.py [--histories 300] [--nights 365] [--seed 20261116] [--only WORD] [--json]
    python benchmarks/watch_year.py --restart-noise 0.004 --session-noise 0.002 --weekly 0.01     # your own noise

A history is one contract on two executors, five restarts a night. A night's figure is the executor's level, the noise
of the sitting, which whatever is measured again the same night shares, and the mean of its restarts. Each shape gets a
year in which nothing changes, and shorter ones with a slowdown of 3 % and of 1.5 % that begins on some night between
the 70th and the 180th on one of the two executors.

Counted are histories with a notice that is false (of an executor that did not change, or before it did), histories
whose level ends more than the budget above the truth (a ratchet), and slowdowns that were told in time: nights count
from the first slow one, missing nights do not count. Exit code 1 where a promised line breaks one of the bars.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.model.contract import Policy
from lynxbench.stats.arrays import Floats
from lynxbench.stats.sequential import FEWEST, MOST, SPANS, Ints, SessionStreams
from lynxbench.watch.level_rules import (
    MOST_RESULTS,
    is_confirmed,
    is_gain,
    is_recovered,
    is_suspect,
    judge_streams,
)

BUDGET = Policy().regression
MOST_FALSE = 0.01
SLOWDOWNS = ((0.03, 3, 0.95), (0.015, 14, 0.80))
"""Each unit takes that much longer; told within so many nights; in at least this share of histories."""
EARLIEST, LATEST = 70, 180
EXECUTORS = 2
BETWEEN = 0.08
"""How far apart the two executors lie; each is held against itself alone."""


@dataclass(frozen=True, slots=True)
class NightShape:
    """How nights of an unchanged executor scatter. Noises are standard deviations, cycles are amplitudes."""

    name: str
    restart: float = 0.003
    session: float = 0.003
    weekly: float = 0.002
    monthly: float = 0.0
    law: str = "normal"
    restart_law: str = "normal"
    memory: float = 0.0
    missing: float = 0.0
    grows: bool = False
    restarts: tuple[int, ...] = (5,)
    weekend: float = 0.0
    maintenance: tuple[int, int, float] | None = None
    """Every so many nights, for so many nights, slower by so much."""
    gain: float = 0.0
    """An improvement on the 100th night."""
    promised: bool = True


SHAPES = (
    NightShape("restarts 0.05 %, sittings alike", 0.0005, 0.0, 0.0),
    NightShape("restarts 1 %, sittings alike", 0.01, 0.0, 0.0),
    NightShape("restarts 1 %, sittings 0.5 %", 0.01, 0.005, 0.0),
    NightShape("restarts 1 %, sittings 0.5 %, weekly 0.3 %", 0.01, 0.005, 0.003),
    NightShape("restarts 0.05 %, sittings 0.5 %, weekly 0.3 %", 0.0005, 0.005, 0.003),
    NightShape("restarts 0.05 %, sittings 0.1 %, weekly 1 %", 0.0005, 0.001, 0.01),
    NightShape("weekends 1 % slower", weekly=0.0, weekend=0.01),
    NightShape("restarts by Student's t, 3 degrees", restart=0.01, session=0.002, restart_law="t3"),
    NightShape("one night in twenty five times wider", session=0.0015, law="mixture"),
    NightShape("neighbouring nights alike (AR 0.3)", memory=0.3),
    NightShape("every tenth night missing", missing=0.1),
    NightShape("monthly cycle of 0.2 %", monthly=0.002),
    NightShape("3, 5 and 10 restarts in turn", restart=0.006, restarts=(3, 5, 10)),
    NightShape("an improvement of 4 % on the 100th night", gain=0.04),
    NightShape("maintenance: one night in 30, 5 % slower", maintenance=(30, 1, 0.05)),
    NightShape("sittings from 0.1 to 0.5 % within the year", session=0.005, grows=True),
    NightShape("neighbouring nights alike (AR 0.6)", memory=0.6, promised=False),
    NightShape("sittings by Student's t, 3 degrees", session=0.004, law="t3", promised=False),
    NightShape("monthly cycle of 0.5 %", monthly=0.005, promised=False),
    NightShape("maintenance: two nights in 28, 3 % slower", maintenance=(28, 2, 0.03), promised=False),
)


@dataclass(frozen=True, slots=True)
class NightlyYear:
    """Nights of many streams: what was measured first, and what would be measured if it were asked for again."""

    weekdays: Ints
    first: Floats
    again: tuple[Floats, ...]
    restarts: Ints
    within: Floats
    """Squares of the restarts' departures from their mean, of what was measured first."""
    truth: Floats
    """The level without any noise or cycle."""


def draw(rng: np.random.Generator, law: str, size: tuple[int, ...]) -> Floats:
    """Noise of mean 0 and variance 1; of a mixture that is the variance of most."""
    if law == "t3":
        return np.asarray(rng.standard_t(3, size) / math.sqrt(3))
    if law == "mixture":
        wide = np.where(rng.random(size) < 0.05, 5.0, 1.0)
        return np.asarray(rng.normal(size=size) * wide)
    return np.asarray(rng.normal(size=size))


def simulate(
    rng: np.random.Generator, shape: NightShape, histories: int, nights: int, slower: float = 0.0
) -> tuple[NightlyYear, Ints]:
    """The nights, and for each stream the session at which its slowdown begins (beyond the end where it has none)."""
    streams = histories * EXECUTORS
    calendar = np.tile(np.arange(nights), (streams, 1))
    if shape.missing:
        left = int(nights * (1 - shape.missing))
        calendar = np.sort(np.argsort(rng.random((streams, nights)), axis=1)[:, :left], axis=1)
    size = calendar.shape
    begins = np.full(streams, size[1])
    truth = np.tile([0.0, BETWEEN], histories)[:, None] + np.zeros(size)
    if slower:
        begins[::EXECUTORS] = rng.integers(EARLIEST, LATEST, histories)
        truth = truth - np.where(np.arange(size[1]) >= begins[:, None], math.log1p(slower), 0.0)
    if shape.gain:
        truth = truth + np.where(np.arange(size[1]) >= 100, math.log1p(shape.gain), 0.0)
    sitting = shape.session * draw(rng, shape.law, size)
    for night in range(1, size[1] if shape.memory else 0):
        fresh = math.sqrt(1 - shape.memory**2) * sitting[:, night]
        sitting[:, night] = shape.memory * sitting[:, night - 1] + fresh
    if shape.grows:
        sitting = sitting * np.linspace(0.2, 1.0, nights)[calendar]
    phase = np.repeat(rng.integers(0, 7, histories), EXECUTORS)[:, None]
    month = np.repeat(rng.integers(0, 30, histories), EXECUTORS)[:, None]
    season = shape.weekly * np.sin(2 * np.pi * (calendar + phase) / 7)
    season += shape.monthly * np.sin(2 * np.pi * (calendar + month) / 30)
    season -= np.where((calendar + phase) % 7 >= 5, shape.weekend, 0.0)
    if shape.maintenance is not None:
        every, long, loss = shape.maintenance
        season -= np.where((calendar + month) % every < long, loss, 0.0)
    counts = np.array([shape.restarts[place % len(shape.restarts)] for place in range(size[1])])
    restarts = np.tile(counts, (streams, 1))
    level = truth + sitting + season
    first, within = _measure(rng, shape, restarts)
    again = tuple(level + _measure(rng, shape, restarts)[0] for _ in range(1, MOST_RESULTS))
    year = NightlyYear((calendar + phase) % 7, level + first, again, restarts, within, truth)
    return year, begins


def _measure(rng: np.random.Generator, shape: NightShape, restarts: Ints) -> tuple[Floats, Floats]:
    """Means of restarts, and the squares of their departures from it."""
    most = int(restarts.max())
    noise = shape.restart * draw(rng, shape.restart_law, (*restarts.shape, most))
    used = np.arange(most) < restarts[..., None]
    mean = np.where(used, noise, 0.0).sum(axis=2) / restarts
    return mean, np.where(used, (noise - mean[..., None]) ** 2, 0.0).sum(axis=2)


@dataclass(frozen=True, slots=True)
class WatchedYear:
    """What the watch made of it."""

    told: Ints
    """Session of the first notice; -1: none."""
    notices: Ints
    measured_again: float
    """Share of nights."""
    above: Floats
    """How far the window's level ends above the truth."""


def watch(year: NightlyYear) -> WatchedYear:
    """Night after night, as the server does it: judge, measure again what is suspected, tell, close, move."""
    streams, nights = year.first.shape
    values, shares = year.first.copy(), 1 / year.restarts
    scatter = np.cumsum(np.pad(year.within, ((0, 0), (1, 0))), axis=1)
    degrees = np.cumsum(np.pad(year.restarts - 1, ((0, 0), (1, 0))), axis=1)
    starts, gathering = np.zeros(streams, dtype=np.int64), np.full(streams, -1)
    opened, loss, told = np.full(streams, -1), np.zeros(streams), np.full(streams, -1)
    notices = np.zeros(streams, dtype=np.int64)
    asked = 0

    def known(until: int, rows: npt.NDArray[np.bool_]) -> SessionStreams:
        begin, end = starts[rows], np.minimum(starts[rows] + MOST, until)
        squares, spare = (
            np.take_along_axis(total[rows], end[:, None], 1) - np.take_along_axis(total[rows], begin[:, None], 1)
            for total in (scatter, degrees)
        )
        between = (squares / np.maximum(spare, 1))[:, 0]
        end = np.full(len(begin), nights)
        days = year.weekdays[rows, :until]
        firsts, first_shares = year.first[rows, :until], 1 / year.restarts[rows, :until]
        now = values[rows, :until], shares[rows, :until]
        return SessionStreams(*now, firsts, first_shares, days, between, begin, end)

    every = np.ones(streams, dtype=np.bool_)
    for night in range(FEWEST + SPANS[0] - 1, nights):
        ready = (gathering >= 0) & (night + 1 - gathering >= FEWEST + SPANS[0])
        starts, gathering = np.where(ready, gathering, starts), np.where(ready, -1, gathering)
        judged = judge_streams(known(night + 1, every))
        open_ = opened >= 0
        if open_.any():
            back = is_recovered(known(night + 1, open_), loss[open_], night - opened[open_], BUDGET)
            opened[np.flatnonzero(open_)[back]] = -1
        suspected = is_suspect(judged, BUDGET) & ~open_
        for times, again in enumerate(year.again, start=2):
            if not suspected.any():
                break
            asked += int(suspected.sum())
            values[suspected, night] += (again[suspected, night] - values[suspected, night]) / times
            shares[suspected, night] = 1 / (times * year.restarts[suspected, night])
            together = judge_streams(known(night + 1, suspected))
            apart = again[suspected, night] - values[suspected, night]
            confirmed = is_confirmed(together, apart, BUDGET)
            rows = np.flatnonzero(suspected)[confirmed]
            opened[rows], notices[rows] = night, notices[rows] + 1
            loss[rows] = -together.loss.change[confirmed]
            told[rows] = np.where(told[rows] < 0, night, told[rows])
            suspected[np.flatnonzero(suspected)] = is_suspect(together, BUDGET) & ~confirmed
        gained = is_gain(judged, BUDGET) & (gathering < 0) & ~open_
        gathering = np.where(gained, night + 1, gathering)
    window = starts[:, None] + np.arange(MOST)
    window = np.minimum(window, nights - 1)
    level = np.take_along_axis(values, window, 1).mean(axis=1)
    return WatchedYear(told, notices, asked / (streams * nights), level - year.truth[:, -1])


def judge_shape(rng: np.random.Generator, shape: NightShape, histories: int, nights: int) -> dict[str, float]:
    """All bars of one shape."""
    year, _ = simulate(rng, shape, histories, nights)
    quiet = watch(year)
    row = {
        "false": float((quiet.notices.reshape(-1, EXECUTORS).sum(axis=1) > 0).mean()),
        "ratchet": float((quiet.above.reshape(-1, EXECUTORS).max(axis=1) > -math.log1p(-BUDGET)).mean()),
        "measured_again": quiet.measured_again,
    }
    for slower, within, _ in SLOWDOWNS:
        year, begins = simulate(rng, shape, histories, LATEST + 20, slower)
        found = watch(year)
        slow = begins < year.first.shape[1]
        in_time = (found.told[slow] >= begins[slow]) & (found.told[slow] < begins[slow] + within)
        row[f"told_{slower:g}"] = float(in_time.mean())
        row[f"early_{slower:g}"] = float(((found.told >= 0) & (found.told < begins)).mean())
    return row


def broken_bars(shape: NightShape, row: dict[str, float]) -> list[str]:
    """Which bars a promised shape misses."""
    if not shape.promised:
        return []
    missed = [f"false notices {row['false']:.1%}"] if row["false"] > MOST_FALSE else []
    missed += [f"ratchet {row['ratchet']:.1%}"] if row["ratchet"] > 0 else []
    if not shape.gain:  # a loss of what was gained a moment ago is no loss of the level yet
        missed += [
            f"{slower:.1%} told in {row[f'told_{slower:g}']:.1%}"
            for slower, _, least in SLOWDOWNS
            if row[f"told_{slower:g}"] < least
        ]
    return missed


def main() -> int:
    """Print the table; exit 1 where a promise breaks."""
    parser = argparse.ArgumentParser(description="Simulated years of the nightly watch.")
    parser.add_argument("--histories", type=int, default=300)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--seed", type=int, default=20261116)
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    parser.add_argument("--restart-noise", type=float, help="a shape of your own, as shares")
    parser.add_argument("--session-noise", type=float, default=0.0)
    parser.add_argument("--weekly", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shapes = {place: shape for place, shape in enumerate(SHAPES) if arguments.only in shape.name}
    if arguments.restart_noise is not None:
        own = NightShape("your own", arguments.restart_noise, arguments.session_noise, arguments.weekly)
        shapes = {len(SHAPES): own}
    if not shapes:
        parser.error(f"no shape is called so: {arguments.only}")
    rows: dict[str, dict[str, float]] = {}
    broken: list[str] = []
    print_table = not arguments.json
    if print_table:
        print(f"{arguments.histories} histories of {arguments.nights} nights on two executors, seed {arguments.seed}")
        print(f"{'shape':<48} {'false':>6} {'ratchet':>8} {'again':>6} {'3 % in 3':>9} {'1.5 % in 14':>12}")
    for place, shape in shapes.items():
        rng = np.random.default_rng([arguments.seed, place])
        row = judge_shape(rng, shape, arguments.histories, arguments.nights)
        rows[shape.name] = row
        missed = broken_bars(shape, row)
        broken += [f"{shape.name}: {words}" for words in missed]
        if print_table:
            mark = "  BROKEN" if missed else "" if shape.promised else "  not promised"
            print(
                f"{shape.name:<48} {row['false']:6.1%} {row['ratchet']:8.1%} {row['measured_again']:6.1%} "
                f"{row['told_0.03']:9.1%} {row['told_0.015']:12.1%}{mark}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps({"seed": arguments.seed, "histories": arguments.histories, "rows": rows, "broken": broken}))
    else:
        print("broken: " + "; ".join(broken) if broken else "every promise holds")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
