"""Keys that teams registered, as the trust list that every page and every submission is judged by."""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import insert, select, update

from lynxbench.errors import BadInput, LynxbenchError, NotFound
from lynxbench.evidence.keys import KeyCard, parse_card
from lynxbench.evidence.trust import TrustList
from lynxbench.model.canonical import short
from lynxbench.watch.store import Store, now_text
from lynxbench.watch.store_tables import keys, teams


@dataclass(frozen=True, slots=True)
class RegisteredKey:
    """One key of a team."""

    card: KeyCard
    registered_at: str
    registered_by: str
    revoked_at: str | None
    reason: str | None


class KeyRegistry:
    """The registered keys on top of those that the server's own home trusts."""

    def __init__(self, store: Store, own: TrustList) -> None:
        self._store = store
        self._own = own

    def list(self) -> list[RegisteredKey]:
        """Every key, also revoked ones."""
        rows = self._store.rows(select(keys).order_by(keys.c.team, keys.c.registered_at))
        return [
            RegisteredKey(_card(row.card), row.registered_at, row.registered_by, row.revoked_at, row.reason)
            for row in rows
        ]

    def trust(self) -> TrustList:
        """Whose signatures count: what the server's home trusts, and what was registered here."""
        trust = self._own
        for key in self.list():
            if trust.find(key.card.keyid) is None:
                trust = trust.adding(key.card, datetime.fromisoformat(key.card.made_at))
            known = trust.find(key.card.keyid)
            if key.revoked_at is not None and known is not None and known.revoked is None:
                at = datetime.fromisoformat(key.revoked_at)
                trust = trust.revoking(key.card.keyid, key.reason or "revoked", at)
        return trust

    def register(self, data: bytes, by: str) -> KeyCard:
        """A team's public key, from its card. Registering it again changes nothing."""
        card = parse_card(data.strip(), "key card")
        trust = self.trust()
        known = trust.find(card.keyid)
        if known is not None and known.revoked is not None:
            raise BadInput(f"key {short(card.keyid)} was revoked at {known.revoked.at}; it stays revoked")
        if known is None:
            trust.refuse_twin(card.team)
            trust.adding(card, datetime.fromisoformat(card.made_at))  # says why where it cannot be
        with self._store.writing() as connection:
            if connection.execute(select(teams.c.name).where(teams.c.name == card.team)).first() is None:
                raise BadInput(f"team {card.team} is not known here; add it first")
            if connection.execute(select(keys.c.keyid).where(keys.c.keyid == card.keyid)).first() is None:
                row = {
                    "keyid": card.keyid,
                    "team": card.team,
                    "card": card.model_dump_json(),
                    "registered_at": now_text(),
                    "registered_by": by,
                }
                connection.execute(insert(keys), [row])
        return card

    def revoke(self, keyid: str, reason: str) -> None:
        """What the key signs from now on does not count; what it signed before is marked."""
        if not reason.strip():
            raise BadInput("say why the key is revoked")
        chosen = update(keys).where(keys.c.keyid == keyid, keys.c.revoked_at.is_(None))
        at = datetime.now(UTC).isoformat(timespec="seconds")
        if not self._store.change(chosen.values(revoked_at=at, reason=reason.strip()[:1000])):
            raise NotFound(f"no registered key {short(keyid)} that could be revoked")


def _card(text: str) -> KeyCard:
    try:
        return KeyCard.model_validate_json(text)
    except ValueError as error:
        raise LynxbenchError(f"a registered key is damaged: {error}") from None
