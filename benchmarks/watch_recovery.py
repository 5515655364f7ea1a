"""How often the watch closes a notice by mistake while its loss lasts, and how soon once the loss is undone.

    python benchmarks/watch_recovery.py [--streams 700] [--seed 20261120] [--only WORD] [--json]

A stream is a window of nights at one level and 18 nights after a planted loss. Every night since the notice is put to
the rule that closes notices on a server, and each stream is seen twice: with a loss that lasts, where every closing is
a mistake, and with the same noise and a loss that is undone after eight nights, where a closing is what is wanted. A
rule that never closes makes no mistakes and has no use.

First the rule is told the truth: the loss, on its fourth night, and that the window ends where it begins. Then only
those streams count of which the watch itself tells within eight nights, on the night, of the loss and since the moment
that it says. What is measured again is taken to say the same. Noise is in standard deviations of a night; memory is
that of a first-order process. Shares stand with 95 % Wilson intervals. There is no bar: 2.5 % is the chance of being
wrong that the rule gives to one look at one span, and a shape that lies above it by its whole interval is marked.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from lynxbench.model.contract import Policy
from lynxbench.stats.arrays import Floats
from lynxbench.stats.sequential import SPANS, Flags, Ints, SessionStreams, bound_of, measure_span
from lynxbench.stats.shares import share_interval
from lynxbench.watch.level_rules import SURE, is_alarm, is_recovered, judge_streams
from lynxbench.watch.watched_sessions import WatchedResult, WatchedSession, WatchedStream

ClosingRule = Callable[[SessionStreams, Floats, Ints, float], Flags]

BUDGET = Policy().regression
WINDOWS = (14, 40)
LAWS = ("normal", "t3", "outliers")
MEMORIES = (0.0, 0.3, 0.6)
LOSSES = ((0.03, 0.005), (0.03, 0.01), (0.10, 0.02), (0.86, 0.07), (0.30, 0.07))
"""A loss, in logarithms, and the standard deviation of a night."""
NIGHTS = 18
TOLD = 4
"""Night of the loss on which it is told: the shortest span needs three, and the next session confirms it."""
UNDONE = 8
"""Nights that a loss lasts which is undone."""
OUTLIERS, OUTLYING = 0.03, 5.0
"""Share of nights that lie off, and by how many standard deviations, half of them low and half of them high."""


@dataclass(frozen=True, slots=True)
class LossShape:
    """Nights of one law, and what they lose."""

    window: int
    law: str
    memory: float
    loss: float
    noise: float

    @property
    def name(self) -> str:
        """As the table calls it."""
        return f"{self.window} {self.law} {self.memory:g} {self.loss:g}/{self.noise:g}"


@dataclass(frozen=True, slots=True)
class OpenNotices:
    """What the watch knows of its notices, one a stream."""

    loss: Floats
    """As it was told, in logarithms."""
    ends: Ints
    """Where the window ends: sessions from there on are the loss."""
    opened: Ints
    """On which night of the loss."""

    def those(self, rows: Ints) -> OpenNotices:
        """Some of them."""
        return OpenNotices(self.loss[rows], self.ends[rows], self.opened[rows])


@dataclass(frozen=True, slots=True)
class ClosedCounts:
    """Streams that were closed, of those that could have been."""

    streams: int
    wrongly: int
    """While the loss lasted."""
    by_mean: int
    """Of those, by the mean of a span alone, on the same night or a later one."""
    undone: int
    """Still open when the loss was undone."""
    nights: tuple[int, ...]
    """Of those, how many were closed on the first night that was back, on the second, and so on."""

    @property
    def closed(self) -> int:
        """Once the loss was undone."""
        return sum(self.nights)

    @property
    def median(self) -> float | None:
        """Nights until then of those that were closed."""
        if not self.closed:
            return None
        return float(np.median(np.repeat(np.arange(1, len(self.nights) + 1), self.nights)))


def draw(rng: np.random.Generator, shape: LossShape, streams: int) -> Floats:
    """Nights of unchanged streams: a window and what follows it."""
    size = (streams, shape.window + NIGHTS)
    if shape.law == "t3":
        fresh = rng.standard_t(3, size) / math.sqrt(3)
    else:
        fresh = rng.normal(size=size)
    if shape.law == "outliers":
        off = rng.random(size)
        fresh = fresh + OUTLYING * ((off < OUTLIERS / 2).astype(float) - (off > 1 - OUTLIERS / 2))
    for night in range(1, size[1]):
        kept = shape.memory * fresh[:, night - 1]
        fresh[:, night] = kept + math.sqrt(1 - shape.memory**2) * fresh[:, night]
    return np.asarray(shape.noise * fresh)


def streams_of(values: Floats, ends: Ints) -> SessionStreams:
    """One session a night, each measured once."""
    many, nights = values.shape
    days = np.tile(np.arange(nights) % 7, (many, 1))
    shares, none = np.full(values.shape, 0.2), np.zeros(many)
    return SessionStreams(values, shares, values, shares, days, none, none.astype(np.int64), ends)


def by_mean(streams: SessionStreams, told: Floats, sessions: Ints, budget: float) -> Flags:
    """The part of the rule that asks for the mean of a span alone."""
    bearable = np.maximum(told / 2, -math.log1p(-budget))
    closed = np.zeros(len(told), dtype=np.bool_)
    for span in SPANS:
        measured = measure_span(streams, span)
        closed |= (sessions >= span) & (bound_of(measured, SURE) - measured.change < bearable)
    return closed


def closing_nights(
    values: Floats, notices: OpenNotices, window: int, first: int = 1, rule: ClosingRule = is_recovered
) -> Ints:
    """The night since the loss began on which each notice is closed; 0: it stays open."""
    closed = np.zeros(len(values), dtype=np.int64)
    for night in range(max(first, SPANS[0] + 1), NIGHTS + 1):
        still = np.flatnonzero((closed == 0) & (night - notices.opened >= SPANS[0]))
        if not still.size:
            continue
        held = notices.those(still)
        seen = streams_of(values[still, : window + night], held.ends)
        closed[still[rule(seen, held.loss, night - held.opened, BUDGET)]] = night
    return closed


def count(values: Floats, notices: OpenNotices, shape: LossShape, rule: ClosingRule = is_recovered) -> ClosedCounts:
    """Both fates of the same streams: their loss lasts, and it is undone."""
    lasting = closing_nights(values, notices, shape.window, rule=rule)
    rows = np.flatnonzero(lasting)
    alone = closing_nights(values[rows], notices.those(rows), shape.window, rule=by_mean)
    rows = np.flatnonzero((lasting == 0) | (lasting > UNDONE))
    undone = values[rows].copy()
    undone[:, shape.window + UNDONE :] += shape.loss
    back = closing_nights(undone, notices.those(rows), shape.window, UNDONE + 1, rule)
    nights = tuple(int((back == UNDONE + night).sum()) for night in range(1, NIGHTS - UNDONE + 1))
    return ClosedCounts(len(values), int((lasting > 0).sum()), int((alone > 0).sum()), len(rows), nights)


def told_by_watch(values: Floats, window: int) -> tuple[Ints, OpenNotices]:
    """Of which streams the watch tells before a loss would be undone, and what it says of each."""
    opened, loss = np.zeros(len(values), dtype=np.int64), np.zeros(len(values))
    for night in range(SPANS[0], UNDONE + 1):
        untold = np.flatnonzero(opened == 0)
        judged = judge_streams(streams_of(values[untold, : window + night], np.full(untold.size, window + NIGHTS)))
        alarms = is_alarm(judged, BUDGET)
        opened[untold[alarms]], loss[untold[alarms]] = night, -judged.loss.change[alarms]
    told = np.flatnonzero(opened)
    began = [_stream(values[row, : window + opened[row]]).began() for row in told]
    return told, OpenNotices(loss[told], np.maximum(np.array(began, dtype=np.int64), 1), opened[told])


def judge_shape(rng: np.random.Generator, shape: LossShape, streams: int) -> dict[str, ClosedCounts]:
    """Told the truth, and as the watch tells it."""
    values = draw(rng, shape, streams)
    values[:, shape.window :] -= shape.loss
    truth = OpenNotices(np.full(streams, shape.loss), np.full(streams, shape.window), np.full(streams, TOLD))
    told, notices = told_by_watch(values, shape.window)
    return {"truth": count(values, truth, shape), "watch": count(values[told], notices, shape)}


def pooled(counts: Sequence[ClosedCounts]) -> ClosedCounts:
    """Several shapes as one."""
    streams, wrongly, alone, undone = (
        sum(getattr(each, name) for each in counts) for name in ("streams", "wrongly", "by_mean", "undone")
    )
    nights = tuple(map(sum, zip(*(each.nights for each in counts), strict=True)))
    return ClosedCounts(streams, wrongly, alone, undone, nights)


def described(counts: ClosedCounts) -> dict[str, object]:
    """As JSON has it: the counts and their shares."""
    document: dict[str, object] = asdict(counts)
    for name, hits, total in (
        ("wrongly_share", counts.wrongly, counts.streams),
        ("closed_share", counts.closed, counts.undone),
    ):
        document[name] = asdict(share_interval(hits, total)) if total else None
    return {**document, "median_nights": counts.median}


def cell(hits: int, total: int) -> str:
    """A share with its interval."""
    if not total:
        return "-".rjust(24)
    share = share_interval(hits, total)
    return f"{share.estimate:6.1%} [{share.low:4.1%}, {share.high:6.1%}]".rjust(24)


def line_of(counts: ClosedCounts) -> str:
    """One half of a row."""
    median = "-" if counts.median is None else f"{counts.median:g}"
    wrongly, closed = cell(counts.wrongly, counts.streams), cell(counts.closed, counts.undone)
    return f"{counts.streams:7} {wrongly} {closed} {median:>6}"


def is_above(counts: ClosedCounts) -> bool:
    """Whether more than one look's chance of being wrong is shown."""
    return counts.streams > 0 and share_interval(counts.wrongly, counts.streams).low > SURE


