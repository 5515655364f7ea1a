"""The procurement pack: decided what and why, then everything it rests on."""

from dataclasses import replace

from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison
from lynxbench.model.decisions import PurchaseDecision
from lynxbench.model.evidence_gate import cause_falls_short, standing_falls_short, without_blame
from lynxbench.model.packs import Pack
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.model.standing import Standing
from lynxbench.report import doc, findings, words
from lynxbench.report.doc import Fact, Inline, Style, Tone, code, link, said
from lynxbench.report.documents.attribution_blocks import mark_of, sentence_of, shares_plot
from lynxbench.report.documents.comparison_document import comparison_verdict, layers_block, rules_blocks
from lynxbench.report.documents.decision_document import TITLES, decision_blocks
from lynxbench.report.documents.load_section import curve_plot, saturation_text
from lynxbench.report.documents.record_sections import executor_layers
from lynxbench.report.documents.result_document import counted_table, precisions_table, takes_table

REMARKS = ("contested", "refuted", "retracted", "reruns", "copied", "unheld", "verified", "inspected")


def compose_pack(pack: Pack) -> doc.Report:
    """One page that opens without a server."""
    known = {standing.result_id: standing for standing in pack.standings}
    made = words.moment_text(pack.made_at)
    parts = [_result(result, known.get(result.result_id), made) for result in pack.results]
    methodology = doc.SideBySide([doc.Points([note.text], note.title) for note in pack.methodology])
    limits = doc.Points(
        [said(line) for line in pack.limitations], "Limitations", doc.Bullet.WARNS, "None was recorded."
    )
    blocks = (
        doc.Note(pack.invented, Style.INVENTED) if pack.invented else None,
        _decided(pack),
        *(
            doc.Section(
                f"part-{index}", TITLES[decision.kind], decision_blocks(decision), words.clean(decision.sentence)
            )
            for index, decision in enumerate(pack.decisions)
        ),
        _comparison(pack.comparison),
        doc.Section("results", "Results with their context", parts, "Every figure above rests on one of these."),
        doc.Section("contests", "Contests and re-runs", (_remarks(pack, made), _since(made))),
        doc.Section("methodology", "Methodology", (methodology,)),
        doc.Section("limitations", "Limitations", (limits,)),
        _evidence(pack),
    )
    facts: tuple[Fact, ...] = (
        ("Decided by", said(pack.decided_by)),
        ("Made", made),
        ("Rests on", words.count(len(pack.results), "result")),
        ("Contract", code(short(pack.decisions[0].contract_id))),
    )
    brand = "lynxbench · procurement pack"
    name = f"{words.clean(pack.title)} · procurement pack"
    version = pack.lynxbench_version
    return doc.Report(name, blocks, said(pack.title), brand, facts=facts, version=version, contents=True)


def _decided(pack: Pack) -> doc.Verdict:
    """What was decided and why, in words; every further decision in one line."""
    first, *rest = pack.decisions
    facts: list[Fact | None] = []
    mark, look = words.clean(first.sentence), Tone.PLAIN
    if isinstance(first, PurchaseDecision):
        look = Tone.GOOD if first.diagnosed else Tone.BAD
        mark = {
            "purchase": f"Buy {first.proposed}.",
            "software first": f"Do not buy {first.proposed} yet: fix the software first.",
            "neither": f"Do not buy {first.proposed}: it is shown to carry at most a tenth more.",
            "undecided": "Not decided: the evidence is missing or does not tell.",
        }[first.supported]
        answered = (
            f"{len(first.answers) - first.unanswered} of {len(first.answers)} questions are answered from evidence."
        )
        facts.append(("Why", said(f"{first.because[:1].upper()}{first.because[1:]}. {answered}")))
        facts.append(
            ("Asked", said(f"should {first.proposed} be bought for {first.contract_name}? ({first.question})"))
        )
    else:
        facts.append(("Asked", said(str(getattr(first, "contract_name", "")))))
    for index, decision in enumerate(rest, start=1):
        facts.append((TITLES[decision.kind], link(said(decision.sentence), f"#part-{index}")))
    return doc.Verdict("", mark, look, facts, title="Decision", name="decision")


def _comparison(comparison: Comparison | None) -> doc.Section:
    if comparison is None:
        return doc.Section(
            "comparison", "Comparison", (doc.Note("One result: there is nothing to compare.", Style.EMPTY),)
        )
    verdict = comparison_verdict(comparison)
    facts: list[Fact | None] = [("Verdict", (f"{verdict.mark}: ", verdict.sentence)), *verdict.facts]
    blocks = (doc.Facts(facts), *rules_blocks(comparison), layers_block(comparison))
    lead = "Comparability comes first. A pair that breaks a rule gets no ratio."
    return doc.Section("comparison", "Comparison of the cited results", blocks, lead)


