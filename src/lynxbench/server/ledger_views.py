"""What pages and API show, as values: asked of the ledger, kept until it changes."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from sqlalchemy import func, select

from lynxbench.errors import BadInput, EvidenceInvalid, LynxbenchError, NotFound
from lynxbench.evidence.documents import check_samples
from lynxbench.evidence.sample_file import read_samples
from lynxbench.evidence.statement import parse_time
from lynxbench.ledger.ledger_tables import entries, results, subjects
from lynxbench.ledger.log import Logged
from lynxbench.ledger.names import find_id
from lynxbench.ledger.queries import (
    Listed,
    ListedFigure,
    Wanted,
    agreed_contract,
    entries_about,
    list_results,
    newest_of_kind,
)
from lynxbench.ledger.remarks import tagged_results
from lynxbench.ledger.result_standings import owner_of_result, standings, voice_of
from lynxbench.model.contract import Contract
from lynxbench.model.entries import EntryKind, ResultRetracted
from lynxbench.model.history import History
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result, ValidityVerdict
from lynxbench.model.samples import CountedProcess, Telemetry
from lynxbench.model.standing import Remark, Standing, Voice, taken_back
from lynxbench.record.histories import history_of
from lynxbench.record.machine_names import machine_name
from lynxbench.record.recalling import lay_out, result_document
from lynxbench.report.documents.ledger_documents import is_doubted
from lynxbench.run.concluding import telemetry_in
from lynxbench.server.page_cache import EVERYTHING, TRUST
from lynxbench.server.page_past import PagePast
from lynxbench.server.server_state import Server
from lynxbench.watch.recomputations import NOT_YET, Recomputation, RecomputationState

P = ParamSpec("P")
T = TypeVar("T")
Ask = Callable[Concatenate[Server, P], T]

TREND = 60
"""Results of a contract that its line in the overview is drawn from."""
NEWEST = 500
"""Results that a contract's page shows; the API has all of them."""
LONGEST_NUMBER = 18
NO_RESULT = ""
"""The id of none: asked for where a tag stands on nothing."""
THIS_SERVER = "this server"
"""Who says what the server itself found; no team is called so, for a name has no space."""


@dataclass(frozen=True, slots=True)
class ContractLine:
    """A contract in a list: its newest results and what they say together."""

    contract_id: str
    name: str
    contract: Contract | None
    count: int
    latest: Listed | None
    history: History | None
    recomputed: Recomputation = NOT_YET
    """Of the latest one: no figure is shown without it."""
    doubt: str = ""
    """What speaks against the latest one, in a word."""


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """A result with what its plots are drawn from, and why where something is missing."""

    result: Result
    processes: tuple[CountedProcess, ...]
    telemetry: Telemetry | None
    problem: str | None


class Spoken(NamedTuple):
    """An entry with its number and whoever signed it."""

    logged: Logged
    voice: Voice


def named(server: Server, text: str, what: str) -> str:
    """The full id of what a URL names by a unique beginning; NotFound otherwise."""
    return find_id(server.ledger.log, text, what)


def precision_of(text: str | None) -> Precision | None:
    """The precision that a URL names; BadInput where it is none."""
    if not text:
        return None
    try:
        return Precision(text)
    except ValueError:
        raise BadInput(f"precision is one of {', '.join(Precision)}") from None


def wanted_of(server: Server, fields: Mapping[str, str], limit: int) -> Wanted:
    """Which results a URL asks for; BadInput where a value is none."""
    valid, since, since_s = fields.get("valid"), fields.get("since"), None
    if valid is not None and valid not in set(ValidityVerdict):
        raise BadInput(f"valid is one of {', '.join(ValidityVerdict)}")
    if since is not None:
        try:
            moment = datetime.fromisoformat(since)
            since_s = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
        except (ValueError, OverflowError):
            raise BadInput("since is a date such as 2026-11-15") from None
    precision = precision_of(fields.get("precision"))
    tagged = tagged_results(server.ledger.log, fields["tag"], server.trust) if "tag" in fields else ()
    return Wanted(
        contract=named(server, fields["contract"], "contract") if "contract" in fields else None,
        executor=named(server, fields["executor"], "executor") if "executor" in fields else None,
        precision=precision.value if precision else None,
        since_s=since_s,
        validity=valid,
        results=tagged or (NO_RESULT,) if "tag" in fields else (),
        before=_place_of(fields["before"]) if "before" in fields else None,
        limit=limit,
    )


