"""Schedules, the agents that poll for them, and every time one was due: run, missed, or kept from overlapping."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from lynxbench.errors import BadInput, Refused
from lynxbench.ledger.database import upsert
from lynxbench.ledger.log import batched
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.contract import Contract
from lynxbench.watch.store import Store, fresh_id, later_text, now_text
from lynxbench.watch.store_tables import agents, runs, schedules
from lynxbench.watch.timetable import parse_timetable, slots_between

LEASE_S = 120.0
"""An agent that says nothing for so long has lost its run; it says something every second or two."""
NAME_FORM = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
MOST_SAID = 2000
MOST_AGENTS = 100


class RunState(StrEnum):
    """What became of one time that a schedule was due."""

    ASKED = "asked"
    """A loss is suspected: to be measured again by whoever measured it, as soon as it comes."""
    CLAIMED = "claimed"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    LOST = "lost"
    """The agent fell silent."""
    MISSED = "missed"
    """Nobody came before the next time was due."""
    OVERLAP = "overlap"
    """The run before it was still going, so it was not started."""


ASKED_S = 6 * 3600.0
"""What was asked for is worth no more once its sitting is over."""
ACTIVE = (RunState.CLAIMED.value, RunState.RUNNING.value)


@dataclass(frozen=True, slots=True)
class Schedule:
    """One contract on a timetable."""

    name: str
    team: str
    timetable: str
    contract_id: str
    contract: dict[str, Any]
    agents: tuple[str, ...]
    """Which agents run it; empty: every agent of the team."""
    made_at: str
    made_by: str
    paused_at: str | None


@dataclass(frozen=True, slots=True)
class RegisteredAgent:
    """A machine that polls."""

    name: str
    team: str
    first_seen_at: str
    last_seen_at: str
    version: str


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One time that a schedule was due on one agent."""

    run: str
    schedule: str
    agent: str
    contract_id: str
    due_at: str
    state: str
    claimed_at: str | None = None
    lease_until: str | None = None
    ended_at: str | None = None
    result_id: str | None = None
    said: str = ""
    node: str | None = None
    """Of the agent's fleet, where it works for one."""
    confirms: str | None = None
    """The result that is measured again."""

    @property
    def place(self) -> str:
        """Where it runs: results of one place are held against each other."""
        return self.agent if self.node is None else f"{self.agent}/{self.node}"


_OF_RESULTS = select(runs).where(runs.c.result_id.in_(bindparam("names", expanding=True)))