def _stream(values: Floats) -> WatchedStream:
    results = (WatchedResult("", "", "", float(value), 5, 0.0) for value in values)
    return WatchedStream(tuple(WatchedSession((result,)) for result in results), len(values))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Notices closed by mistake, and notices closed once a loss is undone.")
    parser.add_argument("--streams", type=int, default=700, help="of each shape")
    parser.add_argument("--seed", type=int, default=20261120)
    parser.add_argument("--only", default="", help="shapes whose name holds this, such as 't3 0.6'")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shapes = [
        LossShape(window, law, memory, *loss)
        for window, law, memory, loss in itertools.product(WINDOWS, LAWS, MEMORIES, LOSSES)
    ]
    chosen = {place: shape for place, shape in enumerate(shapes) if arguments.only in shape.name}
    if not chosen:
        parser.error(f"no shape is called so: {arguments.only}")
    if not arguments.json:
        print(f"{arguments.streams} streams a shape, seed {arguments.seed}; {NIGHTS} nights, or undone after {UNDONE}")
        print(f"{'':<26} {'told the truth':<63}   as the watch tells it")
        half = f"{'told':>7} {'closed wrongly':>24} {'closed once undone':>24} {'nights':>6}"
        print(f"{'window, law, memory, loss':<26} {half} {half}")
    counted: dict[LossShape, dict[str, ClosedCounts]] = {}
    for place, shape in chosen.items():
        rng = np.random.default_rng([arguments.seed, place])
        counted[shape] = counts = judge_shape(rng, shape, arguments.streams)
        if not arguments.json:
            mark = "  above 2.5 %" if any(map(is_above, counts.values())) else ""
            print(f"{shape.name:<26} {line_of(counts['truth'])} {line_of(counts['watch'])}{mark}", flush=True)
    if arguments.json:
        rows = [
            {**asdict(shape), **{told: described(each) for told, each in counts.items()}}
            for shape, counts in counted.items()
        ]
        print(json.dumps({"seed": arguments.seed, "streams": arguments.streams, "rows": rows}))
        return 0
    print(
        "\nall losses of a window, a law and a memory together; then how many of those closed wrongly the mean closed"
    )
    for group, same in itertools.groupby(counted, lambda shape: (shape.window, shape.law, shape.memory)):
        members = list(same)
        truth, watch = (pooled([counted[shape][told] for shape in members]) for told in ("truth", "watch"))
        name = f"{group[0]} {group[1]} {group[2]:g}"
        alone = f"{truth.by_mean} of {truth.wrongly}, {watch.by_mean} of {watch.wrongly}"
        print(f"{name:<26} {line_of(truth)} {line_of(watch)}  {alone}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
