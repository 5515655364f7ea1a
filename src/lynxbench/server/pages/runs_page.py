"""Schedules, agents, every time one was due, and a run in progress as it happens."""

from datetime import UTC, datetime

from lynxbench.errors import BadInput
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Style, Tone, code, link, quiet, refer, said, strong
from lynxbench.report.documents.ledger_documents import brief
from lynxbench.report.markup import tag
from lynxbench.report.render_html import HtmlRenderer
from lynxbench.server.pages.page_shell import Page, make_page
from lynxbench.server.server_state import Server
from lynxbench.watch.schedules import ACTIVE, RunState, Schedule, ScheduledRun
from lynxbench.watch.timetable import parse_timetable

SHOWN = 100
LATE_S = 60.0
"""A time that is due for longer than this, with nobody come, is shown as late."""
_TONES = {
    RunState.ASKED: Tone.WARN,
    RunState.DONE: Tone.GOOD,
    RunState.FAILED: Tone.BAD,
    RunState.LOST: Tone.BAD,
    RunState.MISSED: Tone.WARN,
    RunState.OVERLAP: Tone.WARN,
}


def runs_page(server: Server) -> Page:
    """What runs now, what is due when, who runs it, and what came of it."""
    active = [
        (
            link((said(run.schedule), f" on {run.place}"), f"/runs/{run.run}"),
            f" since {words.moment_text(run.claimed_at or run.due_at)}",
            Span(_progress(server, run), Style.UNDER),
        )
        for run in server.scheduler.runs(active=True)
    ]
    agents = [
        (said(agent.name), said(agent.team), brief(agent.last_seen_at), said(agent.version))
        for agent in server.scheduler.agents()
    ]
    no_agent = ("No agent has come yet: ", code("lynxbench schedule agent --server URL --name NAME"))
    agents_table = doc.Table(("Agent", "Team", "Last seen", "lynxbench"), agents, empty=no_agent)
    blocks = (
        doc.Section(
            "now", "In progress", (doc.Points(active, kind=doc.Bullet.ATTENTION, empty="No run is in progress."),)
        ),
        _schedules(server),
        doc.Section("agents", "Agents", (agents_table,)),
        doc.Section("book", "What came of it", (_book(server.scheduler.runs(limit=SHOWN)),)),
    )
    lead = "Contracts on a timetable, carried out by agents that ask what is due. Times are UTC."
    return make_page(doc.Report("Runs", blocks, lead=lead))


def _progress(server: Server, run: ScheduledRun) -> Inline:
    """What a run said last; the page's script asks again while somebody looks."""
    events, _ = server.board.events(run.run)
    if not events:
        return quiet("waiting for its first word")
    last = events[-1]
    rate = f", {words.digits(last.value, 4)} a second" if last.value is not None else ""
    many = words.count(last.iterations, "iteration or request", "iterations or requests")
    told = quiet(f" {many} in {words.seconds_text(last.at_s)}{rate}")
    return strong(said(last.phase)), " ", said(last.label), told


def _schedules(server: Server) -> doc.Section:
    now = datetime.now(UTC)
    rows: list[tuple[Inline, ...]] = []
    for schedule in server.scheduler.schedules():
        try:
            after = parse_timetable(schedule.timetable).after(now).isoformat()
            following = "paused" if schedule.paused_at else words.moment_text(after)
        except BadInput as error:
            following = str(error)
        name = str(schedule.contract.get("name", schedule.contract_id[:12]))
        rows.append(
            (
                said(schedule.name),
                refer("contracts", schedule.contract_id, said(name)),
                code(schedule.timetable),
                following,
                said(", ".join(schedule.agents) or f"all of {schedule.team}"),
                said(schedule.team),
                _late(server, schedule, now),
            )
        )
    head = ("Schedule", "Contract", "Timetable", "Next", "Agents", "Team", "State")
    empty = ("No schedule yet: ", code("lynxbench schedule add NAME CONTRACT --every '6 h' --server URL"))
    return doc.Section("schedules", "Schedules", (doc.Table(head, rows, empty=empty),))


