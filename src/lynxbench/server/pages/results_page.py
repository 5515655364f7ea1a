"""Results: the list, and one result in the order of its report, verdict first, evidence and standing last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from lynxbench.ledger.queries import Listed
from lynxbench.ledger.remarks import ResultRemarks, known_tags, remarks_of
from lynxbench.model.canonical import short
from lynxbench.model.evidence_gate import standing_falls_short
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.standing import Standing
from lynxbench.model.verification import Check, CheckOutcome
from lynxbench.record.recalling import ledger_checks
from lynxbench.report import doc
from lynxbench.report.doc import Inline, Span, Style, Tone, link, said, strong
from lynxbench.report.documents.ledger_documents import entries_table, remarks_blocks, results_table
from lynxbench.report.documents.matrix_document import FEWEST, MOST
from lynxbench.report.documents.result_document import compose_result
from lynxbench.report.markup import Safe, join, tag
from lynxbench.report.render_html import HtmlRenderer
from lynxbench.server import ledger_views as reading
from lynxbench.server.ledger_views import Spoken
from lynxbench.server.pages.page_shell import Page, choice, form, list_page, make_page, text_field
from lynxbench.server.pages.pickers import Offered, offered_contracts, offered_executors
from lynxbench.server.server_state import Server
from lynxbench.watch.recomputations import Recomputation, RecomputationState

PER_PAGE = 50
MOST_TAGS = 200
"""Tags that are offered to pick from; others can be typed."""
SELECTED = "compare-selected"
_STATES = {
    RecomputationState.PENDING: Tone.WARN,
    RecomputationState.HOLDS: Tone.GOOD,
    RecomputationState.REFUTED: Tone.BAD,
    RecomputationState.CANNOT: Tone.WARN,
}
_TONES = {
    CheckOutcome.HOLDS: Tone.GOOD,
    CheckOutcome.DOES_NOT_HOLD: Tone.BAD,
    CheckOutcome.CANNOT: Tone.WARN,
}


def results_page(server: Server, narrowed: tuple[tuple[str, str], ...]) -> Page:
    """A list that can be narrowed; the address says how, so that it can be shared."""
    filters = dict(narrowed)
    listed, standing = reading.list_page(server, reading.wanted_of(server, filters, PER_PAGE))
    precisions = [("", "any"), *((option.value, option.value) for option in Precision)]
    verdicts = [("", "any"), *((option.value, option.value) for option in ValidityVerdict)]
    narrow = form(
        "/results",
        _narrowing(filters, "contract", offered_contracts(server), "a name or an id"),
        _narrowing(filters, "executor", offered_executors(server), "a machine or an id"),
        choice("Precision", "precision", precisions, filters.get("precision", "")),
        choice("Validity", "valid", verdicts, filters.get("valid", "")),
        _narrowing(filters, "tag", [(tag_, tag_) for tag_ in known_tags(server.ledger.log, MOST_TAGS)], "any"),
        text_field("Since", "since", type="date", value=filters.get("since", "")),
        tag("button", "Show"),
        role="search",
        aria_label="Narrow the list",
    )
    older = "before" in filters
    many = f"{len(listed)}{' older ones' if older else ', the newest'} first." if listed else ""
    remarks = remarks_of(server.ledger.log, [result.result_id for result in listed], server.trust)
    table = ticked_table(server, listed, standing, remarks=remarks)
    ways = _around(listed, filters)
    return list_page("Results", many, narrow, _saving(filters), selected_form() if listed else None, table, ways)


def _saving(filters: Mapping[str, str]) -> doc.Embedded:
    """To where this list gets a name; the script adds how it is sorted and narrowed, and what is ticked."""
    kept = {name: text for name, text in filters.items() if name != "before"}
    save = tag("a", "Save this view", href=f"/views/new?{urlencode({'place': '/results', **kept})}", class_="save-view")
    return doc.Embedded(tag("p", save, " · ", tag("a", "Saved views", href="/views")))


def _around(listed: Sequence[Listed], filters: Mapping[str, str]) -> doc.Links | None:
    """To the pages before and after, as narrow as this one is."""
    kept = {name: text for name, text in filters.items() if name != "before"}
    links = [link("Newest", f"/results?{urlencode(kept)}")] if "before" in filters else []
    if len(listed) == PER_PAGE:
        links.append(link("Older", f"/results?{urlencode(kept | {'before': reading.place_text(listed[-1])})}"))
    return doc.Links("Pages", links) if links else None


def ticked_table(
    server: Server,
    listed: Sequence[Listed],
    standing: Mapping[str, Standing],
    title: str = "Results, newest first",
    *,
    contract: bool = True,
    named: bool = True,
    remarks: Mapping[str, ResultRemarks] | None = None,
) -> doc.Table:
    """Results to tick for a comparison, with what this server made of them and, unless not `named`, their machines."""
    return results_table(
        listed,
        standing,
        title,
        contract=contract,
        recomputed=_recomputed_words(server, listed),
        names=reading.machines_of(server, (result.executor_id for result in listed)) if named else None,
        mark=_select_box,
        remarks=remarks,
    )


def _select_box(result_id: str) -> doc.Embedded:
    """Ticks a result for the comparison of several."""
    label = f"Select {result_id[:12]} to compare"
    box = tag("input", type="checkbox", name="r", value=result_id, form=SELECTED, aria_label=label, class_="pick")
    return doc.Embedded(box)


def selected_form() -> doc.Embedded:
    """Compares what is ticked; the script counts it, and keeps it from page to page."""
    words_ = tag("span", f"Tick {FEWEST} to {MOST} results to hold them against one another. ", class_="quiet")
    count = tag("strong", data_count=True, role="status")
    button = tag("button", "Compare the selected")
    return doc.Embedded(
        tag("form", words_, count, button, id=SELECTED, action="/compare", data_most=MOST, class_="picked")
    )


def _narrowing(filters: Mapping[str, str], name: str, offered: Offered, hint: str) -> Safe:
    return text_field(name.capitalize(), name, offered, value=filters.get(name, ""), placeholder=hint)


def _recomputed_words(server: Server, listed: Sequence[Listed]) -> dict[str, Inline]:
    """What this server made of the figures of results, each in a word."""
    outcomes = reading.recomputed_of(server, [result.result_id for result in listed])
    return {name: recomputed_word(outcome) for name, outcome in outcomes.items()}


def recomputed_word(outcome: Recomputation) -> Span:
    """What came of recomputing, in a word; its tip has the sentence."""
    return Span(outcome.word, _STATES[outcome.state], label=outcome.sentence)


def result_page(server: Server, result_id: str) -> Page:
    """One result. The report's own sections; what others say of it stands beside."""
    page = rendered(server, result_id)
    standing = reading.standings_of(server, [result_id])[result_id]
    outcome = reading.recomputed_of(server, [result_id])[result_id]
    about = reading.spoken_of(server, [result_id, reading.document(server, result_id).run_id])
    checks = ledger_checks(server.ledger, result_id, server.trust, standing)
    first = HtmlRenderer(site=True).blocks([recomputed_section(outcome)])
    remarks = remarks_of(server.ledger.log, [result_id], server.trust)[result_id]
    beside = [remarks_section(remarks, result_id), standing_section(standing, about, checks, result_id)]
    return replace(page, main=join([first, page.main, HtmlRenderer(site=True).blocks(beside)]))


