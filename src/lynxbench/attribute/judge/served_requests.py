"""A verdict on served requests: whose time their phases are, and which telemetry moves with their latency.

Queueing is demand's or capacity's, prefill arithmetic's, decode bandwidth's. Correlation is no cause: what it adds is
order in time. A clock that falls before latency rises is a suspect, one that follows is a symptom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lynxbench.attribute.judge.causes import (
    CLEAR_LEAD,
    DOMINANT,
    MOST_REMOVABLE,
    NO_GAIN,
    Judgement,
    is_close,
    speedup,
)
from lynxbench.attribute.tile.request_split import RequestSplit
from lynxbench.errors import BadInput
from lynxbench.model.attribution import Bound, Category
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer

FEWEST_REQUESTS = 5
"""With fewer, one odd request decides the split."""
UNEXPLAINED = 0.25
"""A remainder of this share keeps the verdict weak."""
LONGEST_LAG = 0.2
"""Lags are tried up to this share of the common span; beyond it too few pairs are left."""
FEWEST_BINS = 30
"""Fewer common bins than this say nothing about a lag."""
DOUBT = 0.01
"""Chance at which an unrelated column would be named, all lags together (Bonferroni)."""
LEAST = 0.3
"""A weaker correlation explains under a tenth of the variation: not worth a word, however sure it is."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PhaseCause:
    """What a phase's time means: whose it is, why, and what shortens it."""

    category: Category
    bound: Bound
    """Undetermined for what a trace alone can hold to a ceiling: phases do not see kernels."""
    layer: Layer
    why: str
    next_step: str


PHASES: dict[str, PhaseCause] = {
    "queueing": PhaseCause(
        Category.QUEUEING,
        Bound.DEMAND,
        Layer.DEMAND,
        "requests wait in the server's queue before anything works on them",
        "add capacity (replicas, batch limits) or admit fewer requests; a faster kernel shortens the queue only as far "
        "as it raises capacity",
    ),
    "prefill": PhaseCause(
        Category.COMPUTE,
        Bound.UNDETERMINED,
        Layer.ACCELERATOR,
        "prompts are read through in products of many rows: arithmetic",
        "shorten or cache prompts, chunk the prefill, compute in a lower precision, or use faster hardware",
    ),
    "decode": PhaseCause(
        Category.MEMORY_BANDWIDTH,
        Bound.UNDETERMINED,
        Layer.ACCELERATOR,
        "every token reads all weights once for a few rows: memory bandwidth",
        "serve more streams a step, store weights and cache in fewer bits, or use faster memory",
    ),
    "inference": PhaseCause(
        Category.UNATTRIBUTED,
        Bound.UNDETERMINED,
        Layer.ACCELERATOR,
        "the model itself runs, and the server does not say what binds it",
        "profile the model in process, or give a trace of the server to `lynxbench attribute`",
    ),
    "batching": PhaseCause(
        Category.LAUNCH,
        Bound.SOFTWARE,
        Layer.SERVING,
        "the server works around the model: validation, copies, scheduling between steps",
        "profile the server's own process; a newer version or fewer features on the path removes it",
    ),
    "network": PhaseCause(
        Category.NETWORK,
        Bound.SOFTWARE,
        Layer.SYSTEM,
        "the client waits longer than the server counts",
        "shorten the path: keep-alive, a nearer client, a proxy less",
    ),
    "unexplained": PhaseCause(
        Category.UNATTRIBUTED,
        Bound.UNDETERMINED,
        Layer.SERVING,
        "the server counts this time in no phase",
        "profile the server's process: the time lies between its phases",
    ),
}


def judge_phases(split: RequestSplit) -> Judgement:
    """Whose time a request is; BadInput where the server counts none."""
    if split.whole_s <= 0:
        raise BadInput(f"{split.server} counts no time for its {split.requests} requests; nothing can be attributed")
    top = split.longest
    cause, share = PHASES[top], split.share(top)
    shares: dict[Category, float] = {}
    candidates: dict[Layer, str] = {}
    for phase in sorted(split.seconds, key=lambda phase: -split.seconds[phase]):
        category, part = PHASES[phase].category, split.share(phase)
        if part > 0:
            shares[category] = shares.get(category, 0.0) + part
        if part >= CLEAR_LEAD:
            candidates.setdefault(PHASES[phase].layer, f"{phase} {part:.0%}: {PHASES[phase].why}")
    if split.share("queueing") >= CLEAR_LEAD:
        more = "too few replicas or too small a batch limit: the same demand would fit"
        candidates.setdefault(Layer.SERVING, more)
    bound = cause.bound if share >= DOMINANT else Bound.UNDETERMINED
    layer = cause.layer if bound is not Bound.UNDETERMINED else None
    close = is_close([split.share(phase) for phase in split.seconds])
    gain = Interval(1.0, 1.0 / (1.0 - min(share, MOST_REMOVABLE) / 2), speedup(share))
    return Judgement(
        bottleneck=cause.category,
        bound=bound,
        layer=layer,
        symptom=Layer.SERVING if layer not in (None, Layer.SERVING) else None,
        weak=close or split.share("unexplained") > UNEXPLAINED or split.requests < FEWEST_REQUESTS,
        shares=shares,
        gain=NO_GAIN if cause.bound is Bound.UNDETERMINED else gain,
        next_step=cause.next_step,
        candidates=candidates,
        reason=cause.why,
    )


