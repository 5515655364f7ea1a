"""What a ledger holds: lists of results, what was said about one, foreign results, the state of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lynxbench.ledger.log import Logged, TreeHead
from lynxbench.ledger.queries import Listed, OpenRun
from lynxbench.ledger.remarks import NO_REMARKS, ResultRemarks
from lynxbench.model.canonical import short
from lynxbench.model.entries import Concluded, Entry, ForeignImported, ResultTagged, ResultVerified
from lynxbench.model.standing import Standing, Voice
from lynxbench.report import doc, words
from lynxbench.report.doc import Fact, Inline, Span, Style, Tone, code, link, refer, said, strong

if TYPE_CHECKING:
    from lynxbench.ledger.checkpoints import Signed
    from lynxbench.ledger.log_witnesses import Sighting
    from lynxbench.ledger.witness_book import SplitView

SHOWN_RUNS = 3
NO_WITNESS = "no outside witness"
_DETAILS = ("reason", "text", "what", "question", "verdict", "run_id")
DOUBTED = frozenset({"retracted", "does not verify", "contested", "untrusted", "key revoked"})
_VALIDITY = {"valid": Tone.GOOD, "doubtful": Tone.WARN, "void": Tone.BAD}


def compose_list(
    listed: Sequence[Listed],
    standing: Mapping[str, Standing],
    open_runs: Sequence[OpenRun],
    machines: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    remarks: Mapping[str, ResultRemarks] | None = None,
) -> doc.Report:
    """Results, and runs that were announced and never came to an end."""
    unfinished: doc.Note | None = None
    if open_runs:
        first = ", ".join(run.run_id for run in open_runs[:SHOWN_RUNS])
        more = f" and {len(open_runs) - SHOWN_RUNS} more" if len(open_runs) > SHOWN_RUNS else ""
        unfinished = doc.Note(f"{len(open_runs)} registered without an end: {first}{more}")
    table = results_table(listed, standing, machines=machines, names=names, remarks=remarks)
    return doc.Report("Results", (table, unfinished))


def results_table(
    listed: Sequence[Listed],
    standing: Mapping[str, Standing],
    title: str = "",
    *,
    contract: bool = True,
    recomputed: Mapping[str, Inline] | None = None,
    machines: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    mark: Callable[[str], Inline] | None = None,
    remarks: Mapping[str, ResultRemarks] | None = None,
) -> doc.Table:
    """One row a precision: the figure with its interval, where it came from, what it stands on.

    Whoever recomputed the results says so in a column of its own; `machines` are letters by instance, `names` the words
    for an executor's device and driver; a `mark` stands before each result. Tags have a column where there are any.
    """
    tags = {name: each.tag_names for name, each in (remarks or {}).items() if each.tags}
    rows: list[tuple[Inline, ...]] = []
    for result in listed:
        for index, figure in enumerate(result.figures or (None,)):
            first, stands = index == 0, standing[result.result_id]
            machine = (names or {}).get(result.executor_id, "")
            named: tuple[Inline, ...] = (
                (refer("contracts", result.contract_id, said(result.contract_name)),) if contract else ()
            )
            about = (
                Span((mark(result.result_id), refer("results", result.result_id)), Style.NOWRAP)
                if mark
                else refer("results", result.result_id),
                *named,
                brief(result.started_at),
                (
                    refer("executors", result.executor_id, said(machine) if machine else ""),
                    f" @{machines[result.instance_id]}" if machines else "",
                ),
            )
            validity = figure.validity if figure else result.validity
            rate = words.figure_text(figure.throughput) if figure and figure.throughput else words.NO_FIGURE
            rows.append(
                (
                    *(about if first else ("",) * len(about)),
                    figure.precision if figure else "",
                    Span(rate, Style.NOWRAP),
                    Span(validity, _VALIDITY.get(validity, Tone.PLAIN)),
                    _standing_cell(stands) if first else "",
                    *(() if recomputed is None else (recomputed[result.result_id] if first else "",)),
                    *((tag_links(tags.get(result.result_id, ())) if first else "",) if tags else ()),
                )
            )
    named_head = ("Contract",) if contract else ()
    recomputed_head = () if recomputed is None else ("Recomputed",)
    measured = ("Measured", "Executor", "Precision", "Throughput", "Validity", "Standing")
    head = ("Result", *named_head, *measured, *recomputed_head, *(("Tags",) if tags else ()))
    return doc.Table(head, rows, title, (head.index("Throughput"),), empty="no result fits")


def brief(stamp: str) -> Span:
    """A moment in a table: to the minute, on one line; its tip has all of it."""
    moment = words.moment_text(stamp)
    return Span(moment[:16], Style.NOWRAP, label=moment)


def standing_word(word: str) -> Inline:
    """A standing in a word, coloured where it is in doubt."""
    return Span(word, Tone.WARN) if is_doubted(word) else word


def is_doubted(word: str) -> bool:
    """Whether a standing in a word is one to look at: a doubt, or a contract that was not agreed."""
    return word in DOUBTED or "agreed" in word


def _standing_cell(standing: Standing) -> Inline:
    """A standing in a word, and out of how many registered runs the figure beside it was shown."""
    word = standing_word(standing.short)
    return (word, f" · {standing.chosen_from}") if standing.chosen_from else word


def standings_table(known: Mapping[str, Standing], title: str) -> doc.Table:
    """Results with how each stands today."""
    rows = [
        (refer("results", name), standing_word(standing.short), said("; ".join(standing.words)))
        for name, standing in known.items()
    ]
    return doc.Table(("Result", "Standing", "In words"), rows, title, empty="It cites no result.")


def compose_about(
    about: Sequence[tuple[Logged, Voice]], standing: Standing, remarks: ResultRemarks = NO_REMARKS
) -> doc.Report:
    """The standing of a result, its tags and notes, and everything that was said about it, in the log's order."""
    words_of_it: Fact = ("Standing", said("; ".join(standing.words)))
    entries = entries_table(about, "Everything that was said about it")
    return doc.Report("Standing", (doc.Facts([words_of_it]), *remarks_blocks(remarks), entries))


