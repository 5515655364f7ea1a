"""A contract's arrivals become the load of a probe."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter

from lynxbench.errors import CannotRun
from lynxbench.load.arrivals import load_of
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.model.workload import Arrival


def loaded(values: dict, **changes: object):
    arrival = TypeAdapter(Arrival).validate_python(values)
    given = {"duration_s": 20.0, "shortest_s": 10.0, "seed": 3} | changes
    return load_of(arrival, **given)


def test_closed_loops_spread_their_first_requests():
    assert loaded({"process": "closed", "concurrency": 1}) == ClosedLoop(1)
    assert loaded({"process": "closed", "concurrency": 8}) == ClosedLoop(8, ramp_up_s=0.5)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"process": "constant", "rate": "50 /s"}, 1000),
        ({"process": "poisson", "rate": "50 /s"}, 1000),
        ({"process": "gamma", "rate": "50 /s", "variation": 2.0}, 1000),
        ({"process": "bursts", "rate": "50 /s", "size": 5, "spread": "10 ms"}, 1000),
        ({"process": "ramp", "from": "0 /s", "to": "100 /s"}, 500),  # over the shortest duration, whatever the limit
    ],
)
def test_open_loops_keep_their_rate(values, expected):
    load = loaded(values)
    assert isinstance(load, OpenLoop)
    assert len(load.offsets_ns) == pytest.approx(expected, rel=0.35)
    assert (np.diff(load.offsets_ns) >= 0).all()
    again = loaded(values)
    assert np.array_equal(load.offsets_ns, again.offsets_ns)


def test_another_seed_is_another_schedule():
    one, two = (loaded({"process": "poisson", "rate": "50 /s"}, seed=seed) for seed in (1, 2))
    assert not np.array_equal(one.offsets_ns[:20], two.offsets_ns[:20])


def test_a_trace_is_replayed_at_its_speed():
    load = loaded({"process": "replay", "path": "t.csv", "speed": 2.0}, trace_s=np.array([5.0, 6.0, 8.0]))
    assert load.offsets_ns.tolist() == [0, 500_000_000, 1_500_000_000]
    with pytest.raises(CannotRun):
        loaded({"process": "replay", "path": "t.csv"})
    with pytest.raises(CannotRun):
        loaded({"process": "saturating"})
