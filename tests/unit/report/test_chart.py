"""What the page's script is given: every point, what is not known as null, and nobody's text as markup."""

import json
import math

from lynxbench.report.chart import TIME, Chart, ChartBand, ChartMark, ChartPanel, ChartTrack, chart_text
from lynxbench.report.doc import Plot
from lynxbench.report.markup import tag
from lynxbench.report.render_html import HtmlRenderer

HOSTILE = "</figure><script>alert(1)</script>\"'&"


def chart(**more: object) -> Chart:
    track = ChartTrack(HOSTILE, [0.0, 1.5, 2.0], [1.0, math.nan, 123456.789], [0.5, None, math.inf], [1.5, None, 2.0])
    return Chart(
        "s", [ChartPanel("Rate", "a/s", [track], [ChartBand(0, 1, "phase")], [ChartMark(1.5, "+1 %")])], **more
    )


def test_what_is_not_known_is_null_and_the_rest_keeps_six_digits() -> None:
    read = json.loads(chart_text(chart()))
    (track,) = read["panels"][0]["tracks"]
    assert track["x"] == [0, 1.5, 2]
    assert track["y"] == [1, None, 123457]
    assert track["low"] == [0.5, None, None]
    assert read["panels"][0]["bands"] == [[0, 1, "phase", ""]]
    assert read["panels"][0]["marks"] == [[1.5, "+1 %", "", []]]
    assert "level" not in read["panels"][0]


def test_a_moment_keeps_its_second() -> None:
    moments = [1_793_491_200.0, 1_793_491_201.0]
    text = chart_text(Chart(TIME, [ChartPanel("a", "b", [ChartTrack("c", moments, [1.0, 2.0])])]))
    assert json.loads(text)["panels"][0]["tracks"][0]["x"] == moments


def test_it_stands_in_the_page_as_data_and_leads_somewhere_on_a_server_alone() -> None:
    drawing = lambda title, width: tag("svg", class_="plot")  # noqa: E731
    plot = Plot("p", "t", "c", drawing, ("x",), [], chart=chart(more="/contracts/x/chart.json"))
    file, site = (HtmlRenderer(site=site).blocks([plot]) for site in (False, True))
    for page in (file, site):
        assert "<script" not in page
        assert "data-chart=" in page
    assert "data-at" not in file
    assert "data-more" not in file
    assert 'data-at="/results/"' in site
    assert 'data-more="/contracts/x/chart.json"' in site
