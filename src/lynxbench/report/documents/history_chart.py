"""A contract's histories as one chart: every precision, coloured by executor or by what changed in a layer."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lynxbench.model.canonical import short
from lynxbench.model.contract import SloMetric
from lynxbench.model.history import History, HistoryPoint
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.report import findings, words
from lynxbench.report.chart import TIME, Chart, ChartMark, ChartPanel, ChartTrack
from lynxbench.report.svg.history_plot import edge_before, is_clustered, level_lines, moments_of

PERCENTILES = (50.0, 99.0)
MOST_GROUPS = 40
LONGEST_VALUE = 28


class Overlay(NamedTuple):
    """What points can be coloured by: the names of its groups, and which of them a point is in."""

    names: tuple[str, ...]
    group_of: Mapping[str, int]
    """By result."""


def history_chart(histories: Sequence[History], results: Sequence[Result] = (), more: str = "") -> Chart | None:
    """Throughput over time, the first history shown and the others at hand; latencies below where documents are given.

    None where a moment is not told.
    """
    points = [point for history in histories for point in history.points]
    if not points or moments_of(points) is None:
        return None
    overlays = overlays_of(histories)
    tracks = [_track(history, overlays, hidden=place > 0) for place, history in enumerate(histories) if history.points]
    chosen = histories[0]
    moments = moments_of(chosen.points) or []
    panel = ChartPanel(
        "Throughput",
        words.clean(chosen.unit),
        tracks,
        marks=[
            ChartMark(
                edge_before(change.index, moments),
                f"{(change.effect.estimate - 1) * 100:+.1f} %" if change.found else "",
                words.clean(change.cause.sentence),
                [layer.value for layer in change.layers_changed],
            )
            for change in (chosen.changes if moments else ())
        ],
        segments=level_lines(chosen, moments) if moments else (),
    )
    names = {name: overlay.names for name, overlay in overlays.items()}
    return Chart(TIME, [panel, *latency_panels(histories, results)], names, is_clustered(moments), more)


def _track(history: History, overlays: Mapping[str, Overlay], *, hidden: bool) -> ChartTrack:
    moments = moments_of(history.points) or []
    order = sorted(range(len(moments)), key=moments.__getitem__)
    points = [history.points[index] for index in order]
    return ChartTrack(
        history.precision.value,
        [moments[index] for index in order],
        [point.estimate for point in points],
        [point.low for point in points],
        [point.high for point in points],
        joined=False,
        ids=[point.result_id for point in points],
        hollow=[place for place, point in enumerate(points) if point.doubtful],
        groups=_groups(overlays, [point.result_id for point in points]),
        hidden=hidden,
    )


def _groups(overlays: Mapping[str, Overlay], ids: Sequence[str]) -> dict[str, list[int]]:
    return {name: [overlay.group_of[result_id] for result_id in ids] for name, overlay in overlays.items()}


def latency_panels(histories: Sequence[History], results: Sequence[Result]) -> list[ChartPanel]:
    """Median and tail of every latency that the documents state, of those results that are in a history."""
    if not results:
        return []
    overlays = overlays_of(histories)
    panels = []
    for metric in (SloMetric.LATENCY, SloMetric.TIME_TO_FIRST_TOKEN, SloMetric.TIME_PER_TOKEN):
        for wanted in PERCENTILES:
            tracks = [
                track
                for place, history in enumerate(histories)
                if (track := _latency_track(history, results, metric, wanted, overlays, hidden=place > 0)) is not None
            ]
            if tracks:
                served = any(findings.is_served(result) for result in results)
                name = findings.latency_name(metric, served=served)
                title = f"{name[:1].upper()}{name[1:]} {words.percentile_name(wanted)}"
                panels.append(ChartPanel(title, "ms", tracks))
    return panels


def _latency_track(
    history: History,
    results: Sequence[Result],
    metric: SloMetric,
    percentile: float,
    overlays: Mapping[str, Overlay],
    *,
    hidden: bool,
) -> ChartTrack | None:
    when = dict(zip((p.result_id for p in history.points), moments_of(history.points) or (), strict=False))
    doubtful = {point.result_id for point in history.points if point.doubtful}
    rows = []
    for result in results:
        figures = next((each for each in result.per_precision if each.precision is history.precision), None)
        if result.result_id not in when or figures is None or not findings.is_shown(figures, result):
            continue
        mark = findings.percentile_of(figures, metric, percentile)
        if mark is not None and mark.estimate is not None and mark.resolved:
            rows.append((when[result.result_id], result.result_id, mark))
    rows.sort(key=lambda row: row[0])
    if not rows:
        return None
    ids = [result_id for _, result_id, _ in rows]
    return ChartTrack(
        history.precision.value,
        [at for at, _, _ in rows],
        [mark.estimate for _, _, mark in rows],
        [mark.low for _, _, mark in rows],
        [mark.high for _, _, mark in rows],
        joined=False,
        ids=ids,
        hollow=[place for place, name in enumerate(ids) if name in doubtful],
        groups=_groups(overlays, ids),
        hidden=hidden,
    )


def overlays_of(histories: Sequence[History]) -> dict[str, Overlay]:
    """By executor, by machine, by the model's weights, and by each layer whose configuration is not always the same."""
    points = {point.result_id: point for history in histories for point in history.points}
    versions = _version_names(histories)
    asked: list[tuple[str, Callable[[HistoryPoint], str], Callable[[str], str]]] = [
        ("executor", lambda point: point.executor_id, short),
        ("machine", lambda point: point.instance_id, short),
        ("model weights", lambda point: point.weights or "", lambda name: short(name) if name else "not stated"),
    ]
    for layer in Layer:
        asked.append(
            (
                f"version of {layer}",
                lambda point, layer=layer: point.layer_ids.get(layer, ""),  # type: ignore[misc]
                lambda name, layer=layer: versions.get((layer, name), short(name)),  # type: ignore[misc]
            )
        )
    overlays: dict[str, Overlay] = {}
    for name, key_of, name_of in asked:
        keys = {result_id: key_of(point) for result_id, point in points.items()}
        groups = list(dict.fromkeys(keys.values()))
        if 1 < len(groups) <= MOST_GROUPS:
            labels = [words.clean(name_of(key)) for key in groups]
            unique = [
                f"{label} ({short(key)[:6]})" if labels.count(label) > 1 else label
                for label, key in zip(labels, groups, strict=True)
            ]
            overlays[name] = Overlay(tuple(unique), {result_id: groups.index(key) for result_id, key in keys.items()})
    return overlays


def _version_names(histories: Sequence[History]) -> dict[tuple[Layer, str], str]:
    """A layer's configuration by the field that changed with it, where the history tells: `torch 2.6.0`."""
    names: dict[tuple[Layer, str], str] = {}
    for history in histories:
        for change in history.changes:
            if not 0 < change.index < len(history.points):
                continue
            before, after = history.points[change.index - 1], history.points[change.index]
            for difference in change.layers:
                if not difference.fields:
                    continue
                field = next((each for each in difference.fields if each.follows is None), difference.fields[0])
                for point, value in ((before, field.before), (after, field.after)):
                    key = (difference.layer, point.layer_ids.get(difference.layer, ""))
                    names.setdefault(key, f"{field.name} {words.value_text(value, LONGEST_VALUE)}")
    return names
