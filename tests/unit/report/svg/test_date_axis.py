"""Dates on an axis: round moments inside the range, about as many as asked for, in UTC."""

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lynxbench.report.svg.canvas import Scale
from lynxbench.report.svg.date_axis import axis_dates, date_ticks, rank_dates

NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
DAY = 86400


@pytest.mark.parametrize(
    ("days", "first", "last"),
    [
        (0.5, "11-01 00:00", "12:00"),
        (6, "2026-11-01", "2026-11-07"),
        (40, "2026-11-02", "2026-12-07"),  # weeks begin on Mondays
        (700, "2027-01", "2028-07"),
        (7000, "2030", "2045"),
    ],
)
def test_labels_are_dates_of_the_calendar(days: float, first: str, last: str) -> None:
    marks = date_ticks(NOVEMBER, NOVEMBER + days * DAY, 6)
    assert marks[0][1] == first
    assert marks[-1][1] == last
    assert 2 <= len(marks) <= 9


@given(st.floats(0, 4e9), st.floats(1e-3, 3e9), st.integers(1, 12))
@example(low=5e-324, span=2.0, about=1)
def test_ticks_lie_inside_and_are_few(low: float, span: float, about: int) -> None:
    marks = date_ticks(low, low + span, about)
    assert all(low <= at <= low + span for at, _ in marks)
    assert len(marks) <= about + 2
    assert [at for at, _ in marks] == sorted({at for at, _ in marks})


def test_no_span_has_no_ticks_and_ranks_name_their_own_dates() -> None:
    assert date_ticks(5.0, 5.0, 4) == []
    ranks = rank_dates([NOVEMBER, NOVEMBER + 3600, NOVEMBER + 400 * DAY], 3)
    assert ranks == [(0, "26-11-01"), (1, "01:00"), (2, "27-12-06")]


def test_labels_do_not_lie_on_one_another() -> None:
    scale = Scale(0, 100, 60, 200)
    drawn = "".join(axis_dates(scale, 100, 0, [(float(at), "2026-11-01") for at in range(0, 100, 5)]))
    assert drawn.count("<text") == 2
    assert drawn.count('class="grid"') == 20
