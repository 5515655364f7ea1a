"""Small parts: limits, settings, live board, page cache, metrics, safe targets, files of plots."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lynxbench.errors import BadInput, Refused
from lynxbench.server.guard import safe_target
from lynxbench.server.limits import MOST_CALLERS, Limiter
from lynxbench.server.live import MOST_EVENTS, MOST_STREAMS_A_CALLER, LiveBoard
from lynxbench.server.observing import ServerMetrics
from lynxbench.server.pages.page_shell import standalone_svg
from lynxbench.server.settings import ServerSettings, is_loopback, refuse_open


def test_a_bucket_fills_again_with_time() -> None:
    now = [0.0]
    limiter = Limiter(2.0, 3, clock=lambda: now[0])
    assert [limiter.wait_s("a") > 0 for _ in range(4)] == [False, False, False, True]
    assert limiter.wait_s("b") == 0
    now[0] = 0.5
    assert limiter.wait_s("a") == 0
    assert limiter.wait_s("a") > 0
    assert Limiter(0).wait_s("anybody") == 0


def test_callers_do_not_fill_the_memory() -> None:
    limiter = Limiter(1.0)
    for number in range(MOST_CALLERS + 10):
        limiter.wait_s(str(number))
    assert len(limiter._buckets) == MOST_CALLERS


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "bench.example"])
def test_open_to_a_network_without_a_name_is_refused(host: str) -> None:
    with pytest.raises(Refused, match="user add"):
        refuse_open(ServerSettings(host=host), has_administrator=False)
    refuse_open(ServerSettings(host=host), has_administrator=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_is_not_a_network(host: str) -> None:
    assert is_loopback(host)
    refuse_open(ServerSettings(host=host), has_administrator=False)


@pytest.mark.parametrize("origin", ["bench.example", "https://bench.example/path", "ftp://x", "https://"])
def test_an_origin_is_an_address_without_a_path(origin: str) -> None:
    with pytest.raises(BadInput, match="origin"):
        ServerSettings(origin=origin)


def test_https_makes_cookies_secure_and_names_the_host() -> None:
    made = ServerSettings(host="0.0.0.0", origin="https://bench.example")
    assert made.secure
    assert made.allowed_hosts == {"bench.example"}


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("/results?a=1", "/results?a=1"),
        ("//evil", "/"),
        ("https://evil", "/"),
        ("/\\evil", "/"),
        ("", "/"),
        ("/a\nb", "/"),
    ],
)
def test_only_own_paths_are_targets(asked: str, given: str) -> None:
    assert safe_target(asked) == given


def test_the_board_keeps_the_newest_and_bounds_its_readers() -> None:
    board = LiveBoard()
    board.post("run", [(float(n), "steady", "", 1.0, n) for n in range(MOST_EVENTS + 5)])
    events, ended = board.events("run")
    assert len(events) == MOST_EVENTS
    assert events[-1].number == MOST_EVENTS + 4
    assert ended is None
    assert [one.number for one in board.events("run", MOST_EVENTS + 2)[0]] == [MOST_EVENTS + 3, MOST_EVENTS + 4]
    board.end("run", "done")
    assert board.events("run")[1] == "done"
    assert [board.open_stream("me") for _ in range(MOST_STREAMS_A_CALLER + 1)][-1] is False
    board.close_stream("me")
    assert board.open_stream("me")


def test_metrics_are_openmetrics() -> None:
    metrics = ServerMetrics()
    metrics.requests.labels('/a"b\\c', "GET", "200").inc()
    metrics.durations.labels("/x").observe(0.03)
    metrics.gauge("depth", "Depth.", lambda: 4)
    metrics.gauge("runs", "Runs.", lambda: {"done": 2, "lost": 1}, "state")
    text = metrics.render().decode()
    assert text.endswith("# EOF\n")
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    requests = (("method", "GET"), ("route", '/a"b\\c'), ("status", "200"))
    assert samples["lynxbench_requests_total", requests] == 1
    bucket = "lynxbench_request_duration_seconds_bucket"
    assert samples[bucket, (("le", "0.05"), ("route", "/x"))] == 1
    assert samples[bucket, (("le", "0.025"), ("route", "/x"))] == 0
    assert samples["lynxbench_depth", ()] == 4
    assert samples["lynxbench_runs", (("state", "lost"),)] == 1
    assert not any(name.endswith("_created") for name, _ in samples)


def test_a_plot_is_a_file_of_its_own() -> None:
    picture = '<svg viewBox="0 0 920 100" class="plot wide" role="img"><text>a &lt; b</text></svg>'
    root = ElementTree.fromstring(standalone_svg(picture))
    assert root.attrib["width"] == "920"
    assert not any("script" in element.tag for element in root.iter())
