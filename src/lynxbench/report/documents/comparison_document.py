"""A comparison: sound or refused first, then the effects, then whose layer changed."""

from lynxbench.model.canonical import short
from lynxbench.model.comparison import (
    Comparability,
    Comparison,
    EffectVerdict,
    FieldSuspect,
    LayerDifference,
    RuleVerdict,
    Side,
)
from lynxbench.report import doc, words
from lynxbench.report.doc import Fact, Inline, Span, Style, Tone, chip, code, said
from lynxbench.report.documents.accuracy_facts import answer_facts

MOST_FIELDS = 40
SHOWN_FIELDS = 6
LONGEST_VALUE = 160

EFFECT_TONES = {
    EffectVerdict.REGRESSED: Tone.BAD,
    EffectVerdict.IMPROVED: Tone.GOOD,
    EffectVerdict.WITHIN_BUDGET: Tone.GOOD,
    EffectVerdict.INCONCLUSIVE: Tone.WARN,
    EffectVerdict.UNPROVEN: Tone.WARN,
}


def compose_comparison(comparison: Comparison) -> doc.Report:
    """The verdict, both sides, the effects, the rules, the layers with their owners."""
    effects = None if comparison.refused else _effects(comparison)
    rules = doc.Section("rules", "Comparability", rules_blocks(comparison), "A pair that breaks a rule gets no ratio.")
    lead = "The strongest suspect first, each with its owner."
    layers = doc.Section("layers", "Layers that differ", (layers_block(comparison),), lead)
    answers = None
    if comparison.answers is not None:
        lead_answers = "B's answers to the same prompts against A's: it says nothing of speed."
        answers = doc.Section("answers", "Answers", (doc.Facts(answer_facts(comparison.answers)),), lead_answers)
    return doc.Report("Comparison", (comparison_verdict(comparison), answers, effects, rules, layers))


def _side(side: Side) -> Inline:
    ids = f"contract {words.abbreviated(side.contract_id)}, executor {words.abbreviated(side.executor_id)}"
    named: Inline = (said(side.name), " ") if side.name != short(side.result_id) else ""
    return named, code(short(side.result_id)), f", {ids}, {words.moment_text(side.started_at)}, {side.validity}"


def comparison_verdict(comparison: Comparison) -> doc.Verdict:
    """Sound or refused, by how much, and whom to ask."""
    if comparison.refused:
        mark, sentence, tone = "incomparable", "no ratio is given.", Tone.BAD
    elif comparison.verdict is None or comparison.effect is None:
        mark, sentence, tone = "no verdict", "no figure could be compared", Tone.WARN
    else:
        mark, tone = comparison.verdict.value, EFFECT_TONES[comparison.verdict]
        change = words.change_text(comparison.effect)
        sentence = (
            f"{comparison.figure} at {comparison.precision} {change} (B over A; budget "
            f"{words.percent(comparison.budget)}, {words.percent(comparison.confidence)} interval)"
        )
    facts: list[Fact | None] = [
        ("A", _side(comparison.a)),
        ("B", _side(comparison.b)),
        ("Comparability", comparison.comparability.value),
        ("Pairs", f"{len(comparison.order)} in one sitting: {' '.join(comparison.order)}")
        if comparison.order
        else None,
        ("A/A noise", comparison.noise.said) if comparison.noise is not None else None,
    ]
    if (cause := comparison.cause) is not None and not comparison.refused:
        moved = comparison.verdict is not None and comparison.verdict.moved
        facts.append(("Cause" if moved else "Record", said(cause.sentence if moved else cause.record)))
        if cause.layer is not None or (moved and cause.owner):
            layer: Inline = (chip(cause.layer), " → ") if cause.layer is not None else ""
            facts.append(("Ask" if moved else "Layer that differs", (layer, said(cause.owner or "nobody is named"))))
        if moved or cause.kind.value == "several layers changed":
            facts.append(("Experiment", said(cause.experiment)))
    if comparison.verdict is EffectVerdict.UNPROVEN:
        facts.append(("To settle it", *(said(way) for way in comparison.sound_if)))
    return doc.Verdict(sentence, mark, tone, facts)


