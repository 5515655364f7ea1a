"""An experiment as one self-contained page: the word, effects, interactions, the cube, orders, owners, evidence."""

from __future__ import annotations

from lynxbench.model.experiment import Decomposability, ExperimentAnalysis, ExperimentDocument
from lynxbench.report import words
from lynxbench.report.experiment_words import (
    cell_levels,
    change_words,
    effect_title,
    gain_words,
    is_cube,
    order_words,
    pair_mean,
    pairs_of,
    ratio_words,
)
from lynxbench.report.markup import Child, Safe, code, join, said, tag
from lynxbench.report.page import render_page
from lynxbench.report.sections.section_parts import bullets, chip, fact, plot, result_name, section, table
from lynxbench.report.svg.canvas import NARROW, WIDE
from lynxbench.report.svg.experiment_plots import draw_cube, draw_effects, draw_interaction, draw_values
from lynxbench.report.words import clean

SIZES = (WIDE, NARROW)
_TONES = {
    Decomposability.DECOMPOSABLE: "tone-good",
    Decomposability.NOT_DECOMPOSABLE: "tone-bad",
    Decomposability.UNDETERMINED: "tone-warn",
}


def render_experiment_html(document: ExperimentDocument) -> str:
    """The page as one HTML text that opens without a network and runs nothing."""
    body = tag(
        "body",
        render_experiment_header(document),
        tag("main", render_experiment_main(document)),
        tag(
            "footer",
            tag(
                "p",
                f"lynxbench {clean(document.lynxbench_version)}. Shares are of variation, never credit to a layer.",
            ),
        ),
    )
    return render_page(f"{clean(document.name)} · lynxbench experiment", body)


def render_experiment_main(document: ExperimentDocument, results_at: str = "") -> Safe:
    """Every section, the word first; results are links where `results_at` says where they are found."""
    found = document.analysis
    return join(
        [
            _verdict(document),
            _cells(document),
            *([] if found is None else [_effects(found), _interactions(document), _together(found), _owners(found)]),
            _times(document),
            _record(document, results_at),
        ]
    )


def render_experiment_header(document: ExperimentDocument) -> Safe:
    """The question and its context."""
    facts = tag(
        "dl",
        fact("Contract", said(document.contract_name), " ", code(words.abbreviated(document.contract_id))),
        fact("Design", said(document.design)),
        fact("Restarts", words.count(document.restarts, "fresh process", "fresh processes"), " a cell"),
        fact("Started", words.moment_text(document.started_at)),
        class_="facts",
    )
    return tag("header", tag("p", "lynxbench experiment", class_="brand"), tag("h1", said(document.question)), facts)


def _verdict(document: ExperimentDocument) -> Safe:
    found = document.analysis
    if found is None:
        tone, headline, reasons = (
            "tone-warn",
            [tag("strong", "No analysis"), f": {clean(document.analysis_missing)}"],
            [],
        )
    else:
        tone = _TONES[found.word]
        headline = [tag("strong", found.word.value.capitalize()), ": ", said(found.sentence)]
        reasons = [said(reason) for reason in found.reasons]
        if found.restarts_needed is not None:
            reasons.append(tag("span", f"about {found.restarts_needed} restarts a cell would settle it"))
    if document.accuracy_missing:
        reasons.append(_no_accuracy(document))
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict-title", class_="eyebrow"),
        tag("p", headline, class_="headline"),
        bullets(reasons, "cautions") if reasons else None,
        id="verdict",
        class_=f"verdict {tone}",
        aria_labelledby="verdict-title",
    )


def _no_accuracy(document: ExperimentDocument) -> Safe:
    text = clean(document.accuracy_missing)
    return tag("span", f"{text}: what the changes do to the answers is not known from this")


def _cells(document: ExperimentDocument) -> Safe:
    head = [
        *(factor.name for factor in document.factors),
        f"{document.response} ({document.unit})",
        "accuracy",
        "state",
    ]
    rows: list[list[Child]] = []
    for cell in document.cells:
        value = "–" if cell.response is None else words.interval_text(cell.response)
        state: Child = cell.status.value if not cell.reason else [cell.status.value, ": ", said(cell.reason)]
        rows.append([*map(clean, cell_levels(cell, document)), value, clean(cell.accuracy), state])
    factors = [
        tag(
            "li",
            [chip(one.layer), " ", said(one.name), f" ({clean(one.sets)}): ", said(" → ".join(one.levels))],
            [", owner ", said(one.owner)],
        )
        for one in document.factors
    ]
    cube = None
    if is_cube(document):
        title = "The cube"
        data = [[*cell_levels(c, document), c.response.estimate if c.response else "–"] for c in document.cells]
        cube = plot(
            "cube", title, f"{document.response} in {document.unit} at each combination.",
            [draw_cube(document, title, width) for width in SIZES],
            [*(factor.name for factor in document.factors), document.response], data,
        )  # fmt: skip
    return section(
        "cells",
        "What was measured",
        tag("ul", factors, class_="outcomes"),
        table("Every combination of levels", head, rows),
        cube,
        lead=f"Each combination in {document.restarts} fresh processes, in random order within blocks of time.",
    )


