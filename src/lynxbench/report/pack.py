"""The procurement pack as one self-contained page: decided what and why, then everything it rests on."""

from __future__ import annotations

from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison
from lynxbench.model.decisions import PurchaseDecision
from lynxbench.model.packs import Pack
from lynxbench.report import words
from lynxbench.report.decision_blocks import Block, Facts, Points, Table, blocks_of, title_of
from lynxbench.report.markup import Child, Safe, code, said, tag
from lynxbench.report.pack_results import render_result_part
from lynxbench.report.page import render_page
from lynxbench.report.sections.section_parts import bullets, fact, section, table
from lynxbench.report.tone import Tone

PACK_STYLE = """
.decision .headline{max-width:60em}
.sub{margin-top:22px}
.sub h3{margin-bottom:4px}
.sub caption{display:none}
.sub ul{padding-left:20px;margin:6px 0 0}
.sub .facts{margin-top:8px;display:grid;grid-template-columns:minmax(130px,210px) minmax(0,1fr);gap:6px 20px}
.sub .facts>div{display:contents}
.sub tbody th,.part tbody th{white-space:normal;min-width:7em}
.sub td:not(.num){min-width:6em}
.sub table{font-size:.84rem}
.sub th,.sub td{padding:7px 8px}
.sub ol{padding-left:24px;margin:6px 0 0}
.sub td.num{white-space:nowrap}
.sub ul.warns{list-style:none;padding-left:0}
.warns li::before{color:var(--warn);content:"▲  "}
.invented{border:2px dashed var(--warn);border-radius:8px;padding:10px 14px;margin:14px 0 0;font-weight:600}
.why{font-size:1.08rem;margin:10px 0 4px}
.yes{color:var(--good);font-weight:600}.no{color:var(--bad);font-weight:600}
.part{border-top:1px solid var(--line);padding-top:16px;margin-top:22px}
@media print{
section{break-inside:auto;border:none;padding:10px 0;margin:0}
nav,.skip,.data{display:none}
tr,svg{break-inside:avoid}
h2,h3,caption,summary{break-after:avoid}
body{font-size:10pt;background:#fff}
.scroll{overflow:visible}
table{font-size:8.5pt}
th,td{padding:4px 7px}
.facts,.facts.grid,.answers,.outcomes,.sub .facts{display:block}
.outcomes li::before{position:static;display:none}
.facts>div,.sub .facts>div{display:block;margin:2px 0}
.facts dt,.facts dd{display:inline}
.facts dt::after{content:": "}
.answer{margin:0 0 8px}
.plot.narrow{display:none}
.sub table{font-size:7.4pt}
.sub th,.sub td{padding:3px 4px}
.sub tbody th,.part tbody th,.sub td:not(.num){min-width:4em}
}
@page{size:A4;margin:16mm 14mm}
"""


def render_pack(pack: Pack) -> str:
    """The pack as one HTML text that opens without a network and runs nothing."""
    body = tag(
        "body",
        tag("a", "Skip to the decision", href="#decision", class_="skip"),
        _header(pack),
        tag(
            "main",
            _decided(pack),
            [_decision(pack, index) for index in range(len(pack.decisions))],
            _comparison(pack.comparison),
            _results(pack),
            _contests(pack),
            _methodology(pack),
            _limitations(pack),
            _evidence(pack),
        ),
        tag(
            "footer",
            tag("p", f"lynxbench {words.clean(pack.lynxbench_version)}. A number never travels without its context."),
        ),
    )
    return render_page(f"{words.clean(pack.title)} · procurement pack · lynxbench", body, more_style=PACK_STYLE)


