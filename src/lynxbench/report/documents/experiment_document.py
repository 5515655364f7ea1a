"""An experiment: the word first, then cells, effects, orders, what each owner would conclude alone, evidence."""

from functools import partial
from itertools import combinations

from lynxbench.model.experiment import CellShown, CellStatus, Decomposability, ExperimentAnalysis, ExperimentDocument
from lynxbench.model.plain_numbers import without_exponents
from lynxbench.report import doc, words
from lynxbench.report.doc import Depth, Fact, Inline, Style, Tone, chip, code, refer, said
from lynxbench.report.experiment_words import (
    cell_levels,
    change_words,
    effect_title,
    gain_words,
    order_words,
    pair_gain,
    pair_mean,
)
from lynxbench.report.svg.experiment_plots import draw_cube, draw_effects, draw_interaction, draw_values
from lynxbench.report.text_plots import cube_lines, effect_lines
from lynxbench.report.words import clean

SHOWN_DOUBTS = 4
_TONES = {
    Decomposability.DECOMPOSABLE: Tone.GOOD,
    Decomposability.NOT_DECOMPOSABLE: Tone.BAD,
    Decomposability.UNDETERMINED: Tone.WARN,
}


def compose_experiment(experiment: ExperimentDocument) -> doc.Report:
    """The whole experiment."""
    analysis = experiment.analysis
    concluded: tuple[doc.Section | None, ...] = ()
    if analysis is not None:
        concluded = (_effects(analysis), _interactions(experiment), _together(analysis), _owners(analysis))
    return doc.Report(
        f"{clean(experiment.name)}: experiment",
        (_verdict(experiment), _cells(experiment), *concluded, _times(experiment), _record(experiment)),
        title=said(experiment.question),
        brand="lynxbench experiment",
        facts=(
            ("Experiment", said(experiment.name)),
            (
                "Contract",
                (said(experiment.contract_name), " ", code(words.abbreviated(experiment.contract_id))),
            ),
            ("Design", said(experiment.design)),
            ("Restarts", f"{words.count(experiment.restarts, 'fresh process', 'fresh processes')} a cell"),
            ("Started", words.moment_text(experiment.started_at)),
        ),
        version=experiment.lynxbench_version,
        motto="Shares are of variation, never credit to a layer.",
    )


def _verdict(experiment: ExperimentDocument) -> doc.Verdict:
    analysis, reasons = experiment.analysis, list[Inline]()
    if analysis is not None:
        reasons += map(said, analysis.reasons)
        if analysis.restarts_needed is not None:
            reasons.append(f"about {analysis.restarts_needed} restarts a cell would settle it")
    if missing := experiment.accuracy_missing:
        reasons.append(f"{clean(missing)}: what the changes do to the answers is not known from this")
    if analysis is None:
        return doc.Verdict(said(experiment.analysis_missing), "no analysis", Tone.WARN, (), reasons)
    return doc.Verdict(said(analysis.sentence), analysis.word.value, _TONES[analysis.word], (), reasons)


