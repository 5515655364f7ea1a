"""A probe's values are checked where they are made."""

import numpy as np
import pytest

from lynxbench.engines.openai import OpenAiLanguage
from lynxbench.errors import BadInput
from lynxbench.load.plan import ClosedLoop, LoadPlan, OpenLoop, Target, TicketTimeouts, parse_target
from lynxbench.load.response_reading import PlainRotation


def test_targets():
    assert parse_target("http://localhost:8000/v1") == Target("localhost", 8000)
    assert parse_target("https://models.example/v1") == Target("models.example", 443, tls=True)
    assert parse_target("http://[::1]:81").host == "::1"
    for bad in ("localhost:8000", "ftp://x", "http://", "http://a:99999", "http://user:secret@host"):
        with pytest.raises(BadInput) as caught:
            parse_target(bad)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"duration_s": 0.0},
        {"duration_s": float("inf")},
        {"drain_s": float("nan")},
        {"max_connections": 0},
        {"load": ClosedLoop(0)},
        {"load": ClosedLoop(2), "processes": 3},
        {"think_s": -1.0},
    ],
)
def test_a_plan_that_could_not_end_or_start_is_refused(changes):
    values = {
        "target": Target("localhost", 1),
        "script": PlainRotation((b"x",)),
        "language": OpenAiLanguage(),
        "load": OpenLoop(np.zeros(1, dtype=np.int64)),
        "duration_s": 1.0,
    }
    with pytest.raises(BadInput):
        LoadPlan(**(values | changes))


def test_a_rotation_rotates():
    rotation = PlainRotation((b"a", b"b"))
    assert [rotation.first(n) for n in range(3)] == [b"a", b"b", b"a"]
    assert rotation.follow(0, ("x",)) is None
    with pytest.raises(ValueError, match="at least one"):
        PlainRotation(())


@pytest.mark.parametrize("name", ["connect_s", "first_byte_s", "idle_s", "total_s"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_no_timeout_can_be_switched_off(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="a run must end"):
        TicketTimeouts(**{name: value})


def test_the_shortest_timeout_is_the_first_that_can_end_anything() -> None:
    assert TicketTimeouts(connect_s=2, first_byte_s=3, idle_s=0.5, total_s=9).shortest_ns == 500_000_000