def _place_of(text: str) -> tuple[int, int]:
    """Where a page of a list begins: `SECOND.ENTRY`, as the link to it has it."""
    second, dot, seq = text.partition(".")
    if not dot or not (second.isdecimal() and seq.isdecimal()) or max(len(second), len(seq)) > LONGEST_NUMBER:
        raise BadInput("before is the place that the link to older results names")
    return int(second), int(seq)


def place_text(listed: Listed) -> str:
    """The place of a result in a list, for the page that goes on after it."""
    return f"{int(parse_time(listed.started_at).timestamp())}.{listed.seq}"


def trust_topic(server: Server) -> str:
    """What changes with whose signatures count. They are looked up first: that tells of it where they changed."""
    _ = server.trust
    return TRUST


def cached(*topics: str) -> Callable[[Ask[P, T]], Ask[P, T]]:
    """Keep what a function answers until a topic changes; without topics, until that changes which it is about, or
    whose signatures count."""

    def decorate(ask: Ask[P, T]) -> Ask[P, T]:
        @wraps(ask)
        def answered(server: Server, /, *given: P.args, **named: P.kwargs) -> T:
            about = topics or (str(given[0]), trust_topic(server))
            name = (ask.__name__, *given, *named.items())
            return server.cache.get(name, about, lambda: (ask(server, *given, **named),))[0]

        return answered

    return decorate


@cached(EVERYTHING)
def contract_ids(server: Server) -> list[tuple[str, int]]:
    """Contracts with results, by how recently they had one, with how many."""
    newest = func.max(results.c.started_s)
    chosen = select(results.c.contract_id, func.count()).group_by(results.c.contract_id).order_by(newest.desc())
    measured = [(str(row[0]), int(row[1])) for row in server.ledger.log.database.rows(chosen)]
    agreed = select(entries.c.contract_id).where(entries.c.kind == EntryKind.CONTRACT.value).distinct()
    known = {name for name, _ in measured}
    return measured + [(str(row[0]), 0) for row in server.ledger.log.database.rows(agreed) if row[0] not in known]


@cached(EVERYTHING)
def cell_contracts(server: Server) -> frozenset[str]:
    """Contracts under which nothing but cells and trials were run: their experiment or tuning stands for them."""
    varied = EntryKind.EXPERIMENT.value, EntryKind.TUNING.value
    cited = (
        select(subjects.c.id)
        .join(entries, entries.c.seq == subjects.c.seq)
        .where(entries.c.kind.in_(varied), subjects.c.what == "cited")
    )
    log = server.ledger.log.database
    if not log.rows(cited.limit(1)):  # then there is nothing to ask of every result
        return frozenset()
    # by subqueries: there may be more cells than a statement takes values; the contract that cells vary is cited, too
    cells = select(results.c.contract_id).where(results.c.result_id.in_(cited), results.c.contract_id.not_in(cited))
    beside = select(results.c.contract_id).where(results.c.contract_id.in_(cells), results.c.result_id.not_in(cited))
    rows = [{str(row[0]) for row in log.rows(chosen.distinct())} for chosen in (cells, beside)]
    return frozenset(rows[0] - rows[1])


@cached()
def contract_of(server: Server, contract_id: str) -> Contract | None:
    """The contract's text, where the ledger has it."""
    return agreed_contract(server.ledger.log, contract_id)


def shown_figure(latest: Listed | None) -> ListedFigure | None:
    """The figure that stands for a result: of its first valid precision, else of the first that has one."""
    known = [figure for figure in latest.figures if figure.throughput is not None] if latest else []
    return next((figure for figure in known if figure.validity == ValidityVerdict.VALID), known[0] if known else None)


