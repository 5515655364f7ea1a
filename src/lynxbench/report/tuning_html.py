"""A tuning as one self-contained page."""

from __future__ import annotations

import math

from lynxbench.model.tuning import TrialStatus, TuningDocument, TuningVerdict
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, code, join, said, tag
from lynxbench.report.page import render_page
from lynxbench.report.sections.section_parts import fact, plot, result_name, section, table
from lynxbench.report.svg.canvas import NARROW, WIDE, Scale, axis_x, axis_y, padded, rule, svg, text
from lynxbench.report.tuning_terminal import curse_words, gain_text, setting_words
from lynxbench.report.words import clean


def render_tuning_html(document: TuningDocument) -> str:
    """The page as one HTML text that opens without a network and runs nothing."""
    body = tag(
        "body",
        render_tuning_header(document),
        tag("main", render_tuning_main(document)),
        tag("footer", tag("p", f"lynxbench {clean(document.lynxbench_version)}. A search's best figure is no result.")),
    )
    return render_page(f"{clean(document.contract_name)} · lynxbench tune", body)


def render_tuning_main(document: TuningDocument, results_at: str = "") -> Safe:
    """Every section, the verdict first; results are links where `results_at` says where they are found."""
    return join([_verdict(document), _sides(document), _search(document), _record(document, results_at)])


def render_tuning_header(document: TuningDocument) -> Safe:
    """The question and its context."""
    facts = tag(
        "dl",
        fact("Contract", said(document.contract_name), " ", code(words.abbreviated(document.contract_id))),
        fact("Division", document.division),
        fact("Search", f"{document.search}, {len(document.trials)} trials of {document.settings} settings"),
        fact("Started", words.moment_text(document.started_at)),
        class_="facts",
    )
    return tag("header", tag("p", "lynxbench tune", class_="brand"), tag("h1", said(document.question)), facts)


def _verdict(document: TuningDocument) -> Safe:
    tone = "tone-good" if document.verdict is TuningVerdict.IMPROVED else "tone-warn"
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict-title", class_="eyebrow"),
        tag(
            "p", [tag("strong", document.verdict.value.capitalize()), ": ", said(document.sentence)], class_="headline"
        ),
        tag("p", curse_words(document), ".", class_="quiet") if document.tuned is not None else None,
        tag("p", clean(document.accuracy_missing), ".", class_="quiet") if document.accuracy_missing else None,
        id="verdict",
        class_=f"verdict {tone}",
        aria_labelledby="verdict-title",
    )


def _sides(document: TuningDocument) -> Safe:
    rows: list[list[Child]] = []
    for name, one in (("baseline", document.baseline), ("tuned", document.tuned)):
        if one is None:
            rows.append([name, "not confirmed", "", "", ""])
        else:
            figure = words.interval_text(one.response)
            rows.append([name, figure, one.division, setting_words(one.setting), clean(one.accuracy)])
    head = ["", f"{document.response} ({clean(document.unit)})", "division", "setting", "accuracy"]
    gain = None if document.gain is None else tag("p", "Gain by pairs of fresh processes: ", gain_text(document.gain))
    lead = "Fresh processes, in turn, on seeds that no trial ran on."
    return section("sides", "Baseline and tuned", table("Confirmed figures", head, rows), gain, lead=lead)


def _search(document: TuningDocument) -> Safe:
    title = "The search, trial by trial"
    rows = [
        [trial.number + 1, trial.response if trial.response is not None else math.nan, trial.status.value]
        for trial in document.trials
    ]
    picture = plot(
        "search-plot",
        title,
        "One fresh process each. Open: refused by the accuracy gate. Dashed: the chosen setting, confirmed.",
        [_draw(document, title, width) for width in (WIDE, NARROW)],
        ["trial", document.response, "status"],
        rows,
    )
    knobs = [[name, ", ".join(str(value) for value in values)] for name, values in document.knobs.items()]
    return section("search", "What was tried", table("Knobs", ["knob", "values"], knobs), picture)


def _draw(document: TuningDocument, title: str, width: int) -> Safe:
    known = [trial for trial in document.trials if trial.response is not None]
    if not known:
        return svg(width, 40, title, "no trial was measured", text(8, 24, "no trial was measured"))
    values = [trial.response for trial in known if trial.response is not None]
    confirmed = document.tuned.response.estimate if document.tuned is not None else math.nan
    ends = [*values, *([confirmed] if math.isfinite(confirmed) else [])]
    left, top, bottom = 64, 10, 200
    x = Scale(0.5, len(document.trials) + 0.5, left, width - 14)
    y = Scale(*padded(min(ends), max(ends)), bottom, top)
    parts: list[Safe] = [*axis_x(x, bottom, top, "trials", 8 if width > NARROW else 4), *axis_y(y, left, width - 14, 5)]
    for trial in known:
        css = "point" if trial.status is TrialStatus.MEASURED else "point open"
        tip = tag(
            "title", f"trial {trial.number + 1}: {words.digits(trial.response, 4)}; {setting_words(trial.setting)}"
        )
        parts.append(tag("circle", tip, cx=x(trial.number + 1), cy=y(trial.response or 0.0), r=3.4, class_=css))
    if math.isfinite(confirmed):
        parts.append(rule(left, y(confirmed), width - 14, y(confirmed), "mean"))
    return svg(width, 230, title, f"{len(known)} of {len(document.trials)} trials have a figure", parts)


def _record(document: TuningDocument, results_at: str) -> Safe:
    rows: list[list[Child]] = [
        [
            str(trial.number + 1),
            setting_words(trial.setting),
            "–" if trial.response is None else words.digits(trial.response, 4),
            trial.status.value,
            clean(trial.accuracy or trial.reason),
            result_name(trial.result_id or "", results_at),
        ]
        for trial in document.trials
    ]
    head = ["trial", "setting", document.response, "status", "accuracy or reason", "result"]
    return section("evidence", "Evidence", table("Every trial left an ordinary result", head, rows, [2]))
