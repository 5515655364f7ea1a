"""The first page: what needs attention and whose it is, then every contract with its trend and latest verdict."""

from functools import partial

from lynxbench.model.canonical import short
from lynxbench.model.history import History, Motion
from lynxbench.model.interval import Interval
from lynxbench.model.layers import Layer
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Span, Style, Tone, chip, code, link, quiet, refer, said, strong
from lynxbench.report.documents.ledger_documents import brief
from lynxbench.report.markup import Safe, tag
from lynxbench.report.svg.canvas import Scale, padded
from lynxbench.server import ledger_views as reading
from lynxbench.server.ledger_views import ContractLine, Spoken
from lynxbench.server.pages.page_shell import Page, make_page, pages_links
from lynxbench.server.pages.results_page import recomputed_word
from lynxbench.server.server_state import Server
from lynxbench.watch.recomputations import Recomputation
from lynxbench.watch.regressions import Notice, NoticeDelivery
from lynxbench.watch.schedules import RunState, ScheduledRun

MOST_CONTRACTS = 50
MOST_LISTED = 100
MOST_TROUBLES = 12
MOST_OPEN = 1000
"""Regressions that are looked through for a contract's own."""
MOST_DOUBTS = 5
TREND_W, TREND_H = 150, 34
TROUBLED = frozenset({RunState.MISSED, RunState.FAILED, RunState.LOST})


def overview_page(server: Server) -> Page:
    """What a manager reads in ten seconds, with a way down for an engineer."""
    cells = reading.cell_contracts(server)
    every = reading.contract_ids(server)
    ids = [(name, count) for name, count in every if name not in cells]
    lines = [reading.contract_line(server, name, count) for name, count in ids[:MOST_CONTRACTS]]
    notices = server.watch.notices(still=True, limit=MOST_OPEN)
    shown = notices[:MOST_TROUBLES]
    deliveries = server.watch.told([notice.notice for notice in shown])
    troubles = [run for run in server.scheduler.runs(limit=200) if run.state in TROUBLED][:MOST_TROUBLES]
    items = [notice_item(notice, deliveries.get(notice.notice, [])) for notice in shown]
    if len(notices) > len(shown):
        line = f"{words.count(len(notices) - len(shown), 'further regression')}, the oldest not shown here"
        items.append(Span(link(line, "/contracts"), Tone.BAD))
    items += [_refuted(*refuted) for refuted in server.recomputations.newest_refuted(MOST_DOUBTS)]
    items += [_trouble(run) for run in troubles]
    items += [_doubt(spoken, word) for spoken, word in reading.doubted(server, MOST_DOUBTS)]
    beside = f" and {words.count(len(cells), 'cell or trial', 'cells and trials')}" if cells else ""
    lead = (
        f"{words.count(sum(count for _, count in every), 'result')} of {words.count(len(ids), 'contract')}{beside} "
        "in a log of "
        f"{words.count(server.ledger.log.head().size, 'signed entry', 'signed entries')}."
    )
    attention = doc.Section(
        "attention", "Needs attention", (doc.Points(items, kind=doc.Bullet.ATTENTION, empty="Nothing."),)
    )
    open_notices = _newest_notices(notices)
    more = doc.Note(link(f"All {len(ids)} contracts", "/contracts")) if len(ids) > len(lines) else None
    return make_page(doc.Report("Overview", (attention, _contracts(lines, open_notices, more)), lead=lead))


def contracts_page(server: Server, page: int = 1) -> Page:
    """Every contract, so many at a time."""
    ids = reading.contract_ids(server)
    begins, ends = (page - 1) * MOST_LISTED, page * MOST_LISTED
    lines = [reading.contract_line(server, name, count) for name, count in ids[begins:ends]]
    notices = _newest_notices(server.watch.notices(still=True, limit=MOST_OPEN))
    around = pages_links("/contracts", page, more=len(ids) > ends)
    return make_page(
        doc.Report("Contracts", (_contracts(lines, notices, around),), lead="What was agreed, in advance.")
    )