def shown_precision(server: Server, contract: Contract) -> Precision:
    """The precision that a contract's page begins with: the one that stands for its newest result."""
    listed = list_results(server.ledger.log, Wanted(contract=contract.contract_id, limit=1), readable=True)
    figure = shown_figure(listed[0] if listed else None)
    return contract.workload.precisions[0] if figure is None else Precision(figure.precision)


@cached()
def contract_line(server: Server, contract_id: str, count: int) -> ContractLine:
    """One line of the overview."""
    contract = contract_of(server, contract_id)
    listed = list_results(server.ledger.log, Wanted(contract=contract_id, limit=1), readable=True)
    latest = listed[0] if listed else None
    name = contract.name if contract else latest.contract_name if latest else contract_id[:12]
    figure = shown_figure(latest)
    chosen = None if figure is None else Precision(figure.precision)
    past = history(server, contract_id, chosen, TREND) if contract is not None and latest is not None else None
    outcome = NOT_YET if latest is None else recomputed_of(server, [latest.result_id])[latest.result_id]
    return ContractLine(contract_id, name, contract, count, latest, past, outcome, newest_doubt(server, contract_id))


@cached()
def newest_doubt(server: Server, contract_id: str) -> str:
    """What speaks against the newest result of a contract, in a word: its own validity, or its standing."""
    listed, standing = list_page(server, Wanted(contract=contract_id, limit=1), readable=True)
    if not listed:
        return ""
    word = standing[listed[0].result_id].short
    lame = listed[0].validity != ValidityVerdict.VALID
    return word if is_doubted(word) else listed[0].validity if lame else ""


@cached()
def history(
    server: Server, contract_id: str, precision: Precision | None, newest: int | None = NEWEST, machine: str = ""
) -> History:
    """The series of a contract, as `lynxbench history` reads it."""
    return history_of(PagePast(server), contract_id, precision, newest, machine)


def list_page(server: Server, wanted: Wanted, *, readable: bool = False) -> tuple[list[Listed], dict[str, Standing]]:
    """Results with their standings; `readable` leaves out those whose entries are damaged."""
    listed = list_results(server.ledger.log, wanted, readable=readable)
    return listed, standings_of(server, [result.result_id for result in listed])


def oldest_first(server: Server, names: Sequence[str]) -> tuple[str, ...]:
    """Results in the order in which they were measured, each once."""
    chosen = select(results.c.result_id).where(results.c.result_id.in_(names))
    rows = server.ledger.log.database.rows(chosen.order_by(results.c.started_s, results.c.seq))
    return tuple(dict.fromkeys(str(row[0]) for row in rows))


def standings_of(server: Server, names: Sequence[str]) -> dict[str, Standing]:
    """How results stand: what the log says of them, and what this server found itself."""
    known = standings(server.ledger.log, names, server.trust)
    for name, outcome in recomputed_of(server, names).items():
        if outcome.state is RecomputationState.REFUTED:
            remark = Remark(by=THIS_SERVER, trusted=True, at=outcome.at or "", text=outcome.sentence)
            known[name] = known[name].model_copy(update={"refuted": (*known[name].refuted, remark)})
    return known


def is_own(server: Server, result_id: str, team: str) -> bool:
    """Whether a result is a team's own: others neither say where it ran nor settle what it showed."""
    return team in owner_of_result(server.ledger.log, result_id, server.trust).teams


def recomputed_of(server: Server, names: Iterable[str]) -> dict[str, Recomputation]:
    """What this server itself made of the figures of results."""
    return server.recomputations.of(names)


def spoken_of(server: Server, names: Sequence[str]) -> list[Spoken]:
    """Everything that was said about these ids, in the log's order."""
    return _spoken(server, entries_about(server.ledger.log, names))


def entries_of_kind(server: Server, kinds: Sequence[str], limit: int, before: int | None = None) -> list[Spoken]:
    """The newest entries of kinds, or of those that stand before one, newest first."""
    return _spoken(server, newest_of_kind(server.ledger.log, kinds, limit, before))