def remarks_section(remarks: ResultRemarks, result_id: str) -> doc.Section:
    """Tags and notes, and how to add one: like a contest they are signed where the team's key is."""
    name = short(result_id)
    steps = (
        doc.Listing(f"lynxbench results tag {result_id} TAG --server URL"),
        doc.Listing(f'lynxbench results note {result_id} --text "…" --server URL'),
    )
    shown = remarks_blocks(remarks) or (doc.Note(f"No team put a tag or a note beside {name}.", Style.EMPTY),)
    ways = doc.Group("Add one on your own machine, with your own key", steps)
    return doc.Section("remarks", "Tags and notes", (*shown, ways), "They change no figure and no verdict.")


def recomputed_section(outcome: Recomputation) -> doc.Section:
    """What this server itself says of the figures, before anybody reads them."""
    if outcome.state is RecomputationState.REFUTED:
        lead = "The figures below are not those that its own samples give. They take no part in comparisons here."
        points = doc.Points([Span(said(line), Tone.BAD) for line in outcome.lines], kind=doc.Bullet.OUTCOMES)
        note = doc.Note(strong(said(outcome.word)), Style.ALERT)
        return doc.Section("recomputed", "Refuted here", (note, points), lead)
    note = doc.Note(Span(said(outcome.sentence), _STATES[outcome.state]))
    return doc.Section("recomputed", "Recomputed by this server", (note,))


def rendered(server: Server, result_id: str) -> Page:
    """A result's own sections and pictures, made once for as long as its standing lacks the same: then nobody is
    blamed, as on the command line."""
    standing = reading.standings_of(server, [result_id])[result_id]
    also = standing_falls_short(reading.document(server, result_id), standing)

    def make() -> Page:
        files = reading.files_of(server, result_id)
        missing = files.problem or ""
        report = compose_result(files.result, files.processes, files.telemetry, missing=missing, also=also)
        report = replace(
            report,
            name=f"{files.result.contract.name} {short(result_id)}",
            links=_elsewhere(files.result),
            contents=False,
        )
        return make_page(report, plots_at=f"/results/{result_id}/plots")

    made: Page = server.cache.get(("result", result_id, also), (f"document:{result_id}",), make)
    return made


def _elsewhere(result: Result) -> doc.Links:
    name = result.result_id
    return doc.Links(
        "Elsewhere",
        [
            link("This contract’s series", f"/contracts/{result.contract_id}"),
            link("This executor", f"/executors/{result.executor_id}"),
            link("Compare with another", f"/compare?b={name}"),
            link("Contest it", f"/results/{name}/contest"),
            link("Result as JSON", f"/results/{name}/result.json"),
            link("Report as one file", f"/results/{name}/report.html"),
        ],
    )


def standing_section(
    standing: Standing, about: Sequence[Spoken], checks: Sequence[Check], result_id: str
) -> doc.Section:
    """What a result stands on: who signed, verified, contested, re-ran; and how to say something about it."""
    name = short(result_id)
    steps = (
        doc.Listing(f"lynxbench pull --server URL {name}"),
        doc.Listing(f"lynxbench verify {name}"),
        doc.Listing(f'lynxbench contest {name} --reason "…" && lynxbench push --server URL {name}'),
    )
    return doc.Section(
        "standing",
        "Standing",
        (
            doc.Note(strong(said("; ".join(standing.words)))),
            doc.Points([Span(said(check.line), _TONES[check.outcome]) for check in checks], kind=doc.Bullet.OUTCOMES),
            entries_table(about, "Everything that was said about it"),
            doc.Group("Verify or contest it on your own machine, with your own key", steps),
        ),
    )