# --- telemetry beside the requests ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correlation:
    """How a column moves with the requests. A positive lag: the column follows them; a negative one: it leads."""

    column: str
    r: float
    lag_s: float
    bins: int

    @property
    def line(self) -> str:
        """The relation as a line of evidence."""
        if abs(self.lag_s) < 1e-9:
            when = "at the same time"
        else:
            when = f"{abs(self.lag_s):.3g} s {'after' if self.lag_s > 0 else 'before'} it"
        way = "rises" if self.r > 0 else "falls"
        return f"{self.column} {way} with the latency of requests, {when} (r {self.r:+.2f}, {self.bins} bins)"


def correlate_telemetry(
    request_at_s: Floats, latency_s: Floats, telemetry_at_s: Floats, columns: Mapping[str, Floats]
) -> tuple[Correlation, ...]:
    """Columns that move with the mean latency of the requests that were under way, the closest relation first."""
    correlations = (
        _correlate(name, request_at_s, latency_s, telemetry_at_s, values) for name, values in columns.items()
    )
    known = [correlation for correlation in correlations if correlation is not None]
    return tuple(sorted(known, key=lambda correlation: (-abs(correlation.r), correlation.column)))


def _correlate(name: str, at: Floats, latency: Floats, column_at: Floats, column: Floats) -> Correlation | None:
    mine, theirs = np.isfinite(latency), np.isfinite(column)
    at, latency, column_at, column = at[mine], latency[mine], column_at[theirs], column[theirs]
    if len(at) < FEWEST_BINS or len(column_at) < FEWEST_BINS:
        return None
    low, high = max(at.min(), column_at.min()), min(at.max(), column_at.max())
    bin_s = max(float(np.median(np.diff(np.sort(column_at)))), (at.max() - at.min()) / len(at) * 4)
    count = int((high - low) / bin_s) if bin_s > 0 else 0
    if count < FEWEST_BINS:
        return None
    edges = low + bin_s * np.arange(count + 1)
    first, second = _detrended(_binned(at, latency, edges)), _detrended(_binned(column_at, column, edges))
    if first is None or second is None:
        return None
    longest = int(count * LONGEST_LAG)
    tried = {lag: _pearson(first, second, lag) for lag in range(-longest, longest + 1)}
    lag = max(tried, key=lambda lag: (abs(tried[lag]), -abs(lag)))
    r = tried[lag]
    inertia = _pearson(first, first, 1) * _pearson(second, second, 1)
    effective = max(4.0, (count - abs(lag)) * (1.0 - inertia) / (1.0 + inertia)) if inertia > 0 else count - abs(lag)
    # Named where chance hardly gives so much at any lag, with the series' own inertia counted in. Fisher's z is normal
    # with variance 1/(n - 3) when nothing relates the series.
    surprise = abs(math.atanh(max(-0.999999, min(0.999999, r)))) * math.sqrt(max(1.0, effective - 3.0))
    by_chance = math.erfc(surprise / math.sqrt(2.0)) * len(tried)
    return Correlation(name, r, lag * bin_s, count) if by_chance < DOUBT and abs(r) >= LEAST else None


def _binned(at: Floats, values: Floats, edges: Floats) -> Floats:
    """Mean of each bin; empty bins lie on the line between their neighbours."""
    place = np.searchsorted(edges, at, side="right") - 1
    inside = (place >= 0) & (place < len(edges) - 1)
    total = np.bincount(place[inside], weights=values[inside], minlength=len(edges) - 1)
    number = np.bincount(place[inside], minlength=len(edges) - 1)
    known = number > 0
    centre = (edges[1:] + edges[:-1]) / 2
    return np.interp(centre, centre[known], total[known] / number[known])


def _detrended(values: Floats) -> Floats | None:
    """Without its line: two series that both drift are not related by that. None where nothing varies."""
    at = np.arange(len(values), dtype=np.float64)
    slope, offset = np.polyfit(at, values, 1)
    rest = values - (slope * at + offset)
    spread = float(rest.std())
    return rest / spread if spread > 1e-12 * max(1.0, float(np.abs(values).max())) else None


def _pearson(first: Floats, second: Floats, lag: int) -> float:
    """Correlation of the first series with the second `lag` bins later."""
    a = first[max(0, -lag) : len(first) - max(0, lag)]
    b = second[max(0, lag) : len(second) - max(0, -lag)]
    a, b = a - a.mean(), b - b.mean()
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else 0.0
