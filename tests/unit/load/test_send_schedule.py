"""Schedules are absolute, ascending, seeded and keep their rate."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from lynxbench.errors import BadInput, CannotRun
from lynxbench.load import send_schedule as schedule
from lynxbench.load.plan import ClosedLoop, OpenLoop
from lynxbench.model.workload import Arrival


def test_constant_never_drifts():
    offsets = schedule.constant(3.0, 100.0)
    assert len(offsets) == 300
    assert offsets[0] == 0
    assert offsets[-1] == round(299 / 3 * 1e9)
    assert set(np.diff(offsets)) == {333333333, 333333334}


@pytest.mark.parametrize("variation", [0.3, 1.0, 3.0])
def test_gamma_keeps_rate_and_variation(variation):
    offsets = schedule.gamma(1000.0, variation, 200.0, seed=7)
    gaps = np.diff(offsets) / 1e9
    assert gaps.mean() == pytest.approx(1e-3, rel=0.02 * max(1, variation))
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


def test_poisson_is_gamma_with_variation_one_and_seeded():
    assert np.array_equal(schedule.poisson(50, 20, 3), schedule.gamma(50, 1.0, 20, 3))
    assert not np.array_equal(schedule.poisson(50, 20, 3)[:50], schedule.poisson(50, 20, 4)[:50])


def test_a_longer_schedule_begins_with_the_shorter_one():
    short, long = schedule.poisson(100, 10, 1), schedule.poisson(100, 100, 1)
    assert np.array_equal(long[: len(short)], short)


def test_bursts_come_together_and_keep_the_rate():
    offsets = schedule.bursts(200.0, 10, 0.0, 100.0, seed=5)
    assert len(offsets) == pytest.approx(20_000, rel=0.06)
    _, sizes = np.unique(offsets, return_counts=True)
    assert (sizes % 10 == 0).all()
    spread = schedule.bursts(200.0, 10, 0.05, 100.0, seed=5)
    assert len(np.unique(spread)) > 0.99 * len(spread)
    assert (np.diff(spread) >= 0).all()


@pytest.mark.parametrize(("first", "last"), [(10.0, 100.0), (100.0, 10.0), (0.0, 50.0), (50.0, 0.0), (20.0, 20.0)])
@pytest.mark.parametrize("seed", [7, 11])
def test_ramp_follows_its_rate(first, last, seed):
    offsets = schedule.ramp(first, last, 200.0, seed) / 1e9
    expected = (first + last) / 2 * 200
    assert len(offsets) == pytest.approx(expected, rel=0.05)
    early = np.count_nonzero(offsets < 100)
    assert early == pytest.approx((first + (first + last) / 2) / 2 * 100, rel=0.06)
    assert (np.diff(offsets) >= 0).all()


def test_replay_is_the_trace_from_its_first_arrival():
    offsets = schedule.replay(np.array([100.0, 100.5, 103.0]), speed=2.0)
    assert offsets.tolist() == [0, 250_000_000, 1_500_000_000]
    assert len(schedule.replay(np.zeros(0))) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: schedule.constant(0, 10),
        lambda: schedule.constant(10, float("nan")),
        lambda: schedule.constant(1e9, 1e9),
        lambda: schedule.gamma(10, 0, 10, 1),
        lambda: schedule.bursts(10, 0, 0.0, 10, 1),
        lambda: schedule.bursts(10, 2, -1.0, 10, 1),
        lambda: schedule.ramp(-1, 5, 10, 1),
        lambda: schedule.replay(np.array([3.0, 2.0])),
        lambda: schedule.replay(np.array([1.0, float("inf")])),
        lambda: schedule.replay(np.array([1.0]), speed=0),
    ],
)
def test_nonsense_is_one_clear_line(make):
    with pytest.raises(BadInput) as caught:
        make()
    assert "\n" not in str(caught.value)


def loaded(values: dict, **changes: object):
    arrival = TypeAdapter(Arrival).validate_python(values)
    given = {"duration_s": 20.0, "shortest_s": 10.0, "seed": 3} | changes
    return schedule.load_of(arrival, **given)


def test_closed_loops_spread_their_first_requests():
    assert loaded({"process": "closed", "concurrency": 1}) == ClosedLoop(1)
    assert loaded({"process": "closed", "concurrency": 8}) == ClosedLoop(8, ramp_up_s=0.5)


def test_closed_loops_start_together_where_that_is_asked():
    assert loaded({"process": "closed", "concurrency": 8, "start": "together"}) == ClosedLoop(8)
    assert loaded({"process": "closed", "concurrency": 8, "start": "spread"}) == ClosedLoop(8, ramp_up_s=0.5)


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
    first, second = (loaded({"process": "poisson", "rate": "50 /s"}, seed=seed) for seed in (1, 2))
    assert not np.array_equal(first.offsets_ns[:20], second.offsets_ns[:20])


def test_a_trace_is_replayed_at_its_speed():
    load = loaded({"process": "replay", "path": "t.csv", "speed": 2.0}, trace_s=np.array([5.0, 6.0, 8.0]))
    assert load.offsets_ns.tolist() == [0, 500_000_000, 1_500_000_000]
    with pytest.raises(CannotRun):
        loaded({"process": "replay", "path": "t.csv"})
    with pytest.raises(CannotRun):
        loaded({"process": "saturating"})
