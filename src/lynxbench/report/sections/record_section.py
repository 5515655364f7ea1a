"""What the figures rest on: the executor by layer, drift, assumptions, the whole context, and how to verify it."""

from __future__ import annotations

import json

from pydantic import JsonValue

from lynxbench.model.executor import Field, Status
from lynxbench.model.layers import WHAT_IT_HOLDS, Layer
from lynxbench.model.quantities import format_ratio
from lynxbench.model.result import Result
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, code, said, tag
from lynxbench.report.sections.section_parts import bullets, chip, fact, section, table

LONGEST_VALUE = 400
"""A longer value (a list of all distributions) is cut here; the result document has it whole."""
VERIFY = (
    'python -c "import json,sys; from lynxbench.model.canonical import content_id; '
    "d=json.load(open(sys.argv[1])); print(d.pop('result_id')==content_id(d))\" result.json"
)


def render_executor(result: Result) -> Safe:
    """Nine layers, each with its owner; what could not be read says why."""
    layers = [_layer(layer, result) for layer in Layer]
    lead = "All that produced the number, captured from the machine. Each layer has an owner under the contract."
    return section("executor", "Executor by layer", tag("div", layers, class_="layers"), _drift(result), lead=lead)


def _layer(layer: Layer, result: Result) -> Safe:
    fields = result.executor.layers.get(layer, {})
    unread = sum(1 for field in fields.values() if field.status is Status.UNREADABLE)
    many = words.count(len(fields), "field") + (f", {unread} unreadable" if unread else "")
    summary = tag(
        "summary",
        chip(layer),
        tag("span", said(result.contract.owner(layer)), class_="owner"),
        tag("span", WHAT_IT_HOLDS[layer], class_="quiet holds"),
        tag("span", many, class_="quiet many"),
    )
    if not fields:
        return tag("details", summary, tag("p", "Nothing was captured.", class_="empty"), class_=f"layer layer-{layer}")
    rows: list[list[Child]] = [
        [tag("code", words.clean(name)), *_field(field)] for name, field in sorted(fields.items())
    ]
    inner = table(f"Fields of layer {layer}", ("Field", "Value", "Status", "Source"), rows)
    return tag("details", summary, inner, class_=f"layer layer-{layer}")


def _field(field: Field) -> list[Child]:
    if field.status is Status.UNREADABLE:
        return [tag("span", "unreadable", class_="tone-warn"), field.status.value, said(field.source)]
    return [said(value_text(field.value)), field.status.value, said(field.source)]


def value_text(value: JsonValue) -> str:
    """A captured value in one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}… ({words.number(len(text), 0)} characters)"


def _drift(result: Result) -> Safe:
    if not result.executor_drift:
        return tag("p", "The executor did not change between the start and the end of the run.", class_="quiet")
    rows: list[list[Child]] = [
        [
            chip(change.layer),
            code(change.name),
            change.tier.value,
            said(value_text(change.before)),
            said(value_text(change.after)),
        ]
        for change in result.executor_drift
    ]
    inner = table("Fields that changed during the run", ("Layer", "Field", "Tier", "Before", "After"), rows)
    return tag("div", tag("h3", "Changed during the run"), inner)


def render_context(result: Result) -> Safe:
    """Assumptions, then everything without which the figures mean nothing."""
    it = result.conditions
    protocol = result.contract.protocol
    facts: list[tuple[str, str]] = [
        ("Task", it.task),
        ("Model", it.model),
        ("Batch", str(it.batch)),
        ("Load", it.load),
        ("Input tokens", it.input_tokens or "not applicable"),
        ("Output tokens", it.output_tokens or "not applicable"),
        ("Regime", it.regime),
        ("Engine", " ".join(part for part in (it.engine, it.graph or "") if part)),
        ("Threads", str(it.threads)),
        ("Optimisation division", it.division),
        ("Restarts", f"{it.restarts_planned} fresh processes a precision"),
        ("Steady-state rule", f"drift within ±{format_ratio(protocol.steady.drift)}"),
        ("Confidence", format_ratio(protocol.confidence)),
        ("Protocol version", str(protocol.version)),
        ("Started", words.moment_text(result.started_at)),
        ("Finished", words.moment_text(result.finished_at)),
        ("Measuring took", words.seconds_text(result.measuring_s)),
        ("lynxbench", result.lynxbench_version),
    ]
    agreed = [f"{a.team}{', ' + a.by if a.by else ''}{', ' + a.date if a.date else ''}" for a in result.contract.agreed]
    contract = words.clean_lines(json.dumps(result.contract.canonical(), ensure_ascii=False, indent=2))
    assumptions = bullets([said(item) for item in result.assumptions]) if result.assumptions else None
    return section(
        "context",
        "Assumptions and context",
        tag(
            "div",
            tag("h3", "Assumptions"),
            assumptions or tag("p", "No assumption was recorded.", class_="empty"),
            class_="prose",
        ),
        tag("h3", "Conditions"),
        tag("dl", [fact(name, said(value)) for name, value in facts], class_="facts grid"),
        tag("div", tag("h3", "Agreed by"), bullets([said(item) for item in agreed]), class_="prose")
        if agreed
        else None,
        tag("details", tag("summary", "The whole contract"), tag("pre", tag("code", contract), tabindex="0")),
    )


def render_evidence(result: Result) -> Safe:
    """The ids, and how anyone checks them."""
    ids: list[list[Child]] = [
        ["Result", _id(result.result_id or "not sealed"), "SHA-256 of the canonical document without its id"],
        ["Contract", _id(result.contract_id), "SHA-256 of the contract’s canonical form"],
        ["Executor", _id(result.executor_id), "SHA-256 of the configuration fields"],
        ["Instance", _id(result.instance_id), "SHA-256 of this machine’s pseudonymised identity"],
        [
            "Samples",
            _id(result.samples.sha256),
            [said(result.samples.file), f", {words.count(result.samples.rows, 'row')}"],
        ],
    ]
    return section(
        "evidence",
        "Evidence",
        table("Ids of this result", ("What", "Id", "Of"), ids),
        tag(
            "div",
            tag("h3", "How to verify"),
            tag(
                "ol",
                tag("li", "The document is what its id says: ", tag("pre", code(VERIFY), tabindex="0")),
                tag(
                    "li",
                    "The samples are those that were measured: ",
                    tag("pre", tag("code", _checksum(result)), tabindex="0"),
                ),
                tag("li", "Run the same contract again on the same executor; intervals of sound results overlap."),
            ),
            class_="prose",
        ),
    )


def _id(identifier: str) -> Safe:
    return tag("code", words.clean(identifier), class_="id")


def _checksum(result: Result) -> str:
    return f"sha256sum {words.clean(result.samples.file)}  # must print {words.clean(result.samples.sha256)}"
