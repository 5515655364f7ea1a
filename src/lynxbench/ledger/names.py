"""A result, contract, executor, change or analysis by its full id or any unique beginning of it."""

import re

from sqlalchemy import func, select

from lynxbench.errors import NotFound
from lynxbench.ledger.ledger_tables import subjects
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.model.canonical import short

LEAST_DIGITS = 4
_HEX = re.compile(r"[0-9a-f]+")
FULL_ID = 64
"""Digits of a whole id; fewer name it by its beginning."""


def looks_like_id(text: str) -> bool:
    """Whether a text can be an id or the beginning of one."""
    bare = _bare(text)
    return LEAST_DIGITS <= len(bare) <= FULL_ID and _HEX.fullmatch(bare) is not None


def find_analysis(ledger: Ledger, text: str) -> Logged | None:
    """The experiment, tuning or fleet run of an id, a unique beginning of one, or a name; None where there is none."""
    analysis_id = _only(ledger, text, "analysis", "analyses") if looks_like_id(text) else None
    chosen = select(func.max(subjects.c.seq)).where(
        subjects.c.id == (analysis_id or text), subjects.c.what == ("analysis" if analysis_id else "named")
    )
    seq = ledger.database.one(chosen, text)[0]
    return None if seq is None else ledger.read(seq)


def is_beginning(ledger: Ledger, text: str, what: str) -> bool:
    """Whether any id of that kind begins so."""
    return looks_like_id(text) and bool(_beginning(ledger, text, what))


def _bare(text: str) -> str:
    return text.removeprefix("sha256:").rstrip("…").lower()


def _beginning(ledger: Ledger, text: str, what: str) -> list[str]:
    bare = _bare(text)
    chosen = select(subjects.c.id).where(subjects.c.what == what)
    if len(bare) == FULL_ID:  # one entry that speaks of it is enough: a contract has thousands
        chosen = chosen.where(subjects.c.id == bare).limit(1)
    else:
        within = chosen.where(subjects.c.id >= bare, subjects.c.id < bare + "g")
        chosen = within.distinct().order_by(subjects.c.id).limit(5)
    return [str(row.id) for row in ledger.database.rows(chosen)]


def find_id(ledger: Ledger, text: str, what: str) -> str:
    """The one id of that kind (`result`, `contract`, `executor`, `change`) that begins so; NotFound otherwise."""
    if not looks_like_id(text):
        raise NotFound(f"{text!r}: no {what}; give a path, an id, or at least {LEAST_DIGITS} of its first hex digits")
    identifier = _only(ledger, text, what, f"{what}s")
    if identifier is None:
        raise NotFound(f"{text}: no {what} in {ledger.database.name} begins so; lynxbench results list shows them")
    return identifier


def _only(ledger: Ledger, text: str, what: str, plural: str) -> str | None:
    ids = _beginning(ledger, text, what)
    if len(ids) > 1:
        raise NotFound(f"{text}: {plural} {', '.join(short(name) for name in ids)} begin so; give more digits")
    return ids[0] if ids else None
