"""What this server itself made of each result: its figures computed again from its samples, or why they were not.

The server's own word, kept in its own tables. What waits is known from the log and three marks alone, so that a restart
forgets nothing and a flood of results costs no memory. A new result is taken twice: first its figures from its samples,
which is quick, then everything that `verify` asks of its whole folder.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, bindparam, func, select

from lynxbench import __version__
from lynxbench.ledger.database import upsert
from lynxbench.ledger.ledger_tables import results
from lynxbench.ledger.log import Ledger, batched
from lynxbench.watch.store import Store, now_text
from lynxbench.watch.store_tables import properties, recomputations

FIGURES, WHOLE, OLDER = "figures_recomputed_to", "wholly_recomputed_to", "older_recomputed_to"
"""Numbers in the log. What came since the server knows this ledger is taken upwards from the first two; what was there
before, downwards from the third, the newest first."""
MOST_LINES = 20
MOST_LINE = 400


class RecomputationState(StrEnum):
    """What came of recomputing a result."""

    PENDING = "pending"
    HOLDS = "holds"
    REFUTED = "refuted"
    CANNOT = "cannot"


WORDS = {
    RecomputationState.PENDING: "not recomputed here",
    RecomputationState.HOLDS: "recomputed here",
    RecomputationState.REFUTED: "refuted here",
    RecomputationState.CANNOT: "could not be recomputed here",
}


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What the server says of one result's figures."""

    state: RecomputationState
    lines: tuple[str, ...] = ()
    """What does not hold, each stated against recomputed; why nothing could be computed; or what was."""
    at: str | None = None
    program: str | None = None
    """Which version of lynxbench computed it."""

    @property
    def word(self) -> str:
        """For a list."""
        return WORDS[self.state]

    @property
    def sentence(self) -> str:
        """One line for people."""
        if self.state is RecomputationState.PENDING:
            return f"{self.word}: the figures are as they were submitted"
        more = f" (and {len(self.lines) - 1} more)" if len(self.lines) > 1 else ""
        return f"{self.word}: {self.lines[0]}{more}" if self.lines else self.word


OBJECTIONS = (RecomputationState.REFUTED, RecomputationState.CANNOT)
NOT_YET = Recomputation(RecomputationState.PENDING)


@dataclass(frozen=True, slots=True)
class DueResult:
    """A result that is to be recomputed next."""

    seq: int
    result_id: str
    contract_id: str
    mark: str
    """Which of the marks moves on with it."""

    @property
    def whole(self) -> bool:
        """Whether all of it is to be verified, or its figures alone."""
        return self.mark != FIGURES

    @property
    def urgent(self) -> bool:
        """What was there before the server knew this ledger is no hurry."""
        return self.mark != OLDER


