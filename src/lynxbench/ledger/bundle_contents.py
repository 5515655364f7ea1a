"""What a bundle must bring beside its results, and what its maker signs of that."""

import hashlib
from collections.abc import Iterable

from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.checkpoints import Checkpoint, prove_against
from lynxbench.ledger.key_log import logged_trust
from lynxbench.ledger.log import Ledger, Logged
from lynxbench.ledger.queries import entries_of_contract
from lynxbench.model.canonical import canonical_bytes
from lynxbench.model.entries import Concluded, Entry, EntryKind, ResultRecorded, RunAbandoned, RunRegistered
from lynxbench.model.team_names import LOCAL_TEAM

MOST_OTHER_RUNS = 1000
"""Other runs of the same contract and keys that travel with a result, the newest of them."""
_OF_RUNS = (EntryKind.REGISTRATION, EntryKind.RESULT)


def other_runs(ledger: Ledger, known: Iterable[Logged], trust: TrustList) -> list[Logged]:
    """What else whoever measured these results registered for their contracts, and gave up.

    One result out of ten is to be seen as such, also where the team took another key for each of them.
    """
    of_runs = [logged for logged in known if logged.entry.body.kind in _OF_RUNS]
    keys = {signature.keyid for logged in of_runs for signature in logged.envelope.signatures}
    trusted = logged_trust(ledger, trust)
    teams = {key.team for key in trusted.trust.keys if key.keyid in keys} - {LOCAL_TEAM}
    bodies = [logged.entry.body for logged in of_runs]
    kinds = [EntryKind.REGISTRATION, EntryKind.ABANDONED]
    others: list[Logged] = []
    for contract_id in sorted({body.contract_id for body in bodies if isinstance(body, ResultRecorded)}):
        told = entries_of_contract(ledger, contract_id, kinds)
        signed = [
            logged
            for logged in told
            if keys & {signature.keyid for signature in logged.envelope.signatures}
            # a key that was revoked before would keep the bundle out of every ledger, and speaks for nobody
            or teams & {signer.team for signer in trusted.check(logged).signers}
        ]
        others += signed[-MOST_OTHER_RUNS:]
    return others


def runs_brought(entries: Iterable[Entry]) -> set[str]:
    """Runs that come with their documents: those that have their result here, and the failed cells of an analysis."""
    bodies = [entry.body for entry in entries]
    failed = {run_id for body in bodies if isinstance(body, Concluded) for run_id in body.without_result}
    return failed | {body.run_id for body in bodies if isinstance(body, ResultRecorded)}


def is_other_run(entry: Entry, runs: set[str]) -> bool:
    """Whether an entry tells of a run whose result is not here: it comes without documents."""
    return isinstance(entry.body, RunRegistered | RunAbandoned) and entry.body.run_id not in runs


def hash_contents(results: Iterable[str], numbers: Iterable[int]) -> str:
    """What a bundle brings, as its maker signs it: nobody takes a contest out of it on its way."""
    contents = canonical_bytes({"entries": sorted(numbers), "results": sorted(set(results))})
    return hashlib.sha256(contents).hexdigest()


def holds_contents(checkpoint: Checkpoint, results: Iterable[str], numbers: Iterable[int]) -> bool:
    """Whether a bundle brings what its maker signed; an earlier version signed no more than the log's state."""
    return checkpoint.times_hash is None or checkpoint.entries_hash == hash_contents(results, numbers)


def refuse_false_name(ledger: Ledger, checkpoint: Checkpoint) -> None:
    """A bundle that says it comes from this very ledger must fit it."""
    if checkpoint.origin == ledger.origin:
        prove_against(ledger, checkpoint)