def remarks_blocks(remarks: ResultRemarks) -> tuple[doc.Block, ...]:
    """Tags with whose they are, and notes whole; nothing where there are none."""
    by_tag: dict[str, list[str]] = {}
    for tag in remarks.tags:
        by_tag.setdefault(tag.tag, []).append(tag.team)
    tags: list[tuple[Inline, ...]] = [
        (link(name, f"/results?tag={name}"), said(", ".join(teams))) for name, teams in by_tag.items()
    ]
    notes: list[tuple[Inline, ...]] = [
        (link(f"#{note.seq}", f"/ledger/{note.seq}"), brief(note.at), said(note.team), said(note.text))
        for note in remarks.notes
    ]
    return (
        *((doc.Table(("Tag", "By"), tags, "Tags"),) if tags else ()),
        *((doc.Table(("Entry", "When", "By", "Note"), notes, "Notes"),) if notes else ()),
    )


def tag_links(names: Sequence[str]) -> Inline:
    """Tags in a cell, each a way to everything that has it."""
    return tuple(piece for name in names for piece in (link(name, f"/results?tag={name}"), " "))


def entries_table(entries: Sequence[tuple[Logged, Voice]], title: str) -> doc.Table:
    """Entries with who signed them."""
    rows = [
        (
            link(f"#{logged.seq}", f"/ledger/{logged.seq}"),
            brief(logged.entry.made_at),
            said(voice.name),
            said(say(logged.entry)),
        )
        for logged, voice in entries
    ]
    return doc.Table(("Entry", "When", "By", "What"), rows, title, empty="The log is empty.")


def say(entry: Entry) -> str:
    """An entry in one short phrase."""
    body = entry.body
    if isinstance(body, Concluded):
        detail: object = f"{body.word}: {body.sentence}"
    elif isinstance(body, ResultVerified):
        detail = "holds" if body.holds else "does not hold"
        detail += "" if body.verifies or not body.holds else " as far as it goes; no figure was recomputed"
    elif isinstance(body, ResultTagged):
        detail = " ".join([*(f"+{tag}" for tag in body.put), *(f"-{tag}" for tag in body.taken)])
    else:
        detail = next((value for name in _DETAILS if (value := getattr(body, name, None))), "")
    return f"{body.kind.value}: {' '.join(str(detail).split())[:80]}" if detail else body.kind.value


def compose_foreign_list(entries: Sequence[tuple[Logged, Voice]]) -> doc.Report:
    """One line a foreign result; never beside ours, whose figures have intervals."""
    rows = []
    for logged, voice in entries:
        body = logged.entry.body
        assert isinstance(body, ForeignImported)
        file = ", ".join(f"{blob.name} ({short(blob.sha256)})" for blob in logged.entry.blobs)
        held = f"{len(body.figures)} figures, {len(body.missing)} things not stated"
        rows.append((f"#{logged.seq}", brief(logged.entry.made_at), body.tool, said(file), held, said(voice.name)))
    head = ("Entry", "When", "Tool", "File", "Holds", "Imported by")
    return doc.Report("Foreign results", (doc.Table(head, rows, empty="no foreign result was imported"),))


def compose_log(
    name: str,
    origin: str,
    head: TreeHead,
    checkpoints: Sequence[Signed],
    seen: Sequence[Sighting],
    splits: Sequence[SplitView],
    verified: str | None,
) -> doc.Report:
    """The state of a ledger."""
    signed = []
    for signed_state in checkpoints:
        who = ", ".join(signer.team for signer in signed_state.signers)
        keys = ", ".join(short(signature.keyid) for signature in signed_state.envelope.signatures)
        signed.append(
            f"{signed_state.checkpoint.tree_size} entries, {signed_state.checkpoint.made_at}, by {who or keys}"
        )
    facts: tuple[Fact | None, ...] = (
        ("ledger", said(name)),
        ("origin", code(origin)),
        ("entries", strong(str(head.size))),
        ("root", Span(head.root.hex(), Style.ID)),
        ("verified", verified) if verified is not None else None,
        ("checkpoints", *signed) if signed else None,
        ("witnesses", *witness_lines(seen)),
        ("split views", *(Span(split.words, Tone.BAD) for split in splits)) if splits else None,
    )
    return doc.Report("Ledger", (doc.Facts(facts),))


def witness_lines(seen: Sequence[Sighting]) -> tuple[str, ...]:
    """How many saw the log, and when, or that nobody did."""
    if not seen:
        return (NO_WITNESS,)
    teams = len({sighting.team for sighting in seen})
    return (f"{teams} outside the keeper's team", *(sighting.words for sighting in seen))