def _result(result: Result, standing: Standing | None, made: str) -> doc.Group:
    """Everything about one result that a decision may rest on."""
    name, here, valid = short(result.result_id), result.conditions, result.validity
    bounds = ", ".join(
        f"p{slo.percentile:g} {slo.metric} ≤ {words.seconds_text(slo.at_most_s)}"
        for slo in result.contract.objective.slo
    )
    reasons = f": {'; '.join(valid.reasons)}" if valid.reasons else ""
    facts: tuple[Fact, ...] = (
        ("Measured", words.moment_text(result.started_at)),
        ("Model", said(here.model)),
        ("Load", words.load_text(here)),
        ("Regime", here.regime),
        ("Objective", bounds or "no latency bound"),
        ("Engine", said(here.engine)),
        ("Restarts", str(here.restarts_planned)),
        ("Division", here.division),
        ("Validity", said(f"{valid.verdict}{reasons}")),
        (f"Standing on {made}", said("; ".join(standing.words) if standing is not None else "not in a ledger")),
        ("Contract", code(short(result.contract_id))),
        ("Executor", code(short(result.executor_id))),
    )
    plots: list[doc.Block | None] = []
    for figures in findings.shown(result):
        plots += [_curve(figures, name), _shares(result, figures, standing)]
    many = words.count(sum(len(fields) for fields in result.executor.layers.values()), "field")
    executor = doc.Group(f"Executor: {many} in nine layers, with owners", (executor_layers(result),), folded=True)
    blocks = (
        doc.Note(said(result.contract.question), Style.QUIET),
        doc.Facts(facts, compact=True),
        precisions_table(result),
        takes_table(result),
        counted_table(result),
        *plots,
        executor,
    )
    return doc.Group((f"Result {name}: ", said(result.contract.name)), blocks, f"result-{name}")


def _curve(figures: PrecisionResult, name: str) -> doc.Plot | None:
    search = figures.load.saturation if figures.load is not None else None
    plot = curve_plot(search, figures.load) if figures.load is not None and search is not None else None
    if plot is None or figures.load is None or search is None:
        return None
    caption = saturation_text(search, figures.load)
    return replace(plot, name=f"curve-{name}", title=f"Latency over load, result {name}", caption=caption)


def _shares(result: Result, figures: PrecisionResult, standing: Standing | None) -> doc.Plot | None:
    name, attribution = short(result.result_id), figures.attribution
    if attribution is None:
        return None
    also = () if standing is None else standing_falls_short(result, standing)
    attribution = without_blame(attribution, (*also, *cause_falls_short(result, figures, attribution)))
    layer, owner = attribution.layer, attribution.owner
    owned = f" Layer {layer}, owner {words.clean(owner)}." if layer and owner else ""
    return replace(
        shares_plot([(figures.precision.value, attribution.shares)]),
        name=f"shares-{name}-{figures.precision}",
        title=f"Where a step's time goes, result {name} at {figures.precision}",
        caption=f"{mark_of(attribution).capitalize()}: {words.clean(sentence_of(attribution))}.{owned}",
    )


def _since(made: str) -> doc.Note:
    """A page stays as it was made: where a result stands today, a ledger says."""
    since = f"A result may have been contested, refuted or taken back since {made}: this page would not show it. "
    return doc.Note((since, "The ledger does: ", code("lynxbench results show RESULT")), Style.QUIET)


def _remarks(pack: Pack, made: str) -> doc.Table:
    rows: list[tuple[Inline, ...]] = []
    for standing in pack.standings:
        for kind in REMARKS:
            for remark in getattr(standing, kind):
                who = remark.by if remark.trusted else f"{remark.by} (not in the trust list)"
                when = words.moment_text(remark.at)
                rows.append((code(short(standing.result_id)), kind, said(who), when, said(remark.text)))
    nobody = f"Up to {made} nobody had contested, re-run or retracted a result that is cited here."
    return doc.Table(("Result", "Kind", "By", "When", "What"), rows, "What others said", empty=nobody)


def _evidence(pack: Pack) -> doc.Section:
    text = (
        "The pack's file holds these results, every signed entry about them, proofs of their place in the "
        "log, and the signers' public keys. With the file and the team's key nothing else is needed:"
    )
    cited = doc.Table(("Result",), [(code(name),) for name in pack.cites], "Results that are cited, by SHA-256")
    return doc.Section(
        "evidence", "Evidence, and how to verify it", (cited, doc.Note(text), doc.Listing("lynxbench verify PACK"))
    )
