"""One field for everything: contracts by name or question, executors by any field, results, what was said."""

from collections.abc import Iterator
from itertools import islice

from sqlalchemy import select

from lynxbench.errors import LynxbenchError
from lynxbench.ledger.ledger_tables import results
from lynxbench.ledger.names import looks_like_id
from lynxbench.ledger.queries import Wanted
from lynxbench.model.entries import Concluded, EntryKind
from lynxbench.model.layers import Layer
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, Style, chip, code, link, quiet, refer, said
from lynxbench.report.documents.ledger_documents import brief, say
from lynxbench.report.field_words import format_value
from lynxbench.server import ledger_views as reading
from lynxbench.server.pages.analyses_page import address_of
from lynxbench.server.pages.page_shell import Page, make_page
from lynxbench.server.pages.results_page import selected_form, ticked_table
from lynxbench.server.server_state import Server

LONGEST = 200
MOST_FOUND = 20
SEARCHED_EXECUTORS = 100
SEARCHED_ENTRIES = 500
SHOWN_FIELDS = 3
LONGEST_VALUE = 80
_SPEAKING = (
    EntryKind.CONTEST,
    EntryKind.RETRACTION,
    EntryKind.TAG,
    EntryKind.NOTE,
    EntryKind.CHANGE,
    EntryKind.DECISION,
    EntryKind.EXPERIMENT,
    EntryKind.TUNING,
    EntryKind.FLEET,
)
"""Entries in which people wrote something."""
_WRITTEN = ("reason", "text", "put", "what", "question", "answer", "sentence")
"""Where they did."""

Row = tuple[Inline, ...]


def search_page(server: Server, text: str) -> Page:
    """What fits all words of a text, by kind; the newest first."""
    asked = text.lower().split()
    if not asked:
        lead = "Contracts by name or question, executors by any field, results by id, what was said in the log."
        return make_page(doc.Report("Search", (doc.Note("Type something to look for.", Style.EMPTY),), lead=lead))
    sections = (
        _results(server, asked),
        _section("contracts", "Contracts", ("Contract", "Results", "Question"), _contracts(server, asked), (1,)),
        _section("executors", "Executors", ("Executor", "Newest", "Fields that fit"), _executors(server, asked)),
        _section("said", "Said in the log", ("Entry", "When", "By", "What"), _entries(server, asked)),
    )
    nothing = doc.Note(
        f"Nothing fits. The newest {SEARCHED_EXECUTORS} executors and {SEARCHED_ENTRIES} entries in which people wrote "
        "something are searched, every contract, and results by the beginning of their ids.",
        Style.EMPTY,
    )
    blocks = sections if any(sections) else (nothing,)
    return make_page(doc.Report(f"Search: {words.clean(text)}", blocks, title=("Search: ", said(text))))


def _section(
    name: str, title: str, head: tuple[str, ...], rows: Iterator[Row], right: tuple[int, ...] = ()
) -> doc.Section | None:
    found = list(islice(rows, MOST_FOUND + 1))
    note = f"More fit than these {MOST_FOUND}: say more." if len(found) > MOST_FOUND else ""
    table = doc.Table(head, found[:MOST_FOUND], title, right, note=note)
    return doc.Section(name, title, (table,)) if found else None


def fits(asked: list[str], *texts: str) -> bool:
    """Whether every word is somewhere in the texts."""
    whole = " ".join(texts).lower()
    return all(word in whole for word in asked)


def _results(server: Server, asked: list[str]) -> doc.Section | None:
    """By the beginning of an id: of the result itself, as people copy it."""
    name = asked[0].removeprefix("sha256:")
    if len(asked) > 1 or not looks_like_id(name):
        return None
    chosen = select(results.c.result_id).where(results.c.result_id >= name, results.c.result_id < name + "g")
    ids = {str(row[0]) for row in server.ledger.log.database.rows(chosen.limit(MOST_FOUND))}
    if not ids:
        return None
    listed, standing = reading.list_page(server, Wanted(results=tuple(sorted(ids)), limit=MOST_FOUND))
    table = ticked_table(server, listed, standing, "Results", named=False)
    return doc.Section("results", "Results", (selected_form(), table))


def _contracts(server: Server, asked: list[str]) -> Iterator[Row]:
    for contract_id, many in reading.contract_ids(server):
        contract = reading.contract_of(server, contract_id)
        name, question = (contract.name, contract.question) if contract else (contract_id[:12], "")
        teams = " ".join(contract.teams) if contract else ""
        if contract_id.startswith(asked[0]) or fits(asked, name, question, teams):
            yield refer("contracts", contract_id, said(name)), str(many), said(question)


def _executors(server: Server, asked: list[str]) -> Iterator[Row]:
    for executor_id, _, newest in reading.executor_ids(server, SEARCHED_EXECUTORS):
        fields = executor_fields(server, executor_id)
        hits = [field for field in fields if any(word in f"{field[1]} {field[2]}".lower() for word in asked)]
        if executor_id.startswith(asked[0]) or fits(asked, *(f"{name} {value}" for _, name, value in hits)):
            shown = tuple(
                piece
                for layer, name, value in hits[:SHOWN_FIELDS]
                for piece in (chip(layer), " ", code(name), " ", said(words.shortened(value, LONGEST_VALUE)), " ")
            )
            more = quiet(f"and {len(hits) - SHOWN_FIELDS} more") if len(hits) > SHOWN_FIELDS else ""
            yield refer("executors", executor_id), brief(newest), (*shown, more)


def executor_fields(server: Server, executor_id: str) -> tuple[tuple[Layer, str, str], ...]:
    """Layer, name and value of every field of an executor: they never change, so they are read once."""

    def read() -> tuple[tuple[Layer, str, str], ...]:
        try:
            executor = reading.result_with_executor(server, executor_id).executor
        except LynxbenchError:  # its document is not here; its own page says why
            return ()
        return tuple(
            (layer, name, words.clean(format_value(field.value)))
            for layer, fields in executor.layers.items()
            for name, field in fields.items()
        )

    known: tuple[tuple[Layer, str, str], ...] = server.cache.get(("executor fields", executor_id), (), read)
    return known


def _entries(server: Server, asked: list[str]) -> Iterator[Row]:
    for spoken in reading.entries_of_kind(server, [kind.value for kind in _SPEAKING], SEARCHED_ENTRIES):
        logged, body = spoken.logged, spoken.logged.entry.body
        text = " ".join(str(getattr(body, name, "")) for name in _WRITTEN)
        if fits(asked, text, spoken.voice.name, body.kind.value):
            place = address_of(body) if isinstance(body, Concluded) else f"/ledger/{logged.seq}"
            what = words.shortened(words.clean(text.strip()), 200)
            yield (
                link(f"#{logged.seq}", place),
                brief(logged.entry.made_at),
                said(spoken.voice.name),
                (
                    f"{body.kind.value}: ",
                    said(what or say(logged.entry)),
                ),
            )
