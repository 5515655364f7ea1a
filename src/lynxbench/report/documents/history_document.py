"""What a contract's results say over time: its series, its changes with their owners, the signs, what was declared."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from lynxbench.model.canonical import short
from lynxbench.model.history import (
    CauseMove,
    ChangeBook,
    ChangeRow,
    ExpectationRecord,
    History,
    LevelChange,
    Motion,
    Signals,
    SignalState,
)
from lynxbench.model.result import Result
from lynxbench.report import doc, words
from lynxbench.report.chart import Chart
from lynxbench.report.doc import Fact, Inline, Span, Tone, chip, code, refer, said
from lynxbench.report.documents.history_chart import history_chart
from lynxbench.report.documents.ledger_documents import brief
from lynxbench.report.svg.history_plot import draw_levels

SHOWN_LEFT_OUT = 5
SHOWN_EVIDENCE = 4
SHOWN_MACHINES = 4
_TONES = {
    SignalState.PRESENT: Tone.BAD,
    SignalState.ABSENT: Tone.GOOD,
    SignalState.NOT_ENOUGH_DATA: Tone.PLAIN,
}


def compose_history(history: History, others: Sequence[History] = (), results: Sequence[Result] = ()) -> doc.Report:
    """The series, then every change with its effect, cause and owner.

    On a page the histories of other precisions can be laid over it, and the latencies of results stand below.
    """
    facts: list[Fact | None] = [
        ("Contract", (said(history.contract), " ", code(words.abbreviated(history.contract_id)))),
        ("Precision", history.precision.value),
        *machine_facts(history),
        ("Agreement", said(history.agreement)) if history.agreement else None,
        ("A/A noise", history.noise.said) if history.noise is not None else None,
    ]
    if history.points:
        first, last = history.points[0], history.points[-1]
        figures = f"{words.digits(first.estimate, 4)} → {words.digits(last.estimate, 4)} {words.clean(history.unit)}"
        leading = _leading(history)
        figures += f"; bound by {leading[0]} ({leading[1]})" if leading is not None else ""
        facts.append(
            ("From", f"{words.moment_text(first.started_at)} to {words.moment_text(last.started_at)}: {figures}")
        )
    left = [line for each in history.each_machine for line in each.left_out]
    left_out = doc.Section("left-out", "Left out", (doc.Points(left, "Left out", most=SHOWN_LEFT_OUT),))
    return doc.Report(
        f"{words.clean(history.contract)}: history",
        (
            series_section(history, chart=history_chart((history, *others), results)),
            changes_section(history),
            causes_section(history),
            *machine_sections(history),
            left_out if left else None,
        ),
        title=said(history_note(history)),
        brand="lynxbench history",
        facts=facts,
        scripted=True,
    )


def machine_facts(history: History) -> list[Fact]:
    """How many results are in the series; of which machine, and of how many by itself, where there are several."""
    counted: Fact = ("Results", f"{len(history.points)} in the series")
    if not history.machine:
        return [counted]
    others = f", the first of {len(history.each_machine)} series" if history.machines else ""
    return [("Machine", f"{words.clean(history.machine)}{others}"), counted]


def history_note(history: History) -> str:
    """What the series says; of several machines what each says, by itself."""
    if not history.machine:
        return history.note
    return _each_told([f"{each.machine}: {each.note}" for each in history.each_machine])


def _each_told(lines: Sequence[str]) -> str:
    """What is said of each machine, as one text."""
    if len(lines) == 1:
        return lines[0]
    more = len(lines) - SHOWN_MACHINES
    told = [*lines[:SHOWN_MACHINES], *([f"{more} more below"] if more > 0 else [])]
    return f"{len(lines)} machines or kinds of them, each judged by itself. {'. '.join(told)}"


def machine_sections(history: History) -> list[doc.Section | None]:
    """The series of the other machines, one after the other."""
    return [
        section
        for place, each in enumerate(history.machines, start=2)
        for section in (
            series_section(each, chart=history_chart((each,)), part=f"-{place}"),
            changes_section(each, part=f"-{place}"),
            causes_section(each, part=f"-{place}"),
        )
    ]


def _titled(title: str, history: History) -> str:
    return f"{title}, {words.clean(history.machine)}" if history.machine else title


def series_section(
    history: History, links: Sequence[tuple[str, str]] = (), chart: Chart | None = None, part: str = ""
) -> doc.Section | None:
    """The series as a plot; `links` (name, place) replace the data inside the page, `part` sets it apart there."""
    if not history.points:
        return None
    rows = [
        (p.started_at, p.result_id, p.estimate, words.or_nan(p.low), words.or_nan(p.high), p.unit, _cause_word(p.cause))
        for p in history.points
    ]
    caption = (
        "Each point is a result with its interval; a line marks a change of the level, a short one a record change, "
        "and each square the layer that changed."
    )
    head = ("started", "result", "estimate", "low", "high", "unit", "bound by")
    title = _titled(f"Throughput over time, {history.precision}", history)
    drawn = partial(draw_levels, history)
    return doc.Section(
        f"series{part}",
        _titled("Series", history),
        (doc.Plot(f"levels{part}", title, caption, drawn, head, rows, links=links, chart=chart),),
    )


def changes_section(history: History, part: str = "") -> doc.Section | None:
    """Every change with its effect, what the record says, and whose it is."""
    if len(history.points) < 2:
        return None
    head = ("When", "Seen", "Effect", "Drift", "Layers", "Record", "Owner", "Experiment")
    rows = [_change_row(change) for change in history.changes]
    moving = (
        doc.Note(said(f"{history.note}. No layer is blamed for it."))
        if history.motion is not Motion.LEVELS or history.seasons
        else None
    )
    name, title = f"changes{part}", _titled("Changes", history)
    if not rows:
        nothing = "No change of the level: no step, drift, wandering or season is shown"
        none = doc.Note(f"{history.too_few or nothing}; no change of the record.")
        return doc.Section(name, title, (moving or none,))
    return doc.Section(name, title, (moving, doc.Table(head, rows, title)))


def causes_section(history: History, part: str = "") -> doc.Section | None:
    """What bounds the results, and since when; nothing where none of them says."""
    leading = _leading(history)
    if leading is None:
        return None
    since = " since it moved" if history.cause_moves else ""
    now = doc.Note(f"{leading[0]} bounds {leading[1]}{since}.".capitalize())
    rows = [_move_row(move) for move in history.cause_moves]
    head = ("When", "From", "To", "Before", "Since", "Changed there")
    table = doc.Table(head, rows, "Where another cause took over") if rows else None
    return doc.Section(f"causes{part}", _titled("What bounds it", history), (now, table))


def _leading(history: History) -> tuple[str, str] | None:
    """The cause that leads now, and of how many results that is; None where none of them names one."""
    named = [point.cause for point in history.points if point.names_cause]
    newest = named[-history.cause_moves[-1].leads[1] :] if history.cause_moves else named
    if not newest:
        return None
    cause, leads = Counter(newest).most_common(1)[0]
    return _cause_word(cause), f"{leads} of {words.count(len(newest), 'result')}"


def _move_row(move: CauseMove) -> tuple[Inline, ...]:
    layers = tuple(piece for layer in move.layers_changed for piece in (chip(layer), " "))
    return (
        (brief(move.at), " ", refer("results", move.result_id)),
        _cause_word(move.before),
        _cause_word(move.after),
        "{} of {}".format(*move.led),
        "{} of {}".format(*move.leads),
        (*layers, "the model's weights") if move.model_changed else layers or "nothing in the record",
    )


def _cause_word(cause: str) -> str:
    return words.clean(cause.replace("_", " "))


def _change_row(change: LevelChange) -> tuple[Inline, ...]:
    unknown = ", effect unknown"
    if change.effect.known:
        unknown = f", {'one sitting each' if 'one sitting' in change.basis else 'few restarts'}: no effect is told"
    seen = "" if change.found or change.moved else ", no effect seen" if change.moved is False else unknown
    between: Inline = f"between {brief(change.since)} and " if change.since else ""
    return (
        (between, brief(change.at), " ", refer("results", change.result_id)),
        f"{'level' if change.found else 'record'} changed at {change.index}{seen}",
        words.change_text(change.effect),
        change.drift.value,
        tuple(piece for layer in change.layers_changed for piece in (chip(layer), " ")) or "none",
        said(change.cause.sentence),
        said(change.cause.owner or ""),
        said(change.cause.experiment) if change.found else "",
    )


def compose_signals(signals: Signals) -> doc.Report:
    """The five signs of a problem of the whole stack, each with what shows it or what would tell."""
    bad = any(each.stack_shaped for each in signals.each_machine)
    sentence = (said(signals.contract), ": ", said(_signs_told(signals)))
    verdict = doc.Verdict(sentence, look=Tone.BAD if bad else Tone.PLAIN)
    return doc.Report("Signs of a whole-stack problem", (verdict, signals_section(signals)))


def signals_section(signals: Signals) -> doc.Section:
    """The five signs as a table, one of each machine."""
    left_out = doc.Points(signals.left_out, "Left out") if signals.left_out else None
    tables = (*map(_signs_table, signals.each_machine), left_out)
    return doc.Section("signs", "Signs of a whole-stack problem", tables, words.clean(_signs_told(signals)))


def _signs_told(signals: Signals) -> str:
    """What the signs say; of several machines what each says, by itself."""
    if not signals.machine:
        return signals.sentence
    return _each_told([f"{each.machine}: {each.sentence}" for each in signals.each_machine])


def _signs_table(signals: Signals) -> doc.Table:
    rows = [
        (
            f"{signal.number} {signal.name}",
            Span(signal.state.value, _TONES[signal.state]),
            said(signal.said),
            said(signal.needed),
            _evidence(signal.evidence),
        )
        for signal in signals.signals
    ]
    head = ("Sign", "State", "Seen", "Needed", "Evidence")
    title = f"The five signs, {words.clean(signals.machine)}" if signals.machine else "The five signs"
    return doc.Table(head, rows, title)


def _evidence(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN_EVIDENCE} more" if len(names) > SHOWN_EVIDENCE else ""
    return ", ".join(short(name) for name in names[:SHOWN_EVIDENCE]) + more


def compose_changes(book: ChangeBook) -> doc.Report:
    """Every declared change with what came of it, then how good the expectations were."""
    head = ("Change", "Layer", "Owner", "What", "Expected", "Measured", "Verdict")
    empty = "no change is declared; begin with: lynxbench change declare"
    declared = doc.Table(head, [_declared_row(row) for row in book.rows], "Declared changes", empty=empty)
    chains = [
        f"{' then '.join(map(short, names))}: {words.factor_text(gain)} (bounds multiplied)"
        for names, gain in book.chains
    ]
    records: list[Fact] = [
        (f"{kind} {words.clean(record.name)}", _expectations(record))
        for kind, group in (("owner", book.by_owner), ("layer", book.by_layer))
        for record in group
    ]
    blocks = (declared, doc.Points(chains, "Together"), doc.Facts(records, "Expectations met, of those decided"))
    return doc.Report("Changes", blocks if book.rows else (declared,))


def _expectations(record: ExpectationRecord) -> str:
    missed = f", {record.less} less, {record.more} more" if record.decided else ""
    return f"{record.as_expected} of {record.decided}{missed} ({record.declared} declared)"


def _declared_row(row: ChangeRow) -> tuple[Inline, ...]:
    measured = "not measured yet" if row.measured is None else words.factor_text(row.measured)
    verdict = row.verdict.value if row.verdict is not None else ""
    caution: Inline = Span(f" ! {words.clean(row.caution)}", Tone.WARN) if row.caution else ""
    expected = words.factor_text(row.expected)
    return (
        short(row.change_id),
        chip(row.layer),
        said(row.owner),
        said(row.what),
        expected,
        measured,
        (verdict, caution),
    )
