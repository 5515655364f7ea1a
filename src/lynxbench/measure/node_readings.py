"""What exporters of a server's node say, as readings of the columns that this machine's own readings stand in.

Pure but for the reader, which is handed how to ask. Nothing is guessed: a line without its device, a device that says
two things at once, a part of a device and a mark for no value are left out, and counted by reason.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lynxbench.measure.exposition import ExposedSample, parse_exposition
from lynxbench.tables import read_table

_TABLE = read_table("measure/node_metrics.toml")
DEVICES: Mapping[str, Mapping[str, object]] = _TABLE["devices"]
HOST: Mapping[str, Mapping[str, object]] = _TABLE["host"]
GPM_MODELS = re.compile(rf"\b(?:{_TABLE['gpm_models']})\b")
BLANKS = frozenset(float(mark + offset) for mark in _TABLE["blank"] for offset in range(4))
BEGINNINGS = ("DCGM_FI_", "node_")
NAMES = tuple(dict.fromkeys(str(name) for row in (*DEVICES.values(), *HOST.values()) for name in row["names"]))  # type: ignore[attr-defined]
PART_LABELS = ("GPU_I_ID", "GPU_I_PROFILE")
HOST_NAME = "host"
ARRIVED = "answered_s"
"""How long the exporters took to answer; absent where none did."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """One look at a node: columns, which device is which, and what was left out, by reason."""

    columns: dict[str, float]
    models: dict[str, str]
    identities: dict[str, str]
    """Of each device its UUID or else its host's name, of the host when it was started."""
    left_out: Counter[str] = field(default_factory=Counter)


def read_samples(samples: Sequence[ExposedSample], gpus: Sequence[int] | None = None) -> NodeReading:
    """The columns that the lines of one moment come to; of the named GPUs alone where some are named."""
    left_out: Counter[str] = Counter()
    named: dict[str, list[ExposedSample]] = {}
    for sample in samples:
        named.setdefault(sample.name, []).append(sample)
    columns: dict[str, float] = {}
    models: dict[str, str] = {}
    identities: dict[str, set[str]] = {}
    for sample in (each for name, lines in named.items() if name.startswith("DCGM_FI_") for each in lines):
        device = _device(sample)
        if device is not None:
            models.setdefault(device, sample.labels.get("modelName", ""))
            identity = sample.labels.get("UUID") or sample.labels.get("Hostname")
            identities.setdefault(device, set()).update([identity] if identity else ())
    twofold = {device for device, known in identities.items() if len(known) > 1}
    wanted = None if gpus is None else {f"gpu{index}" for index in gpus}
    for column, row in DEVICES.items():
        lines = _first_named(named, row)
        values: dict[str, set[float]] = {}
        for sample in lines:
            device = _device(sample)
            reason = _unusable(sample, device, row, twofold)
            if reason is not None:
                left_out[reason] += 1
            elif device is not None and (wanted is None or device in wanted):
                values.setdefault(device, set()).add(sample.value)
        for device, said in values.items():
            if len(said) > 1:
                left_out[f"{lines[0].name} has several values of one device at once"] += 1
                continue
            columns[f"{device}_{_place(column, models[device])}"] = said.pop() * _number(row, "scale", 1.0)
    columns.update(_host_columns(named, left_out))
    shown = {device: model for device, model in models.items() if wanted is None or device in wanted}
    known = {device: min(identities[device]) for device in shown if identities[device]}
    if (started_s := columns.pop("node_boot_s", None)) is not None:
        known[HOST_NAME] = f"{started_s:.0f}"
    return NodeReading(columns, shown, known, left_out)


def _place(column: str, model: str) -> str:
    """A profiling ratio of a device without NVML's own is shown under a name of its own, and judges nothing."""
    return column if not column.startswith("gpm_") or GPM_MODELS.search(model) else column.replace("gpm_", "prof_")


def _device(sample: ExposedSample) -> str | None:
    index = sample.labels.get("gpu", "")
    return f"gpu{int(index)}" if index.isascii() and index.isdecimal() and len(index) < 5 else None


def _unusable(sample: ExposedSample, device: str | None, row: Mapping[str, object], twofold: set[str]) -> str | None:
    if device is None:
        return f"{sample.name} does not say of which device it is (label gpu)"
    if any(sample.labels.get(name) for name in PART_LABELS):
        return "lines about a part of a device (MIG), whose share of the whole is not known"
    if device in twofold:
        return f"{device} is two devices here (UUIDs or hosts differ): lines of several nodes"
    return _no_value(sample, row)


