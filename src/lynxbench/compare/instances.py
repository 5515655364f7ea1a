"""Nominally identical instances held against each other: the spread, who stands apart, and what only they have.

Two questions are kept apart. Is the difference real and does it matter: the instance over the others, by Welch's t on
run means with simultaneous intervals, must clear the contract's budget. Is it beyond what this fleet spreads by itself:
its distance from the median instance, in robust standard deviations. Only both together make an outlier.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import JsonValue

from lynxbench.compare.rules import FEWEST_RESTARTS
from lynxbench.compare.suspects import (
    COUNTS,
    ORDER,
    CauseWords,
    changed_keys,
    name_cause,
    rank_changes,
    strongest,
    weigh,
)
from lynxbench.compare.whole_rules import brief
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.comparison import CauseKind, FieldSuspect, LayerDifference
from lynxbench.model.evidence_gate import Lack, Shortfall, figures_fall_short
from lynxbench.model.executor import Executor, Field, FieldChange, Status, Tier
from lynxbench.model.fleet import FieldSplit, FleetComparison, InstanceRow, InstanceStanding
from lynxbench.model.interval import UNKNOWN_INTERVAL, Interval
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult, Result, ValidityVerdict
from lynxbench.stats.intervals import student_quantile
from lynxbench.stats.robust import MAD_TO_SIGMA

OUTLYING = 3.5
"""Robust standard deviations from the median at which an instance is called an outlier (Iglewicz & Hoaglin 1993)."""
KNOWN_SPREAD = 8
"""Instances from which a fleet's own spread is known well enough to be used alone."""
USUAL_SIGMA = 0.01
"""With fewer, the spread is taken to be at least this: nominally identical accelerators differ by several percent from
end to end (Sinha et al., SC22), so a percent of standard deviation is no news."""
TYPICAL_WITHIN = 0.05
"""An instance is typical whose whole interval lies this near to the others: identical ones spread as much."""
MOST_SPLITS = 8
PLACEMENT = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
"""Which device a run was given is no property of the device."""
SETS_APART = CauseWords(
    nothing=(
        "nothing that is recorded sets it apart: the cause is outside the record, or there is none",
        "run {contract} on it again; if it still stands apart, look at what no probe reads (neighbours on the host, "
        "cooling, network)",
    ),
    alone=(
        "only layer {layer} sets it apart ({fields}): the likely cause",
        "make {names} as elsewhere and run {contract} again: if it still stands apart, that was not the cause",
    ),
    several=(
        "{count} layers set it apart and cannot be separated: {all}",
        "make only {names} as elsewhere and run {contract} again; then the next layer",
    ),
)