class Scheduler:
    """The timetable's book."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # --- schedules ----------------------------------------------------------------------------------------------------

    def put(
        self, name: str, team: str, timetable: str, contract: Contract, who: str, named: Sequence[str] = ()
    ) -> Schedule:
        """Add a schedule, or change the team's own."""
        _refuse_name(name, "schedule")
        for agent in named:
            _refuse_name(agent, "agent")
        if len(named) > MOST_AGENTS:
            raise BadInput(f"a schedule names at most {MOST_AGENTS} agents; leave them out for all of the team")
        parse_timetable(timetable)
        values = {
            "team": team,
            "timetable": " ".join(timetable.split()),
            "contract_id": contract.contract_id,
            "contract": canonical_bytes(contract.canonical()).decode(),  # type: ignore[arg-type]
            "agents": json.dumps(list(dict.fromkeys(named))),
            "made_by": who,
            "paused_at": None,
        }
        with self._store.writing() as connection:
            known = connection.execute(select(schedules.c.team).where(schedules.c.name == name)).first()
            if known is not None and known.team != team:
                raise Refused(f"schedule {name} is of team {known.team}")
            others = select(agents).where(agents.c.name.in_(named), agents.c.team != team).order_by(agents.c.name)
            theirs = connection.execute(others.limit(1)).first()
            if theirs is not None:  # it would never come, and be called missing
                raise Refused(f"agent {theirs.name} is of team {theirs.team}")
            upsert(connection, schedules, {"name": name}, values, {"made_at": now_text()})
        return self.get(name)

    def get(self, name: str) -> Schedule:
        """One schedule; NotFound where there is none."""
        return _schedule(
            self._store.one(select(schedules).where(schedules.c.name == name), f"no schedule {name[:80]!r}")
        )

    def schedules(self) -> list[Schedule]:
        """All of them, by name."""
        return [_schedule(row) for row in self._store.rows(select(schedules).order_by(schedules.c.name))]

    def remove(self, name: str, team: str) -> None:
        """Take a team's schedule away; its runs stay in the book."""
        if self.get(name).team != team:
            raise Refused(f"schedule {name} is of team {self.get(name).team}")
        self._store.change(delete(schedules).where(schedules.c.name == name))

    def pause(self, name: str, paused: bool) -> None:
        """Stop a schedule for now, or let it go on from now."""
        self.get(name)
        at = now_text() if paused else None
        self._store.change(update(schedules).where(schedules.c.name == name).values(paused_at=at))

    def agents(self) -> list[RegisteredAgent]:
        """Every agent that ever polled."""
        return [RegisteredAgent(*row) for row in self._store.rows(select(agents).order_by(agents.c.name))]

    # --- running ------------------------------------------------------------------------------------------------------

    def poll(
        self, agent: str, team: str, version: str, now: datetime | None = None, *, places: int = 1
    ) -> tuple[ScheduledRun, Schedule] | None:
        """What an agent is to do now, claimed for it; None where nothing is due, or it has as many runs as places."""
        _refuse_name(agent, "agent")
        moment = now or datetime.now(UTC)
        with self._store.writing() as connection:
            self._greet(connection, agent, team, version, moment)
            _expire(connection, moment)
            going = connection.execute(
                select(func.count()).select_from(runs).where(runs.c.agent == agent, runs.c.state.in_(ACTIVE))
            ).scalar_one()
            known = [_schedule(row) for row in connection.execute(select(schedules).order_by(schedules.c.name)).all()]
            mine = [schedule for schedule in known if schedule.team == team and not schedule.paused_at]
            if going < places and (asked := _asked(connection, mine, agent, moment)) is not None:
                return asked
            for schedule in mine:
                if schedule.agents and agent not in schedule.agents:
                    continue
                claimed = _settle(connection, schedule, agent, moment, claim=going < places)
                if claimed is not None:
                    return claimed, schedule
        return None

    def beat(self, run: str, team: str, now: datetime | None = None, *, node: str | None = None) -> ScheduledRun:
        """The agent lives: its claim holds for another while; `node` says where in its fleet the run now is."""
        state = self.own(run, team).state
        if state not in ACTIVE:
            raise Refused(f"run {run} is {state}; it takes no further word")
        where = {} if node is None else {"node": node}
        return self._change(run, lease_until=later_text(LEASE_S, now), state=RunState.RUNNING.value, **where)

    def end(self, run: str, team: str, state: RunState, said: str, result_id: str | None) -> ScheduledRun:
        """What came of a run. The same word again changes nothing; another word is refused."""
        if state not in (RunState.DONE, RunState.FAILED):
            raise BadInput(f"a run ends {RunState.DONE} or {RunState.FAILED}, not {state}")
        known = self.own(run, team)
        if known.state == state.value:
            return known
        if known.state not in (*ACTIVE, RunState.LOST.value):
            raise Refused(f"run {run} is {known.state} already")
        result = {} if result_id is None else {"result_id": result_id}
        return self._change(run, state=state.value, ended_at=now_text(), said=said[:MOST_SAID], **result)

    def attach(self, run: str, team: str, result_id: str) -> None:
        """The result of a run has come in."""
        self.own(run, team)
        self._change(run, result_id=result_id)

    def ask_again(self, result_id: str, now: datetime | None = None) -> bool:
        """Have the agent that measured a result do so again at once; False where nobody can be asked, or was."""
        moment = now or datetime.now(UTC)
        with self._store.writing() as connection:
            row = connection.execute(select(runs).where(runs.c.result_id == result_id).limit(1)).first()
            if row is None or _confirms_again(connection, row):
                return False
            if connection.execute(select(runs.c.run).where(runs.c.confirms == result_id).limit(1)).first() is not None:
                return False
            run = ScheduledRun(
                fresh_id(),
                row.schedule,
                row.agent,
                row.contract_id,
                now_text(moment),
                RunState.ASKED.value,
                said=f"measures {result_id[:12]} again: a loss is suspected",
                confirms=result_id,
            )
            connection.execute(insert(runs), [asdict(run)])
        return True

    def place_of(self, result_id: str) -> str | None:
        """Which agent, and which node of its fleet, a result came from, where it was scheduled."""
        return self.places_of([result_id]).get(result_id)

    def places_of(self, names: Sequence[str]) -> dict[str, str]:
        """The same of several, where they were scheduled."""
        found: dict[str, str] = {}
        with self._store.reading() as connection:
            for some in batched(names):
                for row in connection.execute(_OF_RESULTS, {"names": some}):
                    run = ScheduledRun(*row)
                    found.setdefault(str(run.result_id), run.place)
        return found

    def last_node(self, schedule: str, agent: str) -> str | None:
        """The node that an agent's fleet last finished a schedule on: its history goes on there."""
        mine = runs.c.schedule == schedule, runs.c.agent == agent, runs.c.state == RunState.DONE.value
        chosen = select(runs.c.node).where(*mine, runs.c.node.is_not(None)).order_by(runs.c.due_at.desc()).limit(1)
        row = self._store.row(chosen)
        return None if row is None else str(row.node)

    def sweep(self, now: datetime | None = None) -> int:
        """Write down what was missed since nobody came; how many rows the book has more."""
        moment = now or datetime.now(UTC)
        with self._store.writing() as connection:
            before = connection.execute(select(func.count()).select_from(runs)).scalar_one()
            _expire(connection, moment)
            known = connection.execute(select(agents)).all()
            for row in connection.execute(select(schedules).where(schedules.c.paused_at.is_(None))).all():
                schedule = _schedule(row)
                for agent in schedule.agents or [agent.name for agent in known if agent.team == schedule.team]:
                    _settle(connection, schedule, agent, moment, claim=False)
            return int(connection.execute(select(func.count()).select_from(runs)).scalar_one()) - int(before)

    def run(self, run: str) -> ScheduledRun:
        """One run; NotFound where there is none."""
        return ScheduledRun(*self._store.one(select(runs).where(runs.c.run == run), f"no run {run[:80]!r}"))

    def own(self, run: str, team: str) -> ScheduledRun:
        """A run of a team; Refused where it is another's."""
        scheduled = self.run(run)
        owner = self._store.row(select(agents.c.team).where(agents.c.name == scheduled.agent))
        if owner is None or owner.team != team:
            raise Refused(f"run {run} is of another team")
        return scheduled

    def runs(self, *, limit: int = 100, active: bool = False) -> list[ScheduledRun]:
        """The newest first, or those that are going on now."""
        chosen = select(runs).order_by(runs.c.due_at.desc(), runs.c.run).limit(limit)
        if active:
            chosen = chosen.where(runs.c.state.in_(ACTIVE))
        return [ScheduledRun(*row) for row in self._store.rows(chosen)]

    def counts(self) -> dict[str, int]:
        """Runs by state."""
        chosen = select(runs.c.state, func.count()).group_by(runs.c.state)
        return {str(state): int(many) for state, many in self._store.rows(chosen)}

    def _greet(self, connection: Connection, agent: str, team: str, version: str, moment: datetime) -> None:
        known = connection.execute(select(agents.c.team).where(agents.c.name == agent)).first()
        if known is not None and known.team != team:
            raise Refused(f"agent {agent} is of team {known.team}; choose another name")
        values = {"last_seen_at": now_text(moment), "version": version[:40]}
        upsert(connection, agents, {"name": agent}, values, {"team": team, "first_seen_at": now_text(moment)})

    def _change(self, run: str, **values: str) -> ScheduledRun:
        self._store.change(update(runs).where(runs.c.run == run).values(values))
        return self.run(run)


