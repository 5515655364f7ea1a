"""What a manager reads: the verdict in words, the figures with their context, four questions answered."""

from __future__ import annotations

import math

from lynxbench.model.attribution import Bound
from lynxbench.model.result import Percentile, PrecisionResult, Result
from lynxbench.report import accuracy_words, findings, words
from lynxbench.report.findings import Headline
from lynxbench.report.four_answers import answer_four
from lynxbench.report.markup import Child, Safe, code, said, tag
from lynxbench.report.sections.section_parts import bullets, chip, fact, section
from lynxbench.report.svg.bar_plots import draw_interval
from lynxbench.report.tone import Tone

_CONTENTS = (
    ("figures", "Figures"),
    ("questions", "Four questions"),
    ("precisions", "Precisions"),
    ("load", "Load"),
    ("counted", "Counted"),
    ("plots", "Plots"),
    ("time", "Where time goes"),
    ("executor", "Executor"),
    ("context", "Context"),
    ("evidence", "Evidence"),
)


def render_header(result: Result) -> Safe:
    """Which question was asked, of what, when."""
    facts = tag(
        "dl",
        fact("Model", said(result.conditions.model)),
        fact("Contract", said(result.contract.name), " ", code(words.abbreviated(result.contract_id))),
        fact("Executor", code(words.abbreviated(result.executor_id))),
        fact("Measured", tag("time", words.moment_text(result.started_at), datetime=words.clean(result.started_at))),
        class_="facts",
    )
    contents = [entry for entry in _CONTENTS if findings.is_served(result) or entry[0] != "load"]
    links = [tag("a", name, href=f"#{target}") for target, name in contents]
    return tag(
        "header",
        tag("p", "lynxbench measurement report", class_="brand"),
        tag("h1", said(result.contract.question)),
        facts,
        tag("nav", links, aria_label="Contents"),
    )


def render_verdict(result: Result) -> Safe:
    """The verdict card; its colour is the layer's that the cause points to."""
    head = findings.headline(result)
    layer = head.attribution.layer if head.attribution else None
    tone = f"layer-{layer}" if layer else f"tone-{head.tone}"
    mark = head.mark[:1].upper() + head.mark[1:]
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict-title", class_="eyebrow"),
        tag("p", tag("strong", mark), ": ", said(head.sentence), class_="headline"),
        _ownership(head, result),
        bullets([said(caution) for caution in head.cautions], "cautions") if head.cautions else None,
        id="verdict",
        class_=f"verdict {tone}",
        aria_labelledby="verdict-title",
    )


def _ownership(head: Headline, result: Result) -> Safe | None:
    found = head.attribution
    if found is None:
        return None
    cause: Child = "not established: no owner is named"
    if found.layer is not None:
        cause = [chip(found.layer), " ", said(found.owner or "nobody is named in the contract")]
    symptom = None
    if found.symptom_layer is not None:
        symptom = fact(
            "Symptom seen by", chip(found.symptom_layer), " ", said(result.contract.owner(found.symptom_layer))
        )
    gain = found.gain_if_removed
    expected = words.factor_text(gain) if math.isfinite(gain.estimate) else "unknown"
    meaning = "if the bottleneck were removed entirely" if math.isfinite(gain.estimate) else ""
    return tag(
        "dl",
        fact("Cause owned by" if found.bound is not Bound.UNDETERMINED else "Points to", cause),
        symptom,
        fact("Next step", said(found.next_step or "none is known")),
        fact("Expected gain", tag("strong", expected, class_="num"), f" {meaning}"),
        class_="facts owners",
    )


def render_figures(result: Result) -> Safe:
    """Each precision's rate with its interval drawn; never without batch, load and precision."""
    measured = findings.shown(result)
    if not measured:
        why = findings.headline(result).sentence
        body: Child = tag("p", "No figure is shown as this executor’s: ", said(why), ".", class_="empty")
        return section("figures", "Figures", body)
    cards = tag("div", [_card(one, result) for one in measured], class_="cards")
    slo = [findings.slo_line(outcome, one.precision) for one in measured for outcome in one.slo]
    objective = tag("ul", [_toned(text, tone) for text, tone in slo], class_="outcomes") if slo else None
    valid, tone = findings.validity_line(result)
    notes = [tag("li", tag("strong", "Valid: "), said(valid), class_=f"tone-{tone}")]
    if loosened := findings.loosened_line(result):
        label = tag("strong", "Looser than the default protocol: ")
        notes.append(tag("li", label, said(loosened), class_="tone-warn"))
    lead = f"At {findings.conditions_line(result)}."
    return section("figures", "Figures", cards, objective, tag("ul", notes, class_="outcomes"), lead=lead)


def _toned(text: str, tone: Tone) -> Safe:
    return tag("li", tag("bdi", text), class_=f"tone-{tone}")


def _card(one: PrecisionResult, result: Result) -> Safe:
    held = one.sustained or one.throughput
    assert held is not None  # `shown` lets no precision through without one
    decimals = words.decimals_of(held.interval)
    value = words.number(held.estimate, decimals)
    interval = held.interval
    bounds = (
        f"{words.percent(result.contract.protocol.confidence)} interval "
        f"{words.number(interval.low, decimals)} to {words.number(interval.high, decimals)}"
        if interval.known
        else "no interval: too few runs"
    )
    steady = one.sustained is not None
    sentence = words.rate_sentence(
        held,
        one.precision,
        result.conditions,
        confidence=result.contract.protocol.confidence,
        runs=len(one.run_means) or one.restarts,
        steady=steady,
    )
    metric = findings.main_latency(result)
    accuracy = accuracy_words.accuracy_text(one.accuracy, accuracy_words.accuracy_metric(result))
    tone = accuracy_words.accuracy_tone(one.accuracy)
    peak = one.peak.estimate if one.peak and one.peak.estimate is not None else math.nan
    return tag(
        "article",
        tag("h3", one.precision.value, " ", tag("span", "sustained" if steady else "mean, not steady", class_="state")),
        tag("p", tag("span", value, class_="big"), " ", tag("span", words.clean(held.unit), class_="unit")),
        draw_interval(interval, peak, words.clean(sentence)),
        tag("p", bounds, class_="quiet"),
        tag(
            "dl",
            fact("Best window", words.estimate_text(one.peak, held)),
            fact(_short_latency(metric, findings.is_served(result)), findings.pair_text(*_pair(one, metric))),
            fact(f"Accuracy ({accuracy_words.accuracy_metric(result)})", tag("span", accuracy, class_=f"tone-{tone}")),
            fact("Executed as", said(findings.executed_how(one))),
            class_="small",
        ),
        class_="card",
    )


def _pair(one: PrecisionResult, metric: str) -> tuple[Percentile | None, Percentile | None]:
    return findings.percentile_of(one, metric, 50), findings.percentile_of(one, metric, 99)


def _short_latency(metric: str, served: bool) -> str:
    name = findings.latency_name(metric, served=served)
    return f"{name[:1].upper()}{name[1:]}, p50 / p99"


def render_questions(result: Result) -> Safe:
    """Four questions that a report must answer before anyone compares anything."""
    cards = [
        tag("article", tag("h3", answer.question), bullets([tag("bdi", s) for s in answer.sentences]), class_="answer")
        for answer in answer_four(result)
    ]
    return section("questions", "Four questions", tag("div", cards, class_="answers"))
