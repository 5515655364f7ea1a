"""Load in words: no throughput without its load and budget, and nothing of a void run."""

from __future__ import annotations

from lynxbench.report.doc import plain_text
from lynxbench.report.documents.load_section import load_facts, saturation_text
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.documents.result_verdict import result_verdict
from lynxbench.report.render_html import render_html
from lynxbench.report.render_markdown import render_markdown
from lynxbench.report.render_terminal import render_terminal


def lines_of(case) -> dict[str, str]:
    one = case.result.per_precision[0]
    return {label.lower(): plain_text(value) for label, value in load_facts(one, one.load, case.result)}


def test_throughput_stands_with_its_load_and_budget(build) -> None:
    lines = lines_of(build.served())
    assert "open loop, poisson 41 /s" in lines["requests"]
    assert "in flight" in lines["requests"]
    assert "within p99 time-to-first-token ≤ 500 ms, p95 time-per-token ≤ 60 ms" in lines["goodput"]
    assert "43.00" in lines["saturation"]
    assert "within p99" in lines["saturation"]
    assert lines["load"] == "12\u202f040 offered = 12\u202f026 ok + 14 failed (http error 9, timeout idle 5); 3 retries"
    assert "usage" in lines["tokens"]
    assert "avoided" in lines["cache"]


def test_a_void_run_says_what_was_sent_and_why_it_is_void(build) -> None:
    case = build.served_void()
    lines = lines_of(case)
    assert set(lines) == {"load", "tokens", "cache", "instrument"}
    assert lines["instrument"].startswith("void: the client needed 100% of a core")
    report = compose_result(case.result)
    for text in (render_terminal(report, width=120), render_markdown(report), render_html(report)):
        for figure in ("40.9", "40.5", "41.0", "43.0 ", "160 ms", "3 820"):
            assert figure not in text, figure


def test_the_headline_is_about_the_objective(build) -> None:
    head = result_verdict(build.served().result)
    assert head.mark.startswith("objective")
    assert "open loop, poisson 41 /s" in head.sentence


def test_a_search_that_claims_nothing_says_so(build) -> None:
    load = build.served().result.per_precision[0].load
    nothing = load.saturation.model_copy(update={"passed_per_s": None, "note": "nothing is claimed"})
    assert saturation_text(nothing, load).startswith("no rate was shown to hold within p99")
    open_end = load.saturation.model_copy(update={"failed_per_s": None})
    assert "no rate failed up to the ceiling" in saturation_text(open_end, load)


def test_a_search_that_ended_early_says_what_holds_at_least(build) -> None:
    load = build.served().result.per_precision[0].load
    early = load.saturation.model_copy(update={"confirmed": False, "at_least_per_s": 32.0})
    text = plain_text(saturation_text(early, load)).replace("\u00a0", " ")
    assert text.startswith("holds at least 32.00 /s within p99")
    assert ", not shown beyond (not confirmed)" in text
    older = load.saturation.model_copy(update={"confirmed": False})
    assert "at least" not in plain_text(saturation_text(older, load)), "earlier versions did not show it"


def test_a_search_says_what_is_not_decided_and_what_it_could_not_see(build) -> None:
    load = build.served().result.per_precision[0].load
    watched = load.saturation.model_copy(update={"undecided_per_s": 42.0, "watched_s": 150.0, "rarest_s": 50.0})
    text = plain_text(saturation_text(watched, load))
    assert "43.00 /s fails, 42.00 /s is not decided" in text.replace("\u00a0", " ")
    assert "disturbances rarer than one in 50.0 s may not have been seen" in text.replace("\u00a0", " ")
    older = load.saturation.model_copy(update={"failed_outcome": "undecided"})
    text = plain_text(saturation_text(older, load)).replace("\u00a0", " ")
    assert "no rate failed up to the ceiling of 52.00 /s, 43.00 /s is not decided" in text


def test_the_page_draws_the_curve_and_says_what_failing_answers_said(build) -> None:
    page = render_html(compose_result(build.served().result))
    assert 'id="load"' in page
    assert 'href="#load"' in page
    assert "Latency over offered rate" in page
    assert "503: the queue is full" in page
    assert "request_queue_time_seconds_sum" in page
    plain = render_html(compose_result(build.software_bound().result))
    assert 'id="load"' not in plain
    assert 'href="#load"' not in plain
