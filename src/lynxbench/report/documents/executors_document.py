"""An executor by layer with its owners, and the difference of two."""

from collections.abc import Callable, Mapping, Sequence

from lynxbench.executor.compatibility import CompatibilityFinding, FindingVerdict
from lynxbench.executor.native_precisions import PrecisionSupport
from lynxbench.model.canonical import short
from lynxbench.model.executor import Executor, Field, FieldChange, Status, Tier
from lynxbench.model.layers import DEFAULT_OWNERS, WHAT_IT_HOLDS, Layer
from lynxbench.report import doc
from lynxbench.report.doc import Depth, Fact, Inline, Span, Style, Tone, code, quiet, said
from lynxbench.report.field_words import expand_change, format_value
from lynxbench.report.words import clean, count, shortened

LONGEST_VALUE = 120
LONGEST_SIDE = 300
SHOWN_ROWS = 12
"""Rows of a layer before the rest is folded: a page of two unlike machines was 60 000 pixels tall."""
LONG_ALIKE = 80
KEPT_ALIKE = 16
"""Letters of what is alike that are kept beside a difference."""
AFTER_A_RUN: frozenset[Layer] = frozenset({Layer.APPLICATION, Layer.SERVING, Layer.RUNTIME})
"""Layers that only a run fills: the engine and the process that worked tell them."""
_MARKS = {
    FindingVerdict.OK: Span("ok", Tone.GOOD),
    FindingVerdict.WARNING: Span("look", Tone.WARN),
    FindingVerdict.BROKEN: Span("BROKEN", Tone.BAD),
}


def compose_executor(
    executor: Executor,
    compatibility: Sequence[CompatibilityFinding] = (),
    conditions: Sequence[CompatibilityFinding] = (),
    precisions: Sequence[PrecisionSupport] = (),
) -> doc.Report:
    """Configuration, instance, state of every layer; what could not be read steps back, with its reason."""
    statuses = [field.status for fields in executor.layers.values() for field in fields.values()]
    tally = ", ".join(f"{sum(each is status for each in statuses)} {status.value}" for status in Status)
    devices = dict.fromkeys(row.device for row in precisions)
    note = "precisions: what the hardware can do; which kernels ran is decided by a run"
    return doc.Report(
        f"Executor {short(executor.executor_id)}",
        (
            doc.Layers([_layer(layer, executor.layers.get(layer, {})) for layer in Layer]),
            _findings("CUDA compatibility", compatibility),
            _findings("Conditions that change speed", conditions),
            doc.Note(note) if precisions else None,
            *(doc.Facts([_support(row) for row in precisions if row.device == device], device) for device in devices),
        ),
        title=("Executor ", code(short(executor.executor_id))),
        facts=(("Instance", code(short(executor.instance_id))), ("Fields", tally)),
    )


def _layer(layer: Layer, fields: dict[str, Field]) -> doc.LayerPart:
    ordered = [(name, field) for tier in Tier for name, field in fields.items() if field.tier is tier]
    when = "known after a run" if layer in AFTER_A_RUN else "nothing known"
    body: doc.Block = (
        doc.Facts([(name, _value(field)) for name, field in ordered]) if ordered else doc.Note(when, Style.QUIET)
    )
    return doc.LayerPart(layer, DEFAULT_OWNERS[layer], WHAT_IT_HOLDS[layer], count(len(fields), "field"), (body,))


def _value(field: Field) -> Inline:
    if field.status is Status.UNREADABLE:
        return quiet(shortened(clean(f"unreadable: {field.source}"), LONGEST_VALUE))
    note = "" if field.tier is Tier.CONFIGURATION else f" ({field.tier.value})"
    if field.status is Status.DECLARED:
        note = f" ({field.source})"
    return said(shortened(clean(format_value(field.value)), LONGEST_VALUE)), quiet(note)


def _support(row: PrecisionSupport) -> Fact:
    return row.precision, (f"{row.native.value}: ", quiet(said(row.reason)))


def _findings(title: str, findings: Sequence[CompatibilityFinding]) -> doc.Facts | None:
    facts: list[Fact] = [
        (
            finding.subject,
            (
                _MARKS[finding.verdict],
                ": ",
                said(finding.reason),
                quiet(f" ({finding.layer}: {DEFAULT_OWNERS[finding.layer]})"),
            ),
        )
        for finding in findings
    ]
    return doc.Facts(facts, title) if facts else None


def compose_difference(changes: Sequence[FieldChange], names: tuple[str, str]) -> doc.Report:
    """What differs, by layer, with the owner who can explain it."""
    left, right = map(clean, names)
    if not changes:
        return doc.Report("Executor difference", (doc.Note(f"no difference between {left} and {right}"),))
    layers = difference_layers(changes, lambda layer: DEFAULT_OWNERS[layer])
    return doc.Report("Executor difference", (layers,), f"{difference_title(changes)}: {left} → {right}")


def difference_title(changes: Sequence[FieldChange]) -> str:
    """How much differs."""
    return f"{count(len(changes), 'field')} in {count(len({change.layer for change in changes}), 'layer')} differ"


def difference_layers(
    changes: Sequence[FieldChange],
    owner_of: Callable[[Layer], str],
    equal: Mapping[Layer, Sequence[str]] | None = None,
) -> doc.Layers:
    """The layers that differ, field by field; what is long, and the names of what is `equal`, is folded."""
    parts = []
    for layer in dict.fromkeys(change.layer for change in changes):
        rows = [
            (
                code(step.label),
                *(
                    said(shortened(side, LONGEST_SIDE))
                    for side in _where_they_differ(clean(step.before), clean(step.after))
                ),
                change.tier.value,
            )
            for change in changes
            if change.layer is layer
            for step in expand_change(change)
        ]
        head = ("Field", "A", "B", "Tier")
        same = (equal or {}).get(layer, ())
        blocks: list[doc.Block] = [doc.Table(head, rows[:SHOWN_ROWS])]
        if rows[SHOWN_ROWS:]:
            rest = doc.Table(head, rows[SHOWN_ROWS:], f"Further fields of {layer} that differ")
            blocks.append(doc.Group(f"{count(len(rows) - SHOWN_ROWS, 'field')} more that differ", (rest,), folded=True))
        if same:
            names = doc.Note(code(", ".join(same)))
            blocks.append(doc.Group(f"{count(len(same), 'field')} equal", (names,), folded=True, depth=Depth.WHOLE))
        many = f"{count(len(rows), 'field')} of {len(rows) + len(same)}" if same else count(len(rows), "field")
        parts.append(doc.LayerPart(layer, owner_of(layer), WHAT_IT_HOLDS[layer], many, blocks, open=True))
    return doc.Layers(parts)


def _where_they_differ(before: str, after: str) -> tuple[str, str]:
    """Two long values without most of what they begin and end with alike."""
    if min(len(before), len(after)) < LONG_ALIKE:
        return before, after
    starts = _alike(before, after)
    ends = _alike(before[starts:][::-1], after[starts:][::-1])
    left, right = max(0, starts - KEPT_ALIKE), max(0, ends - KEPT_ALIKE)
    first, second = (
        f"{'…' if left else ''}{side[left : len(side) - right]}{'…' if right else ''}" for side in (before, after)
    )
    return first, second


def _alike(before: str, after: str) -> int:
    """How many letters two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