def _header(pack: Pack) -> Safe:
    links = [("decision", "Decision")]
    links += [(f"part-{index}", title_of(one)) for index, one in enumerate(pack.decisions)]
    links += [("comparison", "Comparison"), ("results", "Results"), ("contests", "Contests")]
    links += [("methodology", "Methodology"), ("limitations", "Limitations"), ("evidence", "Evidence")]
    invented = tag("p", words.clean(pack.invented), class_="invented") if pack.invented else None
    return tag(
        "header",
        tag("p", "lynxbench · procurement pack", class_="brand"),
        tag("h1", said(pack.title)),
        tag(
            "dl",
            fact("Decided by", said(pack.decided_by)),
            fact("Made", words.moment_text(pack.made_at)),
            fact("Rests on", words.count(len(pack.results), "result")),
            fact("Contract", code(short(pack.decisions[0].contract_id))),
            class_="facts",
        ),
        invented,
        tag("nav", [tag("a", name, href=f"#{place}") for place, name in links], aria_label="Parts of this pack"),
    )


def _decided(pack: Pack) -> Safe:
    """What was decided and why, in words; every further decision in one line."""
    first = pack.decisions[0]
    tone = Tone.PLAIN
    if isinstance(first, PurchaseDecision):
        tone = Tone.GOOD if first.diagnosed else Tone.BAD
    rest = [
        tag("li", tag("a", title_of(one), href=f"#part-{index}"), ": ", words.clean(one.sentence))
        for index, one in enumerate(pack.decisions)
        if index
    ]
    why = tag("p", said(_why(first)), class_="why") if isinstance(first, PurchaseDecision) else None
    asked = tag("p", "Asked: ", said(_asked(first)), class_="quiet")
    children: list[Child] = [
        tag("p", "Decision", class_="eyebrow"),
        tag("p", tag("strong", _first_words(first)), class_="headline"),
        why,
        asked,
        tag("ul", rest, class_="outcomes") if rest else None,
    ]
    return tag("section", *children, id="decision", class_=f"verdict decision tone-{tone}")


def _asked(first: object) -> str:
    if isinstance(first, PurchaseDecision):
        return f"should {first.proposed} be bought for {first.contract_name}? ({first.question})"
    return str(getattr(first, "contract_name", ""))


def _first_words(first: object) -> str:
    if not isinstance(first, PurchaseDecision):
        return words.clean(str(getattr(first, "sentence", "")))
    return {
        "purchase": f"Buy {first.proposed}.",
        "software first": f"Do not buy {first.proposed} yet: fix the software first.",
        "neither": f"Do not buy {first.proposed}: it reaches the same ceiling.",
        "undecided": "Not decided: the evidence is missing or does not tell.",
    }[first.supported]


def _why(first: PurchaseDecision) -> str:
    because = first.because[:1].upper() + first.because[1:]
    answered = len(first.answers) - first.unanswered
    return f"{because}. {answered} of {len(first.answers)} questions are answered from evidence."


def _decision(pack: Pack, index: int) -> Safe:
    one = pack.decisions[index]
    blocks = [render_block(block) for block in blocks_of(one)]
    return section(f"part-{index}", title_of(one), blocks, lead=words.clean(one.sentence))


def render_block(block: Block) -> Safe:
    """One block of a decision."""
    if isinstance(block, Facts):
        pairs = [fact(name, tag("bdi", value)) for name, value in block.pairs]
        return tag("div", tag("h3", block.title), tag("dl", pairs, class_="facts"), class_="sub")
    if isinstance(block, Points):
        items = [tag("bdi", item) for item in block.items]
        if block.ordered:
            return tag("div", tag("h3", block.title), tag("ol", [tag("li", item) for item in items]), class_="sub")
        return tag("div", tag("h3", block.title), bullets(items, "warns" if block.warns else None), class_="sub")
    return tag("div", tag("h3", block.title), _table(block), class_="sub")


def _table(block: Table) -> Safe:
    rows: list[list[Child]] = [[_cell(cell) for cell in row] for row in block.rows]
    note = tag("p", tag("bdi", block.note), class_="quiet") if block.note else None
    return tag("div", table(block.title, block.head, rows, block.right), note)


