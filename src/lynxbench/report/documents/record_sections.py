"""What a result's figures rest on: the executor by layer, its drift, the whole context, and how to verify it."""

import json

from lynxbench.model.contract import Contract
from lynxbench.model.executor import Field, Status
from lynxbench.model.layers import WHAT_IT_HOLDS, Layer
from lynxbench.model.quantities import format_ratio
from lynxbench.model.result import Result
from lynxbench.report import doc, words
from lynxbench.report.doc import Depth, Inline, Span, Style, Tone, chip, code, said

VERIFY = (
    'python -c "import json,sys; from lynxbench.model.canonical import content_id; '
    "d=json.load(open(sys.argv[1])); print(d.pop('result_id')==content_id(d))\" result.json"
)


def executor_section(result: Result) -> doc.Section:
    """Nine layers, each with its owner; what could not be read says why."""
    rows = [
        (
            chip(change.layer),
            code(change.name),
            change.tier.value,
            said(words.value_text(change.before)),
            said(words.value_text(change.after)),
        )
        for change in result.executor_drift
    ]
    head = ("Layer", "Field", "Tier", "Before", "After")
    unchanged = "The executor did not change between the start and the end of the run."
    lead = "All that produced the number, captured from the machine. Each layer has an owner under the contract."
    drift = doc.Table(head, rows, "Changed during the run", empty=unchanged)
    return doc.Section("executor", "Executor by layer", (executor_layers(result), drift), lead, Depth.READ)


def executor_layers(result: Result) -> doc.Layers:
    """The executor of a result."""
    return doc.Layers([_layer(layer, result) for layer in Layer])


def _layer(layer: Layer, result: Result) -> doc.LayerPart:
    fields = result.executor.layers.get(layer, {})
    unread = sum(1 for field in fields.values() if field.status is Status.UNREADABLE)
    many = words.count(len(fields), "field") + (f", {unread} unreadable" if unread else "")
    rows = [(code(name), *_field(field)) for name, field in sorted(fields.items())]
    inner = doc.Table(("Field", "Value", "Status", "Source"), rows, empty="Nothing was captured.")
    return doc.LayerPart(layer, result.contract.owner(layer), WHAT_IT_HOLDS[layer], many, (inner,))


def _field(field: Field) -> tuple[Inline, ...]:
    value: Inline = said(words.value_text(field.value))
    if field.status is Status.UNREADABLE:
        value = Span("unreadable", Tone.WARN)
    return value, field.status.value, said(field.source)


def context_section(result: Result) -> doc.Section:
    """Assumptions, then everything without which the figures mean nothing."""
    it, protocol = result.conditions, result.contract.protocol
    facts: tuple[tuple[str, str], ...] = (
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
    )
    assumptions = [said(item) for item in result.assumptions]
    blocks = (
        doc.Points(assumptions, "Assumptions", empty="No assumption was recorded."),
        doc.Facts([(name, said(value)) for name, value in facts], "Conditions", compact=True),
        *agreement_blocks(result.contract),
    )
    return doc.Section("context", "Assumptions and context", blocks, depth=Depth.WHOLE)


def agreement_blocks(contract: Contract) -> tuple[doc.Block, ...]:
    """Who is said to have agreed to a contract, who must sign it, and its whole text."""
    agreed = [said(", ".join(filter(None, (party.team, party.by, party.date)))) for party in contract.agreed]
    text = json.dumps(contract.canonical(), ensure_ascii=False, indent=2)
    asked = (doc.Points([said(team) for team in contract.teams], "Must be signed by"),) if contract.teams else ()
    whole = doc.Group("The whole contract", (doc.Listing(text),), folded=True)
    return doc.Points(agreed, "Agreed by"), *asked, whole


def evidence_section(result: Result) -> doc.Section:
    """The ids, and how anyone checks them."""
    samples = result.samples
    rows: list[tuple[Inline, ...]] = [
        ("Result", _id(result.result_id or "not sealed"), "SHA-256 of the canonical document without its id"),
        ("Contract", _id(result.contract_id), "SHA-256 of the contract’s canonical form"),
        ("Executor", _id(result.executor_id), "SHA-256 of the configuration fields"),
        ("Instance", _id(result.instance_id), "SHA-256 of this machine’s pseudonymised identity"),
        ("Samples", _id(samples.sha256), (said(samples.file), f", {words.count(samples.rows, 'row')}")),
    ]
    checksum = f"sha256sum {words.clean(samples.file)}  # must print {words.clean(samples.sha256)}"
    verify: tuple[doc.Block, ...] = (
        doc.Note("The document is what its id says:"),
        doc.Listing(VERIFY),
        doc.Note("The samples are those that were measured:"),
        doc.Listing(checksum),
        doc.Note("Run the same contract again on the same executor; intervals of sound results overlap."),
    )
    blocks = (
        doc.Table(("What", "Id", "Of"), rows, "Ids of this result"),
        doc.Group("How to verify", verify, depth=Depth.WHOLE),
    )
    return doc.Section("evidence", "Evidence", blocks, depth=Depth.READ)


def _id(identifier: str) -> Span:
    return Span(identifier, Style.ID)
