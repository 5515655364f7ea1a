"""Every new result held against the window of its place; a loss that is confirmed becomes one notice.

The place is the agent that ran it (with the node, where it works for a fleet), or the machine where nobody scheduled
it. A session that looks slow is measured again before anybody is told, and a notice rests on several sessions
(`level_rules`). The window stays where it is until somebody accepts a new level or a gain has shown over two weeks: a
slow slide adds up and is seen. A notice closes by sessions that are back, by acknowledgement, or by acceptance.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection, insert, select, update

from lynxbench.compare.effects import THROUGHPUT, leading_figure
from lynxbench.compare.precision_rules import SITTING_RULE
from lynxbench.errors import BadInput
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.database import upsert
from lynxbench.ledger.ledger_tables import entries
from lynxbench.ledger.location import OpenLedger
from lynxbench.ledger.log import Logged
from lynxbench.model.canonical import short
from lynxbench.model.comparison import Comparison, RuleVerdict
from lynxbench.model.entries import EntryKind
from lynxbench.model.evidence_gate import Lack, standing_falls_short
from lynxbench.model.precision import Precision
from lynxbench.model.result import Result
from lynxbench.record.recalling import sealed_document
from lynxbench.stats.sequential import SPANS, LevelJudgement, bound_of
from lynxbench.watch import level_rules
from lynxbench.watch.judging_round import JudgingRound, body_of
from lynxbench.watch.recomputations import Recomputations
from lynxbench.watch.recorded_comparisons import compare_recorded
from lynxbench.watch.session_book import ACCEPTED, GAINED, PlacePast, SessionBook, place_name
from lynxbench.watch.store import Store, fresh_id, now_text
from lynxbench.watch.store_tables import baselines, contacts, notices, outbox, properties
from lynxbench.watch.suspecting import suspected_in
from lynxbench.watch.watched_sessions import WatchedSession, WatchedStream, newest_stream

CURSOR = "judged_seq"
EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class Notice:
    """A regression that was found, whose it is suspected to be, and whether it still is there.

    `layer` is None where it is not one layer that changed; `owner` then names all whose layers did.
    """

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
    since: str | None = None
    """When the first of the slow sessions began."""
    confirmed_by: str | None = None
    """The result that confirmed it."""


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
    """Judges new results, one after the other, in the order of the log; `ask_again` has one measured again at once.

    `moment_of` says when a result counts as begun, where that is not when it began: a replay lays sessions of one day
    out as nights.
    """

    def __init__(
        self,
        store: Store,
        ledger: OpenLedger,
        recomputations: Recomputations,
        ask_again: Callable[[str], bool] | None = None,
        moment_of: Callable[[Result], str] | None = None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._recomputations = recomputations
        self._ask_again = ask_again
        self._book = SessionBook(store, ledger, moment_of)
        self._moved: set[str] = set()

    def moved(self) -> set[str]:
        """Contracts of which a notice was opened or closed since this was asked last: their pages show it."""
        moved, self._moved = self._moved, set()
        return moved

    def pending(self, limit: int = 50) -> list[int]:
        """Numbers of result entries that were not judged yet; a ledger that is new to this server starts at its end."""
        cursor = self._cursor()
        if cursor is None:
            with self._store.writing() as connection:
                _move(connection, self._ledger.log.head().size - 1)
            return []
        chosen = (
            select(entries.c.seq)
            .where(entries.c.seq > cursor, entries.c.kind == EntryKind.RESULT.value)
            .order_by(entries.c.seq)
            .limit(limit)
        )
        return [row.seq for row in self._ledger.log.database.rows(chosen)]

    def round_of(self, seqs: Sequence[int], trust: TrustList) -> JudgingRound:
        """What judging these entries one after the other needs to know of all of them."""
        return JudgingRound(self._ledger.log, self._recomputations, seqs, trust)

    def judge(self, seq: int, place: str | None, trust: TrustList) -> Notice | None:
        """Judge the result of one entry; the notice, where one was opened now."""
        among = self.round_of([seq], trust)
        return self.judge_among(among, among.entries[0], place)

    def judge_among(self, among: JudgingRound, logged: Logged, place: str | None) -> Notice | None:
        """The same of one entry of a round, which go in the order of the log."""
        body = body_of(logged)
        where = place_name(place, body.instance_id)
        typical: dict[str, str] = {}
        try:
            return self._judge(among, logged, where, typical)
        finally:
            with self._store.writing() as connection:
                if typical:
                    key = {"contract_id": body.contract_id, "place": where}
                    upsert(connection, baselines, key, {**typical, "judged_id": body.result_id, "at": now_text()})
                _move(connection, logged.seq)

    def accept(self, notice: str, who: str) -> Notice:
        """The new level is the level from now on: the notice is closed, and later results are held against it."""
        opened = self._unsettled(notice)
        self._book.begin_level(
            opened.contract_id, opened.place, opened.precision, ACCEPTED, who, opened.since, opened.result_id
        )
        self._close(opened, f"accepted by {who}"[:64], anew=True)
        return self.notice(notice)

    def acknowledge(self, notice: str, who: str) -> Notice:
        """Somebody knows: the notice is closed, the level stays, and nobody is told again until it has recovered."""
        opened = self._unsettled(notice)
        if opened.closed_at is not None:
            raise BadInput(f"this notice was {opened.closed_by} at {opened.closed_at}")
        self._close(opened, f"acknowledged by {who}"[:64], anew=False)
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

    def compare(self, a: str, b: str, trust: TrustList, precision: Precision | None = None) -> Comparison:
        """B held against A, with their samples where they are at hand."""
        return compare_recorded(self._ledger, self._recomputations, [a, b], trust, precision)[a, b]

    # --- judging ------------------------------------------------------------------------------------------------------

    def _judge(self, among: JudgingRound, logged: Logged, place: str, typical: dict[str, str]) -> Notice | None:
        """`typical` is told the result that its window is best shown by, where there is one."""
        body, trust = body_of(logged), among.trust
        if among.objected(body.result_id):
            return None  # figures that their own samples do not give are no level, and no change of one
        result = sealed_document(self._ledger, logged)
        standing = among.standing(body.result_id)
        if any(lacking.lack is not Lack.NOT_AGREED for lacking in standing_falls_short(result, standing)):
            return None  # nor is what nobody trusted signed, or what was taken back or refuted
        counted = self._book.counted(result)
        self._book.keep(result.contract, place, counted)
        past = self._book.past(result.contract_id, place) if counted else PlacePast({}, {})
        refused = among.refused(result.contract_id) if counted else set()
        notices_open = self._open_notices(result.contract_id, place, counted)
        opened = None
        for precision in counted:
            sessions = past.sessions(precision, refused)
            if not sessions or result.result_id not in sessions[-1].result_ids:
                continue  # one that came late says nothing of now
            stream = newest_stream(sessions)
            typical["result_id"] = stream.typical.result_id
            known = notices_open.get(precision)
            opened = self._look(result, place, precision, stream, sessions, known, trust) or opened
        return opened

    def _open_notices(self, contract_id: str, place: str, precisions: Iterable[Precision]) -> dict[Precision, Notice]:
        """Notices that are open for a place, by precision."""
        keys = {_open_key(contract_id, place, precision): precision for precision in precisions}
        if not keys:
            return {}
        rows = self._store.rows(select(notices).where(notices.c.open_key.in_(list(keys))))
        return {keys[row.open_key]: _notice(row) for row in rows}

    def _look(
        self,
        result: Result,
        place: str,
        precision: Precision,
        stream: WatchedStream,
        sessions: Sequence[WatchedSession],
        known: Notice | None,
        trust: TrustList,
    ) -> Notice | None:
        contract_id, budget = result.contract_id, result.contract.policy.regression
        streams, newest = stream.arrays(), stream.sessions[-1]
        judged = level_rules.judge_streams(streams, stream.looks)
        if known is not None:
            self._recover(known, stream, precision, budget)
            return None
        if level_rules.is_gain(judged, budget)[0]:
            self._gained(contract_id, place, precision, sessions)
        if len(newest.results) > 1:
            again = np.array([newest.results[-1].value - newest.value])
            if level_rules.is_confirmed(judged, again, budget)[0]:
                return self._open(result, place, precision, stream, judged, trust)
            if len(newest.results) < level_rules.MOST_RESULTS:
                self._ask(result, judged, budget)
            return None
        before = stream.without_newest()
        if level_rules.is_alarm(judged, budget)[0] and before.sessions:
            earlier = level_rules.judge_streams(before.arrays(), stream.looks)
            if level_rules.is_alarm(earlier, budget)[0]:  # nobody measured that one again: this session confirms it
                return self._open(result, place, precision, stream, judged, trust)
        self._ask(result, judged, budget)
        return None

    def _ask(self, result: Result, judged: LevelJudgement, budget: float) -> None:
        """Have a suspected session measured again, where somebody can be asked."""
        if self._ask_again is not None and level_rules.is_suspect(judged, budget)[0]:
            self._ask_again(result.result_id)

    def _recover(self, notice: Notice, stream: WatchedStream, precision: Precision, budget: float) -> None:
        """Close a notice where the sessions since then are back; the lost ones are no part of any window."""
        streams = stream.held_before(notice.since).arrays()
        told = np.array([abs(math.log(notice.estimate or 1.0))])
        after = np.array([stream.sessions_after(notice.result_id)])
        if level_rules.is_recovered(streams, told, after, budget)[0]:
            back = stream.sessions[-SPANS[0]].started_at
            self._book.leave_out(notice.contract_id, notice.place, precision, notice.since, back)
            self._close(notice, stream.sessions[-1].result_id, anew=True)

    def _gained(self, contract_id: str, place: str, precision: Precision, sessions: Sequence[WatchedSession]) -> None:
        """A new window begins with the next session, unless one is being gathered already."""
        known = self._book.levels(contract_id, place, precision)
        if any(level.fresh and level.since >= sessions[0].started_at for level in known):
            return
        newest = sessions[-1]
        since, by = newest.started_at, "a gain over two weeks"
        self._book.begin_level(contract_id, place, precision.value, GAINED, by, since, newest.result_id)

    # --- notices ------------------------------------------------------------------------------------------------------

    def _open(
        self,
        result: Result,
        place: str,
        precision: Precision,
        stream: WatchedStream,
        judged: LevelJudgement,
        trust: TrustList,
    ) -> Notice | None:
        baseline, loss = stream.typical.result_id, judged.loss
        if not _may_convict(self.compare(baseline, result.result_id, trust, precision)):
            return None
        began = max(stream.began(), 1)
        before, after = stream.sessions[began - 1], stream.sessions[began]
        lost = stream.newest_level(int(loss.span[0])) + level_rules.SUSPECT * float(judged.sigma[0])
        # one that lies half-way is not all of the loss: what changed after it may be the rest
        changed = after if after.value <= lost else stream.sessions[-1]
        suspected = suspected_in(self.compare(before.result_id, changed.result_id, trust, precision))
        change, reach = float(loss.change[0]), float(bound_of(loss, level_rules.SURE)[0])
        turned = 1 if leading_figure(result.contract) == THROUGHPUT else -1
        low, estimate, high = sorted(math.exp(turned * (change + part)) for part in (-reach, 0.0, reach))
        again = len(stream.sessions[-1].results) > 1
        how = f"measured again at once by {short(result.result_id)}" if again else "the next session shows it too"
        since = f"since {after.started_at[:16].replace('T', ' ')} UTC"
        notice = Notice(
            notice=fresh_id(),
            contract_id=result.contract_id,
            contract_name=result.contract.name,
            place=place,
            precision=precision.value,
            baseline_id=baseline,
            result_id=result.result_id,
            layer=suspected.layer,
            owner=suspected.owner,
            low=low,
            estimate=estimate,
            high=high,
            sentence=f"{since}, over {int(loss.span[0])} sessions, {how}; {suspected.sentence}",
            opened_at=now_text(),
            since=after.started_at,
            confirmed_by=result.result_id,
        )
        open_key = _open_key(notice.contract_id, place, precision)
        with self._store.writing() as connection:
            if connection.execute(select(notices.c.notice).where(notices.c.open_key == open_key)).first() is not None:
                return None  # known, and told already
            connection.execute(insert(notices), [{**asdict(notice), "open_key": open_key}])
            messages = _messages(connection, notice, suspected.owners)
            if messages:
                connection.execute(insert(outbox), messages)
        self._moved.add(notice.contract_id)
        return notice

    def _unsettled(self, notice: str) -> Notice:
        """A notice that may still be acknowledged or accepted."""
        row = self._store.one(select(notices).where(notices.c.notice == notice), f"no notice {notice[:80]!r}")
        if row.open_key is None:
            raise BadInput(f"this notice was closed at {row.closed_at}")
        return _notice(row)

    def _close(self, notice: Notice, by: str, *, anew: bool) -> None:
        """Close a notice where it is open; `anew`: another one may be opened for the same place."""
        mine = notices.c.notice == notice.notice
        values: dict[str, str | None] = {"open_key": None} if anew else {}
        if notice.closed_at is None:
            values |= {"closed_at": now_text(), "closed_by": by}
        self._store.change(update(notices).where(mine).values(values))
        self._moved.add(notice.contract_id)

    def _cursor(self) -> int | None:
        row = self._store.row(select(properties.c.value).where(properties.c.name == CURSOR))
        return None if row is None else int(row.value)


def _move(connection: Connection, seq: int) -> None:
    upsert(connection, properties, {"name": CURSOR}, {"value": str(seq)})


def _open_key(contract_id: str, place: str, precision: Precision) -> str:
    return f"{contract_id}:{place}:{precision.value}"[:200]


def _may_convict(comparison: Comparison) -> bool:
    """Whether they measure the same thing and both may carry a verdict; how sittings differ, the window knows."""
    doubted = (rule for rule in comparison.rules if rule.outcome is RuleVerdict.DOUBTS)
    return not comparison.refused and all(rule.rule == SITTING_RULE for rule in doubted)


def _messages(connection: Connection, notice: Notice, owners: Sequence[str]) -> list[dict[str, object]]:
    """To every owner once, by each address of theirs; who has none is reached as everybody is."""
    known = connection.execute(select(contacts)).all()
    reached: dict[tuple[str, str], None] = {}
    for owner in owners:
        mine = [row for row in known if row.owner == owner] or [row for row in known if row.owner == EVERYBODY]
        reached |= {(row.channel, row.address): None for row in mine}
    waiting = {"notice": notice.notice, "state": "pending", "attempts": 0, "next_at": now_text(), "said": ""}
    return [{**waiting, "channel": channel, "address": address} for channel, address in reached]


def _notice(row: Any) -> Notice:
    return Notice(*(getattr(row, name) for name in Notice.__slots__))
