"""When a schedule is due: `every 6 h`, or five fields of cron in UTC. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lynxbench.errors import BadInput
from lynxbench.model.quantities import parse_quantity

SHORTEST_S = 1
LONGEST_S = 366 * 86400
MOST_SLOTS = 50
"""Missed times that are listed one by one; an agent that was away for longer has the newest of them."""
WINDOW = timedelta(days=366)
"""How far a search for the next time of a cron line looks: a line that fits no day of a year is refused."""

_EVERY = re.compile(r"every\s+(\d{1,7})\s*([a-z]+)", re.IGNORECASE)
_SHORT_UNITS = {"sec": "s", "m": "min"}
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = ("minute", "hour", "day", "month", "weekday")
_PART = re.compile(r"(\*|\d{1,2}(?:-\d{1,2})?)(?:/(\d{1,2}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Every:
    """Equal distances, counted from 1970-01-01: all agents mean the same moments."""

    seconds: int

    def after(self, moment: datetime) -> datetime:
        """The next time strictly after a moment."""
        return self.newest(moment) + timedelta(seconds=self.seconds)

    def newest(self, moment: datetime) -> datetime:
        """The latest time at or before a moment."""
        step = timedelta(seconds=self.seconds)
        return _EPOCH + ((moment - _EPOCH) // step) * step


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, as cron(5) reads them: day and weekday both restricted means either."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def fits_day(self, moment: datetime) -> bool:
        """Whether a day is one of its days."""
        if moment.month not in self.months:
            return False
        by_day, by_week = moment.day in self.days, (moment.isoweekday() % 7) in self.weekdays
        return by_day or by_week if self.either_day else by_day and by_week

    def after(self, moment: datetime) -> datetime:
        """The next time strictly after a moment; BadInput where a year holds none."""
        at = moment.replace(second=0, microsecond=0) + _MINUTE
        while at <= moment + WINDOW:
            if not self.fits_day(at):
                at = at.replace(hour=0, minute=0) + timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += _MINUTE
            else:
                return at
        raise BadInput("this timetable is never due within a year")

    def newest(self, moment: datetime) -> datetime:
        """The latest time at or before a moment."""
        at = moment.replace(second=0, microsecond=0)
        while at >= moment - WINDOW:
            if not self.fits_day(at):
                at = at.replace(hour=0, minute=0)
            elif at.hour not in self.hours:
                at = at.replace(minute=0)
            elif at.minute in self.minutes:
                return at
            at -= _MINUTE
        raise BadInput("this timetable was never due within a year")


Timetable = Every | Cron


def parse_timetable(text: str) -> Timetable:
    """`every N s|min|h|d`, or a cron line; BadInput with what would be right."""
    plain = " ".join(text.split())
    every = _EVERY.fullmatch(plain)
    if every is not None:
        unit = every[2].lower()
        seconds = parse_quantity(f"{every[1]} {_SHORT_UNITS.get(unit, unit)}", "h", f"timetable {plain!r}").value
        if not (SHORTEST_S <= seconds <= LONGEST_S and seconds.is_integer()):
            raise BadInput(f"timetable {plain!r}: whole seconds, between one second and a year")
        return Every(int(seconds))
    fields = plain.split(" ")
    if len(fields) != len(_RANGES):
        raise BadInput(f"timetable {plain[:80]!r}: write `every 6 h`, or five fields of cron such as `0 3 * * *` (UTC)")
    sets = [_field(word, *limits, name) for word, limits, name in zip(fields, _RANGES, _NAMES, strict=True)]
    weekdays = frozenset(day % 7 for day in sets[4])
    either = fields[2] != "*" and fields[4] != "*"
    made = Cron(sets[0], sets[1], sets[2], sets[3], weekdays, either)
    made.after(datetime(2026, 1, 1, tzinfo=UTC))  # refuses what is never due, such as 30 February
    return made


def slots_between(table: Timetable, after: datetime, until: datetime) -> Iterator[datetime]:
    """Times after one moment and up to another, newest first, at most `MOST_SLOTS` of them."""
    at = table.newest(until)
    for _ in range(MOST_SLOTS):
        if at <= after:
            return
        yield at
        at = table.newest(at - timedelta(seconds=1))


def _field(word: str, low: int, high: int, name: str) -> frozenset[int]:
    values: set[int] = set()
    for piece in word.split(","):
        form = _PART.fullmatch(piece)
        if form is None:
            raise BadInput(f"timetable: {name} {word[:40]!r} is none; write *, 5, 1-5, */15 or a list of them")
        span, step = form[1], int(form[2] or 1)
        first, last = (low, high) if span == "*" else _span(span)
        if form[2] and span.isdecimal():
            last = high
        if not (low <= first <= last <= high and step >= 1):
            raise BadInput(f"timetable: {name} {word[:40]!r} lies outside {low} to {high}")
        values |= set(range(first, last + 1, step))
    return frozenset(values)


def _span(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
