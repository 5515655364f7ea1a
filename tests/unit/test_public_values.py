"""A stopwatch around one's own code, with a clock of known truth."""

from __future__ import annotations

import itertools

import pytest

from lynxbench.errors import BadInput, BadSeries
from lynxbench.model.verdicts import SteadyVerdict
from lynxbench.public_values import Stopwatch


class _Clock:
    """Each look is as late as the next span says; between two entries a millisecond passes."""

    def __init__(self, spans_ms: list[float]) -> None:
        steps = itertools.chain.from_iterable((1.0, span) for span in spans_ms)
        self._looks = itertools.accumulate(steps)

    def __call__(self) -> int:
        return int(next(self._looks) * 1e6)


def _timed(spans_ms: list[float]) -> Stopwatch:
    watch = Stopwatch("decode", clock_ns=_Clock(spans_ms))
    for _ in spans_ms:
        with watch:
            pass
    return watch


WARMING = [30.0, 20.0, 15.0, 12.0, *(10.0 + 0.1 * (step % 3 - 1) for step in range(60))]


def test_samples_are_what_the_clock_says() -> None:
    assert _timed([5.0, 7.0, 6.0]).samples_ms == pytest.approx((5.0, 7.0, 6.0))


def test_warming_up_is_left_out_and_the_level_is_the_truth() -> None:
    state = _timed(WARMING).steady(drift="2 %")
    assert state.verdict is SteadyVerdict.STEADY
    assert state.level_ms.low < 10.0 < state.level_ms.high
    assert state.samples == 64
    assert state.counted <= 60


def test_a_series_that_climbs_is_not_called_steady() -> None:
    state = _timed([10.0 + 0.1 * step for step in range(64)]).steady(drift="2 %")
    assert state.verdict is not SteadyVerdict.STEADY


def test_what_it_shows_says_that_it_is_one_process() -> None:
    watch = _timed(WARMING)
    assert "one process: the spread between processes is not in the interval" in str(watch)
    assert "decode" in watch.html()
    assert repr(watch) == "<Stopwatch decode: 64 samples>"


def test_a_block_that_raises_is_counted_and_no_sample() -> None:
    watch = Stopwatch("own", clock_ns=_Clock([1.0, 2.0]))
    with pytest.raises(ZeroDivisionError), watch:
        _ = 1 // 0
    with watch:
        pass
    assert (watch.failed, len(watch.samples_ms)) == (1, 1)


def test_too_few_samples_and_nesting_are_one_line() -> None:
    watch = _timed([1.0])
    with pytest.raises(BadSeries, match="stopwatch 'decode' has 1 samples; a series needs 3"):
        watch.steady()
    other = Stopwatch("outer")
    with pytest.raises(BadInput, match="'outer' runs already"), other, other:
        pass
    assert other.failed == 1
