"""A contract's history: where its level changed, by how much, and what in the record changed with it. Pure.

Two sources of places: change points of the series (stats/changepoints), and places where the record itself changed.
A change point takes the nearest record change within reach; a record change without one is listed with its effect,
which may well be none. A drift or a wandering level is no place: it is said with its size, and tied to nothing.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lynxbench.compare.effects import THROUGHPUT
from lynxbench.compare.leading_causes import find_cause_moves
from lynxbench.compare.rules import FEWEST_RESTARTS
from lynxbench.compare.sittings import describe_noise, in_one_sitting, learn_from_points
from lynxbench.compare.suspects import cause_of, on_another_machine, rank_changes
from lynxbench.compare.timed_course import TimedCourse, gap_before, read_timed_course
from lynxbench.compare.whole_rules import weights_of
from lynxbench.model.canonical import content_id
from lynxbench.model.comparison import EffectCause, LayerDifference, Weight
from lynxbench.model.evidence_gate import whole_reasons
from lynxbench.model.executor import Executor, FieldChange, Tier
from lynxbench.model.history import DriftKind, History, HistoryPoint, LevelChange, Motion, Season
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.stats.changepoints import MIN_SEGMENT, Course
from lynxbench.stats.intervals import ratio_interval
from lynxbench.stats.level_ratio import LevelNoise
from lynxbench.stats.sessions import LevelVariance, ratio_between

REACH = 2
"""Results between a change point and the record change it is tied to: the search places a step within two of it."""
CONFIDENCE = 0.95
MOST_RECORD_CHANGES = 50
"""A record that changes at every result says nothing; the rest is counted."""
BY_RESULTS = "results of the two levels on their logarithms, as much as they remember one another counted in"
BESIDE = "the step beside the {}, not the results on either side"
BY_BOTH = "results of the two levels, and the step beside the wandering: the interval holds both"
BY_RESTARTS = "restarts of the two results, Welch's t on their logarithms"
BY_ONE_SITTING = f"{BY_RESTARTS}; one sitting each: how much sittings and machines differ is not in it"
BY_FEW = f"{BY_RESTARTS}; fewer than {FEWEST_RESTARTS} of one"
BY_SITTINGS = "means of the two sittings, Student's t with what sittings of one executor differ by here"

FieldsBetween = Callable[[Sequence[tuple[HistoryPoint, HistoryPoint]]], "Sequence[tuple[FieldChange, ...] | None]"]
"""The executor fields that differ between the two results of each pair, asked for all pairs at once; None where the
documents are not at hand."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the level changed, or the record did."""

    index: int
    at: int
    """The first point after the record change it is tied to; the same where it is tied to none."""
    found: bool
    effect: Interval
    basis: str
    p: float | None


def layer_ids(executor: Executor) -> dict[Layer, str]:
    """The configuration's hash of each layer."""
    return {
        layer: content_id({n: f.value for n, f in sorted(fields.items()) if f.tier is Tier.CONFIGURATION})
        for layer in Layer
        for fields in (executor.layers.get(layer, {}),)
    }


def point_of(result: Result, precision: Precision) -> HistoryPoint | str:
    """A result as a point of its series, or why it is none."""
    figures = next((p for p in result.per_precision if p.precision is precision), None)
    if figures is None or figures.skipped is not None:
        return f"{precision} was not measured"
    if result.validity.verdict is ValidityVerdict.VOID or figures.validity.verdict is ValidityVerdict.VOID:
        return "void"
    if figures.throughput is None or figures.throughput.estimate is None or figures.throughput.estimate <= 0:
        return "no figure"
    return HistoryPoint(
        result_id=result.result_id,
        started_at=result.started_at,
        executor_id=result.executor_id,
        instance_id=result.instance_id,
        layer_ids=layer_ids(result.executor),
        weights=weights_of(result.executor),
        run_means=figures.run_means,
        estimate=figures.throughput.estimate,
        low=figures.throughput.low,
        high=figures.throughput.high,
        unit=figures.throughput.unit,
        doubtful=figures.validity.verdict is ValidityVerdict.DOUBTFUL or _wholly_doubtful(result),
        cause=_cause_of(result),
    )


