"""The server about itself: counters as OpenMetrics text, one JSON line for each request."""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TextIO

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class ServerMetrics:
    """Counters, histograms and gauges, changed from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._durations: dict[Labels, list[float]] = {}
        self._help: dict[str, str] = {}
        self._gauges: dict[str, tuple[str, Callable[[], Mapping[Labels, float]]]] = {}

    def count(self, name: str, said: str, amount: float = 1, **labels: str) -> None:
        """Count something."""
        with self._lock:
            self._help.setdefault(name, said)
            self._counters[name][tuple(sorted(labels.items()))] += amount

    def observe(self, route: str, seconds: float) -> None:
        """How long a request took."""
        with self._lock:
            held = self._durations.setdefault((("route", route),), [0.0] * (len(BUCKETS_S) + 2))
            for index, bound in enumerate(BUCKETS_S):
                if seconds <= bound:
                    held[index] += 1
            held[-2] += 1
            held[-1] += seconds

    def gauge(self, name: str, said: str, read: Callable[[], Mapping[Labels, float]]) -> None:
        """A value that is read when somebody asks."""
        self._gauges[name] = (said, read)

    def render(self) -> str:
        """All of it as OpenMetrics text."""
        lines: list[str] = []
        gauges = {name: (said, read()) for name, (said, read) in self._gauges.items()}
        with self._lock:
            for name, values in sorted(self._counters.items()):
                lines += [f"# TYPE lynxbench_{name} counter", f"# HELP lynxbench_{name} {self._help[name]}"]
                lines += [
                    f"lynxbench_{name}_total{_labels(labels)} {value:g}" for labels, value in sorted(values.items())
                ]
            name = "lynxbench_request_duration_seconds"
            lines += [f"# TYPE {name} histogram", f"# UNIT {name} seconds", f"# HELP {name} Time to answer a request."]
            for labels, held in sorted(self._durations.items()):
                for bound, many in zip((*map(str, BUCKETS_S), "+Inf"), held[:-1], strict=True):
                    lines.append(f"{name}_bucket{_labels((*labels, ('le', bound)))} {many:g}")
                lines += [f"{name}_count{_labels(labels)} {held[-2]:g}", f"{name}_sum{_labels(labels)} {held[-1]:.6f}"]
        for name, (said, found) in sorted(gauges.items()):
            lines += [f"# TYPE lynxbench_{name} gauge", f"# HELP lynxbench_{name} {said}"]
            lines += [f"lynxbench_{name}{_labels(labels)} {value:g}" for labels, value in sorted(found.items())]
        return "\n".join([*lines, "# EOF", ""])


class Log:
    """Structured lines on standard error; `quiet` keeps all but warnings to itself."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._quiet = quiet
        self._lock = threading.Lock()

    def say(self, event: str, *, level: str = "info", **fields: object) -> None:
        """One line. Nothing that is secret is ever among the fields: paths come without their query."""
        if self._quiet and level == "info":
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": at, "level": level, "event": event, **fields}, ensure_ascii=False, default=str)
        with self._lock:
            print(line, file=self._stream, flush=True)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return "{" + inner + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