def _effects(found: ExperimentAnalysis) -> Safe:
    title = "Effects with their intervals"
    rows: list[list[str | int | float]] = [
        [effect_title(e), e.ratio.low, e.ratio.estimate, e.ratio.high, e.p_holm, ", ".join(e.aliases)]
        for e in found.effects
    ]
    note = (
        f"Ratios with {words.percent(found.confidence)} intervals; filled: differs from none after Holm's correction. "
        f"Dashed: ±{words.percent(found.delta)}, below which an interaction changes nobody's conclusion."
    )
    parts = [
        plot(
            "effects-plot", title, note, [draw_effects(found, title, width) for width in SIZES],
            ["effect", "low", "ratio", "high", "p (Holm)", "aliases"], rows,
        )
    ]  # fmt: skip
    shares = None
    if found.variation:
        ordered = sorted(found.variation, key=lambda one: -one.share)
        shares = table(
            "Share of the variation between all processes",
            ["term", "share"],
            [[one.term, words.percent(one.share, decimals=1)] for one in ordered],
            [1],
        )
    elif found.variation_missing:
        shares = tag("p", f"Share of variation: {clean(found.variation_missing)}.", class_="quiet")
    return section("effects", "What each change does", parts, shares)


def _interactions(document: ExperimentDocument) -> Safe:
    drawn = []
    for index, (first, second) in enumerate(pairs_of(document)):
        title = f"{first.name} × {second.name}"
        rows = [
            [
                f"{second.name} {level}",
                *(pair_mean(document, first, second, i, j) or "–" for i in range(len(first.levels))),
            ]
            for j, level in enumerate(second.levels)
        ]
        drawn.append(
            plot(
                f"interaction-{index}", title, f"Geometric means of {document.response} over the others; log axis.",
                [draw_interaction(document, first, second, title, width) for width in SIZES],
                [first.name, *first.levels], rows,
            )
        )  # fmt: skip
    if not drawn:
        return section("interactions", "How changes meet", tag("p", "One factor alone meets no other.", class_="empty"))
    return section("interactions", "How changes meet", drawn, lead="Parallel lines do not interact; others do.")


def _together(found: ExperimentAnalysis) -> Safe:
    parts: list[Child] = []
    if found.joint is not None and found.sum_of_single is not None and found.gap is not None:
        parts.append(
            tag(
                "dl",
                fact("All changes together", gain_words(found.joint)),
                fact("Product of single changes", gain_words(found.sum_of_single)),
                fact("Joint over product", gain_words(found.gap)),
                class_="facts",
            )
        )
    if found.shapley:
        rows: list[list[Child]] = [
            [
                one.factor,
                gain_words(one.ratio),
                f"{change_words(one.least)} {order_words(one.least_after)}",
                f"{change_words(one.most)} {order_words(one.most_after)}",
            ]
            for one in found.shapley
        ]
        head = ["change", "mean over all orders (Shapley)", "least, in an order", "most, in an order"]
        parts.append(table("What each change adds, and how much that depends on the order", head, rows))
    if found.step_missing:
        parts.append(tag("p", clean(found.step_missing), class_="empty"))
    return section("together", "One at a time against all together", parts)


def _owners(found: ExperimentAnalysis) -> Safe | None:
    if not found.owners:
        return None
    rows: list[list[Child]] = [
        [
            [chip(one.layer), " ", said(one.owner)],
            said(one.change),
            ratio_words(one.alone),
            ratio_words(one.in_company),
            one.judgement.value,
        ]
        for one in found.owners
    ]
    sentences = [said(one.sentence) for one in found.owners]
    return section(
        "owners",
        "What each owner would have concluded alone",
        table("Alone and in company", ["owner", "change", "alone", "with the others made", "alone it"], rows),
        tag("div", bullets(sentences), class_="prose"),
    )


def _times(document: ExperimentDocument) -> Safe:
    title = "Every process, block by block"
    rows = [
        [", ".join(cell_levels(cell, document)), *(value if value is not None else "–" for value in cell.values)]
        for cell in document.cells
    ]
    blocks = [f"block {block + 1}" for block in range(document.restarts)]
    picture = plot(
        "blocks", title, "A drift of the machine moves all cells of a block alike, and is taken out.",
        [draw_values(document, title, width) for width in SIZES], ["cell", *blocks], rows,
    )  # fmt: skip
    return section("time", "Over time", picture)


def _record(document: ExperimentDocument, results_at: str) -> Safe:
    rows: list[list[Child]] = []
    for cell in document.cells:
        packages = "" if cell.packages is None else f"{cell.packages.name} {cell.packages.packages_sha256[:12]}"
        ids = [result_name(one, results_at) for one in cell.result_ids]
        rows.append(
            [
                str(cell.number + 1),
                ", ".join(cell_levels(cell, document)),
                [part for one in ids for part in (one, " ")] or "–",
                code((cell.executor_id or "")[:12]),
                clean(packages),
                clean(cell.validity),
            ]
        )
    notes = bullets([said(note) for note in document.notes]) if document.notes else None
    aliases = (
        [tag("h3", "Aliases: what the fraction cannot tell apart"), bullets([said(a) for a in document.aliases])]
        if document.aliases
        else None
    )
    return section(
        "evidence",
        "Evidence",
        table("Each cell left an ordinary result", ["", "cell", "results", "executor", "packages", "validity"], rows),
        tag("div", aliases, notes, class_="prose"),
        tag(
            "p",
            f"Definition {document.definition_id[:12]}, seed {document.seed}; cells were visited {document.lanes}.",
            class_="quiet",
        ),
    )