def _cell(text: str) -> Child:
    if text.startswith("run: "):
        return tag("span", "run: ", code(text.removeprefix("run: ")))
    verdicts = {"go": "yes", "no-go": "no", "holds": "yes", "broken": "no", "on the front": "yes"}
    if text in verdicts:
        return tag("span", text, class_=verdicts[text])
    if "✓" in text:
        return tag("span", text, class_="yes")
    if "✗" in text:
        return tag("span", text, class_="no")
    return tag("bdi", text)


def _comparison(found: Comparison | None) -> Safe:
    lead = "Comparability comes first. A pair that breaks a rule gets no ratio."
    if found is None:
        return section("comparison", "Comparison", tag("p", "One result: there is nothing to compare.", class_="empty"))
    facts: list[Child] = [
        fact("Before", code(short(found.a.result_id)), " ", words.moment_text(found.a.started_at)),
        fact("After", code(short(found.b.result_id)), " ", words.moment_text(found.b.started_at)),
        fact("Comparability", found.comparability.value),
    ]
    if found.effect is not None:
        effect = f"{words.factor_text(found.effect)} in {found.figure} at {found.precision}"
        facts.append(fact("Effect", effect))
        facts.append(fact("Verdict", found.verdict.value if found.verdict is not None else "none"))
    rules: list[list[Child]] = [
        [f"{one.rule} {one.name}", one.outcome.value, said(one.said), said(one.remedy)] for one in found.rules
    ]
    layers: list[list[Child]] = [
        [one.layer.value, said(one.owner), one.weight.value, said(", ".join(field.name for field in one.fields[:6]))]
        for one in found.layers
    ]
    every = f"All {len(found.rules_checked)} rules hold." if not rules else None
    return section(
        "comparison",
        "Comparison of the cited results",
        tag("dl", facts, class_="facts grid"),
        table("Rules that differ or break", ("Rule", "Outcome", "Found", "What would make it sound"), rules)
        if rules
        else None,
        tag("p", every, class_="quiet") if every else None,
        table("Layers that differ", ("Layer", "Owner", "Suspicion", "Fields"), layers) if layers else None,
        lead=lead,
    )


def _results(pack: Pack) -> Safe:
    known = {one.result_id: one for one in pack.standings}
    parts = [render_result_part(result, known.get(result.result_id)) for result in pack.results]
    return section("results", "Results with their context", parts, lead="Every figure above rests on one of these.")


def _contests(pack: Pack) -> Safe:
    rows: list[list[Child]] = []
    for standing in pack.standings:
        for kind in ("contested", "refuted", "retracted", "reruns", "verified"):
            for remark in getattr(standing, kind):
                trusted = "" if remark.trusted else " (not in the trust list)"
                rows.append(
                    [code(short(standing.result_id)), kind, said(f"{remark.by}{trusted}"), words.moment_text(remark.at),
                     said(remark.text)]
                )  # fmt: skip
    body: Child = (
        table("What others said", ("Result", "Kind", "By", "When", "What"), rows)
        if rows
        else tag("p", "Nobody contested, re-ran or retracted a result that is cited here.", class_="quiet")
    )
    return section("contests", "Contests and re-runs", body)


def _methodology(pack: Pack) -> Safe:
    notes = [tag("article", tag("h3", note.title), tag("p", note.text), class_="answer") for note in pack.methodology]
    return section("methodology", "Methodology", tag("div", notes, class_="answers"))


def _limitations(pack: Pack) -> Safe:
    items = [tag("bdi", words.clean(one)) for one in pack.limitations]
    body: Child = bullets(items, "warns") if items else tag("p", "None was recorded.", class_="quiet")
    return section("limitations", "Limitations", tag("div", body, class_="sub"))


def _evidence(pack: Pack) -> Safe:
    cited: list[list[Child]] = [[code(name)] for name in pack.cites]
    return section(
        "evidence",
        "Evidence, and how to verify it",
        table("Results that are cited, by SHA-256", ("Result",), cited),
        tag("p", "The pack's file holds these results, every signed entry about them, proofs of their place in the "
                 "log, and the signers' public keys. With the file and the team's key nothing else is needed:"),
        tag("pre", code("lynxbench verify PACK")),
    )  # fmt: skip