def _late(server: Server, schedule: Schedule, now: datetime) -> Inline:
    if schedule.paused_at:
        return Span("paused", Tone.WARN)
    try:
        due = parse_timetable(schedule.timetable).newest(now)
    except BadInput:
        return ""
    mine = [run for run in server.scheduler.runs(limit=SHOWN) if run.schedule == schedule.name]
    came = {run.agent for run in mine if run.due_at >= due.isoformat(timespec="milliseconds")}
    own = {agent.name for agent in server.scheduler.agents() if agent.team == schedule.team}
    expected = set(schedule.agents) or own
    if not expected:
        return Span("no agent of the team has come yet", Tone.WARN)
    late = sorted(expected - came)
    if late and due > datetime.fromisoformat(schedule.made_at) and (now - due).total_seconds() > LATE_S:
        return Span(f"late: {', '.join(late)}", Tone.WARN)
    return Span("on time", Tone.GOOD)


def _book(runs: list[ScheduledRun]) -> doc.Table:
    rows = [
        (
            link(words.moment_text(run.due_at), f"/runs/{run.run}", f"Run due {run.due_at} on {run.place}"),
            said(run.schedule),
            said(run.place),
            _state(run),
            refer("results", run.result_id) if run.result_id else words.NO_FIGURE,
            said(run.said[:200]),
        )
        for run in runs
    ]
    head = ("Due", "Schedule", "Agent", "State", "Result", "Said")
    return doc.Table(head, rows, "The newest first", empty="Nothing was due yet.")


def _state(run: ScheduledRun) -> Span:
    return Span(run.state, _TONES.get(RunState(run.state), Tone.PLAIN))


def run_page(server: Server, name: str) -> Page:
    """One run; while it goes on, its series and the phase it is in, as they come."""
    run = server.scheduler.run(name)
    return make_page(
        doc.Report(
            f"Run of {run.schedule}",
            (_live(server, run), doc.Section("said", "Said", (doc.Note(said(run.said)),)) if run.said else None),
            title=(said(run.schedule), " on ", said(run.place)),
            brand="Run",
            facts=(
                ("State", _state(run)),
                ("Due", words.moment_text(run.due_at)),
                ("Began", words.moment_text(run.claimed_at)) if run.claimed_at else None,
                ("Ended", words.moment_text(run.ended_at)) if run.ended_at else None,
                ("Contract", refer("contracts", run.contract_id)),
                ("Result", refer("results", run.result_id)) if run.result_id else None,
            ),
        )
    )


def _live(server: Server, run: ScheduledRun) -> doc.Embedded | None:
    """What the page's script keeps up to date; without it, the last state."""
    active = run.state in ACTIVE
    events, _ = server.board.events(run.run)
    if not active and not events:
        return None
    last = events[-1] if events else None
    phase = tag(
        "p",
        tag("strong", "Phase: "),
        tag("span", tag("bdi", last.phase if last else "waiting for its first word"), data_live="phase"),
        tag("span", tag("bdi", f" {last.label}" if last else ""), data_live="label", class_="quiet"),
        role="status",
        aria_live="polite",
    )
    label = "Rate so far, drawn while the run goes on"
    title, caption = "Rate so far", tag("p", "Iterations or requests a second, as the run counts them.")
    figure = tag(
        "figure",
        tag("figcaption", tag("h3", title), caption),
        tag("svg", tag("title", title), viewBox="0 0 920 240", class_="plot live", role="img", aria_label=label),
        tag("p", tag("span", data_live="value", class_="num"), class_="quiet"),
    )
    without = tag(
        "noscript", tag("p", "The live view needs a script of this page; load it again for the newest state.")
    )
    section = doc.Section(
        "live",
        "As it happens" if active else "As it happened",
        (doc.Embedded(phase), doc.Embedded(figure), doc.Embedded(without)),
        "Not evidence: the result is, once it is recorded." if active else "",
    )
    return doc.Embedded(tag("div", HtmlRenderer(site=True).blocks([section]), data_run=run.run, data_after="-1"))