def _settle(
    connection: Connection, schedule: Schedule, agent: str, moment: datetime, *, claim: bool
) -> ScheduledRun | None:
    """Account for every time that was due since the last one in the book; claim the newest where that is asked."""
    mine = (runs.c.schedule == schedule.name, runs.c.agent == agent)
    last = connection.execute(select(func.max(runs.c.due_at)).where(*mine)).scalar()
    active = connection.execute(select(runs.c.run).where(*mine, runs.c.state.in_(ACTIVE)).limit(1)).first()
    since = datetime.fromisoformat(max(filter(None, (last, schedule.made_at))))
    at, claimed = now_text(moment), None
    for place, slot in enumerate(list(slots_between(parse_timetable(schedule.timetable), since, moment))):
        run = ScheduledRun(
            fresh_id(), schedule.name, agent, schedule.contract_id, now_text(slot), RunState.MISSED.value
        )
        if active is not None:
            run = replace(run, state=RunState.OVERLAP.value, ended_at=at, said=f"run {active.run} was still going")
        elif place == 0 and claim:
            lease = later_text(LEASE_S, moment)
            claimed = run = replace(run, state=RunState.CLAIMED.value, claimed_at=at, lease_until=lease)
        elif place == 0:
            continue  # somebody may still come before the next time is due
        else:
            run = replace(run, ended_at=at, said=f"{agent} did not come before the next time was due")
        connection.execute(insert(runs), [asdict(run)])
    return claimed


