"""What a form offers to pick from, by name: lists beside its inputs, which work without script and take ids as well."""

from sqlalchemy import select

from lynxbench.ledger.ledger_tables import results
from lynxbench.ledger.names import machine_letters
from lynxbench.ledger.queries import Wanted, list_results
from lynxbench.model.canonical import short
from lynxbench.model.verdicts import ValidityVerdict
from lynxbench.report import words
from lynxbench.server import ledger_views as reading
from lynxbench.server.page_cache import EVERYTHING
from lynxbench.server.server_state import Server

MOST_OFFERED = 50
Offered = list[tuple[str, str]]
"""What an input takes, and how people know it."""


@reading.cached(EVERYTHING)
def offered_results(server: Server) -> Offered:
    """The newest results: contract, machine, moment and figure."""
    log = server.ledger.log
    listed = list_results(log, Wanted(limit=MOST_OFFERED), readable=True)
    machines, letters = reading.machines_of(server, (one.executor_id for one in listed)), machine_letters(log)
    offered = []
    for result in listed:
        rates = [words.figure_text(figure.throughput) for figure in result.figures if figure.throughput]
        lame = [] if result.validity == ValidityVerdict.VALID else [result.validity]
        host = f"host {letters[result.instance_id]}"
        about = (
            result.contract_name,
            machines.get(result.executor_id),
            host,
            words.moment_text(result.started_at)[:16],
        )
        offered.append((short(result.result_id), words.clean(" · ".join(filter(None, (*about, *rates[:1], *lame))))))
    return offered


@reading.cached(EVERYTHING)
def offered_contracts(server: Server) -> Offered:
    """Contracts that have results, by name; the id tells two of one name apart."""
    measured = [name for name, count in reading.contract_ids(server) if count][:MOST_OFFERED]
    return [(short(name), words.clean(_contract_name(server, name))) for name in measured]


def _contract_name(server: Server, contract_id: str) -> str:
    """Its name: part of what its id is made from, so it never changes."""
    newest = select(results.c.contract_name).where(results.c.contract_id == contract_id)
    ask = newest.order_by(results.c.started_s.desc()).limit(1)
    make = lambda: (str(server.ledger.log.database.one(ask, contract_id)[0]),)  # noqa: E731
    return server.cache.get(("contract name", contract_id), (), make)[0]


@reading.cached(EVERYTHING)
def offered_executors(server: Server) -> Offered:
    """Executors that were measured on: device, driver, and when last."""
    known = reading.executor_ids(server, MOST_OFFERED)
    machines = reading.machines_of(server, (name for name, _, _ in known))
    return [
        (
            short(name),
            words.clean(f"{machines.get(name, 'device not known')} · newest {words.moment_text(newest)[:16]}"),
        )
        for name, _, newest in known
    ]