def compare_instances(
    results: Mapping[str, Result], precision: Precision, *, budget: float, confidence: float
) -> FleetComparison | None:
    """All instances at one precision, by unit name; None where fewer than one has a figure there."""
    usable = {name: figures for name, result in results.items() if (figures := _usable(result, precision)) is not None}
    if not usable:
        return None
    names = list(usable)
    logs = np.array([float(np.mean(np.log(usable[name].run_means))) for name in names])
    errors = np.array([_standard_error(usable[name].run_means) for name in names])
    values = np.exp(logs)
    lacks = [_lack(results[name], usable[name]) for name in names]
    # What an instance is held against must be sound itself: doubtful ones together would convict the one that is not.
    sound = [i for i, lack in enumerate(lacks) if lack is None]
    centre = float(np.median(logs[sound or slice(None)]))
    sigma = _sigma(logs[sound], errors[sound]) if len(sound) > 1 else None
    # Those far off must not stand for "the others": of three instances one slow one would set both others apart.
    near = [i for i in sound if sigma is None or abs(logs[i] - centre) < OUTLYING * sigma]
    ratios = [_against_rest(usable, names, place, logs, confidence, near or sound) for place in range(len(names))]
    standings = [
        (InstanceStanding.UNKNOWN, lack.line)
        if lack is not None and len(names) > 1
        else _standing(ratios[i], logs[i] - centre, sigma, usable[names[i]], budget, len(sound))
        for i, lack in enumerate(lacks)
    ]
    apart = {name for name, (standing, _) in zip(names, standings, strict=True) if standing in _APART}
    outliers = {
        name for name, (standing, _) in zip(names, standings, strict=True) if standing is InstanceStanding.OUTLIER
    }
    own = {name: own_devices(results[name].executor) for name in names}
    rows = []
    for place, name in enumerate(names):
        result, figure = results[name], usable[name].throughput
        assert figure is not None
        standing, why = standings[place]
        layers: tuple[LayerDifference, ...] = ()
        cause = None
        typical = [own[other] for other in names if other not in apart]
        usual = typical or [own[other] for other in names if other not in {*outliers, name}]
        if name in apart and usual:
            layers = rank_changes(set_apart(own[name], usual), result.contract.owners)
            cause = name_cause(layers, result.contract.name, SETS_APART, _named)
        rows.append(
            InstanceRow(
                unit=name,
                result_id=result.result_id,
                executor_id=result.executor_id,
                instance_id=result.instance_id,
                validity=result.validity.verdict.value,
                estimate=float(values[place]) if figure.estimate is None else figure.estimate,
                low=figure.low,
                high=figure.high,
                restarts=len(usable[name].run_means),
                against_rest=ratios[place],
                distance=None if sigma is None else abs(float(logs[place]) - centre) / sigma,
                standing=standing,
                why=why,
                layers=layers,
                cause=cause,
            )
        )
    median = float(np.median(values))
    spread = float((values.max() - values.min()) / median) if len(names) > 1 else None
    first = usable[names[0]].throughput
    assert first is not None
    compared = FleetComparison(
        precision=precision,
        figure="throughput",
        unit=first.unit,
        instances=tuple(sorted(rows, key=lambda row: row.estimate)),
        median=median,
        spread=spread,
        sigma=sigma,
        budget=budget,
        confidence=confidence,
        same_executor=len({results[name].executor_id for name in names}) == 1,
        splits=find_splits({names[i]: results[names[i]] for i in sound}, {names[i]: float(logs[i]) for i in sound}),
        sentence="",
    )
    return compared.model_copy(update={"sentence": _sentence(compared)})


_APART = (InstanceStanding.OUTLIER, InstanceStanding.DIFFERS)


def own_devices(executor: Executor) -> Executor:
    """The executor of a run that was given some of its machine's GPUs: their readings alone, not which they were."""
    environment = executor.get(Layer.SYSTEM, "environment")
    given = environment.get("CUDA_VISIBLE_DEVICES") if isinstance(environment, dict) else None
    parts = given.split(",") if isinstance(given, str) and given else []
    chosen = [int(part) for part in parts] if all(part.isdigit() for part in parts) else []
    layers = {layer: dict(fields) for layer, fields in executor.layers.items()}
    for fields in layers.values():
        for name, field in fields.items():
            value = field.value
            if isinstance(value, dict) and name.endswith("environment"):
                unplaced: JsonValue = {key: held for key, held in value.items() if key not in PLACEMENT}
                fields[name] = field.model_copy(update={"value": unplaced})
            elif chosen and name.startswith("gpu_") and isinstance(value, list) and max(chosen) < len(value):
                fields[name] = field.model_copy(update={"value": [value[place] for place in chosen]})
    return Executor(schema_version=executor.schema_version, layers=layers)


def set_apart(executor: Executor, usual: Sequence[Executor]) -> tuple[FieldChange, ...]:
    """Fields whose value no usual instance has, each beside the value that most of them have."""
    changes = []
    for layer in Layer:
        names = {name for instance in (executor, *usual) for name in instance.layers.get(layer, {})}
        for name in sorted(names):
            own = executor.layers.get(layer, {}).get(name)
            theirs = [instance.layers.get(layer, {}).get(name) for instance in usual]
            known = own or next((field for field in theirs if field is not None), None)
            if known is None or _value(own) in {_value(field) for field in theirs}:
                continue
            common = Counter(_value(field) for field in theirs).most_common(1)[0][0]
            before = next(field for field in theirs if _value(field) == common)
            changes.append(
                FieldChange(
                    layer=layer,
                    name=name,
                    tier=known.tier,
                    before=None if before is None else before.value,
                    after=None if own is None else own.value,
                )
            )
    return tuple(changes)