def _wholly_doubtful(result: Result) -> bool:
    """Whether a run is doubtful for what concerns every precision, such as an executor that changed meanwhile."""
    untold = not result.validity.reasons
    return result.validity.verdict is ValidityVerdict.DOUBTFUL and (untold or bool(whole_reasons(result)))


def _cause_of(result: Result) -> str:
    """What bounds a result by its own verdict; nothing where that rests on little."""
    found = result.attribution
    return "" if found is None or found.weak else found.bottleneck.value


def read_history(
    points: Iterable[HistoryPoint],
    *,
    contract_id: str,
    contract: str,
    precision: Precision,
    owners: dict[Layer, str] | None = None,
    left_out: Sequence[str] = (),
    fields_between: FieldsBetween = lambda pairs: [None] * len(pairs),
    machine: str = "",
) -> History:
    """Order the points, find where the level changed, and tie each place to what changed in the record."""
    ordered = tuple(sorted(points, key=lambda point: (point.started_at, point.result_id)))
    units = Counter(point.unit for point in reversed(ordered))
    # what most of them count, and of as many the newest: one that counts something else empties no series
    unit = max(units, key=units.__getitem__, default="")
    others = [point for point in ordered if point.unit != unit]
    series = tuple(point for point in ordered if point.unit == unit)
    left_out = (*left_out, *(f"{point.result_id[:12]}: counts {point.unit}, not {unit}" for point in others))
    timed = read_timed_course(series)
    course = timed.course
    learned = learn_from_points(series)
    changes = _changes(series, course, owners or DEFAULT_OWNERS, contract, fields_between, learned)
    return History(
        contract_id=contract_id,
        contract=contract,
        precision=precision,
        unit=unit,
        points=series,
        left_out=tuple(left_out),
        changes=changes,
        note=_note(series, timed),
        motion=course.motion,
        trend=course.trend if course.trend.known else None,
        cause_moves=find_cause_moves(series),
        seasons=timed.seasons,
        noise=describe_noise(THROUGHPUT, precision, learned) if len(series) > 1 else None,
        machine=machine,
    )


def _changes(
    points: Sequence[HistoryPoint],
    course: Course,
    owners: dict[Layer, str],
    contract: str,
    fields_between: FieldsBetween,
    learned: LevelVariance,
) -> tuple[LevelChange, ...]:
    p_by_index = {change.index: change.p for change in course.changes}
    recorded = [i for i in range(1, len(points)) if _record_changed(points[i - 1], points[i])]
    tied: dict[int, int] = {}
    for index in p_by_index:
        near = [i for i in recorded if abs(i - index) <= REACH and i not in tied.values()]
        if near:
            tied[index] = min(near, key=lambda i: abs(i - index))
    alone = [i for i in recorded if i not in tied.values()]
    edges = [0, *sorted(p_by_index), len(points)]
    effects = _Effects(points, course, edges, recorded, learned)
    seen = [
        _Place(index, tied.get(index, index), True, *effects.around(index, edges), p) for index, p in p_by_index.items()
    ]
    seen += [_Place(index, index, False, *effects.of_record(index), None) for index in alone[-MOST_RECORD_CHANGES:]]
    fields = fields_between([(points[place.at - 1], points[place.at]) for place in seen])
    changes = [
        _level_change(points, place, differing, owners, contract) for place, differing in zip(seen, fields, strict=True)
    ]
    return tuple(sorted(changes, key=lambda change: change.index))