def newest_entries(server: Server, limit: int, before: int | None = None) -> list[Spoken]:
    """The end of the log, newest first."""
    end = server.ledger.log.head().size if before is None else before
    return _spoken(server, server.ledger.log.read_all(range(max(0, end - limit), end))[::-1])


def _spoken(server: Server, entries: Sequence[Logged]) -> list[Spoken]:
    trust = server.trust
    return [Spoken(logged, voice_of(logged, trust)) for logged in entries]


@cached(EVERYTHING)
def known_kinds(server: Server) -> dict[str, int]:
    """How many entries of each kind there are."""
    chosen = select(entries.c.kind, func.count()).group_by(entries.c.kind)
    return {str(row[0]): int(row[1]) for row in server.ledger.log.database.rows(chosen)}


def document(server: Server, result_id: str) -> Result:
    """A result's document, checked against its entry."""
    return result_document(server.ledger, result_id)


def files_of(server: Server, result_id: str) -> ResultFiles:
    """A result with its samples and telemetry, laid out as the run left them."""
    result = document(server, result_id)
    with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
        folder = Path(temporary) / "run"
        try:
            lay_out(server.ledger, result_id, folder)
            processes = read_samples(check_samples(result, folder))
            telemetry = telemetry_in(folder)
        except (LynxbenchError, ValueError, MemoryError) as error:
            return ResultFiles(result, (), None, str(error) or type(error).__name__)
    return ResultFiles(result, processes, telemetry, None)


@cached(EVERYTHING)
def executor_ids(server: Server, limit: int = 100, after: int = 0) -> list[tuple[str, int, str]]:
    """Executors with how many results they have and the newest of them; `after` so many that are newer."""
    # The second of the newest is in an index, its text is not: that is read of those that are listed alone.
    newest = func.max(results.c.started_s)
    chosen = select(results.c.executor_id, func.count().label("many"), newest.label("newest_s"))
    listed = chosen.group_by(results.c.executor_id).order_by(newest.desc()).limit(limit).offset(after).subquery()
    text = (
        select(func.max(results.c.started_at))
        .where(results.c.executor_id == listed.c.executor_id, results.c.started_s == listed.c.newest_s)
        .scalar_subquery()
    )
    rows = server.ledger.log.database.rows(select(listed.c.executor_id, listed.c.many, text))
    return sorted(((str(row[0]), int(row[1]), str(row[2])) for row in rows), key=lambda row: row[2], reverse=True)


def machines_of(server: Server, executors: Iterable[str]) -> dict[str, str]:
    """By executor id, its device and driver in words; looked up once, as an id never means another machine."""
    return {name: words for name in set(executors) if (words := _machine_of(server, name))}


def _machine_of(server: Server, executor_id: str) -> str:
    def ask() -> tuple[str]:
        newest = list_results(server.ledger.log, Wanted(executor=executor_id, limit=1), readable=True)
        return (machine_name(server.ledger, newest[0]) if newest else "",)

    return server.cache.get(("machine", executor_id), (), ask)[0]


def result_with_executor(server: Server, executor_id: str) -> Result:
    """The newest result of an executor whose document is here: executors travel inside results."""
    last: LynxbenchError = NotFound(f"{executor_id[:12]}: no result of this executor")
    for listed in list_results(server.ledger.log, Wanted(executor=executor_id, limit=5), readable=True):
        try:
            return document(server, listed.result_id)
        except (BadInput, EvidenceInvalid) as error:
            last = error
    raise last


def doubted(server: Server, limit: int = 20) -> list[tuple[Spoken, str]]:
    """The newest contests and retractions, each with what it comes to: nobody retracts another team's result."""
    spoken = entries_of_kind(server, [EntryKind.CONTEST.value, EntryKind.RETRACTION.value], limit)
    return [(one, _comes_to(server, one)) for one in spoken]


def _comes_to(server: Server, spoken: Spoken) -> str:
    body = spoken.logged.entry.body
    if not isinstance(body, ResultRetracted):
        return "contested"
    owner = owner_of_result(server.ledger.log, body.result_id, server.trust)
    return taken_back(spoken.voice, owner) or "retraction without effect"