def _cells(experiment: ExperimentDocument) -> doc.Section:
    unit = f" ({clean(experiment.unit)})" if experiment.unit else ""
    factors = [
        (chip(factor.layer), " ", said(factor.name), f" ({factor.sets}): ", said(" → ".join(factor.levels)),
         ", owner ", said(factor.owner))
        for factor in experiment.factors
    ]  # fmt: skip
    head = (
        *(factor.name for factor in experiment.factors),
        f"{experiment.response}{unit}",
        "accuracy",
        "state",
        "result",
    )
    rows = [(*map(said, cell_levels(cell, experiment)), *_cell(cell)) for cell in experiment.cells]
    troubles = [
        (f"{cell.status.value}: {', '.join(cell_levels(cell, experiment))}: ", said(cell.reason))
        for cell in experiment.cells
        if cell.status in (CellStatus.INFEASIBLE, CellStatus.VOID, CellStatus.PARTLY)
    ]
    doubts = {line for cell in experiment.cells for line in cell.validity.split("; ") if line not in ("", "valid")}
    cube = None
    if [len(factor.levels) for factor in experiment.factors] == [2, 2, 2]:
        data = [
            (*cell_levels(cell, experiment), cell.response.estimate if cell.response else "–")
            for cell in experiment.cells
        ]
        caption = f"{experiment.response} in {clean(experiment.unit)} at each combination."
        names = (*(factor.name for factor in experiment.factors), experiment.response)
        drawing, lines = partial(draw_cube, experiment), partial(cube_lines, experiment)
        cube = doc.Plot("cube", "The cube", caption, drawing, names, data, lines, depth=Depth.GLANCE)
    lead = f"Each combination in {experiment.restarts} fresh processes, in random order within blocks of time."
    blocks = (
        doc.Points(factors, "Factors"),
        doc.Points([said(alias) for alias in experiment.aliases], "Aliases: what the fraction cannot tell apart"),
        doc.Table(
            head, rows, f"Cells: every combination of levels, {words.count(experiment.restarts, 'restart')} each"
        ),
        doc.Points(troubles, "Cells that could not be run as planned"),
        doc.Points([f"doubt: {clean(line)}" for line in sorted(doubts)], kind=doc.Bullet.WARNS, most=SHOWN_DOUBTS),
        cube,
    )
    return doc.Section("cells", "What was measured", blocks, lead)


def _cell(cell: CellShown) -> tuple[Inline, ...]:
    result: Inline = refer("results", cell.result_ids[0]) if cell.result_ids else ""
    value = "–" if cell.response is None else words.interval_text(cell.response)
    return value, said(without_exponents(cell.accuracy)), cell.status.value, result


def _effects(analysis: ExperimentAnalysis) -> doc.Section:
    rows = [
        (effect_title(e), e.ratio.low, e.ratio.estimate, e.ratio.high, e.p_holm, ", ".join(e.aliases))
        for e in analysis.effects
    ]
    caption = (
        f"Ratios with {words.percent(analysis.confidence)} intervals; filled: differs from none after Holm's "
        f"correction. Dashed: ±{words.percent(analysis.delta)}, below which an interaction changes nobody's conclusion."
    )
    head = ("effect", "low", "ratio", "high", "p (Holm)", "aliases")
    drawing, lines = partial(draw_effects, analysis), partial(effect_lines, analysis)
    shares = sorted(analysis.variation, key=lambda part: -part.share)
    missing = f"Share of variation: {clean(analysis.variation_missing)}." if analysis.variation_missing else ""
    variation = doc.Table(
        ("term", "share"),
        [(part.term, words.percent(part.share, decimals=1)) for part in shares],
        "Share of the variation between all processes",
        (1,),
        empty=missing,
    )
    noise = (
        None
        if analysis.noise is None
        else doc.Note(f"Noise between restarts of a cell: {words.percent(analysis.noise)}.")
    )
    plot = doc.Plot(
        "effects-plot", "Effects with their intervals", caption, drawing, head, rows, lines, depth=Depth.GLANCE
    )
    return doc.Section("effects", "What each change does", (plot, noise, variation))


def _interactions(experiment: ExperimentDocument) -> doc.Section:
    plots: list[doc.Block] = []
    for index, (first, second) in enumerate(combinations(experiment.factors, 2)):
        across = range(len(second.levels))
        rows: list[tuple[doc.Datum, ...]] = [
            (level, *(_mean(pair_mean(experiment, first, second, i, j)) for j in across))
            for i, level in enumerate(first.levels)
        ]
        gains = [pair_gain(experiment, first, second, j) for j in across]
        changed = f"{first.levels[0]} → {first.levels[-1]}"
        rows.append((changed, *(words.NO_FIGURE if gain is None else change_words(gain) for gain in gains)))
        caption = f"Geometric means of {experiment.response} over the others; log axis."
        title, head = f"{first.name} × {second.name}", (f"{first.name} \\ {second.name}", *second.levels)
        drawing = partial(draw_interaction, experiment, first, second)
        plots.append(doc.Plot(f"interaction-{index}", title, caption, drawing, head, rows, depth=Depth.GLANCE))
    if not plots:
        plots.append(doc.Note("One factor alone meets no other.", Style.EMPTY, Depth.READ))
    return doc.Section("interactions", "How changes meet", plots, "Parallel lines do not interact; others do.")