def _confirms_again(connection: Connection, row: Any) -> bool:
    """Whether a run measured again what had been measured again: then that is enough."""
    if row.confirms is None:
        return False
    before = connection.execute(select(runs.c.confirms).where(runs.c.result_id == row.confirms).limit(1)).first()
    return before is not None and before.confirms is not None


def _asked(
    connection: Connection, known: Sequence[Schedule], agent: str, moment: datetime
) -> tuple[ScheduledRun, Schedule] | None:
    """What an agent is asked to measure again, claimed for it; the oldest first."""
    by_name = {schedule.name: schedule for schedule in known}
    waiting = select(runs).where(runs.c.agent == agent, runs.c.state == RunState.ASKED.value).order_by(runs.c.due_at)
    for row in connection.execute(waiting).all():
        if row.schedule not in by_name or row.contract_id != by_name[row.schedule].contract_id:
            continue
        claimed_at, lease = now_text(moment), later_text(LEASE_S, moment)
        values = {"state": RunState.CLAIMED.value, "claimed_at": claimed_at, "lease_until": lease}
        connection.execute(update(runs).where(runs.c.run == row.run).values(values))
        claimed = replace(ScheduledRun(*row), state=RunState.CLAIMED.value, claimed_at=claimed_at, lease_until=lease)
        return claimed, by_name[row.schedule]
    return None


def _expire(connection: Connection, moment: datetime) -> None:
    late = runs.c.state == RunState.ASKED.value, runs.c.due_at < later_text(-ASKED_S, moment)
    gone = {"state": RunState.MISSED.value, "ended_at": now_text(moment), "said": "nobody came to measure it again"}
    connection.execute(update(runs).where(*late).values(gone))
    silent = runs.c.state.in_(ACTIVE), runs.c.lease_until < now_text(moment)
    words = "the agent fell silent"
    connection.execute(
        update(runs).where(*silent).values(state=RunState.LOST.value, ended_at=now_text(moment), said=words)
    )


def _schedule(row: Any) -> Schedule:
    read = {"contract": json.loads(row.contract), "agents": tuple(json.loads(row.agents))}
    return Schedule(**{**row._mapping, **read})


def _refuse_name(name: str, what: str) -> None:
    if not NAME_FORM.fullmatch(name):
        raise BadInput(f"{name[:80]!r} is no name of {what}: lower-case letters, digits, '.', '_' and '-'")