def _no_value(sample: ExposedSample, row: Mapping[str, object]) -> str | None:
    if sample.value in BLANKS:
        return f"{sample.name} has DCGM's mark for no value"
    if not math.isfinite(sample.value):
        return f"{sample.name} is no number"
    if not 0.0 <= sample.value <= _number(row, "most", math.inf):
        return f"{sample.name} is outside of what it can be"
    return None


def _host_columns(named: Mapping[str, Sequence[ExposedSample]], left_out: Counter[str]) -> dict[str, float]:
    columns: dict[str, float] = {}
    for column, row in HOST.items():
        lines = _first_named(named, row)
        mode = row.get("mode")
        chosen = [line for line in lines if mode is None or re.fullmatch(str(mode), line.labels.get("mode", ""))]
        places = Counter(tuple(sorted(line.labels.items())) for line in chosen)
        if any(many > 1 for many in places.values()):
            left_out[f"{lines[0].name} has lines twice"] += 1
            continue
        reasons = [reason for line in chosen if (reason := _no_value(line, row)) is not None]
        if reasons:
            left_out[reasons[0]] += 1
            continue
        if chosen:
            total = sum(line.value for line in chosen)
            mean = row["how"] == "mean"
            columns[column] = (total / len(chosen) if mean else total) * _number(row, "scale", 1.0)
    return columns


def _first_named(named: Mapping[str, Sequence[ExposedSample]], row: Mapping[str, object]) -> Sequence[ExposedSample]:
    names: Iterable[object] = row["names"]  # type: ignore[assignment]
    return next((named[str(name)] for name in names if str(name) in named), ())


def _number(row: Mapping[str, object], key: str, otherwise: float) -> float:
    return float(row.get(key, otherwise))  # type: ignore[arg-type]


def mixed_names(identities: Mapping[str, set[str]]) -> tuple[str, ...]:
    """The names that belonged to several over time."""
    return tuple(sorted(name for name, known in identities.items() if len(known) > 1))


class NodeReader:
    """Asks the exporters of a node at every look. A column that was there once stays, empty where it fails."""

    def __init__(
        self,
        scrapes: Mapping[str, Callable[[], str]],
        gpus: Sequence[int] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        self._scrapes, self._gpus, self._clock, self._wall = scrapes, gpus, clock, wall
        self._columns: dict[str, None] = {ARRIVED: None}
        self.asked = 0
        self.unanswered: Counter[str] = Counter()
        self.why: dict[str, str] = {}
        self.models: dict[str, str] = {}
        self.identities: dict[str, set[str]] = {}
        self.left_out: Counter[str] = Counter()
        self.skews_s: list[float] = []

    @property
    def mixed(self) -> tuple[str, ...]:
        """Under whose name several answered in turn, as behind an address that is shared out."""
        return mixed_names(self.identities)

    def read(self) -> dict[str, float]:
        """One reading of every column that any look has had."""
        self.asked += 1
        began_ns, began_wall_ns = self._clock(), self._wall()
        samples: list[ExposedSample] = []
        for where, scrape in self._scrapes.items():
            try:
                exposition = parse_exposition(scrape(), BEGINNINGS)
            except OSError as problem:
                self.unanswered[where] += 1
                self.why[where] = " ".join(str(problem).split())[:200]
                continue
            if exposition.malformed:
                self.left_out["lines that are not in Prometheus' format"] += exposition.malformed
            samples += exposition.samples
        took_ns = self._clock() - began_ns
        reading = read_samples(samples, self._gpus)
        self.models |= reading.models
        self.left_out += reading.left_out
        for name, identity in reading.identities.items():
            self.identities.setdefault(name, set()).add(identity)
        node_s = reading.columns.pop("node_time_s", None)
        if node_s is not None:
            self.skews_s.append(node_s - (began_wall_ns + took_ns / 2) / 1e9)
        self._columns |= dict.fromkeys(reading.columns)
        columns = {name: reading.columns.get(name, math.nan) for name in self._columns}
        return columns | {ARRIVED: took_ns / 1e9 if reading.columns else math.nan}
