"""What is said of a search that shows nothing: what was met as long as it was asked, and that this is no claim."""

from __future__ import annotations

import pytest

from lynxbench.load.saturation_judge import LatencyBound, ProbeOutcome, Share
from lynxbench.load.saturation_result import Judged, met_for_a_while
from lynxbench.model.interval import Interval

FIRST, EACH = LatencyBound(1.0, 0.01, "time-to-first-token"), LatencyBound(0.05, 0.05, "time-per-token")


def share(bound: LatencyBound, counted: int, late: int = 0, memory: float = 50.0) -> Share:
    part = Interval(late / counted, late / counted, late / counted)
    return Share(bound, part, counted / memory, memory, seen=False, settled=False, counted=counted)


def probe(rate_per_s: float, *shares: Share, scout: bool = False) -> Judged:
    count = shares[0].counted
    return Judged(
        rate_per_s, ProbeOutcome.UNDECIDED, "", scout, count, count / rate_per_s, shares, 0.1, 0.5, rate_per_s
    )


def test_windows_of_one_rate_are_told_together_with_how_long_slow_ones_last() -> None:
    said = met_for_a_while(
        [
            probe(50.0, share(FIRST, 1000), share(EACH, 1000, memory=40.0)),
            probe(50.0, share(FIRST, 1500, memory=120.0), share(EACH, 1500)),
        ]
    )
    assert "at 50 /s none of 2500 requests was late in 50 s" in said
    assert "slow ones come together, here for about 2.4 s" in said
    assert "hold" not in said, "the word of a claim"


def test_late_ones_that_are_allowed_are_counted() -> None:
    assert "at 40 /s 3 of 1000 requests were late in 25 s" in met_for_a_while([probe(40.0, share(FIRST, 1000, 3))])
    assert "1 of 1000 requests was late" in met_for_a_while([probe(40.0, share(FIRST, 1000, 1))])


@pytest.mark.parametrize(
    "missed",
    [
        (share(FIRST, 1000, 11), share(EACH, 1000)),
        (share(FIRST, 1000), share(EACH, 1000, 51)),
    ],
)
def test_a_rate_that_missed_a_bound_and_all_above_it_are_not_told(missed: tuple[Share, Share]) -> None:
    calm = share(FIRST, 2000), share(EACH, 2000)
    assert met_for_a_while([probe(30.0, *missed)]) == ""
    assert met_for_a_while([probe(30.0, *missed), probe(60.0, *calm)]) == ""
    assert "at 20 /s" in met_for_a_while([probe(60.0, *calm), probe(30.0, *missed), probe(20.0, *calm)])


def test_one_bad_window_counts_with_the_good_ones_of_its_rate() -> None:
    good, bad = probe(30.0, share(FIRST, 1000)), probe(30.0, share(FIRST, 1000, 30))
    assert met_for_a_while([good, bad]) == ""


def test_scouts_say_nothing() -> None:
    assert met_for_a_while([probe(30.0, share(FIRST, 300), scout=True)]) == ""
