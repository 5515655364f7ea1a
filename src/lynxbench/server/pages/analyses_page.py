"""One experiment, tuning or fleet run: the same sections as the command line's page, and what it stands on."""

from dataclasses import replace

from lynxbench.errors import LynxbenchError, NotFound
from lynxbench.ledger.log import Logged
from lynxbench.ledger.names import find_analysis
from lynxbench.ledger.queries import find_result
from lynxbench.ledger.result_standings import voice_of
from lynxbench.model.analyses import AnalysisDocument
from lynxbench.model.canonical import short
from lynxbench.model.entries import Concluded, EntryKind
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.tuning import TuningDocument
from lynxbench.record.recalling_analyses import analysis_document, body_of
from lynxbench.report import doc
from lynxbench.report.doc import Span, Style, Tone, code, link, said, strong
from lynxbench.report.documents.experiment_document import compose_experiment
from lynxbench.report.documents.fleet_document import compose_fleet
from lynxbench.report.documents.ledger_documents import brief, is_doubted, standings_table
from lynxbench.report.documents.tuning_document import compose_tuning
from lynxbench.report.markup import join
from lynxbench.report.render_html import HtmlRenderer, render_html
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, list_page, make_page, older_link
from lynxbench.server.server_state import Server

SHOWN = 100
PLACES = {EntryKind.EXPERIMENT: "/experiments", EntryKind.TUNING: "/experiments", EntryKind.FLEET: "/fleet"}
_UNDRAWABLE = (LookupError, ValueError, ArithmeticError, AssertionError, TypeError)
"""What a document of somebody else's making can do to a renderer: its form holds, its values need not fit together."""


def experiments_page(server: Server, before: int | None = None) -> Page:
    """Factorial experiments and bounded optimisation."""
    lead = "Which layers act alone, which act together, and what tuning within its bounds reached."
    hint = "lynxbench experiment run DESIGN && lynxbench push --server URL ID"
    return _list(server, "Experiments", lead, (EntryKind.EXPERIMENT, EntryKind.TUNING), hint, before)


def fleet_page(server: Server, before: int | None = None) -> Page:
    """One contract on many machines."""
    lead = "The same contract on many machines: who differs, and in which layer."
    hint = "lynxbench fleet run CONTRACT && lynxbench push --server URL ID"
    return _list(server, "Fleet", lead, (EntryKind.FLEET,), hint, before)


def _list(server: Server, title: str, lead: str, kinds: tuple[EntryKind, ...], hint: str, before: int | None) -> Page:
    rows = []
    listed = reading.entries_of_kind(server, [kind.value for kind in kinds], SHOWN, before)
    for spoken in listed:
        body = spoken.logged.entry.body
        assert isinstance(body, Concluded)
        rows.append(
            (
                (
                    link(said(body.question), address_of(body)),
                    Span(said(body.sentence[:300]), Style.UNDER),
                ),
                (strong(said(body.word)), Span(body.kind.value, Style.UNDER)),
                said(body.contract_name),
                str(len(body.cites)),
                (said(spoken.voice.name), Span(brief(spoken.logged.entry.made_at), Style.UNDER)),
            )
        )
    head = ("Question", "Found", "Contract", "Results", "Signed by")
    empty = ("None is in this ledger yet. Where one was run: ", code(hint))
    older = older_link(PLACES[kinds[0]], [spoken.logged.seq for spoken in listed], SHOWN)
    return list_page(title, lead, doc.Table(head, rows, f"{title}, newest first", (3,), empty=empty), older)


def address_of(body: Concluded) -> str:
    """Where its page is."""
    return f"{PLACES[body.kind]}/{body.analysis_id}"


def find(server: Server, text: str, place: str) -> Logged:
    """The analysis that an address names; NotFound where that place has none of it."""
    logged = find_analysis(server.ledger.log, text)
    if logged is None or PLACES[body_of(logged).kind] != place:
        raise NotFound(f"{text[:80]}: none of it is in this ledger")
    return logged


def analysis_page(server: Server, analysis_id: str, place: str) -> Page:
    """The analysis as its renderers draw it, and how every result under it stands today."""
    logged = find(server, analysis_id, place)
    page = rendered(server, logged)
    stands = HtmlRenderer(site=True).blocks([_standing(server, logged)])
    return replace(page, main=join([page.main, stands]))


def compose_analysis(document: AnalysisDocument) -> doc.Report:
    """Any of the three kinds."""
    if isinstance(document, ExperimentDocument):
        return compose_experiment(document)
    return compose_tuning(document) if isinstance(document, TuningDocument) else compose_fleet(document)


def rendered(server: Server, logged: Logged) -> Page:
    """An analysis's own sections and pictures, made once; a page that says why where it cannot be drawn."""
    body = body_of(logged)
    made: Page = server.cache.get(
        ("analysis", body.analysis_id), (f"document:{body.analysis_id}",), lambda: _drawn(server, logged, body)
    )
    return made


def _drawn(server: Server, logged: Logged, body: Concluded) -> Page:
    base, name = address_of(body), f"{body.kind.value.capitalize()} {short(body.analysis_id)}"
    elsewhere = doc.Links(
        "Elsewhere",
        [
            link("Its standing", "#standing"),
            link("Analysis as JSON", f"{base}/analysis.json"),
            link("Report as one file", f"{base}/report.html"),
        ],
    )
    try:
        report = compose_analysis(analysis_document(server.ledger, logged))
        return make_page(replace(report, name=name, links=elsewhere), plots_at=f"{base}/plots")
    except (LynxbenchError, *_UNDRAWABLE) as error:
        why = str(error) if isinstance(error, LynxbenchError) else "its values do not fit together"
        blocks = (doc.Section("analysis", "Analysis", (doc.Note(("It cannot be drawn: ", said(why)), Style.ALERT),)),)
        return make_page(doc.Report(name, blocks, said(body.question), body.kind.value, links=elsewhere))


def report_of(server: Server, logged: Logged) -> str:
    """The page of the command line, as one file; NotFound where it cannot be drawn."""
    try:
        return render_html(compose_analysis(analysis_document(server.ledger, logged)))
    except _UNDRAWABLE:
        raise NotFound("this analysis cannot be drawn") from None


def _standing(server: Server, logged: Logged) -> doc.Section:
    body = body_of(logged)
    there = [name for name in body.cites if find_result(server.ledger.log, name) is not None]
    known = reading.standings_of(server, there)
    doubted = [name for name in there if is_doubted(known[name].short)]
    if len(there) < len(body.cites):
        line = Span(f"{len(body.cites) - len(there)} of its results are not in this ledger", Tone.BAD)
    elif doubted:
        line = Span(f"{len(doubted)} of its {len(there)} results are in doubt", Tone.WARN)
    else:
        line = Span(f"all {len(there)} results that it is made from stand", Tone.GOOD)
    entry = link(f"#{logged.seq}", f"/ledger/{logged.seq}")
    signed = (
        "Signed by ",
        strong(said(voice_of(logged, server.trust).name)),
        ", entry ",
        entry,
        ": ",
        line,
        ".",
    )
    # those in doubt first: they are what a reader must know
    ordered = sorted(there, key=lambda name: not is_doubted(known[name].short))
    name = short(body.analysis_id)
    steps = (doc.Listing(f"lynxbench pull --server URL {name}"), doc.Listing(f"lynxbench verify {name}"))
    return doc.Section(
        "standing",
        "Standing",
        (
            doc.Note(signed),
            standings_table({name: known[name] for name in ordered}, "Every result that it is made from"),
            doc.Group("Make it again from these results, on your own machine", steps),
        ),
    )