class _Effects:
    """The effect at a place, and what it was made from."""

    def __init__(
        self,
        points: Sequence[HistoryPoint],
        course: Course,
        edges: Sequence[int],
        recorded: Sequence[int],
        learned: LevelVariance,
    ) -> None:
        self._points, self._course, self._learned = points, course, learned
        self._marks = sorted({*edges, *recorded})
        self._values = [point.estimate for point in points]
        self._noise = LevelNoise([self._values[start:end] for start, end in pairwise(edges)])

    def around(self, index: int, marks: Sequence[int]) -> tuple[Interval, str]:
        """Over the results up to the next mark on either side; beside the motion where there are no levels."""
        motion, beside = self._course.motion, self._course.jump(index, CONFIDENCE)
        if motion is Motion.DRIFT:
            return beside, BESIDE.format(motion)
        at = bisect_left(marks, index)
        before, after = self._values[marks[at - 1] : index], self._values[index : marks[at + 1]]
        ratio = self._noise.ratio(before, after, CONFIDENCE)
        if motion is Motion.LEVELS or not (ratio.known and beside.known):
            return ratio, BY_RESULTS
        # Strong noise about levels looks like a walk: the interval holds both accounts.
        return Interval(min(ratio.low, beside.low), ratio.estimate, max(ratio.high, beside.high)), BY_BOTH

    def of_record(self, index: int) -> tuple[Interval, str]:
        """The effect of a record change: over the results around it up to the next place, or by restarts where few."""
        effect, basis = self.around(index, self._marks)
        before, after = self._points[index - 1], self._points[index]
        left, right = before.run_means, after.run_means
        if effect.known:
            return effect, basis
        if not (left and right):
            return UNKNOWN_INTERVAL, "no restarts are recorded"
        here, together = before.instance_id == after.instance_id, in_one_sitting(before.started_at, after.started_at)
        if self._learned.known and min(*left, *right) > 0 and not (here and together):
            return ratio_between(left, right, self._learned, CONFIDENCE), BY_SITTINGS
        few = min(len(left), len(right)) < FEWEST_RESTARTS
        basis = BY_ONE_SITTING if not (here and together) else BY_FEW if few else BY_RESTARTS
        return ratio_interval(left, right, CONFIDENCE), basis


def _level_change(
    points: Sequence[HistoryPoint],
    place: _Place,
    fields: tuple[FieldChange, ...] | None,
    owners: dict[Layer, str],
    contract: str,
) -> LevelChange:
    before, after = points[place.at - 1], points[place.at]
    layers = rank_changes(fields, owners) if fields is not None else _by_ids(before, after, owners)
    model = before.weights is not None and after.weights is not None and before.weights != after.weights
    cause = cause_of(layers, model_changed=model, contract=contract)
    if before.instance_id != after.instance_id:
        cause = on_another_machine(cause)
    return LevelChange(
        index=place.index,
        result_id=points[place.index].result_id,
        at=points[place.index].started_at,
        found=place.found,
        effect=place.effect,
        basis=place.basis,
        p=place.p if place.p is not None and math.isfinite(place.p) else None,
        drift=_drift(before, after, model),
        layers_changed=_layers_changed(before, after),
        layers=layers,
        cause=_carried(cause, points, place, contract),
        moved=_moved(place),
        since=gap_before(points, place.index) if place.found else "",
    )


def _moved(place: _Place) -> bool | None:
    """Whether the record change moved the level; restarts of one sitting each do not tell, nor do few."""
    if not place.effect.known or place.basis in (BY_ONE_SITTING, BY_FEW):
        return None
    return not place.effect.low <= 1 <= place.effect.high


