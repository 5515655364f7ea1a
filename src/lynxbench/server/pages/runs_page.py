"""Schedules, agents, every time one was due, and a run in progress as it happens."""

from __future__ import annotations

from datetime import UTC, datetime

from lynxbench.errors import BadInput
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, join, said, tag
from lynxbench.report.sections.section_parts import fact, section, table
from lynxbench.server.pages.page_shell import Page, brief, empty, link_to, make_page
from lynxbench.server.server_state import Server
from lynxbench.watch.schedules import ACTIVE, RunState, Schedule, ScheduledRun
from lynxbench.watch.timetable import parse_timetable

SHOWN = 100
LATE_S = 60.0
"""A time that is due for longer than this, with nobody come, is shown as late."""
_TONES = {
    RunState.DONE: "good",
    RunState.FAILED: "bad",
    RunState.LOST: "bad",
    RunState.MISSED: "warn",
    RunState.OVERLAP: "warn",
}


def runs_page(server: Server) -> Page:
    """What runs now, what is due when, who runs it, and what came of it."""
    active = server.scheduler.runs(active=True)
    found = server.scheduler.runs(limit=SHOWN)
    schedules = server.scheduler.schedules()
    return make_page(
        "Runs",
        "Contracts on a timetable, carried out by agents that ask what is due. Times are UTC.",
        _now(active),
        _schedules(server, schedules),
        _agents(server),
        section("book", "What came of it", _book(found) if found else empty("Nothing was due yet.")),
    )


def _now(active: list[ScheduledRun]) -> Safe:
    items = [
        tag(
            "li",
            tag("a", said(run.schedule), f" on {run.place}", href=f"/runs/{run.run}"),
            f" since {words.moment_text(run.claimed_at or run.due_at)}",
        )
        for run in active
    ]
    body: Child = tag("ul", items, class_="attention") if items else tag("p", "No run is in progress.", class_="quiet")
    return section("now", "In progress", body)


def _schedules(server: Server, schedules: list[Schedule]) -> Safe:
    if not schedules:
        hint = "lynxbench schedule add NAME CONTRACT --every '6 h' --server URL"
        return section("schedules", "Schedules", empty("No schedule yet: ", tag("code", hint)))
    now = datetime.now(UTC)
    rows: list[list[Child]] = []
    for one in schedules:
        try:
            following = (
                "paused" if one.paused_at else words.moment_text(parse_timetable(one.timetable).after(now).isoformat())
            )
        except BadInput as error:
            following = str(error)
        rows.append(
            [
                said(one.name),
                link_to("contracts", one.contract_id, said(str(one.contract.get("name", one.contract_id[:12])))),
                tag("code", one.timetable),
                following,
                said(", ".join(one.agents) or f"all of {one.team}"),
                said(one.team),
                _late(server, one, now),
            ]
        )
    head = ("Schedule", "Contract", "Timetable", "Next", "Agents", "Team", "State")
    return section("schedules", "Schedules", table("Schedules", head, rows))


def _late(server: Server, one: Schedule, now: datetime) -> Child:
    if one.paused_at:
        return tag("span", "paused", class_="tone-warn")
    try:
        due = parse_timetable(one.timetable).newest(now)
    except BadInput:
        return ""
    mine = [run for run in server.scheduler.runs(limit=SHOWN) if run.schedule == one.name]
    came = {run.agent for run in mine if run.due_at >= due.isoformat(timespec="milliseconds")}
    expected = set(one.agents) or {agent.name for agent in server.scheduler.agents() if agent.team == one.team}
    late = sorted(expected - came)
    made = datetime.fromisoformat(one.made_at)
    if not expected:
        return tag("span", "no agent of the team has come yet", class_="tone-warn")
    if late and due > made and (now - due).total_seconds() > LATE_S:
        return tag("span", f"late: {', '.join(late)}", class_="tone-warn")
    return tag("span", "on time", class_="tone-good")


def _agents(server: Server) -> Safe:
    rows: list[list[Child]] = [
        [said(one.name), said(one.team), brief(one.last_seen_at), said(one.version)]
        for one in server.scheduler.agents()
    ]
    body: Child = empty("No agent has come yet: ", tag("code", "lynxbench schedule agent --server URL --name NAME"))
    if rows:
        body = table("Agents", ("Agent", "Team", "Last seen", "lynxbench"), rows)
    return section("agents", "Agents", body)


def _book(found: list[ScheduledRun]) -> Safe:
    rows: list[list[Child]] = [
        [
            tag(
                "a",
                words.moment_text(run.due_at),
                href=f"/runs/{run.run}",
                aria_label=f"Run due {run.due_at} on {run.place}",
            ),
            said(run.schedule),
            said(run.place),
            _state(run),
            link_to("results", run.result_id) if run.result_id else "–",
            said(run.said[:200]),
        ]
        for run in found
    ]
    return table("The newest first", ("Due", "Schedule", "Agent", "State", "Result", "Said"), rows)


def _state(run: ScheduledRun) -> Safe:
    return tag("span", run.state, class_=f"tone-{_TONES.get(RunState(run.state), 'plain')}")


def run_page(server: Server, name: str) -> Page:
    """One run; while it goes on, its series and the phase it is in, as they come."""
    run = server.scheduler.run(name)
    active = run.state in ACTIVE
    header = join(
        [
            tag("p", "Run", class_="brand"),
            tag("h1", said(run.schedule), " on ", said(run.place)),
            tag(
                "dl",
                fact("State", _state(run)),
                fact("Due", words.moment_text(run.due_at)),
                fact("Began", words.moment_text(run.claimed_at)) if run.claimed_at else None,
                fact("Ended", words.moment_text(run.ended_at)) if run.ended_at else None,
                fact("Contract", link_to("contracts", run.contract_id)),
                fact("Result", link_to("results", run.result_id)) if run.result_id else None,
                class_="facts",
            ),
        ]
    )
    events, _ = server.board.events(name)
    live: Child = None
    if active or events:
        last = events[-1] if events else None
        live = section(
            "live",
            "As it happens" if active else "As it happened",
            tag(
                "p",
                tag("strong", "Phase: "),
                tag("span", said(last.phase if last else "waiting for its first word"), data_live="phase"),
                tag("span", said(f" {last.label}" if last else ""), data_live="label", class_="quiet"),
                role="status",
                aria_live="polite",
            ),
            tag(
                "figure",
                tag(
                    "figcaption",
                    tag("h3", "Rate so far"),
                    tag("p", "Iterations or requests a second, as the run counts them."),
                ),
                tag(
                    "svg",
                    tag("title", "Rate so far"),
                    viewBox="0 0 920 240",
                    class_="plot live",
                    role="img",
                    aria_label="Rate so far, drawn while the run goes on",
                ),
                tag("p", tag("span", data_live="value", class_="num"), class_="quiet"),
            ),
            tag("noscript", tag("p", "The live view needs a script of this page; load it again for the newest state.")),
            lead="Not evidence: the result is, once it is recorded." if active else "",
        )
        live = tag("div", live, data_run=name, data_after="-1")
    note = section("said", "Said", tag("p", said(run.said))) if run.said else None
    return Page(f"Run of {run.schedule}", header, join([live, note]))
