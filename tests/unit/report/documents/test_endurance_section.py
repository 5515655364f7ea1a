"""The course of an endurance run in words: what is said of hours, growth, throttling and the inlet."""

from __future__ import annotations

import pytest

from lynxbench.model.endurance import Endurance, InletCourse, MemoryCourse, SustainedPeriod, ThrottlingEpisode
from lynxbench.model.executor import Field, Status, Tier
from lynxbench.model.figures import Figure
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.report.doc import Report
from lynxbench.report.documents.endurance_section import clock_text, endurance_section
from lynxbench.report.render_markdown import render_markdown
from report_cases import software_bound

MB = 1 << 20


def memory(first: int, low: float, estimate: float, high: float) -> MemoryCourse:
    grown = first + int(estimate)
    growth = Interval(low, estimate, high)
    return MemoryCourse(first_bytes=first, last_bytes=grown, highest_bytes=grown, growth_bytes=growth, hours=2.0)


def endurance(**changes: object) -> Endurance:
    periods = tuple(
        SustainedPeriod(
            from_s=3600.0 * hour,
            until_s=3600.0 * (hour + 1),
            iterations=720_000,
            counted_s=3590.0,
            throughput=Figure(low=rate - 1, estimate=rate, high=rate + 1, unit="tokens/s"),
            p50_ms=5.0,
            p99_ms=6.0,
        )
        for hour, rate in enumerate((200.0, 190.0))
    )
    plain = Endurance(
        asked_s=7200.0, measured_s=7200.0, slice_s=10.0, slices=720, iterations=1_440_000, excerpted=180_000,
        relative_error=0.005, stretches=(), period_s=3600.0, periods=periods, steady_until_s=3600.0, worst_period=1,
    )  # fmt: skip
    return plain.model_copy(update=changes)


def text_of(result: Result, **changes: object) -> str:
    part = result.per_precision[0].model_copy(update={"endurance": endurance(**changes)})
    section = endurance_section(result.model_copy(update={"per_precision": (part, *result.per_precision[1:])}))
    assert section is not None
    return render_markdown(Report("endures", (section,)))


def test_a_result_of_minutes_has_no_such_section() -> None:
    assert endurance_section(software_bound().result) is None


def test_hours_stand_in_rows_and_the_slowest_is_marked() -> None:
    text = text_of(software_bound().result)
    assert "Sustained by the hour" in text
    assert "0:00:00 to 1:00:00" in text
    assert [line for line in text.splitlines() if "(slowest)" in line] == [
        line for line in text.splitlines() if "1:00:00 to 2:00:00" in line
    ]


@pytest.mark.parametrize(
    ("course", "words"),
    [
        (memory(100 * MB, 8 * MB, 10 * MB, 12 * MB), "it grew by 10.0 MiB, 5.00 MiB/h"),
        (memory(100 * MB, -2 * MB, 10 * MB, 22 * MB), "no growth shown"),
        (memory(100 * MB, -1000.0, 0.0, 1000.0), "flat within 1.0 %"),
        (None, "could not be read"),
    ],
)
def test_growth_is_said_where_it_is_sure_and_flat_where_that_is(course: MemoryCourse | None, words: str) -> None:
    assert words in text_of(software_bound().result, memory=course).replace(" ", " ")


def test_throttling_is_told_with_its_cost_or_why_it_cannot_be() -> None:
    hot = ThrottlingEpisode(cause="gpu0 thermal", from_s=600.0, seconds=90.0, rate=0.8)
    text = text_of(software_bound().result, episodes=(hot,)).replace(" ", " ")
    assert "1 episode" in text
    assert "gpu0 thermal" in text
    assert "−20 %" in text
    assert "none was seen" in text_of(software_bound().result)
    assert "no clocks here" in text_of(software_bound().result, unwatched="no clocks here")


def test_the_inlet_is_the_sensor_s_and_the_site_file_s() -> None:
    result = software_bound().result
    assert "not known: no sensor" in text_of(result)
    field = Field(value=24.5, source="declared in site.yaml", status=Status.DECLARED, tier=Tier.CONFIGURATION)
    layers = {**result.executor.layers, Layer.FACILITY: {"inlet_c": field}}
    declared = result.model_copy(update={"executor": result.executor.model_copy(update={"layers": layers})})
    assert "24.5 °C by the site file" in text_of(declared)
    course = InletCourse(lowest_c=22.0, mean_c=23.0, highest_c=25.0)
    assert "23.0 °C by its sensor (22.0 to 25.0); 24.5 °C by the site file" in text_of(declared, inlet=course)


def test_hours_are_written_as_a_clock_does() -> None:
    assert [clock_text(seconds) for seconds in (0, 59.6, 3661, 360_000)] == [
        "0:00:00",
        "0:01:00",
        "1:01:01",
        "100:00:00",
    ]