def find_splits(results: Mapping[str, Result], logs: Mapping[str, float]) -> tuple[FieldSplit, ...]:
    """Configuration fields that divide the instances into groups, those known to change speed first."""
    units = list(results)
    executors = {unit: own_devices(result.executor) for unit, result in results.items()}
    total = float(np.var([logs[unit] for unit in units])) if len(units) > 2 else 0.0
    if total <= 0:
        return ()
    owners = next(iter(results.values())).contract.owners
    divided: list[tuple[FieldChange, dict[bytes, list[str]], dict[bytes, JsonValue]]] = []
    for layer in Layer:
        for name in sorted({name for instance in executors.values() for name in instance.layers.get(layer, {})}):
            fields = {unit: executors[unit].layers.get(layer, {}).get(name) for unit in units}
            if any(
                f is None or f.status is Status.UNREADABLE or f.tier is not Tier.CONFIGURATION for f in fields.values()
            ):
                continue
            groups: dict[bytes, list[str]] = {}
            values: dict[bytes, JsonValue] = {}
            for unit, field in fields.items():
                assert field is not None
                groups.setdefault(_value(field), []).append(unit)
                values[_value(field)] = field.value
            if 1 < len(groups) < len(units):
                some = list(values.values())
                change = FieldChange(layer=layer, name=name, tier=Tier.CONFIGURATION, before=some[0], after=some[1])
                divided.append((change, groups, values))
    among = [change for change, _, _ in divided]
    splits = []
    for change, groups, values in divided:
        suspect = weigh(change, among)
        if suspect.follows is not None or suspect.weight not in COUNTS:
            continue
        overall = float(np.mean([logs[unit] for unit in units]))
        means = {key: float(np.mean([logs[unit] for unit in members])) for key, members in groups.items()}
        between = sum(len(groups[key]) * (means[key] - overall) ** 2 for key in groups) / len(units)
        splits.append(
            (
                ORDER.index(suspect.weight),
                -between,
                FieldSplit(
                    layer=change.layer,
                    name=change.name,
                    owner=owners.get(change.layer, DEFAULT_OWNERS[change.layer]),
                    weight=suspect.weight.value,
                    groups=tuple(
                        (values[key], tuple(members), math.exp(means[key])) for key, members in groups.items()
                    ),
                    explained=min(1.0, between / total),
                ),
            )
        )
    splits.sort(key=lambda ranked: (ranked[0], ranked[1], ranked[2].name))
    return tuple(split for _, _, split in splits[:MOST_SPLITS])


def _usable(result: Result, precision: Precision) -> PrecisionResult | None:
    if result.validity.verdict is ValidityVerdict.VOID:
        return None
    figures = next((figures for figures in result.per_precision if figures.precision is precision), None)
    if figures is None or figures.throughput is None or not figures.run_means:
        return None
    return figures if all(mean > 0 for mean in figures.run_means) else None


