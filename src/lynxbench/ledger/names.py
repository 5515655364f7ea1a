"""A result, contract, executor, change or analysis by its full id or any unique beginning of it; results also by name.

`last` is the newest result, `last~1` the one before it, `quickstart` the newest of that contract, and `@b` the machine:
machines are lettered in the order in which a ledger first saw them.
"""

import re
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy import text as statement

from lynxbench.errors import EvidenceInvalid, NotFound
from lynxbench.ledger.ledger_tables import entries, results, subjects
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.model.canonical import short
from lynxbench.model.entries import EntryKind

LEAST_DIGITS = 4
LAST = "last"
_HEX = re.compile(r"[0-9a-f]+")
_NAME = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9._-]{0,62})(?:@(?P<machine>[0-9a-z]{1,64}))?(?:~(?P<back>[0-9]{1,4}))?", re.IGNORECASE
)
FULL_ID = 64
"""Digits of a whole id; fewer name it by its beginning."""


def looks_like_id(text: str) -> bool:
    """Whether a text can be an id or the beginning of one."""
    bare = _bare(text)
    return LEAST_DIGITS <= len(bare) <= FULL_ID and _HEX.fullmatch(bare) is not None


def is_name(text: str) -> bool:
    """Whether a text can name a result: `last`, `last~1`, `quickstart`, `quickstart@b`, `quickstart@b~2`."""
    return _NAME.fullmatch(text) is not None


_MACHINES = """
    WITH RECURSIVE machine(id) AS (
        SELECT min(instance_id) FROM ledger_results
        UNION ALL
        SELECT (SELECT min(instance_id) FROM ledger_results WHERE instance_id > machine.id)
        FROM machine WHERE id IS NOT NULL)
    SELECT id FROM machine WHERE id IS NOT NULL
    ORDER BY (SELECT min(seq) FROM ledger_results WHERE instance_id = machine.id)
"""
"""From one machine to the next by the index: grouping would look at every result."""


class MachineLetters(dict[str, str]):
    """By instance id: the letter of each machine, in the order of their first results."""

    def __missing__(self, instance_id: str) -> str:
        """A result's machine that the index does not lead to: the index was changed."""
        raise EvidenceInvalid(
            f"the index of machines does not hold {short(instance_id)}: it was changed; lynxbench results log --verify"
        )


def machine_letters(ledger: Ledger) -> MachineLetters:
    """The letters of all machines."""
    rows = ledger.database.rows(statement(_MACHINES))
    return MachineLetters((str(row[0]), machine_letter(place)) for place, row in enumerate(rows))


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
    """Ids that begin so, of anything that an entry speaks of."""
    return _ids(ledger, text, subjects.c.id, subjects.c.what == what)


def _held(ledger: Ledger, text: str, what: str) -> list[str]:
    """The same, of what is in the ledger itself: whoever speaks of an id that is not here makes no other ambiguous."""
    if what not in _BY_RESULT:
        return []
    ids = _ids(ledger, text, _BY_RESULT[what])
    if what == "contract":
        ids += _ids(ledger, text, entries.c.contract_id, entries.c.kind == EntryKind.CONTRACT.value)
    return sorted(set(ids))


def _ids(ledger: Ledger, text: str, column: ColumnElement[Any], *where: ColumnElement[bool]) -> list[str]:
    bare, chosen = _bare(text), select(column).where(*where)
    if len(bare) == FULL_ID:  # one entry that speaks of it is enough: a contract has thousands
        chosen = chosen.where(column == bare).limit(1)
    else:
        chosen = chosen.where(column >= bare, column < bare + "g").distinct().order_by(column).limit(5)
    return [str(row[0]) for row in ledger.database.rows(chosen)]


def find_id(ledger: Ledger, text: str, what: str) -> str:
    """The one id of that kind (`result`, `contract`, `executor`, `change`) that begins so, or has that name.

    NotFound where there is none.
    """
    identifier = _only(ledger, text, what, f"{what}s") if looks_like_id(text) else None
    if identifier is None and what in _BY_RESULT and is_name(text):
        identifier = _by_name(ledger, text, what)
    if identifier is None and not looks_like_id(text):
        give = f"give a path, an id, at least {LEAST_DIGITS} of its first hex digits, or a name that results list shows"
        raise NotFound(f"{text!r}: no {what} in {ledger.database.name}; {give}")
    if identifier is None:
        raise NotFound(f"{text}: no {what} in {ledger.database.name} begins so; lynxbench results list shows them")
    return identifier


_BY_RESULT = {"result": results.c.result_id, "contract": results.c.contract_id, "executor": results.c.executor_id}
"""What a result can be asked for."""


def _by_name(ledger: Ledger, text: str, what: str) -> str | None:
    match = _NAME.fullmatch(text)
    assert match is not None
    name, machine, back = match["name"], match["machine"], int(match["back"] or 0)
    # one that was recorded twice is one result
    columns = tuple(_BY_RESULT.values())
    chosen = select(*columns).group_by(*columns)
    if name != LAST:
        chosen = chosen.where(results.c.contract_name == name)
    if machine is not None:
        chosen = chosen.where(results.c.instance_id == _machine(ledger, machine, text))
    newest = chosen.order_by(func.max(results.c.started_s).desc(), func.max(results.c.seq).desc())
    rows = list(ledger.database.rows(newest.offset(back).limit(1)))
    if not rows:
        return None
    if what == "contract" and name != LAST:
        ids = select(results.c.contract_id).where(results.c.contract_name == name).distinct().limit(5)
        known = [str(row[0]) for row in ledger.database.rows(ids)]
        if len(known) > 1:
            raise NotFound(f"{text}: contracts {', '.join(short(one) for one in known)} have that name; give an id")
    return str(rows[0][list(_BY_RESULT).index(what)])


def _machine(ledger: Ledger, text: str, whole: str) -> str:
    """The instance of a letter, or of a unique beginning of its id."""
    letters = machine_letters(ledger)
    chosen = [name for name, letter in letters.items() if letter == text.lower()]
    if not chosen and len(text) >= LEAST_DIGITS:
        chosen = [name for name in letters if name.startswith(text.lower())]
    if len(chosen) != 1:
        known = ", ".join(letters.values()) or "none"
        raise NotFound(f"{whole}: no machine {text}; results here are of machines {known}")
    return chosen[0]


def machine_letter(place: int) -> str:
    """a, b, … z, aa, ab …"""
    rest, last = divmod(place, 26)
    return ("" if rest == 0 else machine_letter(rest - 1)) + chr(ord("a") + last)


def _only(ledger: Ledger, text: str, what: str, plural: str) -> str | None:
    ids = _held(ledger, text, what) or _beginning(ledger, text, what)
    if len(ids) > 1:
        raise NotFound(f"{text}: {plural} {', '.join(short(name) for name in ids)} begin so; give more digits")
    return ids[0] if ids else None
