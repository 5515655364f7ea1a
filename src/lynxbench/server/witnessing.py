"""The server among other people's logs: what it saw of theirs, and who saw its own."""

from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.log_witnesses import Sighting, sightings
from lynxbench.ledger.witness_book import SplitView, WitnessBook
from lynxbench.server.server_state import Server


def book_of(server: Server) -> WitnessBook:
    """What the server saw of other logs."""
    return WitnessBook(server.keyring.where)


def trust_with_own(server: Server) -> TrustList:
    """Whose signatures count, with the server's own key, which is made when it is first needed."""
    trust = server.trust
    own = tuple(key for key in server.keyring.trust.keys if trust.find(key.keyid) is None)
    return trust.model_copy(update={"keys": (*trust.keys, *own)})


def witnesses_of(server: Server) -> tuple[Sighting, ...]:
    """Who saw the server's log, and when."""
    return sightings(server.ledger.log, trust_with_own(server))


def own_splits(server: Server) -> tuple[SplitView, ...]:
    """States that the server's log signed and does not contain."""
    origin = server.ledger.log.origin
    return tuple(split for split in book_of(server).splits() if split.origin == origin)
