"""Bottlenecks planted in a real server: its series still name them, and their gains stay near the truth."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from lynxbench.attribute.judge.server_figures import DeviceCondition, ServedFigures
from lynxbench.attribute.judge.server_verdict import judge_server
from lynxbench.attribute.tile.client_view import ClientView
from lynxbench.attribute.tile.served_series import tile_series
from lynxbench.measure.telemetry import read_telemetry
from lynxbench.model.activity import DeviceActivity

DATA = Path(__file__).parents[2] / "data" / "served_plants"
CASES: dict[str, dict[str, Any]] = json.loads((DATA / "cases.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_planted_bottlenecks_of_a_real_server_are_named(name: str) -> None:
    case = CASES[name]
    load = ClientView(**{key: math.nan if value is None else value for key, value in case["load"].items()})
    series = tile_series(read_telemetry(DATA / case["series"]), [tuple(case["span_ns"])])
    conditions = tuple(DeviceCondition(*condition) for condition in case["conditions"])
    activity = DeviceActivity(**case["activity"])
    verdict = judge_server(ServedFigures(series, load, case["arguments"], activity, conditions), None)
    assert (verdict.lead.cause.name if verdict.lead else "") == case["cause"]
    if "gain" in case:
        assert (
            max(verdict.judgement.gain.estimate / case["gain"], case["gain"] / verdict.judgement.gain.estimate) <= 1.5
        )
        assert not verdict.judgement.weak