class Recomputations:
    """Outcomes by result, and what is to be recomputed next."""

    def __init__(self, store: Store, log: Ledger) -> None:
        self._store, self._log = store, log
        if self._marks() is None:  # a ledger that is new to this server
            end = log.head().size
            with store.writing() as connection:
                for mark, seq in ((FIGURES, end - 1), (WHOLE, end - 1), (OLDER, end)):
                    _move(connection, mark, seq)

    def of(self, names: Iterable[str]) -> dict[str, Recomputation]:
        """The outcome of each of these results."""
        wanted = list(dict.fromkeys(names))
        known = dict.fromkeys(wanted, NOT_YET)
        with self._store.reading() as connection:
            for some in batched(wanted):
                for row in connection.execute(_OUTCOMES, {"names": some}):
                    state, lines = RecomputationState(row.state), tuple(json.loads(row.said))
                    known[row.result_id] = Recomputation(state, lines, row.at, row.program)
        return known

    def objection(self, result_id: str) -> Recomputation | None:
        """What speaks against resting anything on a result: it was refuted, or nobody could recompute it."""
        outcome = self.of([result_id])[result_id]
        return outcome if outcome.state in OBJECTIONS else None

    def objected(self, contract_id: str) -> set[str]:
        """Results of a contract that nothing may rest on: refuted here, or not to be recomputed."""
        rows = self._store.rows(_OBJECTED.where(recomputations.c.contract_id == contract_id))
        return {str(row.result_id) for row in rows}

    def refuted(self, contract_id: str) -> dict[str, str]:
        """Results of a contract that their own samples refute, each with what does."""
        chosen = select(recomputations.c.result_id).where(
            recomputations.c.contract_id == contract_id, recomputations.c.state == RecomputationState.REFUTED.value
        )
        names = [row.result_id for row in self._store.rows(chosen)]
        return {name: outcome.sentence for name, outcome in self.of(names).items()}

    def newest_refuted(self, limit: int) -> list[tuple[str, Recomputation]]:
        """The last results that were refuted, newest first."""
        refuted = recomputations.c.state == RecomputationState.REFUTED.value
        chosen = select(recomputations.c.result_id).where(refuted).order_by(recomputations.c.at.desc()).limit(limit)
        return list(self.of([row.result_id for row in self._store.rows(chosen)]).items())

    def due(self) -> DueResult | None:
        """What is to be recomputed next: figures of new results, then the whole of them, then older results."""
        return next(iter(self.due_together(1)), None)

    def due_together(self, most: int, *, figures_alone: bool = False) -> list[DueResult]:
        """The same, with others whose figures are due as well, where those are what is next, or nothing else may be."""
        while True:
            marks = self._marks()
            assert marks is not None
            due: list[DueResult] = []
            for mark in (FIGURES,) if figures_alone else (FIGURES, WHOLE, OLDER):
                due = due or self._next(mark, marks[mark], most if mark == FIGURES else 1)
            if not due:
                return []
            known = self.of(result.result_id for result in due)
            for count, result in enumerate(due):  # recorded twice, or refuted by its figures already
                state = known[result.result_id].state
                done = state is not RecomputationState.PENDING
                if done and not (result.mark == WHOLE and state is RecomputationState.HOLDS):
                    due = due[:count]
                    break
            if due:
                return due
            with self._store.writing() as connection:
                _move(connection, result.mark, result.seq)

    def awaited(self, seq: int, result_id: str) -> bool:
        """Whether a result of the log has no outcome yet, and soon will have."""
        return seq in self.awaited_among({seq: result_id})

    def awaited_among(self, names: Mapping[int, str]) -> set[int]:
        """The same of several results by their numbers: those that have no outcome yet, and soon will have."""
        marks = self._marks()
        later = {} if marks is None else {seq: name for seq, name in names.items() if seq > marks[WHOLE]}
        if not later:
            return set()
        known = self.of(later.values())
        return {seq for seq, name in later.items() if known[name].state is RecomputationState.PENDING}

    def reached(self, mark: str = FIGURES) -> int:
        """The number up to which new results were recomputed, their figures or the whole of them."""
        marks = self._marks()
        return -1 if marks is None else marks[mark]

    def keep(self, due: DueResult, state: RecomputationState, lines: Sequence[str]) -> None:
        """What came of one, and the next one is due; where samples alone do not give the figures, the whole decides."""
        self.keep_all([(due, state, lines)])

    def keep_all(self, outcomes: Sequence[tuple[DueResult, RecomputationState, Sequence[str]]]) -> None:
        """The same of several, in the order in which they were due."""
        if not outcomes:
            return
        with self._store.writing() as connection:
            for due, state, lines in outcomes:
                values = {
                    "contract_id": due.contract_id,
                    "state": state.value,
                    "said": json.dumps([line[:MOST_LINE] for line in lines[:MOST_LINES]]),
                    "at": now_text(),
                    "program": __version__[:40],
                }
                if due.whole or state is not RecomputationState.CANNOT:
                    upsert(connection, recomputations, {"result_id": due.result_id}, values)
            last = outcomes[-1][0]
            _move(connection, last.mark, last.seq)

    def counts(self) -> dict[str, float]:
        """How many results there are of each outcome."""
        chosen = select(recomputations.c.state, func.count()).group_by(recomputations.c.state)
        known = {str(row[0]): float(row[1]) for row in self._store.rows(chosen)}
        return {state.value: known.get(state.value, 0.0) for state in list(RecomputationState)[1:]}

    def _next(self, mark: str, seq: int, most: int) -> list[DueResult]:
        columns = select(results.c.seq, results.c.result_id, results.c.contract_id).limit(most)
        if mark == OLDER:
            chosen = columns.where(results.c.seq < seq).order_by(results.c.seq.desc())
        else:
            chosen = columns.where(results.c.seq > seq).order_by(results.c.seq)
        rows = self._log.database.rows(chosen)
        return [DueResult(int(row.seq), str(row.result_id), str(row.contract_id), mark) for row in rows]

    def _marks(self) -> dict[str, int] | None:
        rows = self._store.rows(_MARKED)
        return {row.name: int(row.value) for row in rows} if len(rows) == len(_MARKS) else None


# built once: the database layer remembers how each of them is compiled
_MARKS = (FIGURES, WHOLE, OLDER)
_MARKED = select(properties).where(properties.c.name.in_(_MARKS))
_OUTCOMES = select(recomputations).where(recomputations.c.result_id.in_(bindparam("names", expanding=True)))
_OBJECTED = select(recomputations.c.result_id).where(recomputations.c.state.in_([state.value for state in OBJECTIONS]))


def _move(connection: Connection, mark: str, seq: int) -> None:
    upsert(connection, properties, {"name": mark}, {"value": str(seq)})
