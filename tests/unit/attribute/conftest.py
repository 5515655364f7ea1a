"""Traces written by hand, event by event, so that their truth is known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from attributed import attribute_by
from launched_operators import Judge, Launched, launched_steps
from lynxbench.attribute.read.dataflow import FLOW_KEY, Dataflow, OperatorFlow
from lynxbench.model.attribution import Attribution, Ceiling
from lynxbench.model.precision import Precision
from lynxbench.model.result import RULES

Event = dict[str, Any]


def event(name: str, start_us: float, dur_us: float, cat: str = "cpu_op", tid: int | str = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start_us, "dur": dur_us, "args": args}


def operands(*sizes: Sequence[int], dtype: str = "float") -> Event:
    return {"Input Dims": [list(s) for s in sizes], "Input type": [dtype] * len(sizes)}


@pytest.fixture
def make_event() -> Callable[..., Event]:
    return event


@pytest.fixture
def make_operands() -> Callable[..., Event]:
    return operands


@pytest.fixture
def write_trace(tmp_path: Path) -> Callable[..., Path]:
    """Write events as a trace file: raw or gzip, with the metadata that Kineto writes."""

    def write(events: Sequence[Event], name: str = "trace.json", **extra: Any) -> Path:
        document = {"schemaVersion": 1, "deviceProperties": [], **extra, "traceEvents": list(events), "traceName": name}
        text = json.dumps(document, indent=1).encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path

    return write


@pytest.fixture
def ceilings() -> tuple[Ceiling, ...]:
    return (
        Ceiling(name="matmul", precision=Precision.FP32, per_s=100e9, unit="operations/s", how="declared"),
        Ceiling(name="copy", precision=None, per_s=20e9, unit="bytes/s", how="declared"),
    )


@pytest.fixture
def judge(write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]) -> Judge:
    """Steps of operators with one kernel each, the host far ahead."""

    def judged(*operators: Launched, rules: int = 7) -> Attribution:
        events, step_ms = launched_steps(event, operators)
        return attribute_by(rules, write_trace(events), ceilings, step_ms)

    return judged


@pytest.fixture
def followed(
    make_event: Callable[..., Event], write_trace: Callable[..., Path], ceilings: tuple[Ceiling, ...]
) -> Judge:
    """Steps of operators with one kernel each, and what was seen of their values."""

    def judged(operators: Sequence[Launched], *flows: OperatorFlow, rules: int = RULES, **words: Any) -> Attribution:
        events, step_ms = launched_steps(make_event, operators)
        seen = msgspec.to_builtins(Dataflow(2, flows, **words))
        return attribute_by(rules, write_trace(events, **{FLOW_KEY: seen}), ceilings, step_ms)

    return judged
