"""The watch's book: which results count at a place, and where each level begins. Kept in the server's own tables."""

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import delete, insert, select

from lynxbench.compare.effects import THROUGHPUT, leading_figure, percentile_of
from lynxbench.errors import LynxbenchError
from lynxbench.ledger.database import upsert
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.queries import Wanted, find_results, list_results
from lynxbench.model.canonical import short
from lynxbench.model.contract import Contract
from lynxbench.model.evidence_gate import Lack, figures_fall_short
from lynxbench.model.precision import Precision
from lynxbench.model.result import PrecisionResult, Result
from lynxbench.record.recalling import sealed_document
from lynxbench.watch.schedules import ScheduledRun
from lynxbench.watch.store import Store, now_text
from lynxbench.watch.store_tables import levels, runs, watched
from lynxbench.watch.watched_sessions import AcceptedLevel, WatchedResult, WatchedSession, sessions_of, since_level

ACCEPTED, GAINED = "accepted", "gained"
EVERY_PRECISION = ""
"""Of a level that was accepted for all of a place."""
MOST_READ = 400
"""Results of a contract's past that are read when a place is new to the book: more than a year of nights."""


def counted_results(result: Result) -> dict[Precision, WatchedResult]:
    """The leading figure at each precision whose evidence carries a verdict; an emulated one is held against itself."""
    counted = ((part.precision, _counted(result, part)) for part in result.per_precision if part.skipped is None)
    return {precision: watched_result for precision, watched_result in counted if watched_result is not None}


def _counted(result: Result, part: PrecisionResult) -> WatchedResult | None:
    if any(lacking.lack is not Lack.EMULATED for lacking in figures_fall_short(result, part)):
        return None
    if leading_figure(result.contract) != THROUGHPUT:
        latency = percentile_of(result, part.precision, result.contract)
        if not latency:
            return None
        return WatchedResult(result.result_id, result.executor_id, result.started_at, -math.log(latency), 1, 0.0)
    if not part.run_means or min(part.run_means) <= 0:
        return None
    logs = np.log(part.run_means)
    scatter = float(np.sum((logs - logs.mean()) ** 2))
    mean = float(logs.mean())
    return WatchedResult(result.result_id, result.executor_id, result.started_at, mean, logs.size, scatter)


def place_name(scheduled: str | None, instance_id: str) -> str:
    """Where a result was measured: the agent with its node, or the machine where nobody scheduled it."""
    return f"agent {scheduled}" if scheduled else f"machine {short(instance_id)}"


@dataclass(frozen=True, slots=True)
class PlacePast:
    """What counts at a place, and where its levels begin, by precision."""

    results: Mapping[str, Sequence[WatchedResult]]
    levels: Mapping[str, Sequence[AcceptedLevel]]

    def sessions(self, precision: Precision, refused: Container[str]) -> list[WatchedSession]:
        """Sessions of the level in force at one precision, without results that are refused."""
        counted = [result for result in self.results.get(precision.value, ()) if result.result_id not in refused]
        begun = [*self.levels.get(EVERY_PRECISION, ()), *self.levels.get(precision.value, ())]
        return since_level(sessions_of(counted), begun)


