"""One experiment, tuning or fleet run: the same sections as the command line's page, and what it stands on."""

from __future__ import annotations

from lynxbench.errors import LynxbenchError, NotFound
from lynxbench.ledger.log import Logged
from lynxbench.ledger.names import find_analysis
from lynxbench.ledger.queries import find_result, standings, voice_of
from lynxbench.model.analyses import AnalysisDocument
from lynxbench.model.canonical import short
from lynxbench.model.entries import Concluded, EntryKind
from lynxbench.model.experiment import ExperimentDocument
from lynxbench.model.standing import Standing
from lynxbench.model.tuning import TuningDocument
from lynxbench.record.recalling_analyses import analysis_document, body_of
from lynxbench.report import words
from lynxbench.report.experiment_html import (
    render_experiment_header,
    render_experiment_html,
    render_experiment_main,
)
from lynxbench.report.fleet_view import render_fleet_header, render_fleet_html, render_fleet_main
from lynxbench.report.markup import Child, Safe, join, raw, said, tag
from lynxbench.report.sections.section_parts import section, table
from lynxbench.report.tuning_html import render_tuning_header, render_tuning_html, render_tuning_main
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.page_shell import Page, brief, empty, link_to, make_page
from lynxbench.server.pages.svg_file import plots_in, with_plot_links
from lynxbench.server.server_state import Server

SHOWN = 100
RESULTS_AT = "/results/"
PLACES = {EntryKind.EXPERIMENT: "/experiments", EntryKind.TUNING: "/experiments", EntryKind.FLEET: "/fleet"}
_DOUBTED = frozenset({"retracted", "does not verify", "contested", "untrusted", "key revoked"})
_UNDRAWABLE = (LookupError, ValueError, ArithmeticError, AssertionError, TypeError)
"""What a document of somebody else's making can do to a renderer: its form holds, its values need not fit together."""


def experiments_page(server: Server) -> Page:
    """Factorial experiments and bounded optimisation."""
    lead = "Which layers act alone, which act together, and what tuning within its bounds reached."
    hint = "lynxbench experiment run DESIGN && lynxbench push --server URL ID"
    return _list(server, "Experiments", lead, (EntryKind.EXPERIMENT, EntryKind.TUNING), hint)


def fleet_page(server: Server) -> Page:
    """One contract on many machines."""
    lead = "The same contract on many machines: who differs, and in which layer."
    return _list(
        server, "Fleet", lead, (EntryKind.FLEET,), "lynxbench fleet run CONTRACT && lynxbench push --server URL ID"
    )


def _list(server: Server, title: str, lead: str, kinds: tuple[EntryKind, ...], hint: str) -> Page:
    found = reading.entries_of_kind(server, [kind.value for kind in kinds], SHOWN)
    if not found:
        body: Child = empty("None is in this ledger yet. Where one was run: ", tag("code", hint))
        return make_page(title, lead, section("list", "List", body))
    rows: list[list[Child]] = []
    for one in found:
        body_ = one.logged.entry.body
        assert isinstance(body_, Concluded)
        rows.append(
            [
                [
                    tag("a", said(body_.question), href=address_of(body_), class_="break"),
                    tag("span", said(body_.sentence[:300]), class_="under broad"),
                ],
                [tag("strong", said(body_.word)), tag("span", body_.kind.value, class_="under")],
                said(body_.contract_name),
                str(len(body_.cites)),
                [said(one.voice.name), tag("span", brief(one.logged.entry.made_at), class_="under")],
            ]
        )
    head = ("Question", "Found", "Contract", "Results", "Signed by")
    return make_page(title, lead, section("list", "List", table(f"{title}, newest first", head, rows, (3,))))


def address_of(body: Concluded) -> str:
    """Where its page is."""
    return f"{PLACES[body.kind]}/{body.analysis_id}"


def find(server: Server, text: str, place: str) -> Logged:
    """The analysis that an address names; NotFound where that place has none of it."""
    found = find_analysis(server.ledger.log, text)
    if found is None or PLACES[body_of(found).kind] != place:
        raise NotFound(f"{text[:80]}: none of it is in this ledger")
    return found


def analysis_page(server: Server, logged: Logged) -> Page:
    """The analysis as its renderers draw it, and how every result under it stands today."""
    body = body_of(logged)
    made = rendered(server, logged)
    title = f"{body.kind.value.capitalize()} {short(body.analysis_id)}"
    return Page(title, made.header, join([_elsewhere(body), made.main, _standing(server, logged)]))