def _newest_notices(notices: list[Notice]) -> dict[str, Notice]:
    """By contract; of several the newest."""
    return {notice.contract_id: notice for notice in reversed(notices)}


def _contracts(lines: list[ContractLine], notices: dict[str, Notice], beside: doc.Block | None) -> doc.Section:
    rows = [_contract(line, notices.get(line.contract_id)) for line in lines]
    head = ("Contract", "Verdict", "Latest figure", "Trend", "Bound by", "Results", "Measured")
    push = code("lynxbench push --server URL RESULT")
    table = doc.Table(
        head,
        rows,
        "Contracts by their newest result",
        (5,),
        empty=("No contract has a result yet. On a machine that measured one: ", push),
    )
    return doc.Section("contracts", "Contracts", (table, beside))


def _contract(line: ContractLine, notice: Notice | None) -> tuple[Inline, ...]:
    latest = line.latest
    figure = reading.shown_figure(latest)
    rate: Inline = words.NO_FIGURE
    if figure is not None and figure.throughput is not None:
        shown = Span(words.figure_text(figure.throughput), Style.NOWRAP)
        doubt: Inline = (" ", Span(line.doubt, Tone.WARN)) if line.doubt else ""
        rate = (shown, " ", quiet(figure.precision), doubt, " ", recomputed_word(line.recomputed))
    question: Inline = Span(quiet(said(line.contract.question)), Style.UNDER) if line.contract else ""
    bottleneck = latest.bottleneck if latest and not line.doubt else None  # a doubtful one blames nobody
    bound = (bottleneck or words.NO_FIGURE).replace("_", " ")
    return (
        (refer("contracts", line.contract_id, said(line.name)), question),
        verdict_words(line.history, notice, line.doubt),
        rate,
        _trend(line.history),
        Span(bound, Style.NOWRAP),
        str(line.count),
        refer("results", latest.result_id, brief(latest.started_at)) if latest else "never",
    )


def verdict_words(history: History | None, notice: Notice | None, doubt: str) -> Inline:
    """What the newest results of a contract say, in a word or two; `doubt` speaks against the very newest."""
    if notice is not None:
        layer: Inline = (" ", chip(Layer(notice.layer))) if notice.layer else ""
        return Span((strong("regressed"), f" {words.percent_interval(_effect(notice))}", layer), Tone.BAD)
    if doubt:
        return Span(f"latest result {doubt}", Tone.WARN)
    if history is None or not history.points:
        return quiet("no result counts yet")
    if history.machines:
        return _each_machine(history)
    moved = _moved(history)
    if history.points[-1].doubtful or moved:
        return Span(moved or "latest result doubtful", Tone.WARN)
    if len(history.points) < 2:
        return quiet("first result")
    return quiet(history.too_few) if history.too_few else Span("no change of level", Tone.GOOD)


def _moved(history: History) -> str:
    """How the level of one machine moved; empty where that is not shown, or the newest result does not carry it."""
    if history.points[-1].doubtful:
        return ""
    moved = [f"level moved {words.change_text(change.effect)}" for change in history.changes if change.found][-1:]
    if history.motion is not Motion.LEVELS:
        moved.append(history.motion + (f" {words.change_text(history.trend)}" if history.trend is not None else ""))
    return ", ".join(moved)


def _each_machine(history: History) -> Inline:
    """The same of several machines, each by itself: what moved with where, else how many are known to stand still."""
    series = history.each_machine
    moved = [f"{words.clean(each.machine)}: {said_so}" for each in series if (said_so := _moved(each))]
    if moved:
        more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
        return Span(f"{moved[0]}{more}", Tone.WARN)
    if max(series, key=lambda each: each.points[-1].started_at).points[-1].doubtful:
        return Span("latest result doubtful", Tone.WARN)
    still = sum(not each.too_few for each in series)
    if still == len(series):
        return Span(f"no change of level on any of {still} machines", Tone.GOOD)
    told = f"no change of level on {still}, " if still else ""
    return quiet(f"{len(series)} machines: {told}too few results of {'the others' if still else 'each'} to tell")


