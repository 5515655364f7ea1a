"""The result as Markdown, for a ticket or a wiki: the same order as everywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lynxbench.model.layers import Layer
from lynxbench.model.result import Result
from lynxbench.report import accuracy_words, findings, words
from lynxbench.report.economics import HEAD, TITLE, economics_rows
from lynxbench.report.four_answers import answer_four, category_name
from lynxbench.report.load_words import load_lines
from lynxbench.report.words import NBSP, clean

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_LINK = re.compile(r"(?i)\b(https?|ftp|file|javascript|data):")


def render_markdown(result: Result, standing: Sequence[str] = ()) -> str:
    """One Markdown document with the verdict first; `standing` is what others say, where a ledger knows."""
    parts = [
        _title(result),
        f"**Standing:** {escaped('; '.join(standing))}" if standing else "",
        _verdict(result),
        _table(result),
        _economics(result),
        _load(result),
        _basis(result),
        _answers(result),
        _shares(result),
        _executor(result),
        _evidence(result),
    ]
    return "\n\n".join(part for part in parts if part).replace(NBSP, " ") + "\n"


def escaped(text: str) -> str:
    """Somebody's text as text: no markup, no links, no new table cells."""
    return _LINK.sub(lambda found: found.group(0)[:-1] + "\\:", _SPECIAL.sub(r"\\\1", clean(text)))


def _title(result: Result) -> str:
    return (
        f"# {escaped(result.contract.name)}: {escaped(result.contract.question)}\n\n"
        f"{escaped(result.conditions.model)} · {escaped(result.started_at)} "
        f"· contract {escaped(words.abbreviated(result.contract_id))} "
        f"· executor {escaped(words.abbreviated(result.executor_id))}"
    )


def _verdict(result: Result) -> str:
    head = findings.headline(result)
    lines = [f"**{escaped(head.mark)}**: {escaped(head.sentence)}"]
    if head.attribution is not None:
        lines.append(f"- {escaped(findings.owner_line(head.attribution))}")
        if symptom := findings.symptom_line(head.attribution, result):
            lines.append(f"- {escaped(symptom)}")
        lines.append(f"- next: {escaped(findings.next_line(head.attribution))}")
    lines += [f"- ⚠ {escaped(caution)}" for caution in head.cautions]
    return "## Verdict\n\n" + lines[0] + ("\n\n" + "\n".join(lines[1:]) if lines[1:] else "")


def _table(result: Result) -> str:
    unit, latency = (
        findings.rate_unit(result),
        findings.latency_name(findings.main_latency(result), served=findings.is_served(result)),
    )
    head = (
        "precision",
        f"sustained {unit}",
        "peak",
        f"{latency} p50 / p99",
        f"accuracy ({accuracy_words.accuracy_metric(result)})",
        "executed as",
    )
    lines = ["| " + " | ".join(escaped(cell) for cell in head) + " |", "|:--|--:|--:|--:|--:|:--|"]
    for row in findings.table_rows(result):
        if row.note:
            cells = (row.precision.value, row.note, "", "", "", row.executed)
        else:
            cells = (row.precision.value, row.sustained, row.peak, row.latency, row.accuracy, row.executed)
        lines.append("| " + " | ".join(escaped(cell) for cell in cells) + " |")
    return f"## Figures\n\nAt {escaped(findings.conditions_line(result))}.\n\n" + "\n".join(lines)


def _economics(result: Result) -> str:
    rows = economics_rows(result)
    if not rows:
        return ""
    lines = ["| " + " | ".join(name.lower() for name in HEAD) + " |", "|:--|--:|--:|--:|:--|--:|:--|"]
    lines += ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in rows]
    return f"## {TITLE}\n\n" + "\n".join(lines)


def _load(result: Result) -> str:
    lines = [
        f"- {label}: {escaped(text)}" for one in result.per_precision for label, text, _ in load_lines(one, result)
    ]
    return "## Load\n\n" + "\n".join(lines) if lines else ""


def _basis(result: Result) -> str:
    lines = []
    for one in result.per_precision:
        if one.skipped is not None:
            continue
        counted, excluded = findings.counted_line(one)
        lines.append(f"- {one.precision}: counted {escaped(counted)}; excluded {escaped(excluded or 'nothing')}")
        if findings.is_shown(one, result):
            drift, governed, _ = findings.stability_line(one)
            lines.append(f"- {one.precision}: {escaped(drift)}; governed by: {escaped(governed)}")
            lines += [f"- objective: {escaped(findings.slo_line(outcome, one.precision)[0])}" for outcome in one.slo]
    lines.append(f"- valid: {escaped(findings.validity_line(result)[0])}")
    if loosened := findings.loosened_line(result):
        lines.append(f"- looser than the default protocol: {escaped(loosened)}")
    return "## Counted and excluded\n\n" + "\n".join(lines)


def _answers(result: Result) -> str:
    parts = [
        f"### {answer.question}\n\n" + "\n".join(f"- {escaped(sentence)}" for sentence in answer.sentences)
        for answer in answer_four(result)
    ]
    return "## Four questions\n\n" + "\n\n".join(parts)


def _shares(result: Result) -> str:
    found = result.attribution
    if found is None or findings.is_void(result):
        return ""
    ordered = sorted(found.shares.items(), key=lambda item: -item[1])
    lines = ["| category | share of a step |", "|:--|--:|"]
    lines += [f"| {category_name(category)} | {words.percent(share)} |" for category, share in ordered if share > 0]
    evidence = "\n".join(f"- {escaped(item)}" for item in found.evidence)
    return "## Where the time goes\n\n" + "\n".join(lines) + (f"\n\nEvidence:\n\n{evidence}" if evidence else "")


def _executor(result: Result) -> str:
    lines = ["| layer | owner | fields | unreadable |", "|:--|:--|--:|--:|"]
    for layer in Layer:
        fields = result.executor.layers.get(layer, {})
        unreadable = sum(1 for field in fields.values() if field.status == "unreadable")
        lines.append(f"| {layer} | {escaped(findings.layer_owner(result, layer))} | {len(fields)} | {unreadable} |")
    changes = [
        f"- {change.layer} {escaped(change.name)}: {escaped(str(change.before))} → {escaped(str(change.after))}"
        for change in result.executor_drift
    ]
    drift = "\n\nChanged during the run:\n\n" + "\n".join(changes) if changes else ""
    return "## Executor\n\n" + "\n".join(lines) + drift


def _evidence(result: Result) -> str:
    ids = (
        ("result", result.result_id or "not sealed"),
        ("contract", result.contract_id),
        ("executor", result.executor_id),
        ("samples", f"{result.samples.sha256} ({result.samples.rows} rows)"),
    )
    return "## Evidence\n\n" + "\n".join(f"- {name} {escaped(value)}" for name, value in ids)
