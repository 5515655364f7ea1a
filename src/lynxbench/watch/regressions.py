"""Every new result held against what came before at the same place; a regression becomes one notice.

The place is the agent that ran it (with the node, where it works for a fleet), or the machine where nobody scheduled
it. What a result is held against stays the same until a better one comes or somebody accepts the new level: a slow
slide adds up and is seen. A doubtful result with which nothing can soundly be compared gives way to the next one.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select, update

from lynxbench.compare.pair import ComparedSide
from lynxbench.errors import BadInput, LynxbenchError
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.database import upsert
from lynxbench.ledger.ledger_tables import entries
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.result_standings import standings
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison, EffectVerdict
from lynxbench.model.entries import EntryKind, ResultRecorded
from lynxbench.model.precision import Precision
from lynxbench.model.result import ValidityVerdict
from lynxbench.record.comparing_results import compare_sides, side_of
from lynxbench.record.known_sittings import between_sittings
from lynxbench.record.recalling import lay_out, result_document
from lynxbench.watch.recomputations import Recomputations, RecomputationState
from lynxbench.watch.store import Store, fresh_id, now_text
from lynxbench.watch.store_tables import baselines, contacts, notices, outbox, properties

CURSOR = "judged_seq"
EVERYBODY = "*"
NOBODY = "nobody is named: nothing changed in the record"


@dataclass(frozen=True, slots=True)
class Notice:
    """A regression that was found, whose it is suspected to be, and whether it still is there."""

    notice: str
    contract_id: str
    contract_name: str
    place: str
    precision: str
    baseline_id: str
    result_id: str
    layer: str | None
    owner: str
    low: float | None
    estimate: float | None
    high: float | None
    sentence: str
    opened_at: str
    closed_at: str | None = None
    closed_by: str | None = None


@dataclass(frozen=True, slots=True)
class NoticeDelivery:
    """Whether and how the owner was told."""

    notice: str
    channel: str
    state: str
    attempts: int
    sent_at: str | None
    said: str


class Watch:
    """Judges new results, one after the other, in the order of the log."""

    def __init__(self, store: Store, ledger: OpenLedger, recomputations: Recomputations) -> None:
        self._store = store
        self._ledger = ledger
        self._recomputations = recomputations
        self._moved: set[str] = set()

    def moved(self) -> set[str]:
        """Contracts of which a notice was opened or closed since this was asked last: their pages show it."""
        moved, self._moved = self._moved, set()
        return moved

    def pending(self, limit: int = 50) -> list[int]:
        """Numbers of result entries that were not judged yet; a ledger that is new to this server starts at its end."""
        cursor = self._cursor()
        if cursor is None:
            self._move(self._ledger.log.head().size - 1)
            return []
        chosen = (
            select(entries.c.seq)
            .where(entries.c.seq > cursor, entries.c.kind == EntryKind.RESULT.value)
            .order_by(entries.c.seq)
            .limit(limit)
        )
        return [row.seq for row in self._ledger.log.database.rows(chosen)]

    def judge(self, seq: int, place: str | None, trust: TrustList) -> Notice | None:
        """Judge the result of one entry; the notice, where one was opened now."""
        body = self._ledger.log.read(seq).entry.body
        assert isinstance(body, ResultRecorded)
        where = f"agent {place}" if place else f"machine {short(body.instance_id)}"
        try:
            return self._judge(body, where, trust)
        finally:
            self._move(seq)

    def accept(self, notice: str, who: str) -> Notice:
        """The new level is the level from now on: the notice is closed, and results are held against its result."""
        opened = self.notice(notice)
        if opened.closed_at is not None:
            raise BadInput(f"this notice was closed at {opened.closed_at}")
        self._set_baseline(opened.contract_id, opened.place, opened.result_id, opened.result_id)
        self._close(opened.contract_id, opened.place, f"accepted by {who}"[:64])
        return self.notice(notice)

    def notice(self, notice: str) -> Notice:
        """One notice; NotFound where there is none."""
        chosen = select(notices).where(notices.c.notice == notice)
        return _notice(self._store.one(chosen, f"no notice {notice[:80]!r}"))

    def notices(self, *, contract_id: str | None = None, still: bool = False, limit: int = 100) -> list[Notice]:
        """Newest first; `still`: only those that are open."""
        chosen = select(notices).order_by(notices.c.opened_at.desc(), notices.c.notice).limit(limit)
        if contract_id is not None:
            chosen = chosen.where(notices.c.contract_id == contract_id)
        if still:
            chosen = chosen.where(notices.c.closed_at.is_(None))
        return [_notice(row) for row in self._store.rows(chosen)]

    def told(self, names: Sequence[str]) -> dict[str, list[NoticeDelivery]]:
        """Messages of notices; addresses stay where they are."""
        chosen = select(outbox).where(outbox.c.notice.in_(list(names))).order_by(outbox.c.number)
        deliveries: dict[str, list[NoticeDelivery]] = {name: [] for name in names}
        for row in self._store.rows(chosen):
            delivery = NoticeDelivery(row.notice, row.channel, row.state, row.attempts, row.sent_at, row.said)
            deliveries[row.notice].append(delivery)
        return deliveries

    def _judge(self, body: ResultRecorded, place: str, trust: TrustList) -> Notice | None:
        if self._recomputations.objection(body.result_id) is not None:
            return None  # figures that their own samples do not give are no level, and no change of one
        known = self._store.row(
            select(baselines).where(baselines.c.contract_id == body.contract_id, baselines.c.place == place)
        )
        if known is None:
            if body.validity is not ValidityVerdict.VOID:
                self._set_baseline(body.contract_id, place, body.result_id, body.result_id)
            return None
        if known.result_id == body.result_id or known.judged_id == body.result_id:
            return None
        standing = standings(self._ledger.log, [known.result_id], trust)[known.result_id]
        if standing.retracted or self._recomputations.objection(known.result_id) is not None:
            self._set_baseline(body.contract_id, place, body.result_id, body.result_id)
            return None
        comparison = self.compare(known.result_id, body.result_id, trust)
        unproven = comparison.verdict is EffectVerdict.UNPROVEN
        if unproven or comparison.refused or comparison.verdict is None:
            if comparison.a.validity != ValidityVerdict.VALID.value:  # nothing could ever be held against it
                self._set_baseline(body.contract_id, place, body.result_id, body.result_id)
            return None
        notice = None
        if comparison.verdict is EffectVerdict.REGRESSED:
            notice = self._open(body, place, known.result_id, comparison)
        elif comparison.verdict in (EffectVerdict.WITHIN_BUDGET, EffectVerdict.IMPROVED):
            self._close(body.contract_id, place, body.result_id)
        baseline = body.result_id if comparison.verdict is EffectVerdict.IMPROVED else known.result_id
        self._set_baseline(body.contract_id, place, baseline, body.result_id)
        return notice

    def compare(self, a: str, b: str, trust: TrustList, precision: Precision | None = None) -> Comparison:
        """B held against A, with their samples where they are at hand."""
        known = standings(self._ledger.log, [a, b], trust)
        with tempfile.TemporaryDirectory(prefix="lynxbench-") as temporary:
            sides: list[ComparedSide] = []
            for place, name in enumerate((a, b)):
                folder: Path | None = Path(temporary) / str(place)
                assert folder is not None
                try:
                    lay_out(self._ledger, name, folder)
                except LynxbenchError:  # an entry without samples still has its figures
                    folder = None
                result = result_document(self._ledger, name)
                side = side_of(result, folder=folder, standing=known[name], name=short(name))
                sides.append(self._with_objection(side))
            between = between_sittings(sides[0].result, sides[1].result, self._ledger, trust)
            return compare_sides(sides[0], sides[1], precision, between)

    def _with_objection(self, side: ComparedSide) -> ComparedSide:
        outcome = self._recomputations.objection(side.result.result_id)
        if outcome is None:
            return side
        if outcome.state is RecomputationState.REFUTED:
            return replace(side, refuted=outcome.sentence)
        return replace(side, not_recomputed=outcome.sentence)

    def _open(self, body: ResultRecorded, place: str, baseline: str, comparison: Comparison) -> Notice | None:
        assert comparison.effect is not None
        layer, owner, sentence = _suspect(comparison)
        notice = Notice(
            notice=fresh_id(),
            contract_id=body.contract_id,
            contract_name=body.contract_name,
            place=place,
            precision=comparison.precision.value if comparison.precision else "",
            baseline_id=baseline,
            result_id=body.result_id,
            layer=layer,
            owner=owner,
            low=comparison.effect.low,
            estimate=comparison.effect.estimate,
            high=comparison.effect.high,
            sentence=sentence,
            opened_at=now_text(),
        )
        open_key = f"{notice.contract_id}:{place}:{notice.precision}"[:200]
        with self._store.writing() as connection:
            if connection.execute(select(notices.c.notice).where(notices.c.open_key == open_key)).first() is not None:
                return None  # known, and told already
            connection.execute(insert(notices), [{**asdict(notice), "open_key": open_key}])
            messages = _messages(connection, notice)
            if messages:
                connection.execute(insert(outbox), messages)
        self._moved.add(body.contract_id)
        return notice

    def _close(self, contract_id: str, place: str, by: str) -> None:
        mine = notices.c.contract_id == contract_id, notices.c.place == place, notices.c.closed_at.is_(None)
        values = {"closed_at": now_text(), "closed_by": by, "open_key": None}
        open_there = self._store.row(select(notices.c.notice).where(*mine).limit(1)) is not None
        if open_there and self._store.change(update(notices).where(*mine).values(values)):
            self._moved.add(contract_id)

    def _set_baseline(self, contract_id: str, place: str, result_id: str, judged_id: str) -> None:
        key = {"contract_id": contract_id, "place": place}
        values = {"result_id": result_id, "judged_id": judged_id, "at": now_text()}
        with self._store.writing() as connection:
            upsert(connection, baselines, key, values)

    def _cursor(self) -> int | None:
        row = self._store.row(select(properties.c.value).where(properties.c.name == CURSOR))
        return None if row is None else int(row.value)

    def _move(self, seq: int) -> None:
        with self._store.writing() as connection:
            upsert(connection, properties, {"name": CURSOR}, {"value": str(seq)})


def _suspect(comparison: Comparison) -> tuple[str | None, str, str]:
    """Layer, owner and sentence: the one layer that changed, or the strongest suspect of several."""
    cause = comparison.cause
    sentence = cause.sentence if cause is not None else "nothing is known of the cause"
    if cause is not None and cause.layer is not None:
        return cause.layer.value, cause.owner or NOBODY, sentence
    if comparison.layers:
        first = min(comparison.layers, key=lambda difference: difference.rank)
        return first.layer.value, first.owner, sentence
    return None, NOBODY, sentence


def _messages(connection: Connection, notice: Notice) -> list[dict[str, object]]:
    reached = select(contacts.c.channel, contacts.c.address)
    rows = connection.execute(reached.where(contacts.c.owner == notice.owner)).all()
    rows = rows or connection.execute(reached.where(contacts.c.owner == EVERYBODY)).all()
    waiting = {"notice": notice.notice, "state": "pending", "attempts": 0, "next_at": now_text(), "said": ""}
    return [{**waiting, "channel": row.channel, "address": row.address} for row in rows]


def _notice(row: Any) -> Notice:
    return Notice(*(getattr(row, name) for name in Notice.__slots__))
