"""A branch held against its base, and the search for the commit that made it slower."""

from collections.abc import Iterable

from lynxbench.model.branch_check import Bisection, BranchCheck, CheckVerdict, CommitVerdict, ContractCheck
from lynxbench.model.comparison import Comparison, Effect, EffectVerdict, RuleVerdict
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Tone, code, said
from lynxbench.report.documents.comparison_document import comparison_verdict

_TONES = {
    CheckVerdict.PASSED: Tone.GOOD,
    CheckVerdict.REGRESSED: Tone.BAD,
    CheckVerdict.DOUBT: Tone.WARN,
    CheckVerdict.NEW: Tone.PLAIN,
    CheckVerdict.BROKEN: Tone.BAD,
}
_COMMITS = {
    CommitVerdict.GOOD: Tone.GOOD,
    CommitVerdict.BAD: Tone.BAD,
    CommitVerdict.UNDECIDED: Tone.WARN,
    CommitVerdict.BROKEN: Tone.WARN,
}


def comparison_line(comparison: Comparison) -> str:
    """What a comparison says, in a line."""
    if comparison.refused:
        broken = next(rule for rule in comparison.rules if rule.outcome is RuleVerdict.BREAKS)
        return f"incomparable ({broken.rule} {broken.said}): no ratio"
    effect = leading_effect(comparison)
    if effect is None:
        return "the figure that decides is not resolved in both"
    doubts = [rule.said for rule in comparison.rules if rule.outcome is RuleVerdict.DOUBTS]
    why = "; ".join(doubts) if comparison.verdict is EffectVerdict.UNPROVEN and doubts else effect.why
    change = f"{effect.figure} {words.change_text(effect.ratio)}, budget {words.percent(comparison.budget)}"
    return f"{comparison.verdict}: {change}" + (f" ({why})" if why else "")


def leading_effect(comparison: Comparison) -> Effect | None:
    """The effect that decides."""
    rows = [row for row in comparison.per_precision if row.precision is comparison.precision]
    return next((effect for row in rows for effect in row.effects if effect.figure == comparison.figure), None)


def compose_branch(check: BranchCheck) -> doc.Report:
    """The verdict, a row for every contract, then the comparisons that stop the pipeline."""
    failing = [one for one in check.checks if check.fails(one)]
    facts: list[doc.Fact | None] = [
        ("Base", (code(check.base.short), " ", said(check.base.subject), f" ({check.base.asked})")),
        ("Head", (code(check.head.short), " ", said(check.head.subject), f" ({check.head.asked})")),
        ("Stops at", check.fail_on.value),
    ]
    verdict = doc.Verdict(_sentence(check), *_mark(check, failing), facts, [said(note) for note in check.notes])
    head = ("Contract", "Verdict", "Base", "Head", "Change", "What it says")
    table = doc.Table(head, [_row(one) for one in check.checks], "Contracts", (2, 3, 4))
    groups = [
        doc.Group(said(one.contract), (comparison_verdict(one.confirmation or one.comparison),))
        for one in failing
        if one.comparison is not None
    ]
    detail = doc.Section("failing", "What stops it", groups) if groups else None
    return doc.Report("lynxbench ci", (verdict, table, detail))


def _mark(check: BranchCheck, failing: Iterable[ContractCheck]) -> tuple[str, Tone]:
    verdicts = {one.verdict for one in failing}
    for verdict in (CheckVerdict.REGRESSED, CheckVerdict.BROKEN, CheckVerdict.DOUBT):
        if verdict in verdicts:
            return verdict.value, _TONES[verdict]
    doubtful = any(one.verdict in (CheckVerdict.DOUBT, CheckVerdict.NEW) for one in check.checks)
    return ("nothing proven", Tone.WARN) if doubtful else ("passed", Tone.GOOD)


def _sentence(check: BranchCheck) -> str:
    counts = {verdict: sum(one.verdict is verdict for one in check.checks) for verdict in CheckVerdict}
    parts = [f"{many} {verdict}" for verdict, many in counts.items() if many]
    return f"{words.count(len(check.checks), 'contract')}: {', '.join(parts)}"


def _row(check: ContractCheck) -> tuple[Inline, ...]:
    verdict = Span(check.verdict.value, _TONES[check.verdict])
    effect = None if check.comparison is None else leading_effect(check.comparison)
    if effect is None:
        return said(check.contract), verdict, "", "", "", said(check.said)
    sides = [f"{words.digits(side, 4)} {effect.unit}" for side in (effect.a, effect.b)]
    return said(check.contract), verdict, *map(said, sides), words.change_text(effect.ratio), said(check.said)


def compose_bisection(bisection: Bisection) -> doc.Report:
    """The commit or the range, then every commit that was looked at."""
    outcomes = {outcome.sha: outcome for outcome in bisection.outcomes}
    suspects = {commit.sha for commit in bisection.suspects}
    rows: list[tuple[Inline, ...]] = []
    for commit in bisection.commits:
        outcome = outcomes.get(commit.sha)
        word: Inline = "" if outcome is None else Span(outcome.verdict.value, _COMMITS[outcome.verdict])
        what = "" if outcome is None else f"{outcome.said} ({words.count(outcome.restarts, 'pair')})"
        mark = "suspect" if commit.sha in suspects else ""
        rows.append((code(commit.short), said(commit.subject), word, mark, said(what)))
    facts: list[doc.Fact | None] = [
        ("Contract", (said(bisection.contract), " ", code(bisection.contract_id[:12]))),
        ("Good", (code(bisection.good.short), " ", said(bisection.good.subject))),
        ("Bad", (code(bisection.bad.short), " ", said(bisection.bad.subject))),
        ("Bad from", f"a loss of {words.percent(bisection.threshold)}") if bisection.threshold is not None else None,
    ]
    found = len(bisection.suspects) == 1 and bisection.confirmed
    mark, tone = (
        ("found", Tone.GOOD) if found else ("not settled" if bisection.suspects else "nothing found", Tone.WARN)
    )
    verdict = doc.Verdict(said(bisection.ended), mark, tone, facts)
    table = doc.Table(("Commit", "Subject", "Verdict", "", "Against the good one"), rows, "Commits, oldest first")
    return doc.Report("lynxbench bisect", (verdict, table))
