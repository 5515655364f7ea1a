"""A comparison as sections of a page: sound or refused first, then the effects, then whose layer changed."""

from __future__ import annotations

from lynxbench.model.canonical import short
from lynxbench.model.comparison import (
    Comparability,
    Comparison,
    EffectVerdict,
    FieldSuspect,
    LayerDifference,
    RuleVerdict,
)
from lynxbench.model.interval import Interval
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, code, said, tag
from lynxbench.report.sections.record_section import value_text
from lynxbench.report.sections.section_parts import bullets, chip, fact, section, table
from lynxbench.report.tone import Tone

MOST_FIELDS = 40

_TONES = {
    EffectVerdict.REGRESSED: Tone.BAD,
    EffectVerdict.IMPROVED: Tone.GOOD,
    EffectVerdict.WITHIN_BUDGET: Tone.GOOD,
    EffectVerdict.INCONCLUSIVE: Tone.WARN,
}


def render_comparison_sections(found: Comparison) -> list[Safe | None]:
    """All sections, the verdict first."""
    return [_verdict(found), _effects(found), _rules(found), _layers(found)]


def headline_of(found: Comparison) -> tuple[str, str, Tone]:
    """The verdict's word, the sentence after it, and its colour."""
    if found.refused:
        return "Incomparable", "no ratio is given. What would make it sound stands below.", Tone.BAD
    if found.verdict is None or found.effect is None:
        return "No verdict", "no figure could be compared", Tone.WARN
    change = words.percent_interval(_minus_one(found.effect))
    sentence = (
        f"{found.figure} at {found.precision} {change} (B over A; budget {words.percent(found.budget)}, "
        f"{words.percent(found.confidence)} interval)"
    )
    return found.verdict.value.capitalize(), sentence, _TONES[found.verdict]


def _verdict(found: Comparison) -> Safe:
    mark, sentence, tone = headline_of(found)
    layer = found.cause.layer if found.cause is not None else None
    moved = found.verdict in (EffectVerdict.REGRESSED, EffectVerdict.IMPROVED)
    facts: list[Child] = [fact("Comparability", found.comparability.value)]
    if found.cause is not None and not found.refused:
        facts.append(fact("Record", said(found.cause.sentence)))
        if layer is not None:
            owner = found.cause.owner or "nobody is named"
            facts.append(fact("Ask" if moved else "Layer that differs", chip(layer), " ", said(owner)))
        if moved:
            facts.append(fact("Experiment", said(found.cause.experiment)))
    remedies = bullets([said(one) for one in found.sound_if], "cautions") if found.refused and found.sound_if else None
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict-title", class_="eyebrow"),
        tag("p", tag("strong", mark), ": ", said(sentence), class_="headline"),
        tag("dl", facts, class_="facts owners"),
        remedies,
        id="verdict",
        class_=f"verdict tone-{tone}",
        aria_labelledby="verdict-title",
    )


def _effects(found: Comparison) -> Safe | None:
    if found.refused:
        return None
    rows: list[list[Child]] = []
    for row in found.per_precision:
        if row.comparability is Comparability.INCOMPARABLE:
            rows.append([row.precision.value, "incomparable: no ratio", "", "", "", "", ""])
            continue
        for effect in row.effects:
            tone = _TONES[effect.verdict]
            rows.append(
                [
                    [row.precision.value, " (decides)" if effect.figure == row.leading else ""],
                    effect.figure,
                    words.digits(effect.a, 4),
                    words.digits(effect.b, 4),
                    said(effect.unit),
                    words.percent_interval(_minus_one(effect.ratio)),
                    [tag("span", effect.verdict.value, class_=f"tone-{tone}"), f" {effect.why}" if effect.why else ""],
                ]
            )
    accuracy = [said(f"{row.precision}: {row.accuracy}") for row in found.per_precision if row.accuracy]
    head = ("Precision", "Figure", "A", "B", "Unit", "B over A", "Verdict")
    return section(
        "effects",
        "Effects",
        table("Figures of both results", head, rows, (2, 3, 5)),
        tag("div", tag("h3", "Accuracy"), bullets(accuracy), class_="prose") if accuracy else None,
        lead="Each change with its interval against the contract’s budget. Latencies are better when smaller.",
    )


def _rules(found: Comparison) -> Safe:
    rows: list[list[Child]] = [
        [
            f"{one.rule} {one.name}",
            tag("span", one.outcome.value, class_="tone-bad" if one.outcome is RuleVerdict.BREAKS else "tone-warn"),
            said(f"{one.precision}: {one.said}" if one.precision else one.said),
            said(one.remedy),
        ]
        for one in found.rules
    ]
    body: Child = (
        table("Rules that differ or break", ("Rule", "Outcome", "Found", "What would make it sound"), rows)
        if rows
        else tag("p", f"All {len(found.rules_checked)} rules hold.", class_="quiet")
    )
    return section("rules", "Comparability", body, lead="A pair that breaks a rule gets no ratio.")


def _layers(found: Comparison) -> Safe:
    body: Child = (
        tag("div", [_layer(one) for one in found.layers], class_="layers")
        if found.layers
        else tag("p", "No layer differs in the record.", class_="quiet")
    )
    return section("layers", "Layers that differ", body, lead="The strongest suspect first, each with its owner.")


def _layer(one: LayerDifference) -> Safe:
    summary = tag(
        "summary",
        chip(one.layer),
        tag("span", said(one.owner), class_="owner"),
        tag("span", f"{one.rank}. {one.weight.value}", class_="quiet holds"),
        tag("span", words.count(len(one.fields), "field"), class_="quiet many"),
    )
    rows = [_field(field) for field in one.fields[:MOST_FIELDS]]
    left = len(one.fields) - len(rows)
    return tag(
        "details",
        summary,
        table(f"Fields of layer {one.layer} that differ", ("Field", "A", "B", "Suspicion"), rows),
        tag("p", f"and {left} more", class_="quiet") if left > 0 else None,
        class_=f"layer layer-{one.layer}",
        open=one.rank == 1,
    )


def _field(field: FieldSuspect) -> list[Child]:
    before, after = field.before, field.after
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        before, after = ({key: side.get(key) for key in keys} for side in (before, after))
    why = f"{field.weight.value}: {field.reason}" if field.reason else field.weight.value
    return [
        code(field.name),
        said(value_text(before)),
        said(value_text(after)),
        said(f"follows {field.follows}" if field.follows else why),
    ]


def side_facts(found: Comparison) -> Safe:
    """Both results, named."""
    sides = [
        fact(
            name,
            code(short(side.result_id)),
            f" {words.moment_text(side.started_at)}, {side.validity}, executor ",
            code(short(side.executor_id)),
        )
        for name, side in (("A", found.a), ("B", found.b))
    ]
    return tag("dl", sides, class_="facts")


def _minus_one(ratio: Interval) -> Interval:
    return Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1)
