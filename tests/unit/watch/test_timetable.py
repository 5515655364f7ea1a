"""When schedules are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lynxbench.errors import BadInput
from lynxbench.watch.timetable import MOST_SLOTS, parse_timetable, slots_between

MONDAY = datetime(2026, 11, 16, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 30 min", datetime(2026, 11, 16, 11, 0, tzinfo=UTC)),
        ("every 1 d", datetime(2026, 11, 17, 0, 0, tzinfo=UTC)),
        ("every 24 hours", datetime(2026, 11, 17, 0, 0, tzinfo=UTC)),
        ("every 30 m", datetime(2026, 11, 16, 11, 0, tzinfo=UTC)),
        ("every 1800 sec", datetime(2026, 11, 16, 11, 0, tzinfo=UTC)),
        ("0 3 * * *", datetime(2026, 11, 17, 3, 0, tzinfo=UTC)),
        ("*/20 * * * *", datetime(2026, 11, 16, 10, 40, tzinfo=UTC)),
        ("0 0 1 * *", datetime(2026, 12, 1, 0, 0, tzinfo=UTC)),
        ("15 10 * * 1-5", datetime(2026, 11, 17, 10, 15, tzinfo=UTC)),
        ("0 12 * * 7", datetime(2026, 11, 22, 12, 0, tzinfo=UTC)),
        ("0 12 20 * 3", datetime(2026, 11, 18, 12, 0, tzinfo=UTC)),  # both restricted: either, as cron(5) has it
        ("5,35 9-11/2 * 11 *", datetime(2026, 11, 16, 11, 5, tzinfo=UTC)),
    ],
)
def test_the_next_time(text: str, expected: datetime) -> None:
    assert parse_timetable(text).after(MONDAY) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "every",
        "every 0 s",
        "every 3 fortnights",
        "every 3 kWh",
        "every 1500 ms",
        "* * * *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 30 2 *",
        "a b c d e",
    ],
)
def test_what_is_no_timetable_says_what_would_be(text: str) -> None:
    with pytest.raises(BadInput, match="timetable"):
        parse_timetable(text)


@given(
    text=st.sampled_from(["every 7 min", "0 3 * * *", "*/15 2-4 * * 1", "30 6 1,15 * *"]),
    ahead=st.integers(min_value=0, max_value=60 * 24 * 40),
)
def test_newest_and_next_enclose_a_moment(text: str, ahead: int) -> None:
    table, at = parse_timetable(text), MONDAY + timedelta(minutes=ahead, seconds=17)
    before, after = table.newest(at), table.after(at)
    assert before <= at < after
    assert table.after(before) == after
    assert table.newest(after) == after


def test_slots_come_newest_first_and_bounded() -> None:
    table = parse_timetable("every 1 min")
    found = list(slots_between(table, MONDAY - timedelta(minutes=3), MONDAY))
    assert found == [MONDAY - timedelta(minutes=n) for n in range(3)]
    assert len(list(slots_between(table, MONDAY - timedelta(days=9), MONDAY))) == MOST_SLOTS