class Rendered:
    """An analysis's own sections and pictures: they never change, so they are made once. No document: not drawable."""

    __slots__ = ("document", "header", "main", "plots", "size_bytes")

    def __init__(self, server: Server, logged: Logged) -> None:
        body = body_of(logged)
        self.document: AnalysisDocument | None = None
        self.plots: dict[str, str] = {}
        try:
            self.document = analysis_document(server.ledger, logged)
            self.header, main = _drawn(self.document)
            self.plots = plots_in(main)
            self.main: Safe = raw(with_plot_links(main, f"{address_of(body)}/plots"))
        except (LynxbenchError, *_UNDRAWABLE) as error:
            self.document = None
            why = str(error) if isinstance(error, LynxbenchError) else "its values do not fit together"
            self.header = join([tag("p", body.kind.value, class_="brand"), tag("h1", said(body.question))])
            line = tag("p", "It cannot be drawn: ", said(why), role="alert")
            self.main = section("analysis", "Analysis", line)
        self.size_bytes = 3 * len(self.main)


def _drawn(document: AnalysisDocument) -> tuple[Safe, Safe]:
    if isinstance(document, ExperimentDocument):
        return render_experiment_header(document), render_experiment_main(document, RESULTS_AT)
    if isinstance(document, TuningDocument):
        return render_tuning_header(document), render_tuning_main(document, RESULTS_AT)
    return render_fleet_header(document), render_fleet_main(document, RESULTS_AT)


def rendered(server: Server, logged: Logged) -> Rendered:
    """Its sections and pictures."""
    name = body_of(logged).analysis_id
    made: Rendered = server.cache.get(("analysis", name), (f"document:{name}",), lambda: Rendered(server, logged))
    return made


def report_of(server: Server, logged: Logged) -> str:
    """The page of the command line, as one file."""
    document = analysis_document(server.ledger, logged)
    if isinstance(document, ExperimentDocument):
        return render_experiment_html(document)
    if isinstance(document, TuningDocument):
        return render_tuning_html(document)
    from lynxbench import __version__

    return render_fleet_html(document, __version__)


def _elsewhere(body: Concluded) -> Safe:
    base = address_of(body)
    links = [
        tag("a", "Its standing", href="#standing"),
        tag("a", "Analysis as JSON", href=f"{base}/analysis.json"),
        tag("a", "Report as one file", href=f"{base}/report.html", download=True),
    ]
    return tag("nav", links, aria_label="Elsewhere", class_="tabs")


def _standing(server: Server, logged: Logged) -> Safe:
    body = body_of(logged)
    voice = voice_of(logged, server.trust)
    there = [name for name in body.cites if find_result(server.ledger.log, name) is not None]
    known = standings(server.ledger.log, there, server.trust)
    doubted = [name for name in there if known[name].short in _DOUBTED]
    if len(there) < len(body.cites):
        line, tone = f"{len(body.cites) - len(there)} of its results are not in this ledger", "tone-bad"
    elif doubted:
        line, tone = f"{len(doubted)} of its {len(there)} results are in doubt", "tone-warn"
    else:
        line, tone = f"all {len(there)} results that it is made from stand", "tone-good"
    name = short(body.analysis_id)
    steps = [
        tag("pre", tag("code", f"lynxbench pull --server URL {name}"), tabindex="0"),
        tag("pre", tag("code", f"lynxbench verify {name}"), tabindex="0"),
    ]
    return section(
        "standing",
        "Standing",
        tag("p", "Signed by ", tag("strong", said(voice.name)), ", entry ",
            tag("a", f"#{logged.seq}", href=f"/ledger/{logged.seq}"), ": ", tag("span", line, class_=tone), "."),
        table("Every result that it is made from", ("Result", "Standing", "In words"), _rows(there, known)),
        tag("div", tag("h3", "Make it again from these results, on your own machine"), steps, class_="prose"),
    )  # fmt: skip


def _rows(names: list[str], known: dict[str, Standing]) -> list[list[Child]]:
    # those in doubt first: they are what a reader must know
    ordered = sorted(names, key=lambda name: known[name].short not in _DOUBTED)
    return [
        [
            link_to("results", name),
            tag("span", said(known[name].short), class_="tone-warn" if known[name].short in _DOUBTED else None),
            said(words.clean("; ".join(known[name].words))),
        ]
        for name in ordered
    ]
