"""The first page: what needs attention and whose it is, then every contract with its trend and latest verdict."""

from __future__ import annotations

from lynxbench.model.canonical import short
from lynxbench.model.history import History
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.report import words
from lynxbench.report.markup import Child, Safe, said, tag
from lynxbench.report.sections.section_parts import chip, section, table
from lynxbench.report.svg.canvas import Scale, padded
from lynxbench.server import ledger_views as reading
from lynxbench.server.ledger_views import ContractLine, Spoken
from lynxbench.server.pages.page_shell import Page, brief, empty, link_to, make_page
from lynxbench.server.server_state import Server
from lynxbench.watch.regressions import Notice, NoticeDelivery
from lynxbench.watch.schedules import RunState, ScheduledRun

MOST_CONTRACTS = 50
MOST_TROUBLES = 12
SPARK_W, SPARK_H = 150, 34
TROUBLED = frozenset({RunState.MISSED, RunState.FAILED, RunState.LOST})


def overview_page(server: Server) -> Page:
    """What a manager reads in ten seconds, with a way down for an engineer."""
    ids = reading.contract_ids(server)
    lines = [reading.contract_line(server, name, count) for name, count in ids[:MOST_CONTRACTS]]
    open_notices = server.watch.notices(still=True, limit=MOST_TROUBLES)
    told = server.watch.told([one.notice for one in open_notices])
    troubles = [run for run in server.scheduler.runs(limit=200) if run.state in TROUBLED][:MOST_TROUBLES]
    doubts = reading.doubted(server, 5)
    head = server.ledger.log.head()
    lead = (
        f"{words.count(sum(count for _, count in ids), 'result')} of {words.count(len(ids), 'contract')} in a log of "
        f"{words.count(head.size, 'signed entry', 'signed entries')}."
    )
    return make_page(
        "Overview",
        lead,
        _attention(open_notices, told, troubles, doubts),
        contracts_section(lines, {one.contract_id: one for one in reversed(open_notices)}, len(ids)),
    )


def contracts_page(server: Server) -> Page:
    """Every contract."""
    ids = reading.contract_ids(server)
    lines = [reading.contract_line(server, name, count) for name, count in ids[:500]]
    notices = {one.contract_id: one for one in server.watch.notices(still=True)}
    return make_page("Contracts", "What was agreed, in advance.", contracts_section(lines, notices, len(ids)))


def contracts_section(lines: list[ContractLine], notices: dict[str, Notice], many: int) -> Safe:
    """The table of contracts."""
    if not lines:
        body: Child = empty(
            "No contract has a result yet. On a machine that measured one: ",
            tag("code", "lynxbench push --server URL RESULT"),
        )
        return section("contracts", "Contracts", body)
    rows = [_contract(line, notices.get(line.contract_id)) for line in lines]
    head = ("Contract", "Verdict", "Latest figure", "Trend", "Bound by", "Results", "Measured")
    more = tag("p", f"and {many - len(lines)} more", class_="quiet") if many > len(lines) else None
    return section("contracts", "Contracts", table("Contracts by their newest result", head, rows, (5,)), more)


def _contract(line: ContractLine, notice: Notice | None) -> list[Child]:
    latest = line.latest
    figure = latest.figures[0] if latest and latest.figures else None
    shown: Child = "–"
    if figure is not None and figure.throughput is not None:
        shown = (
            tag("span", words.figure_text(figure.throughput), class_="nowrap"),
            " ",
            tag("span", figure.precision, class_="quiet"),
        )
    question = tag("span", said(line.contract.question), class_="quiet under") if line.contract else None
    return [
        [link_to("contracts", line.contract_id, said(line.name)), question],
        verdict_words(line.history, notice, latest.validity if latest else None),
        shown,
        spark(line.history),
        tag("span", (latest.bottleneck or "–").replace("_", " "), class_="nowrap") if latest else "–",
        str(line.count),
        link_to("results", latest.result_id, brief(latest.started_at)) if latest else "never",
    ]


def verdict_words(history: History | None, notice: Notice | None, validity: str | None) -> Safe:
    """What the newest results of a contract say, in a word or two."""
    if notice is not None:
        change = words.percent_interval(_effect(notice))
        layer: Child = [" ", chip(Layer(notice.layer))] if notice.layer else None
        return tag("span", tag("strong", "regressed"), f" {change}", layer, class_="tone-bad")
    if validity in ("void", "doubtful"):
        return tag("span", f"latest result {validity}", class_="tone-warn")
    if history is None or not history.points:
        return tag("span", "no result counts yet", class_="quiet")
    moved = [change for change in history.changes if change.found]
    if moved:
        last = moved[-1].effect
        effect = Interval(last.low - 1, last.estimate - 1, last.high - 1)
        return tag("span", f"level moved {words.percent_interval(effect)}", class_="tone-warn")
    if len(history.points) < 2:
        return tag("span", "first result", class_="quiet")
    return tag("span", "no change of level", class_="tone-good")