def _trend(history: History | None) -> Inline:
    """The newest results as a small line; the page of the contract has the whole plot."""
    if history is None or len(history.points) < 2:
        return quiet(words.NO_FIGURE)
    values = [point.estimate for point in history.points]
    ends = f"from {words.digits(values[0])} to {words.digits(values[-1])} {words.clean(history.unit)}"
    return doc.Picture(partial(_draw_trend, values), f"Last {len(values)} results, {ends}")


def _draw_trend(values: list[float], title: str, width: int) -> Safe:
    x = Scale(0, len(values) - 1, 3, TREND_W - 4)
    y = Scale(*padded(min(values), max(values)), TREND_H - 4, 4)
    path = "".join(f"{'L' if i else 'M'}{x(i):.1f} {y(value):.1f}" for i, value in enumerate(values))
    return tag(
        "svg",
        tag("title", title),
        tag("path", d=path, class_="curve"),
        tag("circle", cx=x(len(values) - 1), cy=y(values[-1]), r=2.6, class_="point"),
        viewBox=f"0 0 {TREND_W} {TREND_H}",
        class_="trend",
        role="img",
        aria_label=title,
    )


def notice_item(notice: Notice, deliveries: list[NoticeDelivery]) -> Inline:
    """A regression, its suspected layer and owner, the evidence, and whether the owner knows."""
    label = f"Evidence: compare {notice.baseline_id[:12]} and {notice.result_id[:12]}"
    where = f" at {words.clean(notice.place)}, {notice.precision}: {words.percent_interval(_effect(notice))}. "
    return (
        Span(strong("Regressed"), Tone.BAD),
        " ",
        refer("contracts", notice.contract_id, said(notice.contract_name)),
        where,
        chip(Layer(notice.layer)) if notice.layer else "",
        " owner ",
        strong(said(notice.owner)),
        ". ",
        said(notice.sentence),
        " ",
        link("Evidence", f"/compare?a={notice.baseline_id}&b={notice.result_id}", label),
        quiet(f" {_told(deliveries)}"),
    )


def _told(deliveries: list[NoticeDelivery]) -> str:
    if not deliveries:
        return "Nobody could be told: the owner has no contact here."
    parts = []
    for delivery in deliveries:
        if delivery.state == "sent":
            parts.append(f"Owner told by {delivery.channel} at {words.moment_text(delivery.sent_at or '')}.")
        elif delivery.state == "failed":
            parts.append(f"The {delivery.channel} to the owner failed {delivery.attempts} times.")
        else:
            parts.append(f"The {delivery.channel} to the owner is on its way.")
    return " ".join(parts)


def _trouble(run: ScheduledRun) -> Inline:
    return (
        Span(strong(f"Run {run.state}"), Tone.WARN),
        " ",
        link(said(run.schedule), f"/runs/{run.run}"),
        f" on {words.clean(run.place)}, due {words.moment_text(run.due_at)}. ",
        quiet(said(run.said)),
    )


def _refuted(result_id: str, outcome: Recomputation) -> Inline:
    return (
        Span(strong("Refuted here"), Tone.BAD),
        " result ",
        refer("results", result_id, code(short(result_id))),
        ": its own samples do not give its figures. ",
        quiet(said(outcome.sentence)),
    )


def _doubt(spoken: Spoken, word: str) -> Inline:
    body = spoken.logged.entry.body
    result_id = str(getattr(body, "result_id", ""))
    return (
        Span(strong(word.capitalize()), Tone.WARN),
        " result ",
        refer("results", result_id, code(short(result_id))),
        " by ",
        said(spoken.voice.name),
        ": ",
        said(str(getattr(body, "reason", ""))[:300]),
    )


def _effect(notice: Notice) -> Interval:
    ratio = words.interval_of(notice.low, notice.estimate, notice.high)
    return Interval(ratio.low - 1, ratio.estimate - 1, ratio.high - 1)