def _carried(cause: EffectCause, points: Sequence[HistoryPoint], place: _Place, contract: str) -> EffectCause:
    """The cause, where the results beside the change can carry one: both next to it, and most of either level."""
    sides = points[max(0, place.index - MIN_SEGMENT) : place.index], points[place.index : place.index + MIN_SEGMENT]
    beside = points[place.at - 1], points[place.at]
    doubtful = [sum(point.doubtful for point in side) for side in sides]
    mostly = place.found and any(2 * many > len(side) for many, side in zip(doubtful, sides, strict=True))
    if not mostly and not any(point.doubtful for point in beside):
        convicts = place.found or _moved(place)
        return cause if convicts else cause.model_copy(update={"owner": None, "sentence": cause.record})
    sentence = f"no cause is named: {sum(doubtful)} of {len(sides[0]) + len(sides[1])} results beside it are doubtful"
    experiment = f"run {contract} again before and after it, without what makes them doubtful"
    return cause.model_copy(update={"layer": None, "owner": None, "sentence": sentence, "experiment": experiment})


def _by_ids(before: HistoryPoint, after: HistoryPoint, owners: dict[Layer, str]) -> tuple[LayerDifference, ...]:
    """Without the documents: the layers whose configuration hash changed, unranked."""
    return tuple(
        LayerDifference(layer=layer, owner=owners[layer], rank=place, weight=Weight.VERSION, fields=())
        for place, layer in enumerate(_layers_changed(before, after), start=1)
    )


def _layers_changed(before: HistoryPoint, after: HistoryPoint) -> tuple[Layer, ...]:
    return tuple(layer for layer in Layer if before.layer_ids.get(layer) != after.layer_ids.get(layer))


def _record_changed(before: HistoryPoint, after: HistoryPoint) -> bool:
    return before.executor_id != after.executor_id or before.weights != after.weights


def _drift(before: HistoryPoint, after: HistoryPoint, model: bool) -> DriftKind:
    # The weights' hash is part of the application layer: alone, it is the model's change and not the executor's.
    layers = set(_layers_changed(before, after))
    if model:
        return DriftKind.BOTH if layers - {Layer.APPLICATION} else DriftKind.MODEL
    if layers:
        return DriftKind.EXECUTOR
    return DriftKind.INSTANCE if before.instance_id != after.instance_id else DriftKind.NOTHING


def _note(points: Sequence[HistoryPoint], timed: TimedCourse) -> str:
    course = timed.course
    if not points:
        return "no result of this contract has a figure at this precision"
    if len(points) < 2 * MIN_SEGMENT:
        counted = "1 result" if len(points) == 1 else f"{len(points)} results"
        return f"{counted}: change points of the series need {2 * MIN_SEGMENT}; only changes of the record are listed"
    many = len(course.changes)
    counted = f"{len(points)} results, {many} change{'' if many == 1 else 's'} of the level"
    motion = [motion_words(course.motion, course.trend)] if course.motion is not Motion.LEVELS else []
    return "; ".join([counted, *motion, *map(season_words, timed.seasons)])


def season_words(season: Season) -> str:
    """`seasonal by hour of day: 3.1 % [2.5, 3.7] between 14:00 UTC (highest) and 03:00 UTC (lowest)`."""
    low, middle, high = ((ratio - 1) * 100 for ratio in (season.ratio.low, season.ratio.estimate, season.ratio.high))
    size = f"{middle:.1f} % [{low:.1f}, {high:.1f}]"
    return f"seasonal by {season.kind}: {size} between {season.highest} (highest) and {season.lowest} (lowest)"


def motion_words(motion: Motion, trend: Interval) -> str:
    """`drift: slower, -6.1 % [-7.0, -5.2] from the first result to the last, along a line and in no step`."""
    if motion is Motion.LEVELS:
        return ""
    low, middle, high = ((ratio - 1) * 100 for ratio in (trend.low, trend.estimate, trend.high))
    size = f"{middle:+.1f} % [{low:+.1f}, {high:+.1f}]" if trend.known else "of unknown size"
    way = "slower, " if trend.high < 1 else "faster, " if trend.low > 1 else ""
    if motion is Motion.DRIFT:
        return f"drift: {way}{size} from the first result to the last, along a line and in no step"
    ends = f"the last {MIN_SEGMENT} results against the first {MIN_SEGMENT}"
    return f"wandering: {way}{size}, {ends}; the level moves by itself, and no step stands out of that"
