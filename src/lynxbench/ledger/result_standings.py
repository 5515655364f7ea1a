"""Where results stand: who said what about each, as a reader's trust list and the ledger's key log have it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import bindparam, select, text

from lynxbench.evidence.envelope import check_signatures
from lynxbench.evidence.trust import TrustList
from lynxbench.ledger.key_log import LoggedTrust, logged_trust
from lynxbench.ledger.ledger_tables import entries, results
from lynxbench.ledger.log import Ledger, Logged, batched
from lynxbench.ledger.queries import entries_about, entries_of_contract, find_results, read_about
from lynxbench.ledger.rerun_samples import Copies, copied_reruns, unheld_reruns
from lynxbench.model.entries import ACTS, EntryKind, ResultRecorded, ResultRerun, RunRegistered
from lynxbench.model.standing import NO_RUNS, RunCount, Standing, Voice, VoicedEntry, owner_of, standing_of

FEW = 2000
"""Up to so many disputed results of the whole ledger are looked up by their ids: quicker than a contract's history."""


def disputed(ledger: Ledger, contract_id: str, trust: TrustList) -> dict[str, Standing]:
    """The standing of those results of a contract that somebody contested, retracted, refuted or re-ran.

    The rest of a long history need not be opened for it, nor looked at where few results of the ledger are disputed.
    """
    kinds = [EntryKind.CONTEST.value, EntryKind.RETRACTION.value, EntryKind.VERIFICATION.value, EntryKind.RERUN.value]
    about = select(entries.c.result_id).where(entries.c.kind.in_(kinds)).distinct()
    mine = select(results.c.result_id).where(results.c.contract_id == contract_id).distinct()
    with ledger.database.reading() as connection:
        anywhere = set(connection.execute(about.limit(FEW + 1)).scalars())
        if len(anywhere) > FEW:
            chosen = mine.join(entries, entries.c.result_id == results.c.result_id).where(entries.c.kind.in_(kinds))
            names = list(connection.execute(chosen).scalars())
        else:
            names = []
            for some in batched(sorted(name for name in anywhere if name)):
                names += connection.execute(mine.where(results.c.result_id.in_(some))).scalars()
    return standings(ledger, names, trust) if names else {}


def standings(ledger: Ledger, result_ids: Sequence[str], trust: TrustList) -> dict[str, Standing]:
    """The standing of each of these results, as the reader's trust list has it."""
    about, unread = _about(ledger, result_ids)
    bodies = [logged.entry.body for logged in about]
    counts = _run_counts(ledger, sorted({body.contract_id for body in bodies if isinstance(body, ResultRecorded)}))
    counted = {key for _, signers in counts for key in signers.split()}
    trusted = logged_trust(ledger, trust, _signers(about) | counted)
    by_id = _by_result(_with_voices(about, trusted), result_ids)
    _add_signatures(ledger, by_id, trust)
    copies, unheld = _reruns(ledger, about)
    stands = {
        name: standing_of(name, mine, _runs(mine, name, counts, trusted.trust), copies, unheld)
        for name, mine in by_id.items()
    }
    return stands | {name: stands[name].model_copy(update={"unread": unread[name]}) for name in unread.keys() & stands}


def standings_among(
    result_ids: Iterable[str], brought: Sequence[VoicedEntry], document: Callable[[str], bytes]
) -> dict[str, Standing]:
    """The same of results that come together, by nothing but the entries and documents that come with them."""
    entries_brought = [voiced.entry for voiced in brought]
    copies, unheld = copied_reruns(entries_brought, document), unheld_reruns(entries_brought)
    return {name: standing_of(name, brought, copies=copies, unheld=unheld) for name in result_ids}


def _reruns(ledger: Ledger, about: Sequence[Logged]) -> tuple[Copies, Copies]:
    """Reruns that are no measurement of their own, where the ledger's documents are at hand, and those not held."""
    reruns = {logged.entry.body.rerun_id for logged in about if isinstance(logged.entry.body, ResultRerun)}
    if not reruns:
        return {}, {}
    cited = find_results(ledger, sorted(reruns)).values()
    known = [logged.entry for logged in (*about, *cited)]
    return copied_reruns(known, ledger.documents) if ledger.documents is not None else {}, unheld_reruns(known)


def owner_of_result(ledger: Ledger, result_id: str, trust: TrustList) -> Voice:
    """Whose a result is: who alone can retract it."""
    about, _ = _about(ledger, [result_id])
    voiced = _with_voices(about, logged_trust(ledger, trust, _signers(about)))
    return owner_of(result_id, _by_result(voiced, [result_id])[result_id])


def _about(ledger: Ledger, result_ids: Sequence[str]) -> tuple[list[Logged], dict[str, int]]:
    """Everything that was said about these results, and the registrations of their runs.

    By result: how many entries more there are, of kinds that this version does not know.
    """
    about, unread = read_about(ledger, result_ids)
    runs = {logged.entry.body.run_id for logged in about if isinstance(logged.entry.body, ResultRecorded)}
    there = {logged.seq for logged in about}
    registrations = entries_about(ledger, sorted(runs), [EntryKind.REGISTRATION]) if runs else []
    return [*about, *(logged for logged in registrations if logged.seq not in there)], unread


