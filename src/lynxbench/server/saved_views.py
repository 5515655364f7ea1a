"""Saved views: a table as somebody wants to see it again, by a name, for themselves or for everybody."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from sqlalchemy import delete, func, insert, or_, select

from lynxbench.errors import BadInput, Refused
from lynxbench.server.rights import ANONYMOUS, AccessScope, Principal
from lynxbench.watch.store import Store, fresh_id, now_text
from lynxbench.watch.store_tables import views

PLACES = {"/results": ("contract", "executor", "precision", "valid", "since", "tag", "sort", "way", "words", "r")}
"""Tables that can be saved, and what of their addresses is kept: filters of the server's, then the script's own."""
MOST_NAME = 80
MOST_VALUE = 200
MOST_PICKED = 8
MOST_QUERY = 1900
"""Of an address that every browser and proxy takes."""
MOST_OWN, MOST_SHARED = 200, 500
YES, NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class SavedView:
    """One view, and where it leads."""

    view: str
    name: str
    owner: str
    shared: bool
    address: str
    made_at: str


class SavedViews:
    """The views of a server; nothing in them is evidence."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, who: Principal, name: str, place: str, query: str, *, shared: bool) -> SavedView:
        """Keep a view; BadInput for one that leads nowhere, Refused where there are too many."""
        name = " ".join(name.split())
        if not 0 < len(name) <= MOST_NAME or not name.isprintable():
            raise BadInput(f"give the view a name of 1 to {MOST_NAME} characters")
        kept = parse_query(place, query)
        row = {"view": fresh_id(), "name": name, "owner": who.name, "shared": YES if shared else NO, "place": place}
        row |= {"query": kept, "made_at": now_text()}
        mine = (views.c.owner == who.name) & (views.c.shared == row["shared"])
        with self._store.writing() as connection:
            same = connection.execute(select(views.c.view).where(mine, views.c.name == name)).first()
            if same is not None:
                raise BadInput(f"a view {name!r} of yours is there already; remove it, or take another name")
            counted = views.c.shared == YES if shared else mine
            many = connection.execute(select(func.count()).select_from(views).where(counted)).scalar_one()
            if many >= (MOST_SHARED if shared else MOST_OWN):
                raise Refused(f"{many} views are kept, and no more are; remove one")
            connection.execute(insert(views), [row])
        return self.get(who, str(row["view"]))

    def list(self, who: Principal) -> list[SavedView]:
        """Their own, and everybody's; by name."""
        chosen = select(views).where(self._visible(who)).order_by(views.c.name, views.c.made_at, views.c.view)
        return [_view(row) for row in self._store.rows(chosen)]

    def get(self, who: Principal, view: str) -> SavedView:
        """One that they may see; NotFound otherwise, also where it is another's own."""
        chosen = select(views).where(views.c.view == view, self._visible(who))
        return _view(self._store.one(chosen, f"no view {view[:40]!r}"))

    def remove(self, who: Principal, view: str) -> None:
        """One's own; a shared one of somebody else for administrators alone."""
        held = self.get(who, view)
        if held.owner != who.name and not who.may(AccessScope.ADMINISTER):
            raise Refused(f"the view {held.name!r} is {held.owner}'s; they or an administrator remove it")
        self._store.change(delete(views).where(views.c.view == view))

    @staticmethod
    def _visible(who: Principal) -> Any:
        everybodys = views.c.shared == YES
        return everybodys if who.via == ANONYMOUS else or_(everybodys, views.c.owner == who.name)


def parse_query(place: str, query: str) -> str:
    """What of an address a view keeps, in its one form; BadInput for a place or value that none has."""
    if place not in PLACES:
        raise BadInput(f"a view is of {', '.join(PLACES)}")
    try:
        pairs = parse_qsl(query, max_num_fields=40, strict_parsing=bool(query))
    except ValueError:
        raise BadInput("the view's address cannot be read") from None
    kept = [(name, value) for name, value in pairs if name in PLACES[place]]
    if any(len(value) > MOST_VALUE or not value.isprintable() for _, value in kept):
        raise BadInput(f"a value of the view's address has more than {MOST_VALUE} characters, or odd ones")
    picked = [value for name, value in kept if name == "r"]
    if len(picked) > MOST_PICKED:
        raise BadInput(f"a view keeps up to {MOST_PICKED} ticked results, not {len(picked)}")
    once = [name for name, _ in kept if name != "r"]
    if len(set(once)) != len(once):
        raise BadInput("the view's address says something twice")
    whole = urlencode(sorted(kept, key=lambda pair: PLACES[place].index(pair[0])))
    if len(whole) > MOST_QUERY:
        raise BadInput(f"the view's address has more than {MOST_QUERY} characters")
    return whole


def _view(row: Any) -> SavedView:
    address = f"{row.place}?{row.query}" if row.query else str(row.place)
    return SavedView(row.view, row.name, row.owner, row.shared == YES, address, row.made_at)