def _sigma(
    logs: np.ndarray[tuple[int], np.dtype[np.float64]], errors: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    known = errors[np.isfinite(errors)]
    noise = float(np.median(known)) if known.size else 0.0
    floor = USUAL_SIGMA if logs.size < KNOWN_SPREAD else 0.0
    # No other scale where most are equal: one that counts the odd ones would hide them.
    return max(MAD_TO_SIGMA * float(np.median(np.abs(logs - np.median(logs)))), noise, floor, 1e-12)


def _standard_error(means: Sequence[float]) -> float:
    return float(np.std(np.log(means), ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.nan


def _against_rest(
    usable: Mapping[str, PrecisionResult],
    names: Sequence[str],
    place: int,
    logs: np.ndarray[tuple[int], np.dtype[np.float64]],
    confidence: float,
    usual: Sequence[int],
) -> Interval:
    """This instance over the median of the usual others; Bonferroni over the instances: all hold at once."""
    others = [i for i in usual if i != place]
    if not others:
        return UNKNOWN_INTERVAL
    change = float(logs[place] - np.median(logs[others]))
    own = np.log(usable[names[place]].run_means)
    rest = [np.log(usable[names[i]].run_means) for i in others]
    if len(own) < 2 or any(len(other) < 2 for other in rest):
        return Interval(math.nan, math.exp(change), math.nan)
    parts = [(float(np.var(own, ddof=1)) / len(own), len(own) - 1)]
    parts += [(float(np.var(other, ddof=1)) / len(other) / len(rest) ** 2, len(other) - 1) for other in rest]
    total = sum(part for part, _ in parts)
    if total <= 0:
        return Interval(math.exp(change), math.exp(change), math.exp(change))
    degrees = 1 / sum((part / total) ** 2 / df for part, df in parts)  # Welch–Satterthwaite
    alone = 1 - (1 - confidence) / len(names)
    reach = student_quantile((1 + alone) / 2, degrees) * math.sqrt(total)
    return Interval(math.exp(change - reach), math.exp(change), math.exp(change + reach))


def _lack(result: Result, figures: PrecisionResult) -> Shortfall | None:
    """What keeps an instance from being placed, and from standing for the others; emulated ones are so everywhere."""
    lacking = (each for each in figures_fall_short(result, figures) if each.lack is not Lack.EMULATED)
    return next(lacking, None)


def _standing(
    ratio: Interval, off: float, sigma: float | None, figures: PrecisionResult, budget: float, count: int
) -> tuple[InstanceStanding, str]:
    if count < 2 or sigma is None:
        return InstanceStanding.UNKNOWN, "there is no other instance with sound evidence to hold it against"
    if len(figures.run_means) < FEWEST_RESTARTS or not ratio.known:
        return InstanceStanding.UNKNOWN, f"{len(figures.run_means)} restarts; a verdict needs {FEWEST_RESTARTS}"
    if ratio.low <= 1 + budget and ratio.high >= 1 - budget:
        margin = max(TYPICAL_WITHIN, budget)
        if ratio.inside(1 - margin, 1 + margin):
            return InstanceStanding.TYPICAL, ""
        return InstanceStanding.UNKNOWN, f"its interval reaches beyond ±{margin:.0%}: more restarts would place it"
    if count < 3:
        return InstanceStanding.DIFFERS, "of two instances neither is the outlier"
    if abs(off) < OUTLYING * sigma:
        return InstanceStanding.DIFFERS, f"within {OUTLYING:g} robust standard deviations of this fleet"
    return InstanceStanding.OUTLIER, f"{abs(off) / sigma:.1f} robust standard deviations from the median instance"


def naming_one_layer(row: InstanceRow) -> InstanceRow:
    """A row as earlier versions wrote it: where several layers cannot be separated, the first of them alone."""
    if row.cause is None or row.cause.kind is not CauseKind.NOT_SEPARABLE:
        return row
    first = next(layer for layer in row.layers if layer.weight in COUNTS)
    return row.model_copy(update={"cause": row.cause.model_copy(update={"layer": first.layer, "owner": first.owner})})


def _named(layer: LayerDifference) -> str:
    fields = strongest(layer)
    more = f" and {len(fields) - 2} more" if len(fields) > 2 else ""
    return "; ".join(_here(field) for field in fields[:2]) + more


def _here(field: FieldSuspect) -> str:
    keys = sorted(changed_keys(field.before, field.after))
    if keys and isinstance(field.before, dict) and isinstance(field.after, dict):
        key = keys[0]
        return f"{field.name} {key} {brief(field.after.get(key))}, elsewhere {brief(field.before.get(key))}"
    return f"{field.name} {brief(field.after)}, elsewhere {brief(field.before)}"


def _value(field: Field | None) -> bytes:
    return b"" if field is None else canonical_bytes(field.value)


def _sentence(compared: FleetComparison) -> str:
    rows = compared.instances
    if len(rows) < 2:
        return "one instance: there is no spread to speak of"
    assert compared.spread is not None
    alike = (
        "one executor id" if compared.same_executor else "not one executor id: they are not identical on paper either"
    )
    outliers = [row for row in rows if row.standing is InstanceStanding.OUTLIER]
    differing = [row for row in rows if row.standing is InstanceStanding.DIFFERS]
    spread = f"{len(rows)} instances spread over {compared.spread:.1%} ({alike})"
    if outliers:
        names = ", ".join(f"{row.unit} ({row.against_rest.estimate - 1:+.1%})" for row in outliers)
        return f"{spread}; {names} {'stands' if len(outliers) == 1 else 'stand'} apart"
    if differing:
        return f"{spread}; {len(differing)} differ for certain, none beyond the fleet's own spread"
    if any(row.standing is InstanceStanding.UNKNOWN for row in rows):
        return f"{spread}; not every instance has the restarts and the evidence that would place it"
    return f"{spread}; none stands apart"
