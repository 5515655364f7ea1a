"""Several results held against one another: a ratio for every sound pair, the broken rules for every other."""

from collections.abc import Mapping, Sequence

from lynxbench.model.comparison import Comparison, RuleVerdict
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Style, Tone, code, link, refer, said
from lynxbench.report.documents.comparison_document import EFFECT_TONES

FEWEST, MOST = 2, 8
ITSELF = "·"


def compose_matrix(names: Sequence[str], comparisons: Mapping[tuple[str, str], Comparison]) -> doc.Report:
    """Each column held against each row above it, in the order in which the results were named."""
    letters = {name: chr(ord("A") + place) for place, name in enumerate(names)}
    head = ("", *(letters[name] for name in names[1:]))
    rows = [
        (
            (f"{letters[row]} ", refer("results", row)),
            *(_cell(row, column, comparisons.get((row, column))) for column in names[1:]),
        )
        for row in names[:-1]
    ]
    refused = sum(comparison.refused for comparison in comparisons.values())
    sound = len(comparisons) - refused
    note = "A ratio is of the pair's leading figure, with its interval; a dot is itself, or a pair that is told above."
    return doc.Report(
        "Comparison of several",
        (
            doc.Verdict(
                f"{words.count(refused, 'pair')} refused: no ratio is given where a rule breaks.",
                f"{sound} of {words.count(len(comparisons), 'pair')} can be compared",
                Tone.WARN if refused else Tone.GOOD,
            )
            if refused
            else doc.Verdict("", f"all {words.count(len(comparisons), 'pair')} can be compared", Tone.GOOD),
            doc.Section("which", "Results", (_sides(names, letters, comparisons),)),
            doc.Section("matrix", "Ratios", (doc.Table(head, rows, "Column over row", note=note),)),
            _refusals(letters, comparisons),
        ),
    )


def _sides(
    names: Sequence[str], letters: Mapping[str, str], comparisons: Mapping[tuple[str, str], Comparison]
) -> doc.Table:
    sides = {side.result_id: side for each in comparisons.values() for side in (each.a, each.b)}
    rows = [
        (
            (f"{letters[name]} ", refer("results", name)),
            words.moment_text(sides[name].started_at),
            refer("contracts", sides[name].contract_id),
            refer("executors", sides[name].executor_id),
            sides[name].validity,
        )
        for name in names
    ]
    return doc.Table(("Result", "Measured", "Contract", "Executor", "Validity"), rows, "What is compared")


def _cell(row: str, column: str, comparison: Comparison | None) -> Inline:
    if comparison is None:
        return ITSELF
    place = f"/compare?a={row}&b={column}"
    if comparison.refused:
        broken = ", ".join(_broken(comparison))
        return Span(link("refused", place, f"Refused by {broken}"), Tone.BAD), Span(broken, Style.UNDER)
    if comparison.effect is None or comparison.verdict is None:
        return Span(link("no figure", place), Tone.WARN)
    about = f"{comparison.verdict.value}; {comparison.figure} at {comparison.precision}"
    return (
        link(Span(words.change_text(comparison.effect), Style.NOWRAP), place),
        Span(Span(about, EFFECT_TONES[comparison.verdict]), Style.UNDER),
    )


def _broken(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(rule.rule for rule in comparison.rules if rule.outcome is RuleVerdict.BREAKS))


def _refusals(letters: Mapping[str, str], comparisons: Mapping[tuple[str, str], Comparison]) -> doc.Section | None:
    """Why, once for all pairs that break a rule in the same words."""
    told: dict[tuple[str, str], list[str]] = {}
    for (a, b), comparison in comparisons.items():
        if comparison.refused:
            for rule in comparison.rules:
                if rule.outcome is RuleVerdict.BREAKS:
                    told.setdefault((f"{rule.rule} {rule.name}", rule.said), []).append(f"{letters[a]}{letters[b]}")
    rows = [(code(rule), said(why), ", ".join(dict.fromkeys(pairs))) for (rule, why), pairs in sorted(told.items())]
    table = doc.Table(("Rule", "What was found", "Pairs"), rows, "Rules that break")
    return doc.Section("refusals", "Refused", (table,), "A pair that breaks a rule gets no ratio.") if rows else None
