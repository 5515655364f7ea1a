"""Saved views: the list, and the form that names one."""

from urllib.parse import parse_qsl

from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, link, said
from lynxbench.report.markup import tag
from lynxbench.server.pages import page_shell as shell
from lynxbench.server.rights import AccessScope, Principal
from lynxbench.server.saved_views import MOST_NAME, SavedView
from lynxbench.server.server_state import Server


def views_page(server: Server, viewer: Principal, problem: str = "") -> shell.Page:
    """One's own, then everybody's."""
    known = server.views.list(viewer)
    own = [view for view in known if not view.shared]
    shared = [view for view in known if view.shared]
    hint = "Save one from the list of results: its filters, how it is sorted, and what is ticked."
    sections = (
        doc.Section("own", "Your own", (shell.problem_note(problem), _table(own, viewer, "Your own views", hint))),
        doc.Section("shared", "Everybody’s", (_table(shared, viewer, "Shared views", "Nobody shared one yet."),)),
    )
    lead = "A view is a way to look at a table. What it shows is what the ledger holds when you open it."
    return shell.make_page(doc.Report("Saved views", sections, lead=lead), status=422 if problem else 200)


def new_view_page(viewer: Principal, place: str, query: str, problem: str = "") -> shell.Page:
    """What is kept, and a name for it."""
    kept: list[tuple[Inline, ...]] = [(name, said(value)) for name, value in parse_qsl(query)[:40]]
    table = doc.Table(("Part", "Value"), kept, "What is kept", empty="The whole list, as it comes.")
    if viewer.via != "session":
        way: doc.Block = doc.Note("Sign in to save a view.")
    else:
        way = _form(viewer, place, query)
    section = doc.Section("new", "Save this view", (shell.problem_note(problem), table, way))
    return shell.make_page(doc.Report("Save a view", (section,)), status=422 if problem else 200)


def _form(viewer: Principal, place: str, query: str) -> doc.Embedded:
    for_all = None
    if viewer.may(AccessScope.CONTEST):
        for_all = tag("button", "Save for everybody", formaction="/views/shared")
    return shell.form(
        "/views",
        shell.hidden_field("place", place),
        shell.hidden_field("query", query),
        shell.text_field("Name", "name", required=True, maxlength=MOST_NAME),
        tag("button", "Save for myself", class_="primary"),
        for_all,
        viewer=viewer,
    )


def _table(views: list[SavedView], viewer: Principal, title: str, empty: str) -> doc.Table:
    rows: list[tuple[Inline, ...]] = []
    for view in views:
        removable = viewer.via == "session" and (view.owner == viewer.name or viewer.may(AccessScope.ADMINISTER))
        end: Inline = ""
        if removable:
            end = shell.row_form(viewer, "/views/remove", "Remove", f"Remove view {view.name}", view=view.view)
        rows.append(
            (link(said(view.name), f"/views/{view.view}"), said(view.owner), words.moment_text(view.made_at), end)
        )
    return doc.Table(("View", "By", "Saved", "End it"), rows, title, empty=empty)