def _effects(comparison: Comparison) -> doc.Section:
    rows: list[tuple[Inline, ...]] = []
    for row in comparison.per_precision:
        if row.comparability is Comparability.INCOMPARABLE:
            breaks = [rule for rule in comparison.rules if rule.outcome is RuleVerdict.BREAKS]
            broken = dict.fromkeys(rule.rule for rule in breaks if rule.precision is row.precision)
            rows.append((row.precision.value, f"incomparable ({', '.join(broken)}): no ratio"))
            continue
        for effect in row.effects:
            decides = " (decides)" if effect.figure == row.leading else ""
            verdict: Inline = Span(effect.verdict.value, EFFECT_TONES[effect.verdict])
            rows.append(
                (
                    f"{row.precision}{decides}",
                    effect.figure,
                    words.digits(effect.a, 4),
                    words.digits(effect.b, 4),
                    said(effect.unit),
                    words.change_text(effect.ratio),
                    (verdict, f": {effect.why}") if effect.why else verdict,
                )
            )
    accuracy = [said(f"{row.precision}: {row.accuracy}") for row in comparison.per_precision if row.accuracy]
    head = ("Precision", "Figure", "A", "B", "Unit", "B over A", "Verdict")
    lead = "Each change with its interval against the contract’s budget. Latencies are better when smaller."
    table = doc.Table(head, rows, "Figures of both results", (2, 3, 5))
    return doc.Section("effects", "Effects", (table, doc.Points(accuracy, "Accuracy")), lead)


def rules_blocks(comparison: Comparison) -> tuple[doc.Block, ...]:
    """The rules that do not simply hold with what was found, and what would make it sound."""
    if not comparison.rules:
        return (doc.Note(f"All {len(comparison.rules_checked)} rules hold.", Style.EMPTY),)
    facts: list[Fact] = []
    for rule in comparison.rules:
        outcome = Span(rule.outcome.value, Tone.BAD if rule.outcome is RuleVerdict.BREAKS else Tone.WARN)
        where = f"{rule.precision}: " if rule.precision else ""
        remedy: Inline = ("; to make it sound: ", said(rule.remedy)) if rule.remedy else ""
        facts.append((f"{rule.rule} {rule.name}", (outcome, f": {where}", said(rule.said), remedy)))
    sound = doc.Points([said(way) for way in comparison.sound_if], "What would make it sound")
    return doc.Facts(facts, "Rules that differ, doubt or break"), *((sound,) if comparison.sound_if else ())


def layers_block(comparison: Comparison) -> doc.Block:
    """The layers that differ, the strongest suspect first."""
    parts = [_layer(layer) for layer in comparison.layers]
    return doc.Layers(parts) if parts else doc.Note("No layer differs in the record.", Style.EMPTY)


def _layer(layer: LayerDifference) -> doc.LayerPart:
    """The fields it is suspected for before those that only follow."""
    fields = sorted(layer.fields, key=lambda field: (field.follows is not None, field.weight is not layer.weight))
    follow = sum(field.follows is not None for field in fields)
    note = f"{follow} follow from other changes." if follow else ""
    left = len(fields) - MOST_FIELDS
    note += f" {left} more are not shown." if left > 0 else ""
    rows = [_field_row(field) for field in fields[:MOST_FIELDS]]
    table = doc.Table(("Field", "A", "B", "Suspicion"), rows, note=note, most=SHOWN_FIELDS)
    about = f"{layer.rank}. {layer.weight.value}"
    return doc.LayerPart(layer.layer, layer.owner, about, words.count(len(fields), "field"), (table,), layer.rank == 1)


def _field_row(field: FieldSuspect) -> tuple[Inline, ...]:
    before, after = field.before, field.after
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        before, after = ({key: side.get(key) for key in keys} for side in (before, after))
    left, right = (said(words.value_text(value, LONGEST_VALUE)) for value in (before, after))
    why = f"{field.weight.value}: {field.reason}" if field.reason else field.weight.value
    return code(field.name), left, right, said(f"follows {field.follows}" if field.follows else why)