def _by_result(about: Sequence[VoicedEntry], result_ids: Sequence[str]) -> dict[str, list[VoicedEntry]]:
    """The same by result; a registration belongs to every result of its run."""
    by_run: dict[str, set[str]] = {}
    for voiced in about:
        if isinstance(voiced.entry.body, ResultRecorded):
            by_run.setdefault(voiced.entry.body.run_id, set()).add(voiced.entry.body.result_id)
    by_id: dict[str, list[VoicedEntry]] = {result_id: [] for result_id in result_ids}
    for voiced in about:
        body = voiced.entry.body
        spoken_of = {str(getattr(body, "result_id", ""))}
        named = by_run.get(body.run_id, set()) if isinstance(body, RunRegistered) else spoken_of
        for result_id in named & by_id.keys():
            by_id[result_id].append(voiced)
    return by_id


def _signers(about: Sequence[Logged]) -> set[str]:
    return {signature.keyid for logged in about for signature in logged.envelope.signatures}


def _with_voices(about: Sequence[Logged], trusted: LoggedTrust) -> list[VoicedEntry]:
    """Each of these entries with whose it is, as the ledger's key log stood when it was logged."""
    return [
        VoicedEntry(logged.seq, logged.entry, voice_of(logged, trusted.at(logged.seq)), logged.logged_at)
        for logged in about
    ]


Signers = tuple[str, str]
"""A contract, and the keys that signed, as the log has them."""


_RUN_COUNTS = """
    SELECT 1, contract_id, signers, count(DISTINCT run_id) FROM ledger_entries {by_announcement}
        WHERE kind = 'registration' AND contract_id IN :contracts GROUP BY contract_id, signers
    UNION ALL SELECT 0, contract_id, signers, count(DISTINCT run_id) FROM ledger_entries
        WHERE seq IN (SELECT seq FROM ledger_open_runs WHERE contract_id IN :contracts) GROUP BY contract_id, signers
    UNION ALL SELECT 0, contract_id, signers, count(DISTINCT run_id) FROM ledger_entries AS entry
        WHERE kind = 'abandoned' AND contract_id IN :contracts AND NOT EXISTS (
            SELECT 1 FROM ledger_entries AS ended WHERE ended.run_id = entry.run_id AND ended.kind = 'result')
        GROUP BY contract_id, signers
"""
"""As text: putting such a statement together costs a list of results more than asking it."""
_BY_ANNOUNCEMENT = "INDEXED BY ledger_entries_announced"
"""SQLite would take the index of all kinds, and sort."""


def _run_counts(ledger: Ledger, contracts: Sequence[str]) -> dict[Signers, RunCount]:
    """How many runs of a contract each key registered, and how many of those have no result in this ledger.

    Counted in the record's own columns, which are guarded, and held against the entries by `results log --verify`.
    """
    asked = text(_RUN_COUNTS.format(by_announcement=_BY_ANNOUNCEMENT if ledger.database.is_sqlite else ""))
    asked = asked.bindparams(bindparam("contracts", expanding=True))
    registered: dict[Signers, int] = {}
    without: dict[Signers, int] = {}
    with ledger.database.reading() as connection:
        for some in batched(contracts):
            for announced, contract_id, signers, count in connection.execute(asked, {"contracts": list(some)}):
                counts = registered if announced else without
                counts[contract_id, signers] = counts.get((contract_id, signers), 0) + count
    return {name: RunCount(count, min(without.get(name, 0), count)) for name, count in registered.items()}


def _runs(mine: Sequence[VoicedEntry], result_id: str, counts: dict[Signers, RunCount], trust: TrustList) -> RunCount:
    """The count of the team whose result it is, over all its keys."""
    owner = owner_of(result_id, mine)
    contracts = {entry.entry.body.contract_id for entry in mine if isinstance(entry.entry.body, ResultRecorded)}
    total = NO_RUNS
    for (contract_id, signers), count in counts.items():
        keys = signers.split()
        teams = {known.team for key in keys if (known := trust.find(key)) is not None}
        if contract_id in contracts and (teams & set(owner.teams) or set(keys) & set(owner.keys)):
            total = RunCount(total.registered + count.registered, total.without_result + count.without_result)
    return total


def signatures_under(ledger: Ledger, contract_id: str, trust: TrustList) -> list[VoicedEntry]:
    """Every signature under a contract, with whose it is."""
    signed = entries_of_contract(ledger, contract_id, [EntryKind.AGREEMENT])
    return _with_voices(signed, logged_trust(ledger, trust, _signers(signed)))


def _add_signatures(ledger: Ledger, by_id: dict[str, list[VoicedEntry]], trust: TrustList) -> None:
    """Beside what was said about a result: who signed its contract, where that asks for signatures."""
    signed: dict[str, list[VoicedEntry]] = {}
    for about in by_id.values():
        recorded = [entry.entry.body for entry in about if isinstance(entry.entry.body, ResultRecorded)]
        for contract_id in {body.contract_id for body in recorded if body.teams}:
            if contract_id not in signed:
                signed[contract_id] = signatures_under(ledger, contract_id, trust)
            about.extend(signed[contract_id])


def voice_of(logged: Logged, trust: TrustList) -> Voice:
    """Who signed an entry, as the reader's trust list knows them."""
    checked = check_signatures(logged.envelope, trust, at=logged.judged_at, role=ACTS.get(logged.entry.body.kind))
    return Voice(
        teams=tuple(dict.fromkeys(signer.team for signer in checked.signers)),
        keys=tuple(signature.keyid for signature in logged.envelope.signatures),
        revoked=tuple(signer.team for signer in checked.signers if signer.revoked is not None),
    )