def spark(history: History | None) -> Safe:
    """The newest results as a small line; the page of the contract has the whole plot."""
    points = history.points if history else ()
    if len(points) < 2:
        return tag("span", "–", class_="quiet")
    values = [point.estimate for point in points]
    x = Scale(0, len(values) - 1, 3, SPARK_W - 4)
    y = Scale(*padded(min(values), max(values)), SPARK_H - 4, 4)
    path = "".join(f"{'L' if i else 'M'}{x(i):.1f} {y(value):.1f}" for i, value in enumerate(values))
    assert history is not None
    said_ = f"Last {len(values)} results, from {words.digits(values[0])} to {words.digits(values[-1])} {history.unit}"
    return tag(
        "svg",
        tag("title", words.clean(said_)),
        tag("path", d=path, class_="curve"),
        tag("circle", cx=x(len(values) - 1), cy=y(values[-1]), r=2.6, class_="point"),
        viewBox=f"0 0 {SPARK_W} {SPARK_H}",
        class_="trend",
        role="img",
        aria_label=words.clean(said_),
    )


def _attention(
    notices: list[Notice], told: dict[str, list[NoticeDelivery]], troubles: list[ScheduledRun], doubts: list[Spoken]
) -> Safe:
    if not (notices or troubles or doubts):
        return section("attention", "Needs attention", tag("p", "Nothing.", class_="quiet"))
    items = [notice_item(one, told.get(one.notice, [])) for one in notices]
    items += [_trouble(run) for run in troubles]
    items += [_doubt(one) for one in doubts]
    return section("attention", "Needs attention", tag("ul", items, class_="attention"))


def notice_item(one: Notice, told: list[NoticeDelivery]) -> Safe:
    """A regression, its suspected layer and owner, the evidence, and whether the owner knows."""
    layer = chip(Layer(one.layer)) if one.layer else None
    compare = f"/compare?a={one.baseline_id}&b={one.result_id}"
    return tag(
        "li",
        tag("strong", "Regressed", class_="tone-bad"),
        " ",
        link_to("contracts", one.contract_id, said(one.contract_name)),
        f" at {words.clean(one.place)}, {one.precision}: {words.percent_interval(_effect(one))}. ",
        layer,
        " owner ",
        tag("strong", said(one.owner)),
        ". ",
        said(one.sentence),
        " ",
        tag(
            "a",
            "Evidence",
            href=compare,
            aria_label=f"Evidence: compare {one.baseline_id[:12]} and {one.result_id[:12]}",
        ),
        tag("span", f" {_told(told)}", class_="quiet"),
    )


def _told(told: list[NoticeDelivery]) -> str:
    if not told:
        return "Nobody could be told: the owner has no contact here."
    parts = []
    for one in told:
        if one.state == "sent":
            parts.append(f"Owner told by {one.channel} at {words.moment_text(one.sent_at or '')}.")
        elif one.state == "failed":
            parts.append(f"The {one.channel} to the owner failed {one.attempts} times.")
        else:
            parts.append(f"The {one.channel} to the owner is on its way.")
    return " ".join(parts)


def _trouble(run: ScheduledRun) -> Safe:
    return tag(
        "li",
        tag("strong", f"Run {run.state}", class_="tone-warn"),
        " ",
        tag("a", said(run.schedule), href=f"/runs/{run.run}"),
        f" on {words.clean(run.place)}, due {words.moment_text(run.due_at)}. ",
        tag("span", said(run.said), class_="quiet"),
    )


def _doubt(one: Spoken) -> Safe:
    body = one.logged.entry.body
    result_id = str(getattr(body, "result_id", ""))
    return tag(
        "li",
        tag("strong", "Contested" if body.kind.value == "contest" else "Retracted", class_="tone-warn"),
        " result ",
        link_to("results", result_id, tag("code", short(result_id))),
        " by ",
        said(one.voice.name),
        ": ",
        said(str(getattr(body, "reason", ""))[:300]),
    )


def _effect(one: Notice) -> Interval:
    nan = float("nan")
    values = [nan if value is None else value - 1 for value in (one.low, one.estimate, one.high)]
    return Interval(*values)