def _mean(value: float | None) -> doc.Datum:
    return words.NO_FIGURE if value is None else value


def _together(analysis: ExperimentAnalysis) -> doc.Section:
    joint: tuple[Fact, ...] = ()
    if analysis.joint is not None and analysis.sum_of_single is not None and analysis.gap is not None:
        joint = (
            ("joint change", gain_words(analysis.joint)),
            ("product of single changes", gain_words(analysis.sum_of_single)),
            ("joint over product", gain_words(analysis.gap)),
        )
    rows = [
        (
            change.factor,
            gain_words(change.ratio),
            f"{change_words(change.least)} {order_words(change.least_after)}",
            f"{change_words(change.most)} {order_words(change.most_after)}",
        )
        for change in analysis.shapley
    ]
    head = ("change", "mean over all orders (Shapley)", "least, in an order", "most, in an order")
    missing = doc.Note(clean(analysis.step_missing), Style.EMPTY) if analysis.step_missing else None
    title = "What each change adds, and how much that depends on the order"
    blocks = (doc.Facts(joint, "All changes together") if joint else None, doc.Table(head, rows, title), missing)
    return doc.Section("together", "One at a time against all together", blocks)


def _owners(analysis: ExperimentAnalysis) -> doc.Section | None:
    if not analysis.owners:
        return None
    rows = [
        (
            (chip(owner.layer), " ", said(owner.owner)),
            said(owner.change),
            words.change_text(owner.alone),
            words.change_text(owner.in_company),
            owner.judgement.value,
        )
        for owner in analysis.owners
    ]
    head, title = ("owner", "change", "alone", "with the others made", "alone it"), "Alone and in company"
    sentences = [(f"{owner.judgement.value}: ", said(owner.sentence)) for owner in analysis.owners]
    heading = "What each owner would have concluded alone"
    return doc.Section(
        "owners", heading, (doc.Points(sentences, heading), doc.Table(head, rows, title, depth=Depth.READ))
    )


def _times(experiment: ExperimentDocument) -> doc.Section:
    rows = [
        (", ".join(cell_levels(cell, experiment)), *("–" if value is None else value for value in cell.values))
        for cell in experiment.cells
    ]
    head = ("cell", *(f"block {block + 1}" for block in range(experiment.restarts)))
    caption = "A drift of the machine moves all cells of a block alike, and is taken out."
    plot = doc.Plot("blocks", "Every process, block by block", caption, partial(draw_values, experiment), head, rows)
    return doc.Section("time", "Over time", (plot,))


def _record(experiment: ExperimentDocument) -> doc.Section:
    rows: list[tuple[Inline, ...]] = []
    for cell in experiment.cells:
        packages = "" if cell.packages is None else f"{cell.packages.name} {cell.packages.packages_sha256[:12]}"
        results = tuple(piece for name in cell.result_ids for piece in (refer("results", name), " "))
        rows.append(
            (
                str(cell.number + 1),
                said(", ".join(cell_levels(cell, experiment))),
                results or "–",
                code((cell.executor_id or "")[:12]),
                said(packages),
                said(cell.validity),
            )
        )
    order = (
        f"Definition {experiment.definition_id[:12]}, seed {experiment.seed}; random within {experiment.restarts} "
        f"blocks of time; cells were visited {experiment.lanes}; {words.seconds_text(experiment.measuring_s)} in all."
    )
    head = ("", "cell", "results", "executor", "packages", "validity")
    blocks = (
        doc.Points([said(note) for note in experiment.notes], "Notes"),
        doc.Note(order, Style.QUIET),
        doc.Table(head, rows, "Each cell left an ordinary result", depth=Depth.READ),
    )
    return doc.Section("evidence", "Evidence", blocks)