class SessionBook:
    """Results by contract and place."""

    def __init__(self, store: Store, ledger: OpenLedger, moment_of: Callable[[Result], str] | None = None) -> None:
        self._store, self._ledger, self._moment_of = store, ledger, moment_of

    def counted(self, result: Result) -> dict[Precision, WatchedResult]:
        """What counts of a result, at the moment that it counts for."""
        counted = counted_results(result)
        if self._moment_of is None:
            return counted
        moment = self._moment_of(result)
        return {precision: replace(watched_result, started_at=moment) for precision, watched_result in counted.items()}

    def keep(self, contract: Contract, place: str, counted: Mapping[Precision, WatchedResult]) -> None:
        """Write a result down; where the place is new to the book, what the ledger has of it goes first."""
        if not counted:  # a place of which nothing counts stays new: its past is not read again with every result
            return
        here = watched.c.contract_id == contract.contract_id, watched.c.place == place
        if self._store.row(select(watched.c.result_id).where(*here).limit(1)) is None:
            self._read_past(contract, place)
        self._write(contract.contract_id, place, counted)

    def past(self, contract_id: str, place: str) -> PlacePast:
        """What counts there at every precision, oldest first, and where levels begin."""
        here = watched.c.contract_id == contract_id, watched.c.place == place
        rows = self._store.rows(select(watched).where(*here).order_by(watched.c.started_at, watched.c.result_id))
        results: dict[str, list[WatchedResult]] = {}
        for row in rows:
            result = WatchedResult(*(getattr(row, name) for name in WatchedResult.__slots__))
            results.setdefault(row.precision, []).append(result)
        return PlacePast(results, self._levels(contract_id, place))

    def levels(self, contract_id: str, place: str, precision: Precision) -> list[AcceptedLevel]:
        """Where levels begin; one that is known by a result begins with it."""
        known = self._levels(contract_id, place)
        return [*known.get(EVERY_PRECISION, []), *known.get(precision.value, [])]

    def _levels(self, contract_id: str, place: str) -> dict[str, list[AcceptedLevel]]:
        here = levels.c.contract_id == contract_id, levels.c.place == place
        begun: dict[str, list[AcceptedLevel]] = {}
        for row in self._store.rows(select(levels).where(*here)):
            since = row.since or self._started(row.result_id)
            if since is not None:
                begun.setdefault(row.precision, []).append(AcceptedLevel(since, fresh=row.kind == GAINED))
        return begun

    def begin_level(
        self, contract_id: str, place: str, precision: str, kind: str, by: str, since: str | None, result_id: str
    ) -> None:
        """A new level begins."""
        values = {"contract_id": contract_id, "place": place, "precision": precision, "kind": kind, "by": by[:120]}
        with self._store.writing() as connection:
            row = {**values, "since": since, "result_id": result_id, "at": now_text()}
            connection.execute(insert(levels), [row])

    def leave_out(self, contract_id: str, place: str, precision: Precision, since: str | None, until: str) -> None:
        """What was measured in between is no session any more; the ledger has it."""
        if since is None:
            return
        here = watched.c.contract_id == contract_id, watched.c.place == place, watched.c.precision == precision.value
        lost = watched.c.started_at >= since, watched.c.started_at < until
        self._store.change(delete(watched).where(*here, *lost))

    def _started(self, result_id: str | None) -> str | None:
        row = self._store.row(select(watched.c.started_at).where(watched.c.result_id == result_id).limit(1))
        return None if row is None else str(row.started_at)

    def _write(self, contract_id: str, place: str, counted: Mapping[Precision, WatchedResult]) -> None:
        with self._store.writing() as connection:
            for precision, result in counted.items():
                key = {"result_id": result.result_id, "precision": precision.value}
                figures = {name: getattr(result, name) for name in WatchedResult.__slots__ if name != "result_id"}
                upsert(connection, watched, key, {"contract_id": contract_id, "place": place, **figures})

    def _read_past(self, contract: Contract, place: str) -> None:
        """What was recorded there before the book was kept."""
        listed = list_results(self._ledger.log, Wanted(contract=contract.contract_id, limit=MOST_READ), readable=True)
        scheduled = self._scheduled(contract.contract_id)
        here = [
            each.result_id for each in listed if place_name(scheduled.get(each.result_id), each.instance_id) == place
        ]
        for result in self._documents(here):
            self._write(contract.contract_id, place, self.counted(result))

    def _scheduled(self, contract_id: str) -> dict[str, str]:
        chosen = select(runs).where(runs.c.contract_id == contract_id, runs.c.result_id.is_not(None))
        scheduled = (ScheduledRun(*row) for row in self._store.rows(chosen))
        return {str(run.result_id): run.place for run in scheduled}

    def _documents(self, names: Sequence[str]) -> Iterable[Result]:
        for recorded in find_results(self._ledger.log, names).values():
            try:
                yield sealed_document(self._ledger, recorded)
            except LynxbenchError:
                continue  # what cannot be read is no level
