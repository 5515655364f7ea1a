"""The audit log: who did what, from where, and what came of it. Appended, never changed; no secret ever enters it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import insert, select

from lynxbench.watch.store import Store, now_text
from lynxbench.watch.store_tables import audit

MOST_DETAIL = 2000
OK, REFUSED = "ok", "refused"


@dataclass(frozen=True, slots=True)
class Audited:
    """One line."""

    number: int
    at: str
    who: str
    action: str
    subject: str
    outcome: str
    remote: str
    detail: str


class AuditLog:
    """The log, in the server's database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def note(
        self, who: str, action: str, subject: str = "", *, outcome: str = OK, remote: str = "", detail: str = ""
    ) -> None:
        """Append one line."""
        row = {
            "at": now_text(),
            "who": who[:120],
            "action": action[:60],
            "subject": subject[:200],
            "outcome": outcome,
            "remote": remote[:60],
            "detail": detail[:MOST_DETAIL],
        }
        self._store.change(insert(audit).values(row))

    def list(self, before: int | None = None, limit: int = 100) -> list[Audited]:
        """Newest first."""
        chosen = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            chosen = chosen.where(audit.c.number < before)
        return [Audited(*row) for row in self._store.rows(chosen)]
